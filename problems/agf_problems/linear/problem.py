"""Fully connected linear network f(x) = A W x, whose features are singular modes. [AGF] section 4, design 1.4.

Hidden units can be mixed, (W, A) -> (G W, A G^-1), without changing anything, so what behaves like a neuron of the
theory is a rank-one mode of A W, not a hidden unit. Everything that needs the problem's own coordinates is beside this
file: `theory` (alpha -> 0), `phases` (finite alpha) on `growth`, `flow` (gradient flow at any alpha).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from agf import Critical, FlowSystem, Init, Phases, Problem, Settings, Staircase
from agf.arrays import FloatArray, IntArray, count, matrix
from agf.errors import DataError, RequestError, explain
from agf.rounding import LOG_LEAST
from agf_problems.linear.flow import SEPARATE, ModeFlow, WeightFlow, smallest_dormant, smallest_norm
from agf_problems.linear.moments import Moments, hessian, pseudo_inverse, read, square_root
from agf_problems.linear.phases import ModePhases
from agf_problems.linear.theory import named, staircase

#: Largest `outputs` formed, in numbers. Cost: beyond it natural thresholds come from the loss, the same to rounding.
_MAX_OUTPUTS = 10**7
#: A singular value of A W counts towards the rank above this fraction of the largest one of the target. Result: of the
#: feature `rank` alone; ten times more or less, and a mode counts log(10)/2 growth times later or earlier.
_RANK_CUT = 1e-3
_COORDINATES = ("auto", "weights", "factored")
#: Rows of the sample that stands for the population in minibatches. Result: its moments are off by 1/_SAMPLES^(1/2), 1
#: %, and so are levels; with a tenth of the rows by 2.5 %, ten times more cost ten times the memory.
_SAMPLES = 2**14


class Linear(Problem):
    """Linear network f(x) = A W x with W (H, d), A (c, H); rows theta_i = (W[i], A[:, i]), P = d + c, degree 2.

    Network: f(x) = A W x. Loss: mean over the samples, or expectation, of |y - f(x)|^2 / 2, summed over outputs.

    With beta = A W and B = Syx Sxx^+ the best linear map, it is

        L = (1/2) tr[(B - beta) Sxx (B - beta)^T] + floor,

    which for samples is (1/2n) |Y - X beta^T|^2: half-squared, summed over outputs, averaged over rows; `floor` is the
    part that no linear map fits, and 0 when moments are given.

    Minibatches (`agf.descend(..., batch_size=b)`) are rows of X. With moments they are rows of a Gaussian sample of
    16,384 inputs with exactly these second moments and targets B x, so descent of that many samples is online.

    Parameters
    ----------
    Sxx : array_like, shape (d, d)
        E[x x^T], symmetric positive semidefinite; may be singular.
    Syx : array_like, shape (c, d)
        E[y x^T] = B Sxx. With Sxx give this or B.
    B : array_like, shape (c, d)
        Target map. With Sxx give this or Syx.
    X : array_like, shape (n, d)
        Inputs, with Y instead of moments. Nothing is centred or scaled.
    Y : array_like, shape (n, c)
        Targets, one row an input.
    width : int or None
        Hidden units H; max(c, d) when None. At most min(c, d, H) modes are learned.
    coordinates : str
        Of gradient flow. "factored", right at any alpha; "weights", cheaper, right down to a floor that it warns of;
        "auto", the weights only where every mode stays above 1e-3 of what it is mixed into.

    Raises
    ------
    DataError
        Data given in none or several ways, shapes that do not match, Sxx not symmetric, not positive semidefinite or
        zero, Syx outside the range of Sxx.
    """

    name = "linear"
    kinds = ("gaussian", "balanced", "aligned")
    data_arguments: ClassVar[tuple[str, ...]] = ("X", "Y", "Sxx", "Syx", "B")
    inputs_argument = "X"
    degree = 2

    def __init__(
        self,
        Sxx: Any = None,
        Syx: Any = None,
        B: Any = None,
        X: Any = None,
        Y: Any = None,
        width: int | None = None,
        coordinates: str = "auto",
    ) -> None:
        if coordinates not in _COORDINATES:
            raise DataError(
                explain(
                    f"unknown coordinates {coordinates!r}.",
                    where="linear",
                    expected="one of " + ", ".join(_COORDINATES),
                )
            )
        self.coordinates = coordinates
        self.sxx, self.syx, floor = read(Sxx, Syx, B, X, Y)
        self.n_outputs, self.n_inputs = self.syx.shape
        self.width = count(max(self.syx.shape) if width is None else width, "width", where="linear")
        self.n_params = self.n_inputs + self.n_outputs
        self.moments = Moments.of(self.sxx, self.syx, floor)
        self.target = self.syx @ pseudo_inverse(self.sxx)
        self.root = square_root(self.sxx)
        self._rank_cut = _RANK_CUT * float(np.linalg.norm(self.target, 2))
        self._rows = None if X is None else (matrix(X, "X", where="linear"), matrix(Y, "Y", where="linear"))
        self.n_samples = max(_SAMPLES, 2 * self.n_inputs) if self._rows is None else self._rows[0].shape[0]

    @cached_property
    def _inputs(self) -> FloatArray:
        """Right singular vectors of the target, (K, d), one a row."""
        return np.linalg.svd(self.target, full_matrices=False)[2]

    # -- the network ------------------------------------------------------------------------------------------

    def weights(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """W (m, d) and A (c, m) of rows theta (m, P)."""
        return theta[:, : self.n_inputs], theta[:, self.n_inputs :].T

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """Population (or full-sample) loss and its gradient, (float, (m, P))."""
        del neurons
        w, a = self.weights(theta)
        gap = self.target - a @ w
        pull = gap @ self.sxx
        loss = self.moments.floor + 0.5 * float(np.sum(pull * gap))
        return loss, -np.concatenate([a.T @ pull, w @ pull.T], axis=1)

    def residual(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """M = E[r x^T] = Syx - A W Sxx, (c, d): all that the utility sees of the residual."""
        del neurons
        w, a = self.weights(theta)
        return self.syx - (a @ w) @ self.sxx

    def utility(self, theta: FloatArray, neurons: IntArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """U_i = a_i^T M w_i and its gradient (M^T a_i, M w_i); largest on the sphere: half the top singular value."""
        del neurons
        w, a = self.weights(theta)
        to_w, to_a = a.T @ residual, w @ residual.T
        return np.sum(to_w * w, axis=1), np.concatenate([to_w, to_a], axis=1)

    def outputs(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """a_i (Sxx^(1/2) w_i)^T flattened, (m, c d), or None when that is too large."""
        del neurons
        w, a = self.weights(theta)
        if theta.shape[0] * self.n_outputs * self.n_inputs > _MAX_OUTPUTS:
            return None
        return (a.T[:, :, None] * (w @ self.root)[:, None, :]).reshape(theta.shape[0], self.n_outputs * self.n_inputs)

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """Dense Hessian (m P, m P), rows and columns ordered as theta.ravel()."""
        w, a = self.weights(theta)
        return hessian(w, a, self.root, self.residual(theta, neurons))

    @property
    def samples(self) -> tuple[FloatArray, FloatArray]:
        """X (n, d) and Y (n, c): those given, or a Gaussian sample whose second moments are exactly Sxx and Syx."""
        if self._rows is None:
            x = _orthonormal(np.random.default_rng(0), self.n_samples, self.n_inputs) * np.sqrt(self.n_samples)
            x = x @ self.root
            self._rows = x, x @ self.target.T
        return self._rows

    def batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        """Loss and gradient on these rows of `samples`."""
        del neurons
        w, a = self.weights(theta)
        x = self.samples[0][rows]
        gap = self.samples[1][rows] - x @ (a @ w).T
        pull = gap.T @ x / rows.size
        return 0.5 * float(np.sum(gap**2)) / rows.size, -np.concatenate([a.T @ pull, w @ pull.T], axis=1)

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """W W^T - A^T A, (m, m), flattened: exact under gradient flow."""
        del neurons
        w, a = self.weights(theta)
        return {"imbalance": (w @ w.T - a.T @ a).ravel()}

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """Order-one weights (H, P).

        "gaussian" : W entries N(0, 1/d), A entries N(0, 1/c), so |w_i| and |a_i| are about 1 each.
        "balanced" : A^T A = W W^T exactly, min(H, c, d) modes of equal size in random directions, E|w_i|^2 = 1.
        "aligned"  : balanced, and the modes are those of Syx: nothing is left to align.
        """
        del alpha
        d, c, width = self.n_inputs, self.n_outputs, self.width
        if kind == "gaussian":
            w = rng.standard_normal((width, d)) / np.sqrt(d)
            a = rng.standard_normal((c, width)) / np.sqrt(c)
            return np.concatenate([w, a.T], axis=1)
        modes = min(width, c, d)
        hidden = _orthonormal(rng, width, modes) * np.sqrt(width / modes)
        if kind == "aligned":
            u, v = self.moments.outputs[:, :modes], self.moments.inputs[:, :modes]
        else:
            u, v = _orthonormal(rng, c, modes), _orthonormal(rng, d, modes)
        return np.concatenate([hidden @ v.T, hidden @ u.T], axis=1)

    # -- what it has learned ----------------------------------------------------------------------------------

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """Of beta = A W, with K = min(c, d): singular_values (K,), left (K, c), right (K, d), rank (), see `rank`.

        A pair of vectors has the sign of the pair of the target that it is closest to, so that it changes with time as
        the network does.
        """
        del neurons
        w, a = self.weights(theta)
        return self.map_features(a @ w)

    def map_features(self, beta: FloatArray) -> dict[str, FloatArray]:
        """The features of a map beta (..., c, d) in the user's basis."""
        left, values, right = np.linalg.svd(beta, full_matrices=False)
        along = right @ self._inputs.T
        closest = np.take_along_axis(along, np.argmax(np.abs(along), axis=-1, keepdims=True), axis=-1)
        sign = np.where(closest < 0, -1.0, 1.0)
        return {
            "singular_values": values,
            "left": sign * left.mT,
            "right": sign * right,
            "rank": np.asarray(np.count_nonzero(values > self._rank_cut, axis=-1), dtype=np.float64),
        }

    def critical(self, theta: FloatArray, neurons: IntArray) -> list[Critical]:
        """The singular pairs (a, w) of M at equal norms: utility sigma / 2, the top one alone a maximum."""
        a, sigma, w = np.linalg.svd(self.residual(theta, neurons))
        top = sigma >= (1 - 1e-9) * sigma[0]  # equal ones span a continuum of maxima
        kinds = ["saddle" if not top[k] else "maximum" if top.sum() == 1 else "degenerate" for k in range(sigma.size)]
        return [
            Critical(
                np.concatenate([w[k], a[:, k]]) / np.sqrt(2),
                float(sigma[k]) / 2,
                kinds[k],
                f"singular pair {k + 1} of the residual (sigma {sigma[k]:.4g})",
                share=1.0 if kinds[k] == "maximum" else 0.0 if kinds[k] == "saddle" else np.nan,
            )
            for k in range(sigma.size)
            if sigma[k] > 1e-12 * np.abs(self.syx).max()
        ]

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """The modes and their sizes in A W after the drop, e.g. "mode 2 (sigma 3.1)".

        Mode i is the i-th singular pair of Syx by size; its sigma is |w_i| |a_i|, of the rank-one part w_i, a_i of A W
        that it has become. `theory` gives the limit alpha -> 0: the singular values of the change of A W.
        """
        w, a = self.weights(theta)
        size = dict(zip(neurons.tolist(), np.linalg.norm(w, axis=1) * np.linalg.norm(a, axis=0), strict=True))
        return named(chosen, [size.get(int(i), 0.0) for i in chosen])

    def acquired(self, before: dict[str, FloatArray], after: dict[str, FloatArray]) -> str:
        """Ranks of A W before and after a drop off a curve, where hidden units joined and not modes: "rank 1 to 2"."""
        old, new = int(before["rank"]), int(after["rank"])
        return f"A W of rank {new}, rearranged" if old == new else f"rank {old} to {new} of A W"

    def describe(self) -> str:
        """One line: sizes and the number of independent blocks."""
        blocks = len(self.moments.blocks)
        sizes = {"input": self.n_inputs, "hidden unit": self.width, "output": self.n_outputs, "mode": self.moments.rank}
        words = [f"{count} {word}{'s' * (count != 1)}" for word, count in sizes.items()]
        return ", ".join(["linear", *words]) + f" in {blocks} independent blocks" * (blocks > 1)

    # -- theory and own coordinates ---------------------------------------------------------------------------

    def theory(self, alpha: float | None = None, rule: str = "greedy", **options: Any) -> Staircase:
        """The staircase as alpha -> 0, accelerated times in units of -log alpha.

        Parameters
        ----------
        alpha : float or None, optional
            With it, flow times are given too (else NaN).
        rule : str, optional
            "greedy" (default), greedy low-rank learning [GLRL]: independent blocks each keep what they have learned.
            "conjecture", [AGF] Conj. 4.1, which takes the best map of rank k over the whole problem. They agree unless
            the problem decouples and its modes are learned in another order than that of their energies; a note says
            when they part.

        Raises
        ------
        RequestError
            For an unknown rule or option, or alpha not below 1.
        """
        if options:
            raise RequestError(
                explain(f"unknown option `{next(iter(options))}`.", where="linear.theory", expected="alpha or rule")
            )
        return staircase(self, alpha, rule)

    def phases(self, init: Init, settings: Settings) -> Phases | None:
        """The phases on singular modes: hidden units are not the neurons of this problem."""
        return ModePhases(self.moments, init, settings)

    def least_loss(self, init: Init) -> float:
        """Least loss of a linear map whose rank is the number of hidden units that are not zero."""
        return self.moments.least(int(np.isfinite(init.log_norms).sum()))

    def flow_system(self, init: Init) -> FlowSystem | None:
        """Continuous QR coordinates, right at any alpha, or the weights where these can hold every mode."""
        raw = self.coordinates == "weights"
        if self.coordinates == "auto":
            squares = smallest_norm(init) > LOG_LEAST  # the loss and its slope are made of them
            raw = squares and smallest_dormant(self.moments, init) > np.log(SEPARATE)
        return (WeightFlow if raw else ModeFlow)(self.moments, init, self.map_features)

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Six inputs whose covariance does not commute with a target of four outputs."""
        rng = np.random.default_rng(2)
        mixing = rng.standard_normal((6, 6))
        return {
            "Sxx": mixing @ mixing.T / 6,
            "B": rng.standard_normal((4, 6)),
            "width": 5,
        }


def _orthonormal(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Random orthonormal columns, (rows, columns), rows >= columns."""
    q, r = np.linalg.qr(rng.standard_normal((rows, columns)))
    return q * np.sign(np.diagonal(r))
