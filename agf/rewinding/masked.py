"""A problem restricted by a mask: entries of theta that are 0 and stay 0, in training and in every prediction."""

from __future__ import annotations

from typing import Any

import numpy as np

from agf import registry
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.asked import asked
from agf.contract.problem import Problem
from agf.errors import DataError, RequestError, explain
from agf.init import Init
from agf.networks.sampled import SampledProblem
from agf.rounding import RANK
from agf.sphere import polar


class Masked(Problem):
    """A problem whose parameters are 0 wherever a mask is.

    Gradient flow on a coordinate subspace: gradients, utilities and self-interactions are those of the problem at
    masked parameters, with masked entries left out. An initialization is masked before anything starts from it.

    Parameters
    ----------
    problem : Problem or str
        What is restricted: a problem, or its registered name with its own arguments beside the mask.
    mask : bool ndarray, shape (H, P)
        True, or 1, for entries that may differ from 0.
    **arguments : Any
        Of the constructor of `problem`, when that is a name.

    Raises
    ------
    DataError
        For a mask of another shape, with other entries than 0 and 1, or that leaves nothing.
    """

    name = "masked"

    def __init__(self, problem: Problem | str, mask: Any, **arguments: Any) -> None:
        base: Any = registry.problem(problem, **arguments) if isinstance(problem, str) else problem
        if not isinstance(base, Problem):
            raise RequestError(explain(f"a {type(base).__name__} is not a problem.", where="masked"))
        if isinstance(base, Masked):  # masks multiply
            mask = np.asarray(mask) * base.mask
            base = base.unmasked
        self.unmasked: Problem = base
        self.mask: BoolArray = _checked(mask, (base.width, base.n_params))
        rows = np.setdiff1d(np.arange(base.width), base.permanent)
        if base.permanent:  # what does nothing in them stays
            self.mask[list(base.permanent), : base.n_inputs] = True
        self.degree, self.width, self.n_params = base.degree, base.width, base.n_params
        self.permanent = base.permanent
        self.smooth, self.kink, self.quadratic_loss = base.smooth, base.kink, base.quadratic_loss
        self.arguments = {"problem": base.name, "mask": self.mask, **base.arguments}
        for attribute in ("kinds", "n_samples", "n_inputs", "classes", "bias", "layers"):
            if hasattr(base, attribute):
                setattr(self, attribute, getattr(base, attribute))
        self.interchangeable = base.interchangeable and bool((self.mask[rows] == self.mask[rows[0]]).all())
        if hasattr(base, "batch_loss_grad"):
            self.batch_loss_grad = self._batch_loss_grad

    def __reduce__(self) -> Any:
        return Masked, (self.unmasked, self.mask)

    # -- contract ---------------------------------------------------------------------------------------------

    def restriction(self) -> tuple[Problem, BoolArray]:
        """The problem, and the mask."""
        return self.unmasked, self.mask

    def rounded(self, kink: float) -> Masked | None:
        """The masked problem with another width of its corners."""
        base = self.unmasked.rounded(kink)
        return None if base is None else Masked(base, self.mask)

    def kink_normals(self) -> FloatArray | None:
        """Those of the problem for each neuron, (H, n, d), with masked entries 0: kinks of what is left of w."""
        normals = self.unmasked.kink_normals()
        return None if normals is None else normals * self.mask[:, None, : normals.shape[-1]]

    def remarks(self) -> tuple[str, ...]:
        """Those of the problem: an output bias is not masked."""
        return self.unmasked.remarks()

    def start_of(self, init: Init) -> Init:
        """The initialization with masked entries 0."""
        init = self.unmasked.start_of(init)
        if init.width != self.width:
            return init  # the door says so
        directions, shrunk = polar(init.directions * self.mask)
        with np.errstate(invalid="ignore"):
            log_norms = np.where(np.isneginf(shrunk), -np.inf, init.log_norms + shrunk)
        if not np.isfinite(log_norms).any():
            raise DataError(
                explain("the mask leaves nothing of these initial weights.", where="masked", remedy="Keep some.")
            )
        return Init(directions, log_norms, init.alpha, init.seed, init.kind)

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """Loss at masked parameters, and its gradient with masked entries 0."""
        mask = self.mask[neurons]
        loss, gradient = self.unmasked.loss_grad(theta * mask, neurons)
        return loss, gradient * mask

    def _batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        mask = self.mask[neurons]
        loss, gradient = self.unmasked.batch_loss_grad(theta * mask, neurons, rows)  # type: ignore[attr-defined]
        return loss, gradient * mask

    def residual(self, theta: FloatArray, neurons: IntArray) -> Any:
        """That of the problem at masked parameters."""
        return self.unmasked.residual(theta * self.mask[neurons], neurons)

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """Utilities at masked parameters, and gradients with masked entries 0."""
        mask = self.mask[neurons]
        value, gradient = self.unmasked.utility(theta * mask, neurons, residual)
        return value, gradient * mask

    def pull(self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any) -> FloatArray:
        """The pull of the problem with masked entries 0."""
        mask = self.mask[neurons]
        return self.unmasked.pull(directions * mask, log_norms, neurons, residual) * mask

    def network_pull(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, members: BoolArray
    ) -> FloatArray:
        """The same on the residual that `members` make."""
        mask = self.mask[neurons]
        return self.unmasked.network_pull(directions * mask, log_norms, neurons, members) * mask

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """The initial parameters of the problem, masked."""
        return self.unmasked.initial(alpha, rng, kind) * self.mask

    def outputs(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Those of the problem at masked parameters."""
        return self.unmasked.outputs(theta * self.mask[neurons], neurons)

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """(1/2) E|f_i - P_A f_i|^2, where P_A projects on what the active neurons' unmasked entries span."""
        if self.mask[active_neurons].all():
            mine = directions * self.mask[neurons]
            return self.unmasked.self_interaction(mine, neurons, active, active_neurons)
        base = self.unmasked
        if not isinstance(base, SampledProblem):
            return super().self_interaction(directions, neurons, active, active_neurons)
        if not active.size:
            return base.self_interaction(directions * self.mask[neurons], neurons, *self.empty)
        out, span = base.curved(directions * self.mask[neurons], neurons, active, active_neurons)
        span = span[self.mask[active_neurons].ravel()]
        _, values, rows = np.linalg.svd(span, full_matrices=False)
        rows = rows[values > RANK**0.5 * values.max(initial=0.0)]  # what a Gram matrix resolves, as without a mask
        return np.asarray(0.5 * np.sum((out - (out @ rows.T) @ rows) ** 2, axis=1))

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """That of the problem, with rows and columns of masked entries 0."""
        mask = self.mask[neurons]
        dense = self.unmasked.hessian(theta * mask, neurons)
        return None if dense is None else dense * np.outer(mask, mask)

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """Those of the problem at masked parameters."""
        return self.unmasked.features(theta * self.mask[neurons], neurons)

    def features_along(self, thetas: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """The same at each of `thetas` (T, m, P)."""
        return self.unmasked.features_along(thetas * self.mask[neurons], neurons)

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """In the words of the problem."""
        return self.unmasked.label(theta * self.mask[neurons], neurons, chosen)

    def acquired(self, before: dict[str, FloatArray], after: dict[str, FloatArray]) -> str:
        """In the words of the problem."""
        return self.unmasked.acquired(before, after)

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """What the problem conserves between the layers of a neuron, a mask leaves so."""
        return self.unmasked.conserved(theta * self.mask[neurons], neurons)

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Four tanh neurons, each without one of its inputs."""
        from agf.networks.two_layer import TwoLayer

        mask = np.ones((4, 4), dtype=bool)
        mask[[0, 1, 2, 3], [0, 1, 2, 0]] = False
        return {"problem": "two-layer", "mask": mask, **TwoLayer.example()}

    def describe(self) -> str:
        """The problem, and how much of it is left."""
        return f"{self.unmasked.describe()}, with {int(self.mask.sum())} of {self.mask.size} parameters"


@asked
def masked(problem: Problem, mask: Any) -> Masked:
    """Restrict a problem to the parameters that a mask keeps.

    Parameters
    ----------
    problem : Problem
        What is restricted.
    mask : bool ndarray, shape (H, P)
        True, or 1, for entries that may differ from 0.

    Returns
    -------
    Masked
        A problem for `flow`, `descend`, `predict` in every mode, and all else; initial weights are masked before
        anything starts from them.

    Raises
    ------
    DataError
        For a mask of another shape, with other entries than 0 and 1, or that leaves nothing.
    """
    return Masked(problem, mask)


def _checked(mask: Any, shape: tuple[int, int]) -> BoolArray:
    try:
        given = np.asarray(mask)
    except ValueError:
        raise DataError(
            explain("the rows of the mask differ in length.", where="masked", expected=f"{shape}")
        ) from None
    except Exception as error:  # of a sparse tensor, of a stranger's __array__
        raise DataError(explain(f"the mask cannot be read ({error}).", where="masked", expected=f"{shape}")) from None
    if given.shape != shape:
        raise DataError(
            explain(f"the mask has shape {given.shape}.", where="masked", expected=f"{shape}, one row a neuron")
        )
    if not np.isin(given, (0, 1)).all():
        raise DataError(explain("the mask has other entries than 0 and 1.", where="masked"))
    kept = given.astype(bool, copy=True)
    if not kept.any():
        raise DataError(explain("the mask kills all weights.", where="masked", expected="some entry that is 1"))
    return kept
