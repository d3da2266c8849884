"""Diagonal linear networks: f(x) = sum_i u_i v_i x_i, one neuron a coordinate of the data.

The utility, the dormant phase and the active phase are all exact here: dormant coordinates are independent in the
signed coordinate z of `mirror`, and active ones solve a least-squares problem with prescribed signs (`signed_fit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

import agf
from agf.arrays import FloatArray, IntArray, in_range, matrix, not_zero, vector
from agf.errors import DataError, explain
from agf_problems.diagonal_linear.flow import flow_of, least_loss
from agf_problems.diagonal_linear.limit import staircase
from agf_problems.diagonal_linear.many import MAX_SIZE, DiagonalMany
from agf_problems.diagonal_linear.phases import DiagonalPhases


class DiagonalLinear(agf.Problem):
    """Diagonal linear network beta = u * v with loss |y - X beta|^2 / (2 n).

    Network: f(x) = sum_i u_i v_i x_i. Loss: mean over the n samples of (y - f(x))^2 / 2.

    Data are used as given: centre and scale them first if that is what you mean to train on.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs, anything array-like; the column names of a data frame become the names of the coordinates.
    y : array_like, shape (n,)
        Targets.
    names : Sequence[str] or None
        d names of the coordinates for labels, instead of those of a data frame.

    Raises
    ------
    DataError
        For data that are not finite, not numbers, of different lengths, or too large or small to be squared.

    Notes
    -----
    Neuron i is (u_i, v_i). The usual initialization (`kind="equal"`, the default) is u = sqrt(2) alpha, v = 0, so that
    u^2 - v^2 = 2 alpha^2 is conserved and every beta_i starts at 0; "gaussian" draws both from N(0, alpha^2/2).
    Sources: [AGF] section 4 and appendix C, [PF23].

    Examples
    --------
    >>> problem = DiagonalLinear([[1.0, 0.0], [0.0, 2.0]], [1.0, 1.0])
    >>> problem.theory().accelerated_times
    array([0., 1., 2.])
    """

    name = "diagonal-linear"
    kinds = ("equal", "gaussian")
    data_arguments = ("X", "y")
    inputs_argument = "X"
    interchangeable = False
    degree = 2
    n_params = 2

    def __init__(self, X: Any, y: Any, names: Sequence[str] | None = None) -> None:
        where = f"problem {self.name!r}"
        if names is None and hasattr(X, "columns"):
            names = X.columns
            if type(self).__init__ is DiagonalLinear.__init__:  # a run file holds the numbers of a frame alone
                self.arguments["names"] = [_written(name) for name in names]
        self.X = matrix(X, "X", where=where)
        self.y = vector(y, "y", where=where)
        n, d = self.X.shape
        if self.y.size != n:
            raise DataError(
                explain(
                    f"X has {n} row(s) and y has {self.y.size} value(s).",
                    where=where,
                    expected="one target a row",
                )
            )
        for role, data in (("X", self.X), ("y", self.y)):
            in_range(data, role, where=where, power=3)
        not_zero(self.X, "X", where=where)
        self.names = None if names is None else [_written(name) for name in names]
        if self.names is not None and len(self.names) != d:
            raise DataError(explain(f"{len(self.names)} names for {d} columns.", where=where))
        self.width = d

    @property
    def n_samples(self) -> int:
        """Number of rows n."""
        return self.X.shape[0]

    # -- the network ------------------------------------------------------------------------------------------

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """|y - X beta|^2 / (2n) and its gradient (v g, u g) with g = -X^T (y - X beta)/n."""
        r = self.residual(theta, neurons)
        return 0.5 * float(r @ r) / r.size, -theta[:, ::-1] * self._correlation(neurons, r)[:, None]

    def batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        """`loss_grad` on some rows of the data only, for minibatches."""
        x = self.X[np.ix_(rows, neurons)]
        r = self.y[rows] - x @ (theta[:, 0] * theta[:, 1])
        return 0.5 * float(r @ r) / r.size, -theta[:, ::-1] * (r @ x / r.size)[:, None]

    def residual(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """y - X beta, (n,)."""
        return self.y - (theta[:, 0] * theta[:, 1]) @ self._columns[neurons]

    def utility(self, theta: FloatArray, neurons: IntArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """U_i = u_i v_i (x_i . r)/n, whose maximum on the unit circle is |x_i . r|/(2n)."""
        pull = theta[:, ::-1] * self._correlation(neurons, residual)[:, None]
        return theta[:, 0] * pull[:, 0], pull

    def _correlation(self, neurons: IntArray, r: FloatArray) -> FloatArray:
        out: FloatArray = self._columns[neurons] @ r / r.size
        return out

    def outputs(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """u_i v_i x_i / sqrt(n), (m, n)."""
        out = self._columns[neurons]
        out *= (theta[:, 0] * theta[:, 1] / np.sqrt(self.n_samples))[:, None]
        return out

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """u_i^2 v_i^2 |x_i|^2 / (2n) beside nothing; beside active coordinates, less what these explain."""
        if active_neurons.size:
            return super().self_interaction(directions, neurons, active, active_neurons)
        return (directions[:, 0] * directions[:, 1]) ** 2 * self._squares[neurons]

    @cached_property
    def _squares(self) -> FloatArray:
        """|x_i|^2 / (2n), (d,)."""
        return np.asarray(0.5 * np.einsum("ij,ij->j", self.X, self.X) / self.n_samples)

    @cached_property
    def _columns(self) -> FloatArray:
        """X^T (d, n), its rows in one piece."""
        return np.ascontiguousarray(self.X.T)

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """Dense Hessian (2m, 2m), rows and columns ordered as theta.ravel()."""
        x, m = self._columns[neurons], neurons.size
        g = x @ (theta[:, 0] * theta[:, 1] @ x - self.y) / self.n_samples
        slopes = theta[:, ::-1]  # of beta, in (u, v)
        out: FloatArray = (x @ x.T / self.n_samples)[:, None, :, None] * (slopes[:, :, None, None] * slopes)
        out = out.reshape(2 * m, 2 * m)
        flat = out.reshape(-1)  # coordinate i has (u, v) at row 2 i and column 2 i + 1, (v, u) at 2 i + 1 and 2 i
        flat[1 :: 4 * m + 2] += g
        flat[2 * m :: 4 * m + 2] += g
        return out

    # -- where it starts --------------------------------------------------------------------------------------

    def init(self, alpha: float, seed: int | None = 0, kind: str = "equal") -> agf.Init:
        """Initialization at scale alpha: kind "equal" (u = sqrt(2) alpha, v = 0, no randomness) or "gaussian"."""
        return super().init(alpha, seed, kind)

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """Order-one parameters of that kind; see `init`."""
        if kind == "equal":
            return np.tile([np.sqrt(2.0), 0.0], (self.width, 1))
        return super().initial(alpha, rng, kind)

    # -- what is known about it -------------------------------------------------------------------------------

    def theory(self, alpha: float | None = None, **options: Any) -> agf.Staircase:
        """The exact sequence as alpha -> 0 ([PF23] Algorithm 1, [AGF] Algorithm 2).

        Accelerated times are in units of -log alpha; flow times are given with an alpha. Every drop carries its
        certificate, recomputed from the data: `grad_norm` and, in `predicted_decrease`, the duality gap of its level.
        `stats["kkt"]` is the largest violation of the optimality conditions, relative to
        |x_i| (|y| + sum_j |x_j beta_j|) / n.

        Parameters
        ----------
        alpha : float or None, optional
            Scale for the flow times, or None. There are no options.

        Raises
        ------
        DataError
            For a bad alpha.
        RequestError
            For alpha >= 1 or an option.
        """
        if options:
            raise agf.RequestError(
                explain(f"unknown option `{next(iter(options))}`.", where=f"{self.name}.theory", expected="alpha only")
            )
        return staircase(self, self.X, self.y, alpha)

    def phases(self, init: agf.Init, settings: agf.Settings) -> agf.Phases:
        """Closed forms of both phases at any alpha."""
        return DiagonalPhases(self.X, self.y, init, settings)

    def many_phases(self, inits: Sequence[agf.Init], settings: agf.Settings) -> Sequence[agf.Phases | None] | None:
        """Shared fits and array operations over initializations, unless X is too large to keep many fits of it."""
        if self.X.size > MAX_SIZE:
            return None
        return DiagonalMany(self.X, self.y, settings, inits).scripts()

    def least_loss(self, init: agf.Init) -> float:
        """Least squares over the signs that the flow from `init` can give each coefficient."""
        return least_loss(self.X, self.y, init)

    def flow_system(self, init: agf.Init) -> agf.FlowSystem:
        """Gradient flow in the signed coordinate z, or in that of the samples where these are far fewer."""
        return flow_of(self.X, self.y, init)

    def ties(self, init: agf.Init) -> agf.Ties | None:
        """Equal columns that start from equal weights."""
        of = agf.arrays.equal_rows([*self.X, *init.directions.T, init.log_norms])
        return None if of is None else agf.Ties(_Tied(self, of), agf.Ties.merged(init, of), of)

    # -- what it learned --------------------------------------------------------------------------------------

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """The coefficients beta as `coefficients`, (d,); zero for absent neurons."""
        beta = np.zeros(self.width)
        beta[neurons] = theta[:, 0] * theta[:, 1]
        return {"coefficients": beta}

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """u^2 - v^2, (m,)."""
        del neurons
        return {"u^2 - v^2": (theta[:, 0] - theta[:, 1]) * (theta[:, 0] + theta[:, 1])}

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """ "coordinate 3", with its name where it has one; of more than twenty, the first eight."""
        del theta, neurons
        names = self.names
        words = [f"{i}" if names is None else f"{i} ({names[i]})" for i in chosen.tolist()]
        return self.several("coordinate", words)

    def critical(self, theta: FloatArray, neurons: IntArray) -> list[agf.Critical]:
        """One for each coordinate, on the side that it can grow to: utility |x_i . r| / 2n."""
        everyone = np.arange(self.width)
        slopes = self._correlation(everyone, self.residual(theta, neurons))
        return [
            agf.Critical(
                np.array([1.0, np.sign(slopes[i])]) / np.sqrt(2),
                abs(float(slopes[i])) / 2,
                "maximum",
                self.label(theta, neurons, everyone[i : i + 1]) + (", +" if slopes[i] > 0 else ", -"),
                neuron=i,
            )
            for i in range(self.width)
            if slopes[i] != 0
        ]

    def describe(self) -> str:
        """One line for reports."""
        sizes = {"coordinate": self.width, "sample": self.n_samples}
        return ", ".join([self.name, *(f"{count} {word}{'s' * (count != 1)}" for word, count in sizes.items())])

    @classmethod
    def example(cls) -> dict[str, Any]:
        """The diabetes data of scikit-learn, columns standardized, target centred and scaled."""
        from agf import datasets

        return datasets.load("diabetes")


class _Tied(DiagonalLinear):
    """One coordinate for each kind of column of another problem, in whose words it speaks."""

    name = DiagonalLinear.name

    def __init__(self, whole: DiagonalLinear, of: IntArray) -> None:
        super().__init__(whole.X[:, np.unique(of, return_index=True)[1]], whole.y)
        self._whole, self._of = whole, of

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """That of all coordinates which those `chosen` stand for."""
        return self._whole.label(theta, neurons, np.flatnonzero(np.isin(self._of, chosen)))


def _written(name: object) -> str:
    """A name as files and pictures can hold it: bytes that were no text when it was read are escaped."""
    return str(name).encode(errors="backslashreplace").decode()
