"""Neurons whose directions have come to rest, and will stay: they follow the closed law of the norm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from agf.algorithm.crossings import Crossings
from agf.algorithm.dormand_prince import SHIFT, DormandPrince
from agf.algorithm.stepper import BLOCK, DEAD, Stepper
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.numerics import lanczos
from agf.rounding import EPS
from agf.sphere import lengths

#: Tangent gradient, relative to the gradient, below which a direction looks like rest. Cost: of the steps that are
#: halved then, before it is asked whether it rests (`AT_REST`); at 1e-4 steps at the stability limit keep it hovering.
_LOOKS_AT_REST = 1e-3
#: Steps that are halved then, as one at the stability limit keeps a direction hovering. Cost: of these; what
#: decays is damped by e^-8 and more after them, and what is not at rest then is damped once more.
_REST_STEPS = 8
#: Tangent gradient, over rtol times the gradient, below which it then rests. Cost: a tolerance; the direction is off by
#: as much.
AT_REST = 10.0
#: Lanczos vectors that decide whether it is stable. Result: they give the largest rate from below, and exactly for P <=
#: 16; with 2 a saddle with one unstable direction among many may pass for rest, with 150 a look costs as much as 150
#: evaluations.
_LANCZOS = 15
#: e-folds of a perturbation until the threshold that a direction at rest may allow. Result: deviations at rest are of
#: the tolerance, 1e-5, and grow twentyfold at most; at 30 a saddle would be rest, at 0.3 a direction on a flat valley
#: of maxima would be followed for ever.
_SAFE_GROWTH = 3.0
#: Tangent gradient, relative to the gradient, that is rounding. Derived: the projection takes a few operations.
_EXACTLY_AT_REST = 8 * EPS


S = TypeVar("S", bound=Stepper)


class Resting(ABC, Generic[S]):
    """Which directions rest.

    Attributes
    ----------
    resting : bool ndarray, shape (m,)
        Neurons that follow the closed law from the end of their last step on.
    """

    def __init__(self, steps: S, crossings: Crossings) -> None:
        self.steps, self.crossings = steps, crossings
        self.resting = steps.dead.copy()

    @abstractmethod
    def test(self, rows: IntArray) -> None:
        """Find those of rows that rest, and the crossings of those that grow."""


class StableResting(Resting[DormandPrince]):
    """Directions that have come to rest and would return to it."""

    def __init__(self, steps: DormandPrince, crossings: Crossings) -> None:
        super().__init__(steps, crossings)
        self._calm = np.zeros(steps.m, dtype=np.int64)  # steps in a row with a direction (almost) at rest

    def test(self, rows: IntArray) -> None:
        """Find those of rows that rest, and the crossings of those that grow."""
        if rows.size == 0:
            return
        steps, crossings, p = self.steps, self.crossings, self.steps.p
        f, degree = steps.f1[rows], steps.batch.problem.degree
        tangent = lengths(f[:, :p])
        slope = steps.field.aligned_utility(f) * degree
        vanished = slope <= DEAD * steps.top * degree
        # Far above a threshold that is low because nothing drives it: left alone.
        unknown = ~crossings.grows(f) & (slope <= 2 * degree * crossings.threshold.noise)
        if unknown.any():
            vanished |= unknown & (crossings.gap(rows) > 1.0)
        still = tangent <= AT_REST * steps.rtol * slope
        calm = np.where(tangent > _LOOKS_AT_REST * slope, 0, self._calm[rows] + 1)
        length = steps.h[rows]
        halved = np.where(calm == 1, 0.5 * length, np.minimum(steps.next_h[rows], length))
        steps.next_h[rows] = np.where((calm >= 1) & (calm < _REST_STEPS), halved, steps.next_h[rows])
        candidates = rows[(calm == _REST_STEPS) & still]
        self._calm[rows] = np.where((calm == _REST_STEPS) & ~still, 0, calm)  # not yet: damp it once more
        stable = candidates[self._stable(candidates)] if candidates.size else candidates
        self.resting[rows] = vanished
        self.resting[stable] = True
        # Exactly at rest where it cannot grow, though unstable: nothing ever turns it.
        exact = (calm == _REST_STEPS) & (tangent <= _EXACTLY_AT_REST * slope) & (f[:, p] <= 0)
        self.resting[rows[exact]] = True
        crossings.foresee(stable)

    def _stable(self, rows: IntArray) -> BoolArray:
        """Whether no perturbation of the directions of rows, at rest, grows noticeably before the threshold, (m,)."""
        steps = self.steps
        growth = steps.f1[rows, steps.p]  # degree U: log norm per s
        # A neuron that shrinks may do so for ever; a rate below its own by `SHIFT` is what differences resolve.
        e_folds = np.where(growth > 0, np.clip(-self.crossings.gap(rows), 1.0, 1 / SHIFT), 1 / SHIFT)
        parts = np.array_split(rows, 1 + rows.size * steps.p // (BLOCK // 8))
        rate = np.concatenate([self._largest_rate(part) for part in parts])
        return rate * e_folds <= _SAFE_GROWTH * np.abs(growth)

    def _largest_rate(self, rows: IntArray) -> FloatArray:
        """Largest eigenvalue of the linearized direction flow on the tangent space, (m,)."""
        steps, p = self.steps, self.steps.p
        return lanczos.largest(lambda v: steps.linearized(rows, v), steps.y1[rows, :p], min(_LANCZOS, p - 1))
