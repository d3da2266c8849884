"""What a pipeline of pruning and restarts works on: weights (H, P) that can be trained under a mask, and scored."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray, count, matrix, number, positive
from agf.contract.problem import Problem
from agf.contract.start import check_range
from agf.errors import RequestError, explain
from agf.init import Init
from agf.records.status import Status
from agf.results.trajectory import Trajectory
from agf.rewinding.masked import masked
from agf.rewinding.pruning import inputs_of, prunable_of
from agf.rounding import SUM
from agf.sphere import lengths, polar
from agf.training.descent import descend
from agf.training.gradient_flow import flow

Train = Callable[..., Any] | dict[str, Any]


class Subject(ABC):
    """Weights theta (H, P) with a way to train them.

    name, arguments : for the record.  init : where the dense network starts.
    may : (H, P) weights that this pipeline may prune.  weights : (H, P) all weights but biases.
    layers : (H, P) number of the layer of each weight.
    """

    name: str
    arguments: dict[str, Any]
    init: Init
    may: BoolArray
    weights: BoolArray
    layers: IntArray

    @abstractmethod
    def trained(self, start: FloatArray, mask: BoolArray, budget: int) -> FloatArray:
        """Weights after training from `start` under a mask, `budget` times as long as a cycle."""

    @abstractmethod
    def early(self, moment: float) -> FloatArray:
        """Weights of the dense training, which is just over, at `moment`."""

    @abstractmethod
    def measure(self, end: FloatArray) -> tuple[float, float, float]:
        """Loss, accuracy and the user's score at weights; NaN for what there is not."""

    @abstractmethod
    def score(self, theta: FloatArray, by: str) -> FloatArray:
        """(H, P) scores by which weights stay. Raises RequestError for a score that this subject has not."""

    @abstractmethod
    def mask(self, given: Any) -> BoolArray:
        """A mask that a user gave, checked. Raises DataError."""

    @abstractmethod
    def leave(self, end: FloatArray) -> None:
        """Called at the end of a pipeline, with the weights of its last cycle."""

    @abstractmethod
    def balanced(self, start: FloatArray) -> FloatArray:
        """Output weights scaled to the norm of the input weights of each neuron."""


class ProblemSubject(Subject):
    """A problem, trained by gradient flow, gradient descent or a function (problem, init) -> Trajectory or weights."""

    def __init__(
        self,
        problem: Problem,
        init: Init,
        prunable: str,
        train: Train | None,
        score: Callable[[Problem, FloatArray], float] | None,
    ) -> None:
        self.name, self.arguments = problem.name, problem.arguments
        self.problem, self.init, self.train, self._score = problem, init, train, score
        self.may, self.weights = prunable_of(problem, prunable), prunable_of(problem, "all")
        cut = getattr(problem, "n_inputs", problem.n_params)
        self.layers = np.broadcast_to((np.arange(problem.n_params) >= cut).astype(np.int64), self.may.shape)
        self._dense: Trajectory | None = None

    def trained(self, start: FloatArray, mask: BoolArray, budget: int) -> FloatArray:
        whole = mask.all()
        # the initialization itself, where it is what training starts from: log norms keep what theta loses
        same = whole and np.array_equal(start, self.init.params())
        init = self.init if same else Init.from_params(start, alpha=self.init.alpha)
        problem = self.problem if whole else masked(self.problem, mask)
        run = self._called(problem, init, budget) if callable(self.train) else self._run(problem, init, budget)
        if isinstance(run, Trajectory):
            if run.status is Status.INTERRUPTED:
                raise KeyboardInterrupt  # half a cycle is no cycle
            self._dense = self._dense or run
            run = _end(run)
        shape = (problem.width, problem.n_params)
        end = matrix(run, "weights at the end of training", where="rewind", rows=shape[0], columns=shape[1])
        check_range(problem, polar(end)[1], "rewind, at the end of training")
        return end

    def early(self, moment: float) -> FloatArray:
        """Trained again up to there, or the nearest snapshot of a training function."""
        if not callable(self.train):
            return _end(self._run(self.problem, self.init, 1, until=moment))
        if self._dense is None or self._dense.snapshot_times.size == 0:
            raise RequestError(explain("the training function kept no snapshot to rewind to.", where="rewind"))
        return self._dense.params(int(np.argmin(np.abs(self._dense.snapshot_times - moment))))

    def measure(self, end: FloatArray) -> tuple[float, float, float]:
        neurons = np.arange(self.problem.width)
        accuracy = self.problem.features(end, neurons).get("accuracy", np.array([np.nan]))
        score = np.nan if self._score is None else float(self._score(self.problem, end))
        return float(self.problem.loss_grad(end, neurons)[0]), float(np.ravel(accuracy)[0]), score

    def score(self, theta: FloatArray, by: str) -> FloatArray:
        if by == "magnitude":
            return np.abs(theta)
        if by == "snip":
            return np.abs(theta * self.problem.loss_grad(theta, np.arange(self.problem.width))[1])
        d = inputs_of(self.problem, 'by="synflow"')  # R = sum_i sum_j |w_ij| sum_c |a_ci|, each entry times dR by it
        size = np.abs(theta)
        into, out = size[:, :d].sum(axis=1, keepdims=True), size[:, d:].sum(axis=1, keepdims=True)
        return np.concatenate([size[:, :d] * out, size[:, d:] * into], axis=1)

    def mask(self, given: Any) -> BoolArray:
        return masked(self.problem, given).mask

    def leave(self, end: FloatArray) -> None:
        """Nothing of a problem is changed."""

    def balanced(self, start: FloatArray) -> FloatArray:
        d = inputs_of(self.problem, "rebalance")
        size, outer = lengths(start[:, :d]), lengths(start[:, d:])
        factor = size / np.where(outer > 0, outer, 1.0)
        factor[list(self.problem.permanent)] = 1.0
        return np.concatenate([start[:, :d], start[:, d:] * factor[:, None]], axis=1)

    def _called(self, problem: Problem, init: Init, budget: int) -> Trajectory | FloatArray:
        """What the user's training function gives: a trajectory, or the weights at its end."""
        assert callable(self.train)
        options = {} if budget == 1 else {"budget": budget}
        takes(self.train, options, "problem, init")
        found = self.train(problem, init, **options)
        if isinstance(found, Trajectory):
            return found
        shape = (problem.width, problem.n_params)
        if np.shape(found) != shape:
            raise RequestError(
                explain("the training function returns no Trajectory and no weights.", where="rewind",
                        found=f"{type(found).__name__} of shape {np.shape(found)}", expected=f"an array {shape}")
            )  # fmt: skip
        return found

    def _run(self, problem: Problem, init: Init, budget: int, until: float | None = None) -> Trajectory:
        assert not callable(self.train)
        options = dict(self.train or {})
        options.setdefault("snapshots", 2)
        how = descend if "lr" in options or "steps" in options else flow
        if unknown := sorted(set(options) - set(inspect.signature(how).parameters)):
            raise RequestError(
                explain(f"`train` has unknown option(s) {', '.join(unknown)}.", where="rewind",
                        expected=f"options of agf.{how.__name__}")
            )  # fmt: skip
        if how is descend:
            steps = count(options.get("steps", 0), "steps", where="rewind train")
            lr, momentum = positive(options.get("lr"), "lr", where="rewind train"), number(options.get("momentum", 0.0))
            if not 0.0 <= momentum < 1.0:
                raise RequestError(explain("`momentum` must be in [0, 1).", where="rewind train", found=repr(momentum)))
            unit = lr / (1.0 - momentum)
            options["steps"] = budget * steps
            if until is not None:
                _before(until, steps * unit)
                options["steps"] = max(round(until / unit), 1)
            return descend(problem, init, **options)
        if until is not None:
            if options.get("t_max") is not None:
                _before(until, positive(options["t_max"], "t_max", where="rewind train"))
            options["t_max"] = until
        elif options.get("t_max") is not None:
            options["t_max"] = budget * positive(options["t_max"], "t_max", where="rewind train")
        return flow(problem, init, **options)


def _before(moment: float, end: float) -> None:
    """Raise RequestError for a moment to go back to that the dense training does not reach."""
    if moment > end * (1.0 + SUM):
        raise RequestError(
            explain(f"the dense training ends at flow time {end:g}, before the moment to go back to.", where="rewind",
                    found=f"rewind = {moment:g}", expected=f"at most {end:g}")
        )  # fmt: skip


def _end(run: Trajectory) -> FloatArray:
    """Weights at the end of a training run; RequestError where these are not what training leads to."""
    if run.status in (Status.NONFINITE, Status.ERROR) or (run.status.failed and run.directions.shape[0] == 0):
        raise RequestError(
            explain(f"training ended as {run.status.word}.", where="rewind", found=f"a loss of {run.losses[-1]:.3g}",
                    remedy="Take a smaller learning rate or smaller weights.")
        )  # fmt: skip
    return run.params(-1)


def takes(train: Any, options: dict[str, Any], first: str) -> None:
    """Raise RequestError for a training function without the arguments that a method needs."""
    try:
        signature = inspect.signature(train)
    except (TypeError, ValueError):  # a builtin
        return
    keywords = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    for name in options:
        if not keywords and name not in signature.parameters:
            raise RequestError(
                explain(f"the training function takes no `{name}`.", where="rewind",
                        expected=f"train({first}, {name}=...), as this method trains for another time as well")
            )  # fmt: skip
    try:
        signature.bind(*first.split(","), **options)
    except TypeError as error:
        raise RequestError(
            explain(f"the training function cannot be called as train({first}): {error}.", where="rewind")
        ) from None
