"""Dormant (leaky) ReLU neurons on a frozen residual, exactly: in closed form from wall to wall.

Inside a cone D is constant, and a neuron moves in closed form (`pieces`). a^2 - |w|^2, which the flow conserves, is
carried as it was at the start: so signs of a are kept through any shrinking. At a wall it crosses or slides along
(`sides`). A neuron without an active sample stays where it is for ever (regular solutions). One whose w comes to 0, or
to the subspace that no sample sees, where all walls meet, passes straight through if the field beyond carries it on, as
every step of gradient descent does, and stays there for ever if not.
"""

from __future__ import annotations

import numpy as np

from agf import sphere
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.coordinates.balance import Balance
from agf.coordinates.vanishing import away
from agf.rectified.events import Event, Events, Fate
from agf.rectified.pieces import Pieces
from agf.rectified.sides import Sides
from agf.rectified.walls import Walls
from agf.rounding import EPS, SUM, UNIT

#: Directions are exactly along the field to this. Derived: rounding of a unit vector.
_ROUNDING = 4 * EPS
#: Fraction of w across the field, on a ray, that is rounding. Derived: a difference of squares loses half the digits.
_RAY = EPS**0.5
#: How far beyond the point where all walls meet a neuron is put that passes it, over its norm. Derived: nothing in the
#: field has a length there; far above rounding, and its error is as small.
_BEYOND = 100 * UNIT
#: Times that a neuron passes it on straight ways. Derived: one that comes back within no time runs in a cycle, which
#: two returns prove, and which steps of descent leave where some directions lead away.
_PASSES = 3


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
    at : Sides
        Where they are to the walls, and their fields.
    pieces : Pieces
        The present ones.
    """

    def __init__(
        self,
        walls: Walls,
        directions: FloatArray,
        log_norms: FloatArray,
        *,
        balance: Balance | None = None,
        noise: float = 0.0,
        contrary: bool = False,
    ) -> None:
        """Neurons (w, a) of these unit rows (m, d + 1) and log norms (m,).

        balance : a^2 - |w|^2 as it was at the very start; by default that of the rows.  noise : a
        field |D| up to this counts as zero.  contrary : see `Sides`.
        """
        self.walls = walls
        self._least = max(noise, SUM * walls.scale)
        #: Orthonormal rows (r, d) that span the inputs.
        self._span = np.linalg.svd(walls.normals, full_matrices=False)[2][: walls.rank]
        m, d = directions.shape[0], walls.normals.shape[1]
        self._contrary = contrary
        self.w, self.a = directions[:, :d].copy(), directions[:, d].copy()
        self.log_norms = log_norms.copy()
        self._balance = Balance.of(directions, log_norms, d) if balance is None else balance
        self.time, self.until = np.zeros(m), np.full(m, np.inf)
        self.fate = np.full(m, Fate.TURNING, dtype=np.int64)
        self.at, self.pieces = Sides(walls, self.w, contrary), Pieces(m, d)
        self._passed, self._pace = np.zeros(m, dtype=np.int64), np.ones(m)
        dead = ~np.isfinite(log_norms) | ~self.w.any(axis=1)
        self.fate[dead] = Fate.VANISHED
        self._aim(np.flatnonzero(~dead))

    @property
    def D(self) -> FloatArray:
        """Their fields, (m, d), as fast as they move."""
        return self.at.D if self.walls.layers is None else self.at.D * self._pace[:, None]

    @property
    def forked(self) -> BoolArray:
        """Which have passed a fork, (m,)."""
        return self.at.forked

    @property
    def most(self) -> int:
        """Events of a neuron beyond which it is left as it is: never met but where walls meet in more planes than
        their number allows."""
        return 20 * (self.at.sides.shape[1] + 1)

    def inside(self, rows: IntArray, time: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Unit rows (k, d + 1) and log norms (k,) of neurons `rows` at a time (k,) within their present pieces."""
        span = self.pieces.speed[rows] * (time - self.time[rows])
        moving = span > 0
        out = np.column_stack([self.w[rows], self.a[rows]])
        log_norms = self.log_norms[rows].copy()
        if moving.any():
            w, a, top = self.pieces.after(rows[moving], span[moving])
            out[moving], norms = _unit(w, a)
            log_norms[moving] += top + np.log(norms)
        return out, log_norms

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Unit rows (m, d + 1) that neurons tend to, and their utilities (m,), once all events are passed."""
        out = np.column_stack([self.w, self.a])
        grows = np.flatnonzero(self.fate == Fate.ALIGNS)
        out[grows] = np.sqrt(0.5) * np.column_stack([self.pieces.u[grows], self.pieces.sign[grows]])
        return out, out[:, -1] * np.einsum("ij,ij->i", out[:, :-1], self.D)

    def run(self, until: float = np.inf, *, most: int | None = None) -> Events:
        """Pass all events up to a time, and return them; pieces that end later stay the present ones.

        most : events of a neuron beyond which it is left as it is, TURNING; `most` of the flow unless given.
        """
        parts = []
        rounds = self.most if most is None else most
        rows = np.flatnonzero(self.until <= until)
        for _ in range(rounds):
            rows = rows[np.isfinite(self.until[rows]) & (self.until[rows] <= until)]
            if rows.size == 0:
                break
            parts.append(self.step(rows))
        return Events.join(parts).by_neuron()

    def step(self, rows: IntArray) -> Events:
        """Take neurons `rows` to the ends of their pieces, past the events there."""
        pieces = self.pieces
        event, wall, sign = pieces.event[rows], pieces.wall[rows], pieces.sign[rows]
        w, size = pieces.at(rows, pieces.stop[rows])
        size[event == Event.FLIP] = 0.0
        unit, norms = _unit(w, sign * size)
        self.w[rows], self.a[rows] = unit[:, :-1], unit[:, -1]
        self.log_norms[rows] += np.log(norms)
        self.time[rows] = self.until[rows]
        vanish = event == Event.VANISH
        passes, through = self._through(rows[vanish])
        vanish[np.flatnonzero(vanish)[passes]] = False
        flips, meets = rows[event == Event.FLIP], event == Event.SLIDE
        # past a = 0 a neuron that slid is pushed away from its walls
        parts = [through, self._happens(flips, Event.FLIP), self.at.leave(flips, self.time)]
        parts.append(self.at.meet(rows[meets], wall[meets], sign[meets], self.w, self.time))
        self._aim(rows[~vanish])
        return Events.join(parts)

    def _happens(self, rows: IntArray, event: Event) -> Events:
        """Events without a sample."""
        return Events(rows, np.full(rows.size, -1), np.full(rows.size, event), self.time[rows])

    def _through(self, rows: IntArray) -> tuple[BoolArray, Events]:
        """Neurons that came straight to where all walls meet: which of them pass, put just beyond, and their events.

        One stays where the field beyond holds it on the same line and leads back, or nothing is active there. What it
        meets beyond takes no time, as nothing there has a length; one that comes back again and again stays, unless
        steps of descent come away from there (`_astray`).
        """
        if rows.size == 0:
            return np.zeros(0, dtype=bool), Events.join([])
        u, sign = self.pieces.u[rows], self.pieces.sign[rows]
        sides, shares, D = self.at.along(rows, u)
        onwards = sign * np.einsum("ij,ij->i", D, u)
        aside = np.linalg.norm(D - (sign * onwards)[:, None] * u, axis=1)
        self._passed[rows] += 1
        passes = (onwards > self._least) | (aside > self._least)
        unseen = self.w[rows] - (self.w[rows] @ self._span.T) @ self._span
        self.w[rows] = np.where(np.linalg.norm(unseen, axis=1)[:, None] > UNIT, unseen, 0.0)
        # what no sample sees is left, and they are dead beyond
        passes |= self.w[rows].any(axis=1) & ~self.walls.active(sides) & (np.abs(onwards) <= self._least)
        lost = np.flatnonzero(passes & (self._passed[rows] > _PASSES))
        if lost.size:
            u[lost], passes[lost] = self._astray(rows[lost], u[lost], sign[lost])
            sides[lost], shares[lost] = self.walls.sides(u[lost]), 0.0
            D[lost] = self.walls.middle + sides[lost] @ self.walls.halves
        over, gone = rows[passes], rows[~passes]
        self.w[over] += _BEYOND * u[passes]
        self.at.put(over, sides[passes], shares[passes], D[passes])
        self.fate[gone], self.until[gone], self.pieces.speed[gone] = Fate.VANISHED, np.inf, 0.0
        return passes, Events.join([self._happens(over, Event.PASS), self._happens(gone, Event.VANISH)])

    def _astray(self, rows: IntArray, u: FloatArray, sign: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Unit directions (k, d) in which `rows` come away that run in a cycle, and whether they do, (k,): a fork, as
        they also could stay, and in contrary flows do."""

        def field(w: FloatArray) -> FloatArray:
            return sign[:, None] * (self.walls.middle + self.walls.sides(w) @ self.walls.halves)

        w, leaves = away(field, u)
        self.at.forked[rows[leaves]] = True
        return sphere.normalize(w), leaves & (not self._contrary)

    # -- the next piece ---------------------------------------------------------------------------------------

    def _aim(self, rows: IntArray) -> None:
        """The piece that begins where rows are, and the event that ends it."""
        if self.walls.layers is not None:
            # one that shrinks first is slowed while it grows by about what it was hastened
            grows = self.a[rows] * np.einsum("ij,ij->i", self.w[rows], self.at.D[rows]) >= 0
            paces = self.walls.paces(self.at.shares[rows], np.linalg.norm(self.at.D[rows], axis=1))
            self._pace[rows] = np.where(grows, paces, 1.0)
        rows = rows[~self._rest(rows)]
        if rows.size == 0:
            return
        walls, w, a, D = self.walls, self.w[rows], self.a[rows], self.D[rows]
        speed, lengths = np.sqrt(np.einsum("ij,ij->i", D, D)), np.sqrt(np.einsum("ij,ij->i", w, w))
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
        along |= (self.at.slides[rows] >= walls.rank - 1) & (square <= (_RAY * lengths) ** 2)
        across[along] -= seen[along]
        if walls.rank == walls.normals.shape[1]:
            across[along] = 0.0
        square = np.einsum("ij,ij->i", across, across)
        k = square + self._balance.over(self.log_norms[rows], rows)
        self.pieces.begin(rows, u, across, speed, sign, p, k, a)
        straight = along & ((walls.rank > 1) | (square == 0.0))  # beside the origin one wall is as any other
        event, wall, stop, opposed = self._ending(rows, w, u, p, k, straight)
        span = self.pieces.end(rows, event, wall, stop)
        self.until[rows] = self.time[rows] + np.maximum(span, 0.0) / speed
        self.fate[rows] = np.where(event != 0, Fate.TURNING, np.where(opposed, Fate.OPPOSED, Fate.ALIGNS))

    def _ending(
        self, rows: IntArray, w: FloatArray, u: FloatArray, p: FloatArray, k: FloatArray, straight: BoolArray
    ) -> tuple[IntArray, IntArray, FloatArray, BoolArray]:
        """Events (k,) that end the pieces of rows, 0 for none, at which walls (k,), and w . u there (k,): a wall ahead,
        or the output weight passes through 0, or the input weights do; and who shrinks for ever, (k,).

        straight : who moves on a line through the origin.
        """
        wall, step = self._wall_ahead(rows, w, u)
        event = np.where(np.isfinite(step), Event.SLIDE, 0)  # or a crossing: decided there
        back = (p < 0) & (k < 0)
        turn = np.where(back, -p - np.sqrt(np.maximum(-k, 0.0)), np.inf)
        flips = back & (turn <= step)
        step, event = np.where(flips, turn, step), np.where(flips, Event.FLIP, event)
        against, lengths = (p < 0) & straight, np.sqrt(np.einsum("ij,ij->i", w, w))
        ends = against & (step >= -p * (1.0 - 1e-12) - UNIT * lengths)
        vanish, never = ends & (k > 0), ends & (k == 0)
        step = np.where(vanish, -p, np.where(never, np.inf, step))
        event = np.where(vanish, Event.VANISH, np.where(never, 0, event))
        return event, wall, p + step, against & (k == 0) & (event == 0)

    def _wall_ahead(self, rows: IntArray, w: FloatArray, u: FloatArray) -> tuple[IntArray, FloatArray]:
        """The wall that each of rows meets first, and the change of p up to there, which changes w . n by u . n of it;
        inf where it meets none."""
        walls, sides = self.walls, self.at.sides[rows]
        heights = w @ walls.normals.T
        heights *= sides
        np.maximum(heights, 0.0, out=heights)
        closing = u @ walls.normals.T
        closing *= sides
        np.negative(closing, out=closing)
        distance = np.full(heights.shape, np.inf)
        np.divide(heights, closing, out=distance, where=closing > UNIT)
        if not walls.sample.size:
            return np.zeros(rows.size, dtype=np.int64), np.full(rows.size, np.inf)
        wall = np.argmin(distance, axis=1)
        step = distance[np.arange(rows.size), wall]
        self.at.ties[rows] = (distance <= (step * (1.0 + UNIT) + UNIT)[:, None]).sum(axis=1) > 1
        return wall, step

    def _rest(self, rows: IntArray) -> BoolArray:
        """Settle those of rows that nothing moves; which they are, (k,)."""
        walls, w, D = self.walls, self.w[rows], self.D[rows]
        speed, lengths = np.sqrt(np.einsum("ij,ij->i", D, D)), np.sqrt(np.einsum("ij,ij->i", w, w))
        rests: BoolArray = speed <= self._least
        self.at.D[rows[rests]] = 0.0
        # without an output weight, and across the field: a saddle of the utility
        rests |= (self.a[rows] == 0) & (np.abs(np.einsum("ij,ij->i", w, D)) <= _ROUNDING * lengths * speed)
        still = rows[rests]
        if still.size:
            self.pieces.speed[still], self.until[still] = 0.0, np.inf
            self.fate[still] = np.where(walls.active(self.at.sides[still]), Fate.FLAT, Fate.DEAD)
            if not walls.dies:
                self.fate[still] = Fate.FLAT
            self._bury(still[self.fate[still] == Fate.DEAD])
        return rests

    def _bury(self, rows: IntArray) -> None:
        """Put dead neurons that stand on walls just beyond them: rounding must not bring them back to life."""
        w = self.w[rows]
        lengths = np.sqrt(np.einsum("ij,ij->i", w, w))[:, None]
        heights = (w @ self.walls.normals.T) * self.walls.inactive
        beside = (heights < 0) & (heights >= -UNIT * lengths)  # on the active side, by rounding
        self.w[rows] += 2.0 * UNIT * lengths * ((beside * self.walls.inactive) @ self.walls.normals)


def _unit(w: FloatArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows (w, a) at unit norm (m, d + 1), and their norms."""
    rows = np.column_stack([w, a])
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return rows / norms[:, None], norms
