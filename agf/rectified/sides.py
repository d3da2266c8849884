"""On which side of each wall dormant (leaky) ReLU neurons are, and what happens to that where they meet one.

At a wall beyond which it is not pushed back the neuron crosses; where both sides push towards it, it slides along, on
the field of least norm that slopes between the two give (Filippov); a wall at which both push away is left at once to
the side that relu'(0) = 0 makes inactive.

There the flow is not unique, and neither is a prediction: a *fork*. Neurons come to such walls after their output
weight has changed sign. From then on they go back the way they came, as dw/dt = a D has changed sign with it, and on
that way are the walls along which they slid, which push them away now.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.rectified.events import Event, Events
from agf.rectified.least_norm import least_norm
from agf.rectified.walls import Walls
from agf.rounding import EPS, SUM, UNIT

#: Distance from a wall, over |w|, at which a neuron that goes back is on it. Derived: a difference of squares, such as
#: places it, loses half the digits, and others come as near by a chance of as much.
_ON = EPS**0.5


class Sides:
    """The sides of m neurons, and the fields that they have there.

    Parameters
    ----------
    walls : Walls
        N of them.
    w : numpy.ndarray, shape (m, d)
        Input weights.
    contrary : bool, optional
        Whether neurons leave walls at forks to the other side.

    Attributes
    ----------
    sides : numpy.ndarray, shape (m, N)
        Side of each wall, 1 or -1, and 0 where the neuron slides along it.
    shares : numpy.ndarray, shape (m, N)
        What takes the place of the side where a neuron slides, between -1 and 1; else 0.
    D : numpy.ndarray, shape (m, d)
        The field: middle + (sides + shares) @ halves of `Walls`.
    slides : numpy.ndarray, shape (m,)
        Number of walls along which it slides.
    ties : numpy.ndarray, shape (m,)
        Whether the next wall it meets is met together with others.
    forked : numpy.ndarray, shape (m,)
        Whether it has passed a fork.
    """

    def __init__(self, walls: Walls, w: FloatArray, contrary: bool = False) -> None:
        m = w.shape[0]
        self._contrary, self._returns = contrary, np.zeros(m, dtype=bool)
        self.forked = np.zeros(m, dtype=bool)
        self.walls = walls
        self.sides = walls.sides(w)
        #: Forks at which contrary neurons have gone the other way, once each: beside another wall they may come back.
        self._taken = np.zeros(self.sides.shape if contrary else (m, 1), dtype=bool)
        self.shares = np.zeros(self.sides.shape)
        self.slides, self.ties = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=bool)
        self.D = walls.middle + self.sides @ walls.halves

    def put(self, rows: IntArray, sides: FloatArray, shares: FloatArray, D: FloatArray) -> None:
        """Neurons `rows` are on these sides (k, N), with these shares (k, N) and fields (k, d)."""
        self.sides[rows], self.shares[rows], self.D[rows] = sides, shares, D
        self.slides[rows] = (sides == 0).sum(axis=1)

    def along(self, rows: IntArray, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sides (k, N), shares (k, N) and fields (k, d) of `rows` just beyond where all walls meet, in directions u.

        Along walls that hold the ray, a neuron comes and goes.
        """
        walls, along = self.walls, np.sign(u @ self.walls.normals.T)
        held = self.sides[rows] == 0
        sides = np.where(held, 0.0, np.where(along == 0, self.sides[rows], along))
        D, shares = walls.middle + sides @ walls.halves, np.zeros(sides.shape)
        for i in np.flatnonzero(held.any(axis=1)):
            which = np.flatnonzero(held[i])
            shares[i, which] = least_norm(D[i : i + 1], walls.halves[which][None])[0]
            D[i] += shares[i] @ walls.halves
            free = which[np.abs(shares[i, which]) >= 1.0]
            sides[i, free], shares[i, free] = np.sign(shares[i, free]), 0.0
        return sides, shares, D

    def leave(self, rows: IntArray, time: FloatArray) -> Events:
        """Neurons `rows`, whose output weights change sign, leave the walls along which they slide, to the inactive
        side: these push them away now."""
        self._returns[rows] = True
        slid = rows[self.slides[rows] > 0]
        self.forked[slid] = True
        i, wall = np.nonzero(self.sides[slid] == 0)
        side = -self.walls.inactive[wall] if self._contrary else self.walls.inactive[wall]
        self.sides[slid[i], wall] = side
        self.shares[slid], self.slides[slid] = 0.0, 0
        self.D[slid] = self.walls.middle + self.sides[slid] @ self.walls.halves
        return self._events(time, slid[i], self.walls.sample[wall], self._crossing(wall, side))

    def meet(self, rows: IntArray, wall: IntArray, sign: FloatArray, w: FloatArray, time: FloatArray) -> Events:
        """Neurons `rows` meet walls (k,), with output weights of this sign (k,): they cross, or slide along.

        w : input weights (m, d) of all, which are put onto the walls they slide along.  time : now, (m,), of all.
        """
        if rows.size == 0:
            return Events.join([])
        walls = self.walls
        side = self.sides[rows, wall]
        normals = walls.normals[wall]
        bends = walls.bends[wall]
        pushed = side * sign * np.einsum("ij,ij->i", self.D[rows], normals)  # negative: towards the wall
        beyond = pushed - 2.0 * sign * bends  # the same on the other side
        crosses = beyond <= SUM * walls.scale  # where nothing is active beyond it comes to rest there
        alone = (self.slides[rows] == 0) & ~self.ties[rows]
        parts = []
        simple = alone & crosses
        over = rows[simple]
        self.sides[over, wall[simple]] *= -1.0
        self.D[over] = walls.middle + self.sides[over] @ walls.halves
        parts.append(self._events(time, over, walls.sample[wall[simple]], self._crossing(wall[simple], -side[simple])))
        slides = alone & ~crosses
        on = rows[slides]
        normal = normals[slides]
        pull = np.einsum("ij,ij->i", self.D[on], normal)
        self.shares[on, wall[slides]] = side[slides] - pull / bends[slides]
        self.sides[on, wall[slides]], self.slides[on] = 0.0, 1
        self.D[on] -= pull[:, None] * normal
        w[on] -= np.einsum("ij,ij->i", w[on], normal)[:, None] * normal
        parts.append(self._events(time, on, walls.sample[wall[slides]], np.full(on.size, Event.SLIDE)))
        rest = ~alone
        if rest.any():
            parts.append(self._corner(rows[rest], wall[rest], sign[rest], w, time))
        back = self._returns[rows] & (self.slides[rows] == 0)
        if back.any():
            self._fork(rows[back], sign[back], w)
        return Events.join(parts)

    def _fork(self, rows: IntArray, sign: FloatArray, w: FloatArray) -> None:
        """Find those of `rows`, on their way back, that stand on a wall which pushes them away on both sides."""
        walls, sides, at = self.walls, self.sides[rows], w[rows]
        lengths = np.sqrt(np.einsum("ij,ij->i", at, at))[:, None]
        away = sign[:, None] * sides * (self.D[rows] @ walls.normals.T)
        beyond = 2.0 * sign[:, None] * walls.bends - away  # the same on the other side
        least = SUM * walls.scale
        on = (np.abs(at @ walls.normals.T) <= _ON * lengths) & (away > least) & (beyond > least)
        i, wall = np.nonzero(on & ~self._taken[rows])
        self.forked[rows[i]] = True
        if self._contrary and i.size:
            self._taken[rows[i], wall] = True
            self.sides[rows[i], wall] *= -1.0
            self.D[rows[i]] = walls.middle + self.sides[rows[i]] @ walls.halves

    def _corner(self, rows: IntArray, wall: IntArray, sign: FloatArray, w: FloatArray, time: FloatArray) -> Events:
        """Several walls at once: those it slides along, the one it meets, and others that pass through the same point.

        Walls that attract may hold it, on the field of least norm; one that repels on its far side is crossed.
        """
        walls = self.walls
        index = np.arange(rows.size)
        sides = self.sides[rows]
        slid = sides == 0
        attracts = sign[:, None] * walls.bends < -SUM * walls.scale
        held = slid
        if self.ties[rows].any():
            held = slid | ((np.abs(w[rows] @ walls.normals.T) <= UNIT) & attracts)
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
                normals, before_it = walls.normals[which[new]], w[rows[some[new]]]
                back = normals.transpose(0, 2, 1) if count == 1 else np.linalg.pinv(normals)
                w[rows[some[new]]] -= np.einsum("mdk,mke,me->md", back, normals, before_it)
        i, k = np.nonzero(held)
        share, was = shares[i, k], before[i, k]
        free = np.abs(share) >= 1.0 - SUM
        sides[i[free], k[free]] = np.sign(share[free])
        shares[i[free], k[free]] = 0.0
        self.sides[rows], self.shares[rows], self.D[rows] = sides, shares, D
        self.slides[rows] = np.bincount(i[~free], minlength=rows.size)
        # -- what changed: the wall that was crossed; walls that no longer hold; walls that begin to
        over = np.flatnonzero(crossed)
        left = free & (np.sign(share) != was)
        begun = ~free & (was != 0)
        return Events.join(
            [
                self._events(time, rows[over], walls.sample[wall[over]], self._crossing(wall[over], -met[over])),
                self._events(time, rows[i[left]], walls.sample[k[left]], self._crossing(k[left], np.sign(share[left]))),
                self._events(time, rows[i[begun]], walls.sample[k[begun]], np.full(int(begun.sum()), Event.SLIDE)),
            ]
        )

    def _crossing(self, wall: IntArray, side: FloatArray) -> IntArray:
        """GAIN or LOSS of a wall's first sample by a neuron that comes to this side."""
        orient = self.walls.orient[self.walls.sample[wall]]
        return np.where(side * orient > 0, Event.GAIN, Event.LOSS)

    @staticmethod
    def _events(time: FloatArray, rows: IntArray, sample: IntArray, kind: IntArray) -> Events:
        return Events(rows, sample, kind, time[rows])
