"""Gradient flow of networks whose hidden units mix: continuous QR factors with logarithmic sizes.

A neuron that is a quadratic form of its parameters (linear networks, phase retrieval, matrix sensing) moves by
theta_i' = Q(r) theta_i with one symmetric matrix Q, the Hessian of the utility, for all neurons, and the network
depends on the weights Z (H, P), a row a neuron, through Z^T Z alone: hidden units may be rotated into one another. On
the first plateau all rows turn to one direction, and what decides the later drops are components that float64 rows no
longer hold beside it. So Z^T = O D N Z0 is carried, O orthonormal, D = diag(exp lam), N unit upper triangular, Z0
constant. With B = O^T Q O,

    O' = Q O - O (B - S), S = tril(B, -1) - tril(B, -1)^T,  lam' = diag(B),  N' = triu(2 B_ij exp(lam_j - lam_i), 1) N.

Every size is a logarithm, so that a mode keeps its relative accuracy at 1e-100, and the modes sort themselves: the
first column of O is the direction that has grown most.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import FlowSystem, Snapshot
from agf.contract.problem import Problem
from agf.init import Init
from agf.rounding import EPS, LOG_FAINT, SUM, TIED
from agf.sphere import cartesian, norms, polar

#: Drift of the products of the columns of O at which these are made orthonormal again. Cost: one Newton-Schulz step
#: squares it to below rounding.
_DRIFT = 1e-9
#: Size of a mode, over the largest, above which it is active. Result: only where an active mode is smaller still, which
#: then counts as one that may grow; at 1e-2 a weak one would, at 1e-4 modes on their way up would not.
_ACTIVE = 1e-3
#: Fall of the loss, relative to the first, that shows that anything is active. Result: at 1e-3 a first drop of that
#: size would pass unseen, at 1e-5 what dormant neurons of alpha = 3e-3 take off would be one.
FALLEN = 1e-4
#: Newton iterations. Derived: each squares what is left, of `MOVES` after three 1e-16.
_ITERATIONS = 3
#: Fraction of the weights that Newton's method may move, beyond which there is no minimum nearby. Result: of whether
#: something is said to grow at a plateau; at 0.1 it may end at another critical point, at 1e-3 a plateau that still
#: relaxes by a thousandth is taken as it is.
MOVES = 1e-2
#: Curvatures below this fraction of the largest are left alone. Result: of the same; at 1e-4 slow modes stay where they
#: are, and what they still pull counts as growth, at 1e-9 they are differences of rounding.
_STIFF = 1e-6
#: Step of a central difference relative to the weights. Derived: its square, the truncation, equals what rounding
#: leaves, EPS over it.
_DIFFERENCE = EPS ** (1 / 3)


def mixes(problem: Problem) -> bool:
    """Whether the loss is the same for rotated hidden units: neurons are quadratic forms of their parameters.

    Tried on random weights with one reflection of the neurons among themselves, which is orthogonal and cheap at any
    width; two losses and the zero function's are evaluated.
    """
    if problem.degree != 2 or not problem.interchangeable or not problem.smooth or problem.permanent:
        return False
    rng = np.random.default_rng(0)
    count = 2
    theta = rng.standard_normal((count, problem.n_params))
    v = rng.standard_normal(count)
    mixed = theta - np.outer(v, 2 * (v @ theta) / (v @ v))
    neurons = np.zeros(count, dtype=np.int64)
    losses = [problem.loss_grad(weights, neurons)[0] for weights in (theta, mixed, np.zeros_like(theta))]
    plain, other, none = (float(loss) for loss in losses)
    return bool(abs(plain - other) < TIED * abs(plain - none))


def turns(problem: Problem) -> bool:
    """Whether small neurons all turn to the same directions: the utility is a quadratic form of their parameters.

    Every degree-2 activation that is differentiable at the origin does this, and a ReLU does not. Tried by the
    parallelogram law on two random neurons.
    """
    if problem.degree != 2 or not problem.interchangeable or not problem.smooth:
        return False
    first, second = np.random.default_rng(0).standard_normal((2, problem.n_params))
    rows = np.stack([first, second, first + second, first - second])
    residual = problem.residual(np.zeros((0, problem.n_params)), _nameless(0))
    u = problem.utility(rows, _nameless(4), residual)[0]
    return bool(abs(u[2] + u[3] - 2 * (u[0] + u[1])) <= TIED * np.abs(u).sum())


class ModeSystem(FlowSystem):
    """Gradient flow in y = (O, lam, N) of a problem that `mixes`; time unit 1 / largest growth rate at the start.

    Parameters
    ----------
    problem : Problem
        A problem for which `mixes` is true.
    init : Init
        Where to start, at any scale.
    """

    def __init__(self, problem: Problem, init: Init) -> None:
        self.problem = problem
        self.width = init.width
        alive = np.isfinite(init.log_norms)
        self.log_size = float(np.max(init.log_norms, where=alive, initial=-np.inf))
        weights = cartesian(init.directions, np.where(alive, init.log_norms - self.log_size, -np.inf))
        rates, vectors = np.linalg.eigh(form(problem, self._residual(np.zeros((0, problem.n_params)))))
        self.first_loss = float(problem.loss_grad(np.zeros((0, problem.n_params)), _nameless(0))[0])
        self.unit = max(float(np.abs(rates).max(initial=0.0)), np.finfo(float).tiny)
        self.log_time_unit = -float(np.log(self.unit))
        # H columns span the weights; with more hidden units than parameters the eigenvectors do, fastest first.
        basis = vectors[:, ::-1]
        hidden = basis.T @ weights.T
        if init.width < problem.n_params:
            q, hidden = np.linalg.qr(hidden)
            basis = basis @ q
        self.n, self.r = basis.shape
        self.hidden = hidden
        # Only Z0 Z0^T drives the flow: with more hidden units than columns a square factor does.
        self.factor = np.linalg.qr(hidden.T)[1].T if init.width > self.r else hidden
        self.below = np.tri(self.r, k=-1)
        self.above = 2.0 * self.below.T
        self.cut = self.n * self.r, self.n * self.r + self.r
        self.origin = np.concatenate([basis.ravel(), np.zeros(self.r), np.eye(self.r).ravel()])
        column = np.arange(self.r)
        self._groups = np.concatenate(
            [np.tile(column, self.n), self.r + column, 2 * self.r + np.repeat(column, self.r)]
        )

    @property
    def groups(self) -> IntArray:
        """One group for each column of O, each log size, and each row of N."""
        return self._groups

    def start(self) -> FloatArray:
        """y at time 0: lam = 0, N = I."""
        return self.origin.copy()

    def velocity(self, y: FloatArray) -> FloatArray:
        """dy/ds."""
        turn, logs, shear = self._unpack(y)
        pushed = self._push(self._residual(self._weights(turn, logs, shear)), turn)
        b = turn.T @ pushed
        low = b * self.below
        out = np.empty_like(y)
        d_turn, d_logs, d_shear = self._unpack(out)
        np.matmul(turn, low - low.T, out=d_turn)
        if self.r < self.n:
            d_turn += pushed - turn @ b
        d_logs[:] = b.diagonal()
        ratio = np.exp(np.minimum(logs - logs[:, None], -LOG_FAINT))
        np.matmul(b * self.above * ratio, shear, out=d_shear)
        out /= self.unit
        return out

    def loss(self, y: FloatArray) -> float:
        """Loss of the whole network."""
        return self.loss_and_rate(y)[0]

    def loss_rate(self, y: FloatArray) -> float:
        """dL/ds = -|grad L|^2 per unit of s."""
        return self.loss_and_rate(y)[1]

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Both from one gradient."""
        theta = self._weights(*self._unpack(y))
        loss, gradient = self.problem.loss_grad(theta, _nameless(len(theta)))
        return float(loss), -float(np.sum(gradient**2)) / self.unit

    def scale(self, y: FloatArray) -> FloatArray:
        """1 for O and N; for a log size, its distance from order one: what is left of the way to its drop."""
        out = np.ones_like(y)
        first, last = self.cut
        out[first:last] = np.maximum(np.abs(y[first:last] + self.log_size), 1.0)
        return out

    def retract(self, y: FloatArray) -> FloatArray:
        """One Newton-Schulz step to orthonormal columns; y itself while they are."""
        turn = y[: self.cut[0]].reshape(self.n, self.r)
        gram = turn.T @ turn
        if np.max(np.abs(gram - np.eye(self.r))) < _DRIFT:
            return y
        return np.concatenate([(1.5 * turn - 0.5 * turn @ gram).ravel(), y[self.cut[0] :]])

    def growth(self, y: FloatArray) -> float:
        """Largest d lam/ds of a mode that the weights have, where the active ones rest: these have stopped.

        Steps leave the active modes off their minimum by what the tolerance allows, which makes others grow or shrink.
        So they are relaxed first.
        """
        turn, logs, shear = self._unpack(y)
        theta = self._weights(turn, logs, shear)
        _, sizes, rows = np.linalg.svd(theta, full_matrices=False)
        active = (sizes[:, None] * rows)[sizes > _ACTIVE * sizes.max(initial=0.0)]
        if self.loss(y) >= (1.0 - FALLEN) * self.first_loss:
            active = active[:0]
        columns = turn[:, norms(shear @ self.factor) > 0]
        if active.size:
            active = self._relaxed(active)
            span = np.linalg.qr(active.T)[0]
            columns = columns - span @ (span.T @ columns)
        columns = np.linalg.qr(columns)[0]
        pushed = columns.T @ self._push(self._residual(active), columns)
        fastest = float(np.max(np.linalg.eigvalsh(0.5 * (pushed + pushed.T)), initial=0.0)) / self.unit
        return fastest if fastest > SUM else 0.0

    def _relaxed(self, theta: FloatArray) -> FloatArray:
        """Active modes (k, P) at the minimum next to them: Newton steps in the stiff directions of the loss."""
        start, shape, names = theta, theta.shape, _nameless(len(theta))
        for _ in range(_ITERATIONS):
            gradient = self.problem.loss_grad(theta, names)[1].ravel()
            values, vectors = np.linalg.eigh(self._hessian(theta))
            stiff = values > _STIFF * values[-1]
            move = vectors[:, stiff] @ ((vectors[:, stiff].T @ gradient) / values[stiff])
            theta = theta - move.reshape(shape)
            if np.abs(theta - start).max() > MOVES * np.abs(start).max():
                return start
        return theta

    def _hessian(self, theta: FloatArray) -> FloatArray:
        """Of the loss at rows theta (k, P), (k P, k P): the problem's, or central differences of its gradient."""
        names = _nameless(len(theta))
        known = self.problem.hessian(theta, names)
        if known is not None:
            return known
        step = _DIFFERENCE * float(np.abs(theta).max())
        shifts = step * np.eye(theta.size).reshape(theta.size, *theta.shape)
        columns = [
            (self.problem.loss_grad(theta + shift, names)[1] - self.problem.loss_grad(theta - shift, names)[1]).ravel()
            for shift in shifts
        ]
        matrix = np.array(columns) / (2.0 * step)
        return 0.5 * (matrix + matrix.T)

    def snapshot(self, y: FloatArray) -> Snapshot:
        """Hidden units, with relative accuracy at any size, and the problem's features."""
        turn, logs, shear = self._unpack(y)
        mixed = shear @ self.hidden
        with np.errstate(divide="ignore"):
            sizes = np.log(np.abs(mixed)) + logs[:, None]
        top = sizes.max(axis=0)
        top = np.where(np.isfinite(top), top, 0.0)
        rows = (turn @ (np.sign(mixed) * np.exp(np.maximum(sizes - top, LOG_FAINT)))).T
        directions, log_norms = polar(rows)
        log_norms = log_norms + top + self.log_size
        theta = cartesian(directions, np.maximum(log_norms, LOG_FAINT))
        features = self.problem.features(theta, np.arange(self.width))
        return Snapshot(log_norms, directions, {name: np.array(v, dtype=np.float64) for name, v in features.items()})

    # -- parts ------------------------------------------------------------------------------------------------

    def _unpack(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Views: O (P, r), lam (r,), N (r, r)."""
        first, last = self.cut
        return y[:first].reshape(self.n, self.r), y[first:last], y[last:].reshape(self.r, self.r)

    def _weights(self, turn: FloatArray, logs: FloatArray, shear: FloatArray) -> FloatArray:
        """Weights up to a rotation of the hidden units, (h, P)."""
        sizes = np.exp(np.maximum(logs + self.log_size, LOG_FAINT))
        return ((turn * sizes) @ (shear @ self.factor)).T

    def _residual(self, theta: FloatArray) -> object:
        return self.problem.residual(theta, _nameless(len(theta)))

    def _push(self, residual: object, columns: FloatArray) -> FloatArray:
        """Q @ columns."""
        return self.problem.utility(np.ascontiguousarray(columns.T), _nameless(columns.shape[1]), residual)[1].T


def form(problem: Problem, residual: object) -> FloatArray:
    """The matrix Q (P, P) of grad U(theta) = Q theta on a residual, of a problem that `mixes`; unit: loss."""
    q = problem.utility(np.eye(problem.n_params), _nameless(problem.n_params), residual)[1]
    return 0.5 * (q + q.T)


def _nameless(count: int) -> IntArray:
    """Indices of rows that are no hidden units but mixtures of them: neurons of such a problem are interchangeable."""
    return np.zeros(count, dtype=np.int64)
