"""The exact flow of a problem's dormant (leaky) ReLU neurons, also where a mask keeps them to some of their weights.

A masked neuron moves in a coordinate subspace, among the walls of the samples restricted to it: one flow for all
neurons of the same mask. Of several outputs whose residuals all lie along one axis (cross-entropy of two classes) a
neuron feels the part of its output weights along that axis alone, and what is across it stays.
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
from agf.rectified.events import Fate
from agf.rectified.walls import Walls
from agf.sphere import lengths

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
    inputs : int ndarray, shape (p,)
        Input weights that they have.
    axis : float ndarray, shape (c,)
        Unit vector of output weights along which they are pulled.
    walls : Walls
        Among these inputs.
    """

    rows: IntArray
    inputs: IntArray
    axis: FloatArray
    walls: Walls

    def cut(self, directions: FloatArray, log_norms: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of all neurons (m, P) of these log norms (m,): what moves, as unit rows (k, p + 1) and log norms (k,), and
        output weights across the axis, (k, c), over the norms of the neurons."""
        outer = directions[self.rows, -self.axis.size :]
        along = outer @ self.axis
        moved, log_moved = np.column_stack([directions[np.ix_(self.rows, self.inputs)], along]), log_norms[self.rows]
        if self.axis.size == 1:
            return moved, log_moved, np.zeros(outer.shape)
        sizes = lengths(moved)
        with np.errstate(divide="ignore"):
            log_moved = log_moved + np.log(sizes)
        return moved / (sizes + (sizes == 0))[:, None], log_moved, outer - along[:, None] * self.axis


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
    origin : tuple of float ndarray or None
        Directions (m, P) and log norms (m,) from which they come: what they conserve is as it was there.
    noise, contrary
        As of a `DormantFlow`.

    Attributes
    ----------
    flows : list of DormantFlow
        One a part.
    axes : float ndarray, shape (m, c)
        Unit vectors of output weights along which they are pulled.
    """

    def __init__(
        self,
        parts: list[Part],
        directions: FloatArray,
        log_norms: FloatArray,
        *,
        origin: tuple[FloatArray, FloatArray] | None = None,
        noise: float = 0.0,
        contrary: bool = False,
    ) -> None:
        self._parts, self.flows = parts, list[DormantFlow]()
        self._directions, self._log_norms = directions, log_norms
        m = directions.shape[0]
        self.axes = np.zeros((m, parts[0].axis.size))
        self._across = np.zeros(self.axes.shape)
        #: Part of every neuron, and its place there.
        self._part, self._place = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
        for i, part in enumerate(parts):
            self._part[part.rows], self._place[part.rows] = i, np.arange(part.rows.size)
            moved, log_moved, self._across[part.rows] = part.cut(directions, log_norms)
            self.axes[part.rows] = part.axis
            balance = None
            if origin is not None:
                balance = Balance.of(*part.cut(*origin)[:2], part.inputs.size)
            self.flows.append(
                DormantFlow(part.walls, moved, log_moved, balance=balance, noise=noise, contrary=contrary)
            )

    @property
    def most(self) -> int:
        """Events of a neuron beyond which it is left as it is."""
        return max(flow.most for flow in self.flows)

    @property
    def D(self) -> FloatArray:
        """Their fields, (m, d)."""
        out = np.zeros((self._part.size, self._directions.shape[1] - self.axes.shape[1]))
        for part, flow in zip(self._parts, self.flows, strict=True):
            out[np.ix_(part.rows, part.inputs)] = flow.D
        return out

    @property
    def until(self) -> FloatArray:
        """Flow times (m,) at which their present pieces end."""
        return self._gathered([flow.until for flow in self.flows])

    @property
    def fate(self) -> IntArray:
        """A `Fate` each, (m,)."""
        return self._gathered([flow.fate for flow in self.flows])

    @property
    def forked(self) -> BoolArray:
        """Which have passed a fork, (m,)."""
        return self._gathered([flow.forked for flow in self.flows])

    def _gathered(self, values: list[Any]) -> Any:
        out = np.zeros(self._part.size, dtype=values[0].dtype)
        for part, value in zip(self._parts, values, strict=True):
            out[part.rows] = value
        return out

    def inside(self, rows: IntArray, time: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Unit rows (k, P) and log norms (k,) of neurons `rows` at a time (k,) within their present pieces."""
        times = np.broadcast_to(np.asarray(time, dtype=np.float64), rows.shape)
        out, log_norms = np.zeros((rows.size, self._directions.shape[1])), np.zeros(rows.size)
        for i, flow in enumerate(self.flows):
            here = np.flatnonzero(self._part[rows] == i)
            found, log_norms[here] = flow.inside(self._place[rows[here]], times[here])
            self._put(out, here, i, found)
        return self._joined(rows, out, log_norms)

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Unit rows (m, P) that neurons tend to, and their utilities (m,), once all events are passed."""
        rows = np.arange(self._part.size)
        out, utility = np.zeros(self._directions.shape), np.zeros(rows.size)
        for i, (part, flow) in enumerate(zip(self._parts, self.flows, strict=True)):
            found, utility[part.rows] = flow.ends()
            self._put(out, part.rows, i, found)
        # those that grow for ever leave behind what is across
        log_norms = np.where(self.fate == Fate.ALIGNS, np.inf, self._gathered([flow.log_norms for flow in self.flows]))
        out, log_size = self._joined(rows, out, log_norms)
        with np.errstate(invalid="ignore"):
            return out, utility * np.where(np.isfinite(log_size), np.exp(2.0 * (log_norms - log_size)), 1.0)

    def _put(self, out: FloatArray, where: IntArray, i: int, found: FloatArray) -> None:
        """Rows (k, p + 1) of part i into rows `where` (k,) of all parameters."""
        part, c = self._parts[i], self.axes.shape[1]
        out[np.ix_(where, part.inputs)] = found[:, :-1]
        out[where, -c:] = found[:, -1:] * part.axis

    def _joined(self, rows: IntArray, out: FloatArray, log_norms: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unit rows (k, P) of what moves, of these log norms (k,), with what is across the axes; and the log norms."""
        across = self._across[rows]
        if not across.any():
            return out, log_norms
        sizes, first = lengths(across), self._log_norms[rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            total = 0.5 * np.logaddexp(2.0 * log_norms, 2.0 * (np.log(sizes) + first))
            out = out * np.where(total < np.inf, np.exp(log_norms - total), 1.0)[:, None]
            out[:, -across.shape[1] :] += across * np.exp(first - total)[:, None]
        still = ~np.isfinite(first)
        out[still], total[still] = self._directions[rows[still]], first[still]
        return out, total

    def run(self, until: float = np.inf) -> None:
        """Pass all events up to a time."""
        for flow in self.flows:
            flow.run(until)

    def step(self, rows: IntArray) -> None:
        """Take neurons `rows` to the ends of their pieces, past the events there."""
        for i, flow in enumerate(self.flows):
            here = rows[self._part[rows] == i]
            if here.size:
                flow.step(self._place[here])


def has_exact_flow(problem: Problem) -> bool:
    """Whether predictions take the dormant phase of a problem as that of sharp kinks, in closed form.

    Where neurons are a sigma(w . x), sigma relu or leaky-relu, each perhaps without some of its parameters, and all
    residuals lie along one axis, as with one output, unless a width was given to the kinks.
    """
    return _network(problem) is not None


def exact_flow(
    problem: Problem,
    residual: Any,
    neurons: IntArray,
    directions: FloatArray,
    log_norms: FloatArray,
    *,
    origin: tuple[FloatArray, FloatArray] | None = None,
    noise: float = 0.0,
    contrary: bool = False,
    rounded: bool = False,
) -> DormantParts | None:
    """The flow of dormant neurons (m,) on a residual, as `problem.residual` returned it.

    None where it is not known, or takes more memory than steps do.

    rounded : whether neurons slide along kinks at the pace that they have beside those of the trainer.  The others are
    as of `DormantParts`.
    """
    base = _network(problem)
    if base is None or neurons.size == 0:
        return None
    axis = base.axis
    assert axis is not None
    c = base.weigh(residual) @ axis
    parts = []
    for rows, kept, pulled in _kinds(problem, neurons, axis):
        size = float(np.linalg.norm(pulled))
        walls = _walls(problem, base, kept, size * c)
        if rounded and base.kink > 0:
            sizes = np.linalg.norm(base.X[walls.sample][:, kept], axis=1)
            walls = replace(walls, layers=base.layer.reach / sizes)
        parts.append(Part(rows, np.flatnonzero(kept), pulled / size if size > 0 else axis, walls))
    if sum(part.rows.size * part.walls.sample.size for part in parts) > LARGEST:
        return None
    return DormantParts(parts, directions, log_norms, origin=origin, noise=noise, contrary=contrary)


def _network(problem: Problem) -> TwoLayer | None:
    restricted = problem.restriction()
    base = problem if restricted is None else restricted[0]
    if not isinstance(base, TwoLayer) or base.axis is None or not base.sharp_dormant:
        return None
    return base if base.activation.name in ("relu", "leaky-relu") else None


def _kinds(problem: Problem, neurons: IntArray, axis: FloatArray) -> Iterator[tuple[IntArray, BoolArray, FloatArray]]:
    """Rows (k,) of neurons (m,) that have the same weights, which inputs these have (d,), and what is left of the axis
    (c,); 0, and all inputs, where they are still: without any input weight, or without an output weight along it."""
    restricted, d = problem.restriction(), problem.n_params - axis.size
    if restricted is None:
        yield np.arange(neurons.size), np.ones(d, dtype=bool), axis
        return
    mask = restricted[1][neurons]
    still = ~(mask[:, :d].any(axis=1) & mask[:, d:].any(axis=1))
    mask[still] = np.arange(problem.n_params) < d
    patterns, owner = np.unique(mask, axis=0, return_inverse=True)
    for i, pattern in enumerate(patterns):
        yield np.flatnonzero(owner == i), pattern[:d], axis * pattern[d:]


def _walls(problem: Problem, base: TwoLayer, kept: BoolArray, c: FloatArray) -> Walls:
    """Those of the inputs that are kept (d,), for weighted residuals c (n,)."""
    X, found = base.X[:, kept], _ARRANGEMENTS.setdefault(problem, {})
    key = kept.tobytes()
    if key not in found:
        found[key] = Arrangement.of(X)
    return Walls.of(X, c, -float(base.activation.left), found[key])
