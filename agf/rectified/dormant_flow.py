"""Dormant (leaky) ReLU neurons on a frozen residual, exactly: in closed form from wall to wall.

Inside a cone D is constant. With u = sign(a) D/|D|, p = w . u and a' = |a|, the flow dw/dt = a D, da/dt = w . D moves
p and a' alone ([BF24] section 5.5, the half-angle law of [Min23] where neurons are balanced):

    p + a' = P exp(|D| t),    p - a' = M exp(-|D| t),    P M = -K,    K = |w - p u|^2 + a^2 - |w|^2 constant.

Of P and M the one that cancels is computed from the other and K, and a^2 - |w|^2, which the flow conserves, is carried
as it was at the start: so signs of a are kept through any shrinking. At a wall whose two sides push the same way the
neuron crosses; where both push towards it, it slides along, on the field of least norm that slopes between the two give
(Filippov); a wall at which both push away is left at once to the side that relu'(0) = 0 makes inactive. A neuron
without an active sample stays where it is for ever (regular solutions). One whose w comes to 0, or to the subspace
that no sample sees, where all walls meet, passes straight through if the field beyond carries it on, as every step of
gradient descent does, and stays there for ever if not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.rectified.walls import Walls
from agf.rounding import EPS, SUM, UNIT

#: Weights are balanced, and directions exactly along the field, to this. Derived: rounding of a unit vector.
_ROUNDING = 4 * EPS
#: Fraction of w across the field, on a ray, that is rounding. Derived: a difference of squares loses half the digits.
_RAY = EPS**0.5
#: How far beyond the point where all walls meet a neuron is put that passes it, over its norm. Derived: nothing in the
#: field has a length there; far above rounding, and its error is as small.
_BEYOND = 100 * UNIT
#: Times that a neuron passes it, at most. Derived: one that comes back within no time runs in a cycle, and is held
#: there; two returns prove it.
_PASSES = 3
#: Pivots after which a slide on several walls is left to bounded least squares. Cost: both end at the same point.
_PIVOTS = 60


_COLUMNS = ("neuron", "sample", "kind", "time")


class Event(IntEnum):
    """What happened to a neuron."""

    GAIN = 1  #: a sample became active
    LOSS = 2  #: a sample became inactive
    SLIDE = 3  #: the neuron began to slide along the wall of a sample
    FLIP = 4  #: its output weight changed sign
    VANISH = 5  #: its input weights reached 0, or what no sample sees, and stay there
    PASS = 6  #: they passed through it


class Fate(IntEnum):
    """What a neuron does after its last event."""

    ALIGNS = 0  #: turns to the field of its cone and grows for ever
    OPPOSED = 1  #: stands exactly against the field and shrinks for ever
    DEAD = 2  #: no sample is active: stays as it is
    FLAT = 3  #: samples are active, but the field is zero: stays as it is
    VANISHED = 4  #: input weights 0: stays as it is
    TURNING = 5  #: had events still to come when it was stopped


@dataclass(frozen=True)
class Events:
    """Columns of a list of events; those of one neuron are in the order of time.

    Attributes
    ----------
    neuron, sample, kind : numpy.ndarray, shape (e,)
        Row of the neuron; sample whose wall it met, -1 for FLIP and VANISH; an `Event`.
    time : numpy.ndarray, shape (e,)
        Flow time since the start of the phase.
    """

    neuron: IntArray
    sample: IntArray
    kind: IntArray
    time: FloatArray

    @classmethod
    def join(cls, parts: list[Events]) -> Events:
        """All of them, one list after the other."""
        empty = np.zeros(0, dtype=np.int64)
        parts = [cls(empty, empty, empty, np.zeros(0)), *parts]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS))

    def by_neuron(self) -> Events:
        """The same, neuron by neuron."""
        narrow = self.neuron.astype(np.int16) if self.neuron.max(initial=0) < 2**15 else self.neuron  # a radix sort
        order = np.argsort(narrow, kind="stable")
        return Events(*(getattr(self, name)[order] for name in _COLUMNS))


class DormantFlow:
    """The neurons, each at the start of its present piece of the flow.

    Attributes
    ----------
    w, a : numpy.ndarray, shape (m, d) and (m,)
        Input and output weights over exp(log_norms): |w|^2 + a^2 = 1.
    log_norms : numpy.ndarray, shape (m,)
        Natural log of the norms.
    time : numpy.ndarray, shape (m,)
        Flow time at which the piece began.
    until : numpy.ndarray, shape (m,)
        Flow time of the event that ends it, inf where none does.
    fate : numpy.ndarray, shape (m,)
        A `Fate` each, TURNING where an event is to come.
    sides : numpy.ndarray, shape (m, N)
        Side of each wall, 1 or -1, and 0 where the neuron slides along it.
    shares : numpy.ndarray, shape (m, N)
        What takes the place of the side where a neuron slides, between -1 and 1; else 0.
    D : numpy.ndarray, shape (m, d)
        The field: middle + (sides + shares) @ halves of `Walls`.
    """

    def __init__(
        self,
        walls: Walls,
        directions: FloatArray,
        log_norms: FloatArray,
        *,
        balance: tuple[FloatArray, FloatArray] | None = None,
        noise: float = 0.0,
    ) -> None:
        """Neurons (w, a) of these unit rows (m, d + 1) and log norms (m,).

        balance : sign and log size of a^2 - |w|^2, (m,) each, as it was at the very start; by default that of the rows,
        exactly 0 where it is rounding.  noise : a field |D| up to this counts as zero.
        """
        self.walls = walls
        self._least = max(noise, SUM * walls.scale)
        #: Orthonormal rows (r, d) that span the inputs.
        self._span = np.linalg.svd(walls.normals, full_matrices=False)[2][: walls.rank]
        d = walls.normals.shape[1]
        self.w, self.a = directions[:, :d].copy(), directions[:, d].copy()
        self.log_norms = log_norms.copy()
        self.balance_sign, self.log_balance = balance_of(directions, log_norms) if balance is None else balance
        m = self.a.size
        self.time, self.until = np.zeros(m), np.full(m, np.inf)
        self.fate = np.full(m, Fate.TURNING, dtype=np.int64)
        self.sides = walls.sides(self.w)
        self.shares = np.zeros(self.sides.shape)
        self._passed = np.zeros(m, dtype=np.int64)
        self._slides, self._ties = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=bool)
        self.D = walls.middle + self.sides @ walls.halves
        self._u, self._across = np.zeros((m, d)), np.zeros((m, d))
        self._speed, self._p, self._stop = np.zeros(m), np.zeros(m), np.zeros(m)
        self._plus, self._minus, self._k = np.zeros(m), np.zeros(m), np.zeros(m)
        self._event, self._wall = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
        rows = np.arange(m)
        dead = ~np.isfinite(log_norms) | ~self.w.any(axis=1)
        self.fate[dead] = Fate.VANISHED
        self._aim(rows[~dead])

    # -- the present piece ------------------------------------------------------------------------------------

    def _aim(self, rows: IntArray) -> None:
        """Closed form of the piece that begins where rows are, and the event that ends it."""
        walls, w, a = self.walls, self.w[rows], self.a[rows]
        D = self.D[rows]
        speed = np.sqrt(np.einsum("ij,ij->i", D, D))
        lengths = np.sqrt(np.einsum("ij,ij->i", w, w))
        rests = speed <= self._least
        self.D[rows[rests]] = 0.0
        # without an output weight, and across the field: a saddle of the utility
        rests |= (a == 0) & (np.abs(np.einsum("ij,ij->i", w, D)) <= _ROUNDING * lengths * speed)
        if rests.any():
            still = rows[rests]
            self._speed[still], self.until[still] = 0.0, np.inf
            self.fate[still] = np.where(walls.active(self.sides[still]), Fate.FLAT, Fate.DEAD)
            if not walls.dies:
                self.fate[still] = Fate.FLAT
            self._bury(still[self.fate[still] == Fate.DEAD])
            rows, w, a, D = rows[~rests], w[~rests], a[~rests], D[~rests]
            speed, lengths = speed[~rests], lengths[~rests]
        if rows.size == 0:
            return
        u = D / speed[:, None]
        p = np.einsum("ij,ij->i", w, u)
        sign = np.where(a != 0, np.sign(a), np.where(p < 0, -1.0, 1.0))
        u *= sign[:, None]
        p *= sign
        across = w - p[:, None] * u
        seen = (across @ self._span.T) @ self._span  # by the samples
        square = np.einsum("ij,ij->i", seen, seen)
        along = square <= (_ROUNDING * lengths) ** 2
        # what it slides along leaves a ray, w itself, unless walls depend on each other
        along |= (self._slides[rows] >= walls.rank - 1) & (square <= (_RAY * lengths) ** 2)
        across[along] -= seen[along]
        if walls.rank == walls.normals.shape[1]:
            across[along] = 0.0
        square = np.einsum("ij,ij->i", across, across)
        balance = self.balance_sign[rows] * np.exp(self.log_balance[rows] - 2.0 * self.log_norms[rows])
        k = square + balance
        # |a|: that of the state where the sum cancels
        size = np.where(k < 0, np.abs(a), np.sqrt(np.maximum(p * p + k, 0.0)))
        ahead = p >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            plus = np.where(ahead, p + size, k / (size - p))
            minus = np.where(ahead, -k / (p + size), p - size)
        # -- walls ahead: w . n changes by (change of p) u . n
        sides = self.sides[rows]
        heights = w @ walls.normals.T
        heights *= sides
        np.maximum(heights, 0.0, out=heights)
        closing = u @ walls.normals.T
        closing *= sides
        np.negative(closing, out=closing)
        distance = np.full(heights.shape, np.inf)
        np.divide(heights, closing, out=distance, where=closing > UNIT)
        wall, step = np.zeros(rows.size, dtype=np.int64), np.full(rows.size, np.inf)
        if walls.sample.size:
            wall = np.argmin(distance, axis=1)
            step = distance[np.arange(rows.size), wall]
            self._ties[rows] = (distance <= (step * (1.0 + UNIT) + UNIT)[:, None]).sum(axis=1) > 1
        event = np.where(np.isfinite(step), Event.SLIDE, 0)  # or a crossing: decided there
        # -- or the output weight passes through 0, or the input weights do
        back = ~ahead & (k < 0)
        turn = np.where(back, -p - np.sqrt(np.maximum(-k, 0.0)), np.inf)
        flips = back & (turn <= step)
        step, event = np.where(flips, turn, step), np.where(flips, Event.FLIP, event)
        against = ~ahead & along & ((walls.rank > 1) | (square == 0.0))  # beside the origin one wall is as any other
        ends = against & (step >= -p * (1.0 - 1e-12) - UNIT * lengths)
        vanish, never = ends & (k > 0), ends & (k == 0)
        step = np.where(vanish, -p, np.where(never, np.inf, step))
        event = np.where(vanish, Event.VANISH, np.where(never, 0, event))
        stop = p + step
        with np.errstate(divide="ignore", invalid="ignore"):
            end = np.sqrt(np.maximum(stop * stop + k, 0.0))
            end = np.where(flips, 0.0, end)
            later = np.log((stop + end) / plus)  # where the end is ahead
            sooner = np.log(minus / (stop - end))
        span = np.where(event == 0, np.inf, np.where(stop >= 0, later, sooner))
        self._u[rows], self._across[rows], self._speed[rows], self._p[rows] = u, across, speed, p
        self._plus[rows], self._minus[rows], self._k[rows], self._stop[rows] = plus, minus, k, stop
        self._event[rows], self._wall[rows] = event, wall
        self.until[rows] = self.time[rows] + np.maximum(span, 0.0) / speed
        opposed = against & (k == 0) & (event == 0)
        self.fate[rows] = np.where(event != 0, Fate.TURNING, np.where(opposed, Fate.OPPOSED, Fate.ALIGNS))

    def _bury(self, rows: IntArray) -> None:
        """Put dead neurons that stand on walls just beyond them: rounding must not bring them back to life."""
        w = self.w[rows]
        lengths = np.sqrt(np.einsum("ij,ij->i", w, w))[:, None]
        heights = (w @ self.walls.normals.T) * self.walls.inactive
        beside = (heights < 0) & (heights >= -UNIT * lengths)  # on the active side, by rounding
        self.w[rows] += 2.0 * UNIT * lengths * ((beside * self.walls.inactive) @ self.walls.normals)

    def inside(self, rows: IntArray, time: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Unit rows (k, d + 1) and log norms (k,) of neurons `rows` at a time (k,) within their present pieces."""
        span = self._speed[rows] * (time - self.time[rows])
        moving = span > 0
        out = np.column_stack([self.w[rows], self.a[rows]])
        log_norms = self.log_norms[rows].copy()
        if moving.any():
            some, span = rows[moving], span[moving]
            across = self._across[some]
            with np.errstate(divide="ignore"):
                grown = np.log(np.abs(self._plus[some])) + span
                shrunk = np.log(np.abs(self._minus[some])) - span
                frozen = np.log(np.sqrt(np.einsum("ij,ij->i", across, across)))
            top = np.maximum(np.maximum(grown, shrunk), frozen)
            plus = np.sign(self._plus[some]) * np.exp(grown - top)
            minus = np.sign(self._minus[some]) * np.exp(shrunk - top)
            w = across * np.exp(-top)[:, None] + (0.5 * (plus + minus))[:, None] * self._u[some]
            a = self._sign(some) * 0.5 * (plus - minus)
            out[moving], norms = _unit(w, a)
            log_norms[moving] += top + np.log(norms)
        return out, log_norms

    def _sign(self, rows: IntArray) -> FloatArray:
        """Sign of the output weight during the present piece."""
        field = np.einsum("ij,ij->i", self._u[rows], self.D[rows])
        return np.where(field < 0, -1.0, 1.0)

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Unit rows (m, d + 1) that neurons tend to, and their utilities (m,), once all events are passed."""
        out = np.column_stack([self.w, self.a])
        grows = np.flatnonzero(self.fate == Fate.ALIGNS)
        out[grows] = np.sqrt(0.5) * np.column_stack([self._u[grows], self._sign(grows)])
        return out, out[:, -1] * np.einsum("ij,ij->i", out[:, :-1], self.D)

    # -- events -----------------------------------------------------------------------------------------------

    def run(self, until: float = np.inf, *, most: int | None = None) -> Events:
        """Pass all events up to a time, and return them; pieces that end later stay the present ones.

        most : events of a neuron beyond which it is left as it is, TURNING; never met but where walls meet in more
        planes than their number allows, 20 a wall unless given.
        """
        parts = []
        rounds = 20 * (self.sides.shape[1] + 1) if most is None else most
        rows = np.flatnonzero(self.until <= until)
        for _ in range(rounds):
            rows = rows[np.isfinite(self.until[rows]) & (self.until[rows] <= until)]
            if rows.size == 0:
                break
            parts.append(self.step(rows))
        return Events.join(parts).by_neuron()

    def step(self, rows: IntArray) -> Events:
        """Take neurons `rows` to the ends of their pieces, past the events there."""
        w = self._across[rows] + self._stop[rows][:, None] * self._u[rows]
        size = np.sqrt(np.maximum(self._stop[rows] ** 2 + self._k[rows], 0.0))
        event, wall = self._event[rows], self._wall[rows]
        size[event == Event.FLIP] = 0.0
        sign = self._sign(rows)
        unit, norms = _unit(w, sign * size)
        self.w[rows], self.a[rows] = unit[:, :-1], unit[:, -1]
        self.log_norms[rows] += np.log(norms)
        self.time[rows] = self.until[rows]
        vanish = event == Event.VANISH
        passes, through = self._through(rows[vanish])
        parts = [through]
        vanish[np.flatnonzero(vanish)[passes]] = False
        flips = rows[event == Event.FLIP]
        parts.append(self._flip(flips))
        meets = event == Event.SLIDE
        parts.append(self._meet(rows[meets], wall[meets], sign[meets]))
        self._aim(rows[~vanish])
        return Events.join(parts)

    def _events(self, rows: IntArray, sample: IntArray, kind: IntArray) -> Events:
        return Events(rows, sample, kind, self.time[rows])

    def _through(self, rows: IntArray) -> tuple[BoolArray, Events]:
        """Neurons that came straight to where all walls meet: which of them pass, put just beyond, and their events.

        One stays where the field beyond holds it on the same line and leads back, or nothing is active there. What it
        meets beyond takes no time, as nothing there has a length; one that comes back again and again stays.
        """
        if rows.size == 0:
            return np.zeros(0, dtype=bool), Events.join([])
        walls, along = self.walls, np.sign(self._u[rows] @ self.walls.normals.T)
        held = self.sides[rows] == 0  # along walls that hold the ray, it comes and goes
        sides = np.where(held, 0.0, np.where(along == 0, self.sides[rows], along))
        D, shares = walls.middle + sides @ walls.halves, np.zeros(sides.shape)
        for i in np.flatnonzero(held.any(axis=1)):
            which = np.flatnonzero(held[i])
            shares[i, which] = least_norm(D[i : i + 1], walls.halves[which][None])[0]
            D[i] += shares[i] @ walls.halves
            free = which[np.abs(shares[i, which]) >= 1.0]
            sides[i, free], shares[i, free] = np.sign(shares[i, free]), 0.0
        onwards = self._sign(rows) * np.einsum("ij,ij->i", D, self._u[rows])
        aside = np.linalg.norm(D - (self._sign(rows) * onwards)[:, None] * self._u[rows], axis=1)
        self._passed[rows] += 1
        passes = (onwards > self._least) | (aside > self._least)
        unseen = self.w[rows] - (self.w[rows] @ self._span.T) @ self._span
        self.w[rows] = np.where(np.linalg.norm(unseen, axis=1)[:, None] > UNIT, unseen, 0.0)
        # what no sample sees is left, and they are dead beyond
        passes |= self.w[rows].any(axis=1) & ~walls.active(sides) & (np.abs(onwards) <= self._least)
        passes &= self._passed[rows] <= _PASSES
        over, gone = rows[passes], rows[~passes]
        self.w[over] += _BEYOND * self._u[over]
        self.sides[over], self.shares[over], self.D[over] = sides[passes], shares[passes], D[passes]
        self._slides[over] = (sides[passes] == 0).sum(axis=1)
        self.fate[gone], self.until[gone], self._speed[gone] = Fate.VANISHED, np.inf, 0.0
        return passes, Events.join(
            [
                self._events(over, np.full(over.size, -1), np.full(over.size, Event.PASS)),
                self._events(gone, np.full(gone.size, -1), np.full(gone.size, Event.VANISH)),
            ]
        )

    def _flip(self, rows: IntArray) -> Events:
        """Past a = 0: a neuron that slid is pushed away from its walls, and leaves them to the inactive side."""
        parts = [self._events(rows, np.full(rows.size, -1), np.full(rows.size, Event.FLIP))]
        slid = rows[self._slides[rows] > 0]
        if slid.size:
            i, wall = np.nonzero(self.sides[slid] == 0)
            side = self.walls.inactive[wall]
            self.sides[slid[i], wall] = side
            parts.append(self._events(slid[i], self.walls.sample[wall], self._crossing(wall, side)))
            self.shares[slid], self._slides[slid] = 0.0, 0
            self.D[slid] = self.walls.middle + self.sides[slid] @ self.walls.halves
        return Events.join(parts)

    def _crossing(self, wall: IntArray, side: FloatArray) -> IntArray:
        """GAIN or LOSS of a wall's first sample by a neuron that comes to this side."""
        orient = self.walls.orient[self.walls.sample[wall]]
        return np.where(side * orient > 0, Event.GAIN, Event.LOSS)

    def _meet(self, rows: IntArray, wall: IntArray, sign: FloatArray) -> Events:
        """Cross the wall, or slide along it."""
        if rows.size == 0:
            return self._events(rows, wall, wall)
        walls = self.walls
        side = self.sides[rows, wall]
        normals = walls.normals[wall]
        bends = walls.bends[wall]
        pushed = side * sign * np.einsum("ij,ij->i", self.D[rows], normals)  # negative: towards the wall
        beyond = pushed - 2.0 * sign * bends  # the same on the other side
        crosses = beyond < -SUM * walls.scale
        alone = (self._slides[rows] == 0) & ~self._ties[rows]
        parts = []
        simple = alone & crosses
        over = rows[simple]
        self.sides[over, wall[simple]] *= -1.0
        self.D[over] = walls.middle + self.sides[over] @ walls.halves
        parts.append(self._events(over, walls.sample[wall[simple]], self._crossing(wall[simple], -side[simple])))
        slides = alone & ~crosses
        on = rows[slides]
        normal = normals[slides]
        pull = np.einsum("ij,ij->i", self.D[on], normal)
        self.shares[on, wall[slides]] = side[slides] - pull / bends[slides]
        self.sides[on, wall[slides]], self._slides[on] = 0.0, 1
        self.D[on] -= pull[:, None] * normal
        self.w[on] -= np.einsum("ij,ij->i", self.w[on], normal)[:, None] * normal
        parts.append(self._events(on, walls.sample[wall[slides]], np.full(on.size, Event.SLIDE)))
        rest = ~alone
        if rest.any():
            parts.append(self._corner(rows[rest], wall[rest], sign[rest]))
        return Events.join(parts)

    def _corner(self, rows: IntArray, wall: IntArray, sign: FloatArray) -> Events:
        """Several walls at once: those it slides along, the one it meets, and others that pass through the same point.

        Walls that attract may hold it, on the field of least norm; one that repels on its far side is crossed.
        """
        walls = self.walls
        index = np.arange(rows.size)
        sides = self.sides[rows]
        slid = sides == 0
        attracts = sign[:, None] * walls.bends < -SUM * walls.scale
        held = slid
        if self._ties[rows].any():
            held = slid | ((np.abs(self.w[rows] @ walls.normals.T) <= UNIT) & attracts)
        before = np.where(held, sides, 0.0)  # of those that may hold it, or 0 where it slid
        crossed = ~attracts[index, wall]
        met = np.where(crossed, sides[index, wall], 0.0)
        held[index, wall] = ~crossed
        before[index, wall] = np.where(crossed, 0.0, sides[index, wall])
        sides[index[crossed], wall[crossed]] *= -1.0
        sides[held] = 0.0
        base = walls.middle + sides @ walls.halves
        counts = held.sum(axis=1)
        shares = np.zeros(sides.shape)
        D = base
        for count in np.unique(counts[counts > 0]):
            some = np.flatnonzero(counts == count)
            which = np.nonzero(held[some])[1].reshape(some.size, count)
            halves = walls.halves[which]
            found = least_norm(base[some], halves)
            shares[some[:, None], which] = found
            D[some] += np.einsum("mk,mkd->md", found, halves)
            new = ~crossed[some]  # onto the walls, from rounding beside them
            if new.any():
                normals, w = walls.normals[which[new]], self.w[rows[some[new]]]
                back = normals.transpose(0, 2, 1) if count == 1 else np.linalg.pinv(normals)
                self.w[rows[some[new]]] -= np.einsum("mdk,mke,me->md", back, normals, w)
        i, k = np.nonzero(held)
        share, was = shares[i, k], before[i, k]
        free = np.abs(share) >= 1.0
        sides[i[free], k[free]] = np.sign(share[free])
        shares[i[free], k[free]] = 0.0
        self.sides[rows], self.shares[rows], self.D[rows] = sides, shares, D
        self._slides[rows] = np.bincount(i[~free], minlength=rows.size)
        # -- what changed: the wall that was crossed; walls that no longer hold; walls that begin to
        over = np.flatnonzero(crossed)
        left = free & (np.sign(share) != was)
        begun = ~free & (was != 0)
        return Events.join(
            [
                self._events(rows[over], walls.sample[wall[over]], self._crossing(wall[over], -met[over])),
                self._events(rows[i[left]], walls.sample[k[left]], self._crossing(k[left], np.sign(share[left]))),
                self._events(rows[i[begun]], walls.sample[k[begun]], np.full(int(begun.sum()), Event.SLIDE)),
            ]
        )


def least_norm(base: FloatArray, halves: FloatArray) -> FloatArray:
    """Shares s (m, k) in [-1, 1] that make base + sum_i s_i halves_i shortest; base (m, d), halves (m, k, d).

    Principal pivoting by least index, finite for independent halves; bounded least squares for the others. A share that
    is at a bound is exactly that.
    """
    m, k = halves.shape[:2]
    gram = halves @ halves.transpose(0, 2, 1)
    pull = np.einsum("mkd,md->mk", halves, base)
    scale = np.einsum("mkk->mk", gram)
    if k == 1:
        return np.clip(-pull / scale, -1.0, 1.0)
    bound = np.zeros((m, k))  # -1 or 1 where at a bound, 0 where free
    shares = np.zeros((m, k))
    todo = np.arange(m)
    eye = np.eye(k)
    for _ in range(_PIVOTS):
        g, b, at = gram[todo], pull[todo], bound[todo]
        free = (at == 0)[:, :, None]
        matrix = np.where(free, g, eye)
        right = np.where(at == 0, -b, at)
        try:
            s = np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            break
        slope = np.einsum("mij,mj->mi", g, s) + b
        slack = SUM * (scale[todo] + np.abs(b))
        wrong = np.where(at == 0, np.abs(s) > 1.0 + SUM, at * slope > slack)
        shares[todo] = s
        bad = wrong.any(axis=1)
        if not bad.any():
            todo = todo[:0]
            break
        todo, first = todo[bad], np.argmax(wrong[bad], axis=1)
        j = np.arange(todo.size)
        moved = np.where(bound[todo, first] == 0, np.sign(s[bad][j, first]), 0.0)
        bound[todo, first] = moved
    for i in todo:
        shares[i] = _bounded(base[i], halves[i])
    return shares


def _bounded(base: FloatArray, halves: FloatArray) -> FloatArray:
    from scipy.optimize import lsq_linear

    found = lsq_linear(halves.T, -base, (-1.0, 1.0), method="bvls", tol=1e-14)
    return np.where(np.abs(found.x) > 1.0 - 1e-9, np.sign(found.x), found.x)


def balance_of(directions: FloatArray, log_norms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sign and natural log of the size of a^2 - |w|^2, (m,) each; 0 and -inf where that is rounding."""
    size = np.sqrt(np.einsum("ij,ij->i", directions[:, :-1], directions[:, :-1]))
    a = np.abs(directions[:, -1])
    gap = (a - size) * (a + size)
    gap[np.abs(gap) <= 10 * _ROUNDING] = 0.0
    with np.errstate(divide="ignore"):
        return np.sign(gap), np.log(np.abs(gap)) + 2.0 * np.where(np.isfinite(log_norms), log_norms, 0.0)


def _unit(w: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows (w, a) at unit norm (m, d + 1), and their norms."""
    rows = np.column_stack([w, a])
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return rows / norms[:, None], norms
