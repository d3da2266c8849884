"""The exact flow of a problem's dormant (leaky) ReLU neurons, also where a mask keeps them to some of their inputs.

A masked neuron moves in a coordinate subspace, among the walls of the samples restricted to it: one flow for all
neurons of the same mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.problem import Problem
from agf.coordinates.balance import Balance
from agf.networks.two_layer import TwoLayer
from agf.rectified.cones import Arrangement
from agf.rectified.dormant_flow import DormantFlow
from agf.rectified.walls import Walls

#: Neurons times walls beyond which the arrays of the exact flow (0.5 GB each) are not made. Cost: memory; steps are
#: then taken instead.
LARGEST = 2**26
#: Hyperplanes of the inputs that each mask of a problem leaves: they take as long as many dormant phases where inputs
#: are many and wide.
_ARRANGEMENTS: WeakKeyDictionary[Problem, dict[bytes, Arrangement]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Part:
    """Neurons that share their walls.

    Parameters
    ----------
    rows : int ndarray, shape (k,)
        Which of all.
    columns : int ndarray, shape (p,)
        Parameters that they have; the last is the output weight.
    walls : Walls
        In the others.
    """

    rows: IntArray
    columns: IntArray
    walls: Walls

    def cut(self, directions: FloatArray) -> FloatArray:
        """Unit rows (k, p) of those of all neurons (m, P)."""
        return directions[np.ix_(self.rows, self.columns)]


class DormantParts:
    """Dormant neurons in parts, as one flow: what a `DormantFlow` says of its neurons, this says of all (m,) of them.

    Parameters
    ----------
    parts : list of Part
        Every neuron is in one.
    directions : float ndarray, shape (m, P)
        Unit rows.
    log_norms : float ndarray, shape (m,)
        Their log norms.
    balance, noise, contrary
        As of a `DormantFlow`.
    """

    def __init__(
        self,
        parts: list[Part],
        directions: FloatArray,
        log_norms: FloatArray,
        *,
        balance: Balance | None = None,
        noise: float = 0.0,
        contrary: bool = False,
    ) -> None:
        self._parts, self._shape = parts, directions.shape
        self._flows = [
            DormantFlow(
                part.walls,
                part.cut(directions),
                log_norms[part.rows],
                balance=None if balance is None else balance.of_rows(part.rows),
                noise=noise,
                contrary=contrary,
            )
            for part in parts
        ]
        self._place = np.zeros(self._shape[0], dtype=np.int64)  # of every neuron in its part
        for part in parts:
            self._place[part.rows] = np.arange(part.rows.size)

    @property
    def most(self) -> int:
        """Events of a neuron beyond which it is left as it is."""
        return max(flow.most for flow in self._flows)

    @property
    def D(self) -> FloatArray:
        """Their fields, (m, P - 1)."""
        out = np.zeros(self._shape)
        for part, flow in zip(self._parts, self._flows, strict=True):
            out[np.ix_(part.rows, part.columns[:-1])] = flow.D
        return out[:, :-1]

    @property
    def until(self) -> FloatArray:
        """Flow times (m,) at which their present pieces end."""
        return self._gathered([flow.until for flow in self._flows])

    @property
    def fate(self) -> IntArray:
        """A `Fate` each, (m,)."""
        return self._gathered([flow.fate for flow in self._flows])

    @property
    def forked(self) -> BoolArray:
        """Which have passed a fork, (m,)."""
        return self._gathered([flow.forked for flow in self._flows])

    def _gathered(self, values: list[Any]) -> Any:
        out = np.zeros(self._shape[0], dtype=values[0].dtype)
        for part, value in zip(self._parts, values, strict=True):
            out[part.rows] = value
        return out

    def inside(self, rows: IntArray, time: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Unit rows (k, P) and log norms (k,) of neurons `rows` at a time (k,) within their present pieces."""
        times = np.broadcast_to(np.asarray(time, dtype=np.float64), rows.shape)
        out, log_norms = np.zeros((rows.size, self._shape[1])), np.zeros(rows.size)
        for part, flow in zip(self._parts, self._flows, strict=True):
            here = np.flatnonzero(np.isin(rows, part.rows))
            found, log_norms[here] = flow.inside(self._place[rows[here]], times[here])
            out[np.ix_(here, part.columns)] = found
        return out, log_norms

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Unit rows (m, P) that neurons tend to, and their utilities (m,), once all events are passed."""
        out, utility = np.zeros(self._shape), np.zeros(self._shape[0])
        for part, flow in zip(self._parts, self._flows, strict=True):
            out[np.ix_(part.rows, part.columns)], utility[part.rows] = flow.ends()
        return out, utility

    def run(self, until: float = np.inf) -> None:
        """Pass all events up to a time."""
        for flow in self._flows:
            flow.run(until)

    def step(self, rows: IntArray) -> None:
        """Take neurons `rows` to the ends of their pieces, past the events there."""
        for part, flow in zip(self._parts, self._flows, strict=True):
            here = rows[np.isin(rows, part.rows)]
            if here.size:
                flow.step(self._place[here])


def has_exact_flow(problem: Problem) -> bool:
    """Whether predictions take the dormant phase of a problem as that of sharp kinks, in closed form.

    Where neurons are a sigma(w . x), sigma relu or leaky-relu, with one output, each perhaps without some of its
    parameters, unless a width was given to the kinks.
    """
    return _network(problem) is not None


def exact_flow(
    problem: Problem,
    residual: Any,
    neurons: IntArray,
    directions: FloatArray,
    log_norms: FloatArray,
    *,
    balance: Balance | None = None,
    noise: float = 0.0,
    contrary: bool = False,
    rounded: bool = False,
) -> DormantFlow | DormantParts | None:
    """The flow of dormant neurons (m,) on a residual, as `problem.residual` returned it.

    None where it is not known, or takes more memory than steps do; and for masked neurons that are both contrary and
    rounded, the second pass of a prediction: taken in steps on the trainer's kinks, it tells what sharp ones change.

    rounded : whether neurons slide along kinks at the pace that they have beside those of the trainer.  The others are
    as of a `DormantFlow`.
    """
    base = _network(problem)
    if base is None or neurons.size == 0 or (contrary and rounded and problem.restriction() is not None):
        return None
    c = base.weigh(residual)[:, 0]
    parts = []
    for rows, kept, still in _masks(problem, neurons):
        walls = _walls(problem, base, kept, np.zeros_like(c) if still else c)
        if rounded and base.kink > 0:
            lengths = np.linalg.norm(base.X[walls.sample][:, kept], axis=1)
            walls = replace(walls, layers=base.layer.reach / lengths)
        parts.append(Part(rows, np.append(np.flatnonzero(kept), base.n_inputs), walls))
    if sum(part.rows.size * part.walls.sample.size for part in parts) > LARGEST:
        return None
    if len(parts) == 1 and parts[0].columns.size == directions.shape[1]:
        walls = parts[0].walls
        return DormantFlow(walls, directions, log_norms, balance=balance, noise=noise, contrary=contrary)
    return DormantParts(parts, directions, log_norms, balance=balance, noise=noise, contrary=contrary)


def _network(problem: Problem) -> TwoLayer | None:
    restricted = problem.restriction()
    base = problem if restricted is None else restricted[0]
    if not isinstance(base, TwoLayer) or base.n_outputs != 1 or not base.sharp_dormant:
        return None
    return base if base.activation.name in ("relu", "leaky-relu") else None


def _masks(problem: Problem, neurons: IntArray) -> Iterator[tuple[IntArray, BoolArray, bool]]:
    """Rows (k,) of neurons (m,) that have the same inputs, which these are (d,), and whether they are still: without
    any input weight, or without an output weight, whatever else they have."""
    restricted = problem.restriction()
    if restricted is None:
        yield np.arange(neurons.size), np.ones(problem.n_params - 1, dtype=bool), False
        return
    mask = restricted[1][neurons]
    still = ~(mask[:, :-1].any(axis=1) & mask[:, -1])
    mask[still] = True
    patterns, owner = np.unique(np.column_stack([still, mask[:, :-1]]), axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        yield np.flatnonzero(owner == i), pattern[1:], bool(pattern[0])


def _walls(problem: Problem, base: TwoLayer, kept: BoolArray, c: FloatArray) -> Walls:
    """Those of the inputs that are kept (d,), for weighted residuals c (n,)."""
    X, found = base.X[:, kept], _ARRANGEMENTS.setdefault(problem, {})
    key = kept.tobytes()
    if key not in found:
        found[key] = Arrangement.of(X)
    return Walls.of(X, c, -float(base.activation.left), found[key])
