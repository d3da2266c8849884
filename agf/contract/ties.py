"""Neurons that follow one another exactly, held once: a smaller problem that trains the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.init import Init

if TYPE_CHECKING:
    from agf.contract.problem import Problem


@dataclass(frozen=True)
class Ties:
    """A problem with one neuron in place of all that are tied with it, and the way back.

    At degree 2 the sum of k copies of a neuron theta is the neuron sqrt(k) theta, at all times of gradient flow and
    after every step of gradient descent: exact, whatever the loss. A prediction gains more than time: copies that are
    each small, and together are not, are one neuron of the norm that they have together.

    Parameters
    ----------
    problem : Problem
        The smaller problem, G neurons.
    init : Init
        Where it starts.
    of : int ndarray, shape (H,)
        Stand-in, from 0 to G - 1, of each neuron.
    signs : float ndarray, shape (H,), optional
        1, or -1 for a neuron of opposite weights, which makes the same function (an odd activation).
    """

    problem: Problem
    init: Init
    of: IntArray
    signs: FloatArray | float = 1.0

    @property
    def any(self) -> bool:
        """Whether some neurons are tied."""
        return self.init.width < self.of.size

    @cached_property
    def first(self) -> IntArray:
        """(G,) first neuron of each stand-in."""
        return np.unique(self.of, return_index=True)[1]

    @cached_property
    def shifts(self) -> FloatArray:
        """(G,) log norm of each stand-in over that of one of its neurons."""
        return 0.5 * np.log(np.bincount(self.of))

    def neurons(self, stand_ins: IntArray) -> IntArray:
        """All neurons, in order, for which some stand in.

        Parameters
        ----------
        stand_ins : int ndarray, shape (k,)
            Their numbers, from 0 to G - 1.
        """
        return np.flatnonzero(np.isin(self.of, stand_ins)) if self.any else stand_ins

    def log_norms(self, of_stand_ins: FloatArray) -> FloatArray:
        """Log norms (..., H) of the neurons.

        Parameters
        ----------
        of_stand_ins : float ndarray, shape (..., G)
            Log norms of those that stand in for them.
        """
        return (of_stand_ins - self.shifts)[..., self.of] if self.any else of_stand_ins

    def directions(self, of_stand_ins: FloatArray) -> FloatArray:
        """Unit rows (..., H, P) of the neurons.

        Parameters
        ----------
        of_stand_ins : float ndarray, shape (..., G, P)
            Unit rows of those that stand in for them.
        """
        return of_stand_ins[..., self.of, :] * np.broadcast_to(self.signs, self.of.shape)[:, None]

    @staticmethod
    def merged(init: Init, of: IntArray) -> Init:
        """Where stand-ins start: in the direction of their neurons, of the norm that these have together."""
        first, copies = np.unique(of, return_index=True, return_counts=True)[1:]
        log_norms = init.log_norms[first] + 0.5 * np.log(copies)
        return Init(init.directions[first], log_norms, init.alpha, init.seed, init.kind)
