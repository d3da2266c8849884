"""Modes of networks whose neurons are quadratic forms of their parameters, in factors with logarithmic sizes.

A neuron that is a quadratic form of its parameters (linear networks, phase retrieval, matrix sensing) moves by
theta_i' = Q(r) theta_i with one symmetric matrix Q, the Hessian of the utility, for all neurons, and the network
depends on the weights Z (H, P), a row a neuron, through Z^T Z alone: hidden units may be rotated into one another. So
they are carried as `factored_flow` does.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import FlowSystem, Snapshot
from agf.contract.interaction import largest_pull
from agf.contract.problem import Problem
from agf.coordinates.factored_flow import FactoredFlow
from agf.coordinates.mode_weights import ModeWeights
from agf.init import Init
from agf.numerics.derivatives import hessian
from agf.records.settings import FINE_DEPTH
from agf.rounding import LOG_FAINT, LOG_LEAST, SUM, TIED
from agf.sphere import cartesian, normalize, norms, polar

#: Size of a mode, or of a neuron, over the largest, above which it is active, and relaxed. Result: what is smaller must
#: grow on its own; at 1e-2 a weak active one would, at 1e-4 those on their way up would be relaxed with the others.
ACTIVE = 1e-3
#: Fall of the loss, relative to the first, that shows that anything is active. Derived: the smallest drop that is
#: looked for in a computed curve.
FALLEN = FINE_DEPTH
#: Newton iterations. Derived: each squares what is left, of `MOVES` after three 1e-16.
_ITERATIONS = 3
#: Fraction of the weights that Newton's method may move, beyond which there is no minimum nearby. Result: of whether
#: something is said to grow at a plateau; at 0.1 it may end at another critical point, at 1e-3 a plateau that still
#: relaxes by a thousandth is taken as it is.
MOVES = 1e-2
#: Curvature, relative to the largest, from which on it is told from a flat direction. Derived: central differences, of
#: a length EPS^(1/3), see EPS^(2/3) = 4e-11 of the largest; sums over the data (SUM) see 2e-9, and a factor 400 is
#: left.
TOLD = 1e-6


def mixes(problem: Problem) -> bool:
    """Whether the loss is the same for rotated hidden units: neurons are quadratic forms of their parameters.

    Tried with two maps that are orthogonal and cheap at any width: a reflection of the neurons among themselves, and
    the change of sign of one, by which the ReLU of a single input is told from a line.
    """
    if problem.degree != 2 or not problem.interchangeable or not problem.smooth or problem.permanent:
        return False
    reflection = np.random.default_rng(1).standard_normal(2)
    reflection /= np.linalg.norm(reflection)
    return same_losses(problem, np.eye(2) - 2.0 * np.outer(reflection, reflection), np.diag([1.0, -1.0]))


def same_losses(problem: Problem, *mixtures: FloatArray) -> bool:
    """Whether the loss is the same for mixtures (2, 2) of two neurons, of a problem whose neurons have no names.

    Tried on random weights of the size that the data ask for, which alone makes losses that differ, and from that of
    nothing, in any units.
    """
    theta = np.random.default_rng(0).standard_normal((2, problem.n_params))
    theta, neurons = _natural_size(problem, theta) * theta, _nameless(2)
    plain, none, *others = (
        float(problem.loss_grad(mixture @ theta, neurons)[0]) for mixture in (np.eye(2), np.zeros((2, 2)), *mixtures)
    )
    return bool(max(abs(plain - other) for other in others) < TIED * abs(plain - none))


def _natural_size(problem: Problem, theta: FloatArray) -> float:
    """Factor of rows theta (m, P) at which what a neuron makes is as large as the loss of the zero function; or 1."""
    nobody, no_neurons = np.zeros((0, problem.n_params)), _nameless(0)
    alone = problem.self_interaction(normalize(theta), _nameless(len(theta)), nobody, no_neurons)
    zero = abs(float(problem.loss_grad(nobody, no_neurons)[0]))
    largest = float(np.max(alone))
    return (zero / largest) ** (0.5 / problem.degree) if zero > 0.0 and largest > 0.0 else 1.0


def turns(problem: Problem) -> bool:
    """Whether small neurons all turn to the same directions: the utility is a quadratic form of their parameters.

    Every degree-2 activation that is differentiable at the origin does this, and a ReLU does not. Tried by the
    parallelogram law on two random neurons, and by their signs.
    """
    if problem.degree != 2 or not problem.interchangeable or not problem.smooth:
        return False
    first, second = np.random.default_rng(0).standard_normal((2, problem.n_params))
    rows = np.stack([first, second, first + second, first - second, -first])
    residual = problem.residual(np.zeros((0, problem.n_params)), _nameless(0))
    u = problem.utility(rows, _nameless(5), residual)[0]
    off = max(abs(u[2] + u[3] - 2 * (u[0] + u[1])), abs(u[4] - u[0]))
    return bool(off <= TIED * np.abs(u).sum())


def most_growth(problem: Problem, modes: FloatArray) -> float:
    """What the growth rate of unit modes (k, P) may be at most on the residual of the zero function."""
    nobody, no_neurons = np.zeros((0, problem.n_params)), _nameless(0)
    alone = problem.self_interaction(modes, _nameless(len(modes)), nobody, no_neurons)
    return largest_pull(2, float(np.max(alone)), float(problem.loss_grad(nobody, no_neurons)[0]))


class ModeSystem(FactoredFlow):
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
        log_size = float(np.max(init.log_norms, where=alive, initial=-np.inf))
        weights = cartesian(init.directions, np.where(alive, init.log_norms - log_size, -np.inf))
        rates, vectors = np.linalg.eigh(form(problem, self.residual(np.zeros((problem.n_params, 0)))))
        self.first_loss = float(problem.loss_grad(np.zeros((0, problem.n_params)), _nameless(0))[0])
        # H columns span the weights; with more hidden units than parameters the eigenvectors do, fastest first.
        basis = vectors[:, ::-1]
        hidden = basis.T @ weights.T
        if init.width < problem.n_params:
            q, hidden = np.linalg.qr(hidden)
            basis = basis @ q
        unit = float(np.abs(rates).max(initial=0.0))
        if unit <= SUM * (most := most_growth(problem, vectors.T.copy())):
            unit = most  # the rates are rounding, and nothing grows
        unit = unit or 1.0  # nothing moves where there is nothing to learn
        super().__init__(basis, hidden, log_size, unit)

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Both from one gradient."""
        theta = self.weights(y).T
        loss, gradient = self.problem.loss_grad(theta, _nameless(len(theta)))
        return float(loss), -float(np.sum(gradient**2)) / self.unit

    def growth(self, y: FloatArray) -> float:
        """Largest d lam/ds of a mode that the weights have, where the active ones rest: these have stopped.

        Steps leave the active modes off their minimum by what the tolerance allows, which makes others grow or shrink.
        So they are relaxed first.
        """
        return self.growth_of(self.weights(y).T, self.present(y))

    def growth_of(self, theta: FloatArray, columns: FloatArray | None = None) -> float:
        """The same of weights theta (h, P), a row a hidden unit up to a rotation, which have something along `columns`
        (P, k); None for all that they span."""
        _, sizes, rows = np.linalg.svd(theta, full_matrices=False)
        active = (sizes[:, None] * rows)[sizes > ACTIVE * sizes.max(initial=0.0)]
        if self.problem.loss_grad(theta, _nameless(len(theta)))[0] >= (1.0 - FALLEN) * self.first_loss:
            active = active[:0]
        columns = rows[sizes > 0.0].T if columns is None else columns
        if active.size:
            active = self._relaxed(active)
            span = np.linalg.qr(active.T)[0]
            columns = columns - span @ (span.T @ columns)
        columns = np.linalg.qr(columns)[0]
        pushed = columns.T @ self.push(self.residual(active.T), columns)
        fastest = float(np.max(np.linalg.eigvalsh(0.5 * (pushed + pushed.T)), initial=0.0)) / self.unit
        return fastest if fastest > SUM else 0.0

    def stiff(self, y: FloatArray) -> tuple[FlowSystem, FloatArray] | None:
        """The weights, where the problem has a Hessian, while no mode grows beside those that are active, nor one that
        they do not hold where these come to rest: it would come out of what steps leave of it in the weights."""
        _, logs, shear = self.unpack(y)
        sizes, rates = norms(self.mixing(logs, shear)), self.unpack(self.velocity(y))[1]
        active = sizes > ACTIVE * sizes.max()
        grows = float(np.max(rates, where=~active & (sizes > 0.0), initial=0.0))
        if grows > TOLD * np.abs(rates[active]).max(initial=0.0) or np.log(sizes.max()) < LOG_LEAST:
            return None
        lost = np.any(~active & (sizes > 0.0) & (sizes < SUM * sizes.max()))  # it may rest here, and grow later
        if self.loss(y) >= (1.0 - FALLEN) * self.first_loss or (lost and self.growth(y) > 0.0):
            return None
        weights = self.in_weights()
        theta = weights.of_modes(y)
        known = self.problem.hessian(theta.reshape(self.width, -1), _nameless(self.width)) is not None
        return (weights, theta) if known else None

    def in_weights(self) -> ModeWeights:
        """The same flow in its weights."""
        return ModeWeights(self)

    def _relaxed(self, theta: FloatArray) -> FloatArray:
        """Active modes (k, P) at the minimum next to them: Newton steps in the stiff directions of the loss."""
        start, shape, names = theta, theta.shape, _nameless(len(theta))
        for _ in range(_ITERATIONS):
            gradient = self.problem.loss_grad(theta, names)[1].ravel()
            values, vectors = np.linalg.eigh(self._hessian(theta))
            stiff = values > TOLD * values[-1]
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
        return hessian(lambda at: self.problem.loss_grad(at, names)[1], theta, float(np.abs(theta).max()))

    def snapshot(self, y: FloatArray) -> Snapshot:
        """Hidden units, with relative accuracy at any size, and the problem's features."""
        rows, logs = self.rows(y)
        directions, log_norms = polar(rows)
        return self.snapshot_of(directions, log_norms + logs)

    def snapshot_of(self, directions: FloatArray, log_norms: FloatArray) -> Snapshot:
        """The same of units of these unit rows (H, P) and log norms (H,)."""
        theta = cartesian(directions, np.maximum(log_norms, LOG_FAINT))
        features = self.problem.features(theta, np.arange(self.width))
        return Snapshot(log_norms, directions, {name: np.array(v, dtype=np.float64) for name, v in features.items()})

    def residual(self, weights: FloatArray) -> object:
        """Of the problem, at weights (P, h)."""
        theta = np.ascontiguousarray(weights.T)
        return self.problem.residual(theta, _nameless(len(theta)))

    def push(self, residual: object, columns: FloatArray) -> FloatArray:
        """Q @ columns."""
        return self.problem.utility(np.ascontiguousarray(columns.T), _nameless(columns.shape[1]), residual)[1].T


def form(problem: Problem, residual: object) -> FloatArray:
    """The matrix Q (P, P) of grad U(theta) = Q theta on a residual, of a problem that `mixes`; unit: loss."""
    q = problem.utility(np.eye(problem.n_params), _nameless(problem.n_params), residual)[1]
    return 0.5 * (q + q.T)


def _nameless(count: int) -> IntArray:
    """Indices of rows that are no hidden units but mixtures of them: neurons of such a problem are interchangeable."""
    return np.zeros(count, dtype=np.int64)
