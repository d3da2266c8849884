"""The field that dormant (leaky) ReLU neurons move in: piecewise constant, with a wall through the origin a sample.

For a frozen residual the utility of a neuron (w, a) is a G(w), G(w) = sum_k c_k sigma(w . x_k), and its flow is
dw/dt = a D(w), da/dt = w . D(w), D the gradient of G ([BF24] section 2.1; [Min23] has the same with sums).
D is constant inside a cone of activations; at a wall w . x_k = 0 it jumps, or takes any slope in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.rectified.cones import Arrangement
from agf.rounding import UNIT


@dataclass(frozen=True)
class Walls:
    """Distinct walls of n samples; samples on one line through the origin share one.

    Attributes
    ----------
    normals : numpy.ndarray, shape (N, d)
        Unit normals.
    middle : numpy.ndarray, shape (d,)
        The field with the slope of every sample half-way.
    halves : numpy.ndarray, shape (N, d)
        Half the jump of the field across each wall, so that D = middle + sides @ halves, sides being +-1; along the
        normal.
    bends : numpy.ndarray, shape (N,)
        Their lengths along the normals: G bends up at a wall where it is positive.
    sample : numpy.ndarray, shape (N,)
        First sample of each wall.
    scale : float
        Sum of |c_k| |x_k|: no |D| is larger.
    dies : bool
        Whether a neuron can be without any active sample (no leak).
    owner, orient : numpy.ndarray, shape (n,)
        Wall of each sample, -1 for a zero sample, and whether the sample points to its positive side (1) or not (-1).
    rank : int
        Dimension of the span of the samples.
    layers : numpy.ndarray, shape (N,), or None
        Width over which the slope rises at each wall, over |w|; None for sharp kinks.
    """

    normals: FloatArray
    middle: FloatArray
    halves: FloatArray
    bends: FloatArray
    sample: IntArray
    scale: float
    dies: bool
    owner: IntArray
    orient: FloatArray
    rank: int
    layers: FloatArray | None = None

    @classmethod
    def of(cls, X: FloatArray, c: FloatArray, leak: float = 0.0, found: Arrangement | None = None) -> Walls:
        """The walls of samples X (n, d) whose residuals weigh c (n,), for sigma(z) = max(z, leak z).

        found : the arrangement of X, where it is known.
        """
        found = Arrangement.of(X) if found is None else found
        normals = found.normals @ found.basis
        normals /= np.linalg.norm(normals, axis=1)[:, None]
        rows = np.flatnonzero(found.owner >= 0)
        owner, orient = found.owner[rows], found.orient[rows]
        strength = c[rows] * np.linalg.norm(X[rows], axis=1)
        half, middle = np.zeros(found.size), np.zeros(found.size)
        # beyond its own side a sample counts with the leak, and along the normal with the sign of its orientation
        np.add.at(middle, owner, 0.5 * (1.0 + leak) * orient * strength)
        np.add.at(half, owner, 0.5 * (1.0 - leak) * strength)
        sample = np.full(found.size, X.shape[0])
        np.minimum.at(sample, owner, rows)
        return cls(
            normals=normals,
            middle=middle @ normals,
            halves=half[:, None] * normals,
            bends=half,
            sample=sample,
            scale=float(np.abs(strength).sum()),
            dies=leak == 0.0,
            owner=found.owner,
            orient=found.orient,
            rank=found.rank,
        )

    def sides(self, w: FloatArray) -> FloatArray:
        """Side of every wall on which directions w (m, d) are, (m, N): 1 or -1.

        On a wall the side is the inactive one, as relu'(0) = 0 has it; where samples point both ways, the negative one.
        """
        heights = w @ self.normals.T
        on = np.abs(heights) <= UNIT * np.linalg.norm(w, axis=1)[:, None]
        return np.where(on, self.inactive, np.where(heights > 0, 1.0, -1.0))

    @property
    def inactive(self) -> FloatArray:
        """Inactive side of every wall, (N,)."""
        out = np.ones(self.sample.size)
        out[self._heads(1.0)] = -1.0
        return out

    def _heads(self, orient: float) -> IntArray:
        """Walls of which some sample has this orientation."""
        return np.unique(self.owner[(self.owner >= 0) & (self.orient == orient)])

    def paces(self, shares: FloatArray, speed: FloatArray) -> FloatArray:
        """What rounding the kinks makes of the speed |D| (m,) of neurons with these shares (m, N), as a factor.

        Where the slope rises over a width, a neuron slides beside the kink, at the height where the slope is its share
        of the jump. There sigma is above that share of w . x, which slows its growth: to first order in the width by
        |jump| width s (1 - s), s the share between 0 and 1. A field below that is none.
        """
        assert self.layers is not None
        slower = np.where(shares != 0, 0.5 * np.maximum(1.0 - shares**2, 0.0), 0.0) @ (np.abs(self.bends) * self.layers)
        return np.maximum(speed - slower, 0.0) / np.maximum(speed, np.finfo(float).tiny)

    def active(self, sides: FloatArray) -> BoolArray:
        """Whether some sample is strictly active, (m,), from sides (m, N)."""
        up, down = self._heads(1.0), self._heads(-1.0)
        return np.logical_or((sides[:, up] > 0).any(axis=1), (sides[:, down] < 0).any(axis=1))

    def pattern(self, sides: FloatArray) -> IntArray:
        """Sign of w . x_k of every sample, (m, n), from sides (m, N)."""
        out = np.zeros((sides.shape[0], self.owner.size), dtype=np.int64)
        there = self.owner >= 0
        out[:, there] = np.sign(sides[:, self.owner[there]] * self.orient[there]).astype(np.int64)
        return out
