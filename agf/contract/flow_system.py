"""Gradient flow in coordinates that keep their accuracy: what the reference trainer integrates.

`PolarSystem` (any problem) and a problem's own coordinates (`z` for a diagonal network, factored modes for a linear
one) are the same kind of thing to the trainer: a vector y, its velocity, the loss, a scale for the error, a snapshot.
Nothing here knows the phases of the engine: the reference must be independent of what it judges.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.errors import ProblemError, explain


@dataclass(frozen=True)
class Snapshot:
    """One moment of a trajectory, or m of them along a first axis of every array. Arrays are copies.

    Parameters
    ----------
    log_norms : float ndarray, shape (H,) or (m, H)
        Natural logs of the norms.
    directions : float ndarray, shape (H, P) or (m, H, P)
        Unit rows.
    features : dict[str, FloatArray]
        What the problem reads off the weights.
    """

    log_norms: FloatArray
    directions: FloatArray
    features: dict[str, FloatArray] = field(default_factory=dict)

    @classmethod
    def stacked(cls, moments: Sequence[Snapshot]) -> Snapshot:
        """`moments`, at least one, along a first axis. Raises ProblemError where their features differ in kind."""
        return cls._joined(np.array, moments)

    @classmethod
    def joined(cls, blocks: Sequence[Snapshot]) -> Snapshot:
        """All moments of `blocks`, at least one. Raises ProblemError where their features differ in kind."""
        return blocks[0] if len(blocks) == 1 else cls._joined(np.concatenate, blocks)

    @classmethod
    def _joined(cls, join: Callable[[list[FloatArray]], FloatArray], parts: Sequence[Snapshot]) -> Snapshot:
        features = joined_features(join, [part.features for part in parts])
        return cls(join([part.log_norms for part in parts]), join([part.directions for part in parts]), features)

    def at(self, rows: IntArray | slice | int) -> Snapshot:
        """Those of several moments that have these `rows`, or one."""
        features = {name: values[rows] for name, values in self.features.items()}
        return Snapshot(self.log_norms[rows], self.directions[rows], features)


def joined_features(
    join: Callable[[list[FloatArray]], FloatArray], parts: Sequence[dict[str, FloatArray]]
) -> dict[str, FloatArray]:
    """Features of several moments, at least one, each name joined. Raises ProblemError where they differ in kind."""
    try:
        if len({frozenset(part) for part in parts}) > 1:  # in any order: files keep that of the alphabet
            raise ValueError("other names")
        return {name: join([part[name] for part in parts]) for name in parts[0]}
    except ValueError:
        raise ProblemError(
            explain("`features` has other names or shapes at one time than at another.",
                    expected="the same names with arrays of the same shapes at every call")
        ) from None  # fmt: skip


def _checked(method: Callable[..., Snapshot]) -> Callable[..., Snapshot]:
    """A method that is asked for a Snapshot. Raises ProblemError where it returns anything else."""

    @functools.wraps(method)
    def call(self: FlowSystem, y: FloatArray) -> Snapshot:
        found = method(self, y)
        if not isinstance(found, Snapshot):
            several = ", of several moments along a first axis" if method.__name__ == "snapshots" else ""
            words = f"it returned a {type(found).__name__}."
            raise ProblemError(explain(words, where=method.__qualname__, expected=f"a Snapshot{several}"))
        return found

    return call


class FlowSystem(ABC):
    """Gradient flow d theta/dt = -grad L written for y (N,), with dy/ds = velocity(y) and t = s exp(log_time_unit).

    Notes
    -----
    The contract:

    1. `start()` gives y at s = 0.
    2. `velocity(y)` never modifies y and is finite wherever `loss(y)` is.
    3. `scale(y)` is (N,) positive: an error of rtol * scale in each entry of y is an error of relative size rtol.
    4. `groups` is (N,) group index of each entry (one group a neuron, say): the error test takes the root mean square
       in each group and the maximum over groups, so that no neuron hides behind the others.
    5. `retract(y)` is called on every accepted state (for example to restore unit rows).
    6. `loss_rate(y)` is dL/ds <= 0.
    7. `growth(y)` is positive wherever a small neuron grows, or None everywhere.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("snapshot", "snapshots"):
            if name in vars(cls):
                setattr(cls, name, _checked(vars(cls)[name]))

    log_time_unit: float = 0.0
    #: False where the velocity jumps (ReLU kinks): stabilised and implicit methods are then not offered.
    smooth: bool = True
    #: True where nothing ever grows away from anything: the `hessian` has no negative eigenvalue at any y, and two
    #: solutions never move apart (`distance`). Implicit steps of any length are then safe.
    contracts: bool = False
    #: True where `retract` hangs on y alone and remembers nothing: it is then applied before the velocity is had at the
    #: end of a step, accepted or not, which saves one a step.
    projects: bool = False

    @property
    @abstractmethod
    def groups(self) -> IntArray:
        """(N,) group of each entry of y."""
        ...

    @abstractmethod
    def start(self) -> FloatArray:
        """y (N,) at s = 0, a fresh array."""
        ...

    @abstractmethod
    def velocity(self, y: FloatArray) -> FloatArray:
        """dy/ds, (N,)."""
        ...

    @abstractmethod
    def loss(self, y: FloatArray) -> float:
        """L at y, the loss of the problem."""
        ...

    @abstractmethod
    def loss_rate(self, y: FloatArray) -> float:
        """dL/ds at y."""
        ...

    @abstractmethod
    def snapshot(self, y: FloatArray) -> Snapshot:
        """The neurons at y, and their features."""
        ...

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """(L, dL/ds); override where one evaluation gives both."""
        return self.loss(y), self.loss_rate(y)

    def velocities(self, ys: FloatArray) -> FloatArray:
        """Velocities at states ys (m, N), (m, N); override where they are had faster together."""
        return np.array([self.velocity(y) for y in ys])

    def gradients(self, ys: FloatArray) -> FloatArray:
        """dL/dy at states ys (m, N), (m, N); override where the velocity is no gradient of L in the `metric`."""
        return np.asarray(-(self.metrics(ys) ** 2) * self.velocities(ys))

    def losses_and_rates(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Losses and dL/ds at states ys (m, N), (m,) each; override where they are had faster together."""
        both = np.array([self.loss_and_rate(y) for y in ys]).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def snapshots(self, ys: FloatArray) -> Snapshot:
        """The moments at states ys (m, N), m > 0, along a first axis; override where they are had faster together."""
        return Snapshot.stacked([self.snapshot(y) for y in ys])

    def distance(self, error: FloatArray) -> float:
        """Norm of a small difference (N,) of two solutions that never grows, where `contracts`: errors of steps only
        add up then, and mode "resolved" bounds those of its times by it.

        Default: the Euclidean one, in which every gradient flow of a convex loss contracts; override it where there is
        a `metric`.
        """
        return float(np.linalg.norm(error))

    def changes(self, gradients: FloatArray) -> FloatArray:
        """By how much a difference of `distance` one can change losses of these gradients dL/dy (m, N), (m,): the dual
        norm."""
        return np.asarray(np.linalg.norm(gradients, axis=1))

    def growth(self, y: FloatArray) -> float | None:
        """Largest rate d log rho/ds at which a small neuron still grows: the saddle check. 0 when none does.

        None where this is not known: a flow without a time limit then never counts as settled for this reason.
        """
        del y
        return None

    def due(self, y: FloatArray) -> float | None:
        """Time s until a small neuron that grows matters, at present rates; inf when none grows, None if not known."""
        growth = self.growth(y)
        return None if growth is None else 1.0 / growth if growth > 0 else float(np.inf)

    def plain(self, y: FloatArray) -> tuple[Callable[[FloatArray], FloatArray], FloatArray, FloatArray] | None:
        """Velocity, scale (M,) and state (M,) of the same flow in coordinates whose perturbations are those of the
        network; None where these are. In others what moves no output may grow."""
        del y
        return None

    def noise(self, y: FloatArray) -> float:
        """Rate 1/s at which rounding of the gradient alone would move a neuron: slower growth is told from nothing."""
        del y
        return 0.0

    def stiff(self, y: FloatArray) -> tuple[FlowSystem, FloatArray] | None:
        """Coordinates for a stretch in which explicit steps are limited by stability, and the state in them; or None.

        Offered where these coordinates have no `hessian` and others do: those of `in_weights`.
        """
        del y
        return None

    def in_weights(self) -> FlowSystem | None:
        """The coordinates that `stiff` offers, in the same unit of time; None where it never does."""
        return None

    def hessian(self, y: FloatArray) -> FloatArray | None:
        """Symmetric (N, N) matrix S with which the Jacobian of the velocity is -W^-1 S W, W = diag(`metric`); or None.

        In coordinates in which the velocity is minus a gradient it is the Hessian. Offer it, and stiff stretches are
        crossed by implicit steps.
        """
        del y
        return None

    def metric(self, y: FloatArray) -> FloatArray | None:
        """(N,) positive, the W of `hessian`, or None where it is the identity."""
        del y
        return None

    def metrics(self, ys: FloatArray) -> FloatArray:
        """`metric` at states ys (m, N), (m, N), 1 where it is the identity; override where had faster together."""
        rows = [self.metric(y) for y in ys]
        return np.array([np.ones_like(y) if row is None else row for y, row in zip(ys, rows, strict=True)])

    def linearized(self, ys: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Velocities (m, N) at states ys (m, N), and their Jacobians -W^-1 S W, (m, N, N), for coordinates with a
        `hessian`; override where they are had faster together."""
        matrices = []
        for y in ys:
            matrix, metric = self.hessian(y), self.metric(y)
            if matrix is None:
                raise ProblemError(
                    explain(
                        "coordinates that contract say how, and these do not.",
                        where=type(self).__name__,
                        expected="`hessian`, or `linearized`, where velocities and Jacobians are had together",
                    )
                )
            matrices.append(-matrix if metric is None else -matrix * metric / metric[:, None])
        return self.velocities(ys), np.array(matrices)

    def loss_is_known(self, y: FloatArray) -> bool:
        """Whether `loss_and_rate` costs nothing at y, as when the velocity was last asked for there."""
        del y
        return False

    def scale(self, y: FloatArray) -> FloatArray:
        """What an error in each entry of y is relative to, (N,) positive; 1 unless overridden."""
        return np.ones_like(y)

    def retract(self, y: FloatArray) -> FloatArray:
        """y itself, or y put back where it belongs (unit rows)."""
        return y

    def conserved(self, y: FloatArray) -> dict[str, FloatArray]:
        """Quantities the exact flow conserves, by name; the trainer reports their drift."""
        del y
        return {}

    def conserved_along(self, ys: FloatArray) -> list[dict[str, FloatArray]]:
        """`conserved` at states ys (m, N); override where the weights are had faster together."""
        return [self.conserved(y) for y in ys]

    def warnings(self, y: FloatArray) -> list[str]:
        """Sentences about what float64 cannot hold in these coordinates; checked at the start and at the end."""
        del y
        return []

    def history_warnings(self, log_norms: FloatArray) -> list[str]:
        """The same, from log_norms (T, H) of the snapshots of a whole run."""
        del log_norms
        return []
