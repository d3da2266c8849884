"""Interchangeable neurons that start equal, held once: gradient flow keeps them equal, and rounding does not.

Beside a saddle that they share, copies come apart by the rounding of their velocities, to drops that the exact flow
never makes. A neuron that stands in for k copies of theta is phi = sqrt(k) theta: as long as they are together, which
makes its gradient flow theirs whatever the activation.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray, equal_rows
from agf.contract.problem import Problem
from agf.contract.ties import Ties
from agf.coordinates.mode_system import same_losses
from agf.init import Init


def tied(problem: Problem, init: Init) -> Ties:
    """The ties that a problem knows of itself, or those of its copies."""
    return problem.ties(init) or tied_copies(problem, init)


def tied_copies(problem: Problem, init: Init) -> Ties:
    """Those of neurons that start from the same weights, or from opposite ones where these make the same function.

    Neurons with kinks, and those that are followed in a problem's own coordinates, are left as they are.
    """
    untied = Ties(problem, init, np.arange(init.width))
    if not problem.interchangeable or problem.cornered or equal_rows([init.log_norms]) is None:
        return untied
    if problem.ties(init) is not None or problem.flow_system(init) is not None:
        return untied
    rows = init.directions
    apart = np.where(np.isin(untied.of, problem.permanent), untied.of, -1).astype(np.float64)
    leading = np.take_along_axis(rows, (rows != 0).argmax(axis=1)[:, None], axis=1)
    signs, of = np.ones(len(rows)), equal_rows([init.log_norms, apart, *rows.T])
    mirrored = equal_rows([init.log_norms, apart, *(rows * np.sign(leading)).T])
    if mirrored is not None and (of is None or mirrored.max() < of.max()) and _odd(problem):
        of, first = mirrored, np.unique(mirrored, return_index=True)[1]
        signs = np.sign(leading * leading[first][of]).ravel()
    return untied if of is None else Ties(StandIns(problem, of), Ties.merged(init, of), of, signs)


def _odd(problem: Problem) -> bool:
    """Whether -theta makes the same function as theta, as that of an odd activation does."""
    return same_losses(problem, -np.eye(2))


class StandIns(Problem):
    """One neuron in place of all copies of it in another problem, in whose words it speaks.

    Parameters
    ----------
    whole : Problem
        That problem, H neurons.
    of : int ndarray, shape (H,)
        Stand-in, from 0 to G - 1, of each neuron.
    """

    def __init__(self, whole: Problem, of: IntArray) -> None:
        self.whole, self.of, self.name = whole, of, whole.name  # type: ignore[misc]
        self.width, self.n_params, self.degree = int(of.max()) + 1, whole.n_params, whole.degree
        self.quadratic_loss = whole.quadratic_loss
        self.permanent = tuple(int(of[row]) for row in whole.permanent)
        self._copies = np.bincount(of)
        self._order, self._starts = np.argsort(of, kind="stable"), np.cumsum(self._copies) - self._copies
        #: At degree 2 a utility does not know of how many copies it is.
        self.interchangeable = self.degree == 2 or bool(np.ptp(self._copies) == 0)
        if hasattr(whole, "batch_loss_grad"):
            self.n_samples: int = whole.n_samples  # type: ignore[attr-defined]
            self.batch_loss_grad = self._batch_loss_grad

    @cached_property
    def footprint(self) -> int:
        """Of all copies, shared among the stand-ins."""
        return self._shared(self.whole.footprint)

    @cached_property
    def operations(self) -> int:
        """Those of all copies, shared as well."""
        return self._shared(self.whole.operations)

    def _shared(self, numbers: float) -> int:
        return int(np.ceil(float(numbers) * self.of.size / self.width))

    def _all(self, neurons: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Place among the stand-ins `neurons` (m,) of each copy (M,), the neuron that it is, and the first of each."""
        counts = self._copies[neurons]
        at, first = np.repeat(np.arange(neurons.size), counts), np.cumsum(counts) - counts
        return at, self._order[self._starts[neurons[at]] + np.arange(at.size) - first[at]], first

    def _root(self, neurons: IntArray) -> FloatArray:
        return np.asarray(np.sqrt(self._copies[neurons])[:, None])

    # -- contract ---------------------------------------------------------------------------------------------

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """Loss of all copies, and its gradient."""
        (at, names, first), root = self._all(neurons), self._root(neurons)
        loss, gradient = self.whole.loss_grad((theta / root)[at], names)
        return loss, root * gradient[first]

    def _batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        (at, names, first), root = self._all(neurons), self._root(neurons)
        loss, gradient = self.whole.batch_loss_grad((theta / root)[at], names, rows)  # type: ignore[attr-defined]
        return loss, root * gradient[first]

    def residual(self, theta: FloatArray, neurons: IntArray) -> Any:
        """That of all copies."""
        at, names, _ = self._all(neurons)
        return self.whole.residual((theta / self._root(neurons))[at], names)

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """Of all copies together, and its gradient."""
        root = self._root(neurons)
        value, gradient = self.whole.utility(theta / root, self._order[self._starts[neurons]], residual)
        return root[:, 0] ** 2 * value, root * gradient

    def pull(self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any) -> FloatArray:
        """That of one copy, in the units of the stand-in's norm."""
        root, one = self._root(neurons), self._order[self._starts[neurons]]
        pull = self.whole.pull(directions, log_norms - np.log(root[:, 0]), one, residual)
        return root ** (2 - self.degree) * pull

    def network_pull(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, members: BoolArray
    ) -> FloatArray:
        """The same on the residual that `members` make."""
        (at, names, first), root = self._all(neurons), self._root(neurons)
        logs = (log_norms - np.log(root[:, 0]))[at]
        return root ** (2 - self.degree) * self.whole.network_pull(directions[at], logs, names, members[at])[first]

    def outputs(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Of all copies together."""
        root = self._root(neurons)
        out = self.whole.outputs(theta / root, self._order[self._starts[neurons]])
        return None if out is None else root**2 * out

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """That of one copy, homogeneous of twice the degree, of what all copies make."""
        (at, names, _), one = self._all(active_neurons), self._order[self._starts[neurons]]
        alone = self.whole.self_interaction(directions, one, (active / self._root(active_neurons))[at], names)
        return self._root(neurons)[:, 0] ** (4 - 2 * self.degree) * alone

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """That of the loss of all copies, along what moves them together."""
        (at, names, _), root = self._all(neurons), self._root(neurons)
        dense = self.whole.hessian((theta / root)[at], names)
        if dense is None:
            return None
        spread = (at[:, None] == np.arange(neurons.size)) / root.T
        blocks = dense.reshape(at.size, self.n_params, at.size, self.n_params)
        return np.asarray(np.einsum("ig,ipjq,jh->gphq", spread, blocks, spread, optimize=True)).reshape(
            theta.size, theta.size
        )

    def least_loss(self, init: Init) -> float:
        """That of the whole."""
        logs = init.log_norms - np.log(self._root(np.arange(self.width))[:, 0])
        return self.whole.least_loss(Init(init.directions[self.of], logs[self.of], init.alpha))

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """Those of all copies."""
        at, names, _ = self._all(neurons)
        return self.whole.features((theta / self._root(neurons))[at], names)

    def features_along(self, thetas: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """The same at each of `thetas` (T, m, P)."""
        at, names, _ = self._all(neurons)
        return self.whole.features_along((thetas / self._root(neurons))[:, at], names)

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """Of one copy of each."""
        return self.whole.conserved(theta / self._root(neurons), self._order[self._starts[neurons]])

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """That of all copies."""
        at, names, _ = self._all(neurons)
        return self.whole.label((theta / self._root(neurons))[at], names, self._all(chosen)[1])

    def acquired(self, before: dict[str, FloatArray], after: dict[str, FloatArray]) -> str:
        """In the words of the whole."""
        return self.whole.acquired(before, after)

    def remarks(self) -> tuple[str, ...]:
        """Those of the whole."""
        return self.whole.remarks()
