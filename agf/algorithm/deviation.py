"""How far a prediction may be from gradient flow at this alpha: error bars, from what each mode leaves out.

Algorithm 1 lets a drop be over before anything else happens. It is exact for neurons that do not share data. Where
neurons keep their directions, what it leaves out is known to first order (`lag`), but for neighbouring drops. Elsewhere
it has measures, all known while predicting: how long what has settled keeps moving (the slowest rate of the active
neurons), how much of the residual that motion carries, how near the drops before and after are, and how large the
neurons are that stay dormant. Mode "resolved" leaves out what neurons do to the residual before they join; its repeat
with other joining norms and tolerances measures that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agf.algorithm.crossings import TURN
from agf.algorithm.departures.infimum import CRITICAL
from agf.algorithm.lag import Lag
from agf.algorithm.saturation import later
from agf.arrays import FloatArray, IntArray
from agf.clock import Clock
from agf.contract.problem import Problem
from agf.records.settings import FINE_DEPTH
from agf.records.state import State
from agf.records.status import Status
from agf.records.table import those
from agf.results.curve import FLOOR
from agf.results.drop import Drop
from agf.results.staircase import Staircase
from agf.rounding import EPS, TIED, TINY
from agf.sphere import lengths

#: Error bar, relative, of a half-drop time up to which Algorithm 1 is taken to hold. Result: beyond it drops are
#: resolved in time; it is as far off as the default may be in the median on real tables, at 1e-2 so far off in many,
#: and at 1e-4 below what bars say of any drop, so that all would be resolved.
HOLDS = 1e-3
#: Output of a neighbour, over its own, when a drop is half-way, beyond which the two overlap. Derived: a smaller one
#: moves the drop by less than Algorithm 1 may be off.
_BESIDE_IT = HOLDS
#: Part of a drop that is still to come when the next is half-way, beyond which the two overlap. Derived: as much as the
#: level of a critical point may still lose, over its drop.
_STILL_TO_COME = CRITICAL
#: Fraction of the sum of the measures by which a drop is late. Result: of the bars; the measures bound what happens,
#: and this fraction holds in 95 of 100 drops (docs/accuracy.md); at 1 bars would be twice as wide as needed, at 0.05
#: most drops outside them.
_PART = 0.5
#: Fraction of a drop's own slow end by which it is late: only its second half counts for its half-drop time. Result: of
#: the bars, calibrated as `_PART` is.
_OWN = 0.3
#: Error of any half-drop time: tolerances, and what neurons do before they matter. Result: of the narrowest bars; at
#: 3e-3 no drop would hold (`HOLDS`), at 3e-5 they would be below what `TURN` leaves.
_LEAST = 3e-4
#: Factor of the conditioning of a drop resolved in time. Result: of its bar, calibrated on real tables
#: (docs/accuracy.md); at 0.2 drops would lie outside, at 20 bars would say nothing.
_SAFE = 2.0
#: What a drop of all of L(0) would be off by through the errors of its levels; a smaller one is by so much more.
#: Derived: no drop is looked for below what these make of one.
_FINEST = FLOOR
#: Pairs of drops that are looked at together. Cost: of calls, against that of memory.
_PAIRS = 1 << 16
#: Order of Hessians that are taken apart for their slowest rate. Limit: motion beyond it is taken to last until the
#: next drop, and the bar is wider.
_ORDER = 64
#: Log time to either side of a plateau at which the curve tells how certain its level is. Result: of the bar of a
#: level; at 0.5 neighbouring drops would count, at 5e-3 a plateau that slopes by a few percent would be certain.
_BESIDE = 0.05


@dataclass(frozen=True)
class _Leg:
    """One drop in flow time: when, how fast its neuron grew, what it moved, and how long that goes on.

    width : in which the newcomer grows by a factor e.  tail : one over the slowest rate of the active neurons.
    moved : change of the output of those active before, and of newcomers by turning, over that of the network.
    turned : the part of newcomers in it.
    share : output of the dormant neurons, and of those that join in another direction, over that of the newcomer.
    late : by how much a loss that is not quadratic has moved its middle (`saturation.later`), the size at which its
    neurons began, or left in an earlier drop, how far from their threshold those that turn have come to rest, and how
    long the active ones take from there to the middle of the drop.
    lag : by how much it is late for drops before it and for those that follow it (`lag.Lag`); None where neurons turn.
    """

    time: float
    width: float
    tail: float
    moved: float
    turned: float
    share: float
    late: float
    lag: float | None


@dataclass(frozen=True)
class _Known:
    """Output of a network, summed over its neurons (m,) with weights theta (m, P)."""

    neurons: IntArray
    theta: FloatArray
    output: FloatArray

    def of(self, neurons: IntArray, theta: FloatArray) -> bool:
        """Whether it is that of these."""
        if self.neurons.shape != neurons.shape:
            return False
        return not (np.count_nonzero(self.neurons != neurons) or np.count_nonzero(self.theta != theta))


@dataclass
class Deviation:
    """Measures of the drops of Algorithm 1, added as they come, and the bars they give.

    rates : those at which a settled state decays, where its phases know them (`Phases`); else its Hessian is asked.
    """

    problem: Problem
    clock: Clock
    rates: Callable[[State[Any]], FloatArray] | None = None
    legs: list[_Leg] = field(default_factory=list)
    _known: _Known | None = field(default=None, init=False)
    _lag: Lag = field(default_factory=Lag, init=False)
    _straight: bool = field(default=True, init=False)
    _began: FloatArray | None = field(default=None, init=False)
    _left: dict[int, float] = field(default_factory=dict, init=False)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def add(self, settled: State[Any], activated: State[Any], after: State[Any], drop: Drop) -> None:
        """A drop that led from a settled state by the end of a dormant phase to the next."""
        kappa, new = self.problem.degree, drop.neurons[drop.neurons < after.log_norms.size]
        # a mode in closed form is active once it has grown, and what was active has moved by then
        before = settled if activated.active[new].any() else activated
        size = max(after.log_norms[new].tolist(), default=-np.inf)
        largest = max(drop.utility.tolist(), default=0.0)
        width = np.exp((2 - kappa) * size) / (kappa * largest) if largest > 0 and math.isfinite(size) else np.inf
        rest = after.log_norms[~after.active]
        if new.size > 1:
            rest = np.append(rest, after.log_norms[_elsewhere(new, after)])
        share = np.exp(np.minimum(kappa * (rest - size), 0.0)).sum() if size > -np.inf else np.isfinite(rest).sum()
        active, began = after.active.nonzero()[0], before.active.nonzero()[0]
        theta, earlier = after.rows(active), before.rows(began)
        parts = self.problem.outputs(theta, active)
        gained = None if parts is None else self._gained(began, earlier, active, theta, parts)
        moved, turned, lag = 1.0 if began.size else 0.0, 0.0, None
        if parts is not None and gained is not None:
            moved, turned = self._moved(active, parts, gained, before, after)
            if self._straight and turned <= TIED and self._follows(new, active, before):
                lags = self._lag.add(self.problem, before, after, drop, active, parts, gained, float(share))
                lag = sum(map(abs, lags))
        elif new.size:  # no outputs tell: near its maximum a utility loses by turning what a cosine does
            turned = _turned_by(new, activated, after)
            moved = max(moved, turned)
        self._straight = lag is not None
        off = 0.0  # of the norm at which its newcomers rest from the threshold at which they are taken to have arrived
        if lag is None and new.size:
            off = abs(_together(after.log_norms[new]) - _together(activated.log_norms[new]))
        late = abs(later(self.problem, theta, active, new, 0.5 * (before.level + drop.level)))
        if self._began is None:
            self._began = settled.log_norms
        # it starts with weights: by half of this less than what its law (1 - r^kappa) r^(kappa - 1) gives it from r = 0
        grown = size - max(self._began[new].tolist(), default=-np.inf)
        late += kappa * float(width) * math.exp(-2.0 * max(grown, 0.0))
        late += 2.0 * float(width) * off if math.isfinite(off) else 0.0  # all of it: it grows there at its rate
        late += float(width) * max((self._left.pop(k, 0.0) for k in new.tolist()), default=0.0)
        if drop.collapsed.size and after.directions.shape[0] == self.problem.width:
            self._leave(drop.collapsed, after, float(width))
        slide = getattr(after.memory, "slide", 0.0)  # all of it: a true time later by it is so far off, relatively
        late += 2.0 * slide / (1.0 + slide / drop.half_time) if drop.half_time > 0 else 0.0
        tail = self._tail(active, theta, after)
        self.legs.append(_Leg(drop.time, float(width), tail, moved, turned, min(float(share), 1.0), late, lag))

    def _leave(self, neurons: IntArray, after: State[Any], width: float) -> None:
        """By how much the log norms of neurons that leave in a drop of this `width` are not known.

        They shrink by some e-fold before they let go of the others, at a time within the drop, and fall freely then.
        """
        active = after.active.nonzero()[0]
        residual = self.problem.residual(after.rows(active), active)
        utility = self.problem.utility(after.directions[neurons], neurons, residual)[0]
        for k, rate in zip(neurons.tolist(), (self.problem.degree * np.abs(utility)).tolist(), strict=True):
            self._left[k] = 1.0 + rate * width

    def _follows(self, new: IntArray, active: IntArray, before: State[Any]) -> bool:
        """Whether the measures of `Lag` are there: rows are neurons, and of few enough."""
        rows = before.directions.shape[0] == self.problem.width and 0 < active.size <= _ORDER
        return rows and new.size > 0 and self.problem.degree == 2 and self.problem.quadratic_loss

    def _gained(
        self, began: IntArray, earlier: FloatArray, active: IntArray, theta: FloatArray, parts: FloatArray
    ) -> FloatArray:
        """Change of the output of the network in a drop, (N,)."""
        last, output = self._known, parts.sum(axis=0)
        self._known = _Known(active, theta, output)
        if last is not None and last.of(began, earlier):  # nobody has moved since the last drop
            return output - last.output
        first = self.problem.outputs(earlier, began)
        assert first is not None
        return output - first.sum(axis=0)

    def _moved(
        self, active: IntArray, parts: FloatArray, gained: FloatArray, before: State[Any], after: State[Any]
    ) -> tuple[float, float]:
        """`moved` and `turned`, see `_Leg`, of a drop in which the output changed by `gained`."""
        change = _size(gained)
        if change <= 0:
            return 1.0, 0.0
        came = ~before.active[active]
        new, found = active[came], parts[came].sum(axis=0)
        turned = self._turned(new, found, before, after) if new.size else 0.0
        return min((_size(gained - found) + turned) / change, 1.0), min(turned / change, 1.0)

    def _turned(self, new: IntArray, found: FloatArray, before: State[Any], after: State[Any]) -> float:
        """Norm of what newcomers make of their output `found` by turning while they grow: none of it is along what they
        began with."""
        then = before.directions[new]
        if np.abs(after.directions[new] - then).max() <= EPS:
            return 0.0
        first = self.problem.outputs(then * np.exp(after.log_norms[new])[:, None], new)
        assert first is not None  # `_moved` has asked
        along = first.sum(axis=0)
        size = float(np.vdot(along, along))
        return _size(found - (float(np.vdot(along, found)) / size if size > 0 else 0.0) * along)

    def _tail(self, active: IntArray, theta: FloatArray, after: State[Any]) -> float:
        """See `_Leg`; inf where it is not known."""
        order = active.size * self.problem.n_params
        if not (0 < order <= _ORDER):
            return np.inf
        if self.rates is not None:
            rates = self.rates(after)
        else:
            matrix = self.problem.hessian(theta, active)
            if matrix is None or not np.isfinite(matrix).all():
                return np.inf
            rates = np.asarray(np.linalg.eigvalsh(matrix), dtype=np.float64)
        rates = rates[rates > TIED * max(float(rates[-1]), 0.0)]
        return 1.0 / float(rates[0]) if rates.size else np.inf

    def barred(self, drops: Sequence[Drop], start_level: float, falls_to: float | None = None) -> tuple[Drop, ...]:
        """The drops with their bars, and whether they overlap others; bars are inf where float64 has no flow times.

        falls_to : loss that bounds how far the last level goes on to fall, where it has no critical point.
        """
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            return self._barred(drops, start_level, falls_to)

    def _barred(self, drops: Sequence[Drop], start_level: float, falls_to: float | None) -> tuple[Drop, ...]:
        if not drops:
            return ()
        count = len(drops)  # an interrupt may leave one leg more
        halves = np.array([drop.half_time for drop in drops])
        measures = self._measures()
        rows = max(_PAIRS // len(self.legs), 1)
        parts = [_beside(measures, halves, slice(k, min(k + rows, count))) for k in range(0, count, rows)]
        slow, near, reach = np.concatenate(parts, axis=1)
        times, widths = measures[:2]
        after = np.full(count, np.inf)
        after[: times.size - 1] = (times[1:] - times[:-1])[:count]
        followed = after < np.inf
        moved, turned, share, late, tails, lags = measures[2:, :count]
        # what turns goes on from where the drop begins, so that all of its slow end counts
        own = (_OWN * (moved - turned) + turned) * np.minimum(tails, halves)
        # of second order is at most what is known to first order: it counts as the other measures do
        late = np.where(np.isnan(lags), _PART * (slow + own), (1.0 + _PART) * lags) + _PART * (late + near)
        # of a time of 0 there is no relative error: inf
        errors = _LEAST + np.divide(late, halves, out=np.zeros(count), where=late != 0)
        left = np.where(followed, moved * np.exp(-after / tails) + np.exp(-2.0 * after / widths[:count]), 0.0)
        levels = np.array([start_level, *[drop.level for drop in drops]])
        scale = start_level if start_level > 0 else np.inf
        certain = np.array([drop.predicted_decrease if drop.predicted_decrease > 0 else 0.0 for drop in drops]) / scale
        falls = np.abs(levels[:-1] - levels[1:]) / scale
        place, mixture = _between(after, widths, falls)
        bars = FINE_DEPTH + certain + np.where(followed, moved * falls * np.exp(-place / tails), 0.0) + mixture
        errors = np.where(np.isnan(lags), np.maximum(errors, _elsewhen(halves, levels, _PART * scale * bars)), errors)
        # where it is no plateau the curve falls least anywhere between the middles of two drops
        loose = np.array([not drop.critical for drop in drops[:-1]] + [False])
        bars = np.where(loose, np.maximum(bars, 0.5 * np.maximum(falls, np.append(falls[1:], 0.0))), bars)
        if falls_to is not None:
            bars[-1] = max(bars[-1], (levels[-1] - falls_to) / scale)
        mixed = (reach > _BESIDE_IT) | (share > _BESIDE_IT) | (left > _STILL_TO_COME)
        return tuple(
            drop.barred(_finite(error), _finite(bar), mix or drop.neurons.size > 1 or not drop.critical)
            for drop, error, bar, mix in zip(drops, errors.tolist(), bars.tolist(), mixed.tolist(), strict=True)
        )

    def _measures(self) -> FloatArray:
        """Times, widths, `moved`, `turned`, `share`, `late`, tails and lags, NaN for none, of the drops, (8, legs);
        see `_Leg`."""
        rows = [
            (
                leg.time,
                leg.width,
                leg.moved,
                leg.turned,
                leg.share,
                leg.late,
                leg.tail,
                np.nan if leg.lag is None else leg.lag,
            )
            for leg in self.legs
        ]
        out = np.array(rows).T
        out[6] = np.maximum(out[6], out[1])
        return out


def _beside(measures: FloatArray, halves: FloatArray, some: slice) -> FloatArray:
    """What others add to some drops: slow ends before, at `halves` (d,), widths of neighbours where they reach, and the
    farthest reach; (3, k).

    measures : of `Deviation._measures`.
    """
    times, widths, moved, _, share, _, tails, _ = measures
    wide = np.maximum(widths, widths[some, None])
    reach = np.exp(-2.0 * np.abs(times - times[some, None]) / wide)
    reach[:, some][np.diag_indices(some.stop - some.start)] = 0.0
    near = np.einsum("ij,ij->i", wide, reach) + (widths * share)[some]
    slow = np.tril(moved * np.minimum(tails, np.maximum(halves[some, None] - times, 0.0)), some.start - 1)
    return np.array([slow.sum(axis=1), near, reach.max(axis=1)])


def _elsewhen(halves: FloatArray, levels: FloatArray, bars: FloatArray) -> FloatArray:
    """Relative error of the times `halves` (d,) at which the loss is half-way between `levels` (d + 1,), where each
    after the first errs by one of `bars` (d,).

    A middle is half as far off as the level before it: that of a smaller drop may be where another drop is.
    """
    middles, off = 0.5 * (levels[:-1] + levels[1:]), 0.5 * np.append(0.0, bars[:-1])
    fallen, times = -np.minimum.accumulate(levels[1:]), np.append(halves, np.inf)
    early, late = (times[np.searchsorted(fallen, -at)] for at in (middles + off, middles - off))
    sooner = np.divide(halves, early, out=np.ones(halves.size), where=early > 0) - 1.0
    return np.maximum(sooner, 1.0 - halves / late)


def _between(after: FloatArray, widths: FloatArray, falls: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How long after each drop (d,) the loss falls least before the next, and what is left of it there with what the
    next has begun: of the growth x of its newcomer a drop leaves (1 - x)^2 of its fall."""
    place, mixture = after.copy(), np.zeros(falls.size)
    gap, fall, begun = after[:-1], falls[:-1], falls[1:]
    widths = np.minimum(widths[: falls.size], 1.0 / TINY)
    behind, ahead, logs = widths[:-1], widths[1:], 2.0 * np.log(widths) - np.log(np.maximum(falls, TINY))
    flattest = math.log(2.0) + logs[1:] - logs[:-1] + 2.0 * gap / ahead
    place[:-1] = np.minimum(np.maximum(flattest / (4.0 / behind + 2.0 / ahead), 0.0), gap)
    mixture[:-1] = fall * np.exp(-4.0 * place[:-1] / behind) + 2.0 * begun * np.exp(-2.0 * (gap - place[:-1]) / ahead)
    return place, mixture


def _elsewhere(neurons: IntArray, state: State[Any]) -> IntArray:
    """Those of neurons that do not point where the largest of them does: groups of their own, within one drop."""
    if neurons.size < 2:
        return neurons[:0]
    directions = state.directions[neurons].reshape(neurons.size, -1)
    return neurons[lengths(directions - directions[np.argmax(state.log_norms[neurons])]) >= TURN]


def _turned_by(neurons: IntArray, before: State[Any], after: State[Any]) -> float:
    """Largest 1 - cos of the angle by which some neurons have turned, at most 1."""
    change = lengths((after.directions[neurons] - before.directions[neurons]).reshape(neurons.size, -1))
    return min(0.5 * float(change.max()) ** 2, 1.0)


def _together(log_norms: FloatArray) -> float:
    """Log norm of neurons (m,) as one."""
    return 0.5 * float(np.logaddexp.reduce(2.0 * log_norms))


def _size(vector: FloatArray) -> float:
    """Euclidean norm of an array of any shape."""
    return math.sqrt(np.vdot(vector, vector))


def _finite(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _lately(stairs: Staircase, falling: FloatArray) -> float:
    """Loss, of a run that was cut and its losses `falling` (T,), lost in half of the time since the last half-drop: as
    much may be lost again."""
    if stairs.status not in (Status.MAX_TIME, Status.INTERRUPTED) or not stairs.drops:
        return 0.0
    times, half = stairs.curve_times, stairs.drops[-1].half_time
    return float(np.interp(times[-1] - 0.5 * (times[-1] - half), times, falling) - falling[-1])


def of_curve(
    stairs: Staircase, decades: float = 1.0, drift: float = 0.0, slipped: FloatArray | None = None
) -> Staircase:
    """A prediction resolved in time, with bars from its conditioning.

    Where the conditioning of a drop is not known, neither are its bars: they are NaN.

    decades : by which the tolerance of the repeat differs from that of the prediction, over the usual ones. The time at
    which a saddle is left goes as the logarithm of what errs there, so that conditioning does as well.
    slipped : what implicit steps before each drop (d,) may have added to its time, of it. A step that errs by so much
    puts off what moves at some rate by the time in which it moves as far; errors of one sign add up along a slow drift,
    where the repeat, of other steps, may meet the same time by chance.
    """
    times, losses, drops = stairs.curve_times, stairs.curve_losses, stairs.drops
    scale = stairs.start_level if stairs.start_level > 0 else 1.0
    falling, out, before = np.minimum.accumulate(losses), [], stairs.start_level
    unknown = np.isnan([drop.conditioning for drop in drops])
    over = stairs.status in (Status.FITTED, Status.ALL_ACTIVE, Status.NO_GROWTH)
    lately = _lately(stairs, falling)
    under_way = lately > 0.0 and lately > CRITICAL * (stairs.levels[-2] - stairs.levels[-1]) and not unknown[-1]
    drift = max(drift, lately)
    for k, drop in enumerate(drops):
        fall, before = max(before - drop.level, TINY * scale), drop.level
        slip = 0.0 if slipped is None else float(slipped[k])
        error = _LEAST + _SAFE * (drop.conditioning / decades + slip) + min(_FINEST * scale / fall, 1.0)
        # the middle, in log time, of where the curve is at the level to what any bar has: it may be there for long
        on = np.flatnonzero((np.abs(falling - drop.level) <= FINE_DEPTH * scale) & (times > 0))
        first, last = (on[0], on[-1]) if on.size else [int(np.argmax(falling <= drop.level))] * 2
        place = float(np.sqrt(times[first]) * np.sqrt(times[last]))
        if over and k == len(drops) - 1:
            place = math.inf  # nothing comes after it, however soon the curve ends
        beside = np.interp(place * np.exp([-_BESIDE, _BESIDE]), times, losses)
        bar = np.nan if unknown[k] else FINE_DEPTH + float(np.max(np.abs(beside - drop.level))) / scale
        if drift > 0 and k == len(drops) - 1:
            middles = drop.level + 0.5 * fall - np.array([0.0, 0.5 * drift])
            early, late = np.interp(-middles, -falling, times)
            error += float(late - early) / drop.half_time if late > early else 0.0
            bar += drift / scale
        bar = np.inf if np.isinf(drop.conditioning) else bar  # the repeat went elsewhere
        if under_way and k == len(drops) - 1:
            error = bar = np.inf
        out.append(replace(drop, error=error, level_error=bar))
    notes = stairs.notes
    if under_way:
        notes = (
            *notes,
            f"Drop {len(drops)} is not over at the end: where its middle and its level are is not known yet.",
        )
    if unknown.any() and stairs.settings.conditioning is not False:
        which = those("drop", np.flatnonzero(unknown) + 1)
        note = f"The repeat that measures error bars was not run to its end: none for {which}."
        notes = (*notes, note)
    return replace(stairs, drops=tuple(out), notes=notes)
