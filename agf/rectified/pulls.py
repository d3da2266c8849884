"""What large (leaky) ReLU neurons can make by moving a little, along the kinks they are on, and what others cost beside
them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agf import sphere
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.rectified.ascent import SAME
from agf.rectified.samples import Samples

#: Unit rows (m, P) and which neurons they are (m,) -> self-interaction beside the active ones (m,).
Alone = Callable[[FloatArray, IntArray], FloatArray]
#: Fraction of a whole that does not count: of the utility on the sphere, for neurons that reach it; of the largest
#: norm, for neurons that must be at rest; of the sum of |a| |w|, for groups that matter; of |y|, for a misfit. Result:
#: ends are exact, so that in between lie networks whose only growing neurons grow at a thousandth of the best rate; at
#: 1e-2 a neuron of a tenth of a large one's size would count as dormant, at 1e-4 a run that has settled to 1e-4 would
#: not have fitted.
SLIGHT = 1e-3
#: Singular value over the largest below which rows are the same. Derived: far above rounding, and below what sets apart
#: two neurons that are told from one another.
_SAME_ROW = 1e-12


def large_ones(samples: Samples, network: FloatArray) -> BoolArray:
    """Which neurons are not dormant, (m,); none as long as all together have learned nothing."""
    sizes = np.linalg.norm(network, axis=1)
    r, zero = residual_of(samples, network), residual_of(samples, network[:0])
    nothing = np.linalg.norm(r - zero) <= SLIGHT * np.linalg.norm(zero)
    return (sizes > SLIGHT * sizes.max(initial=0.0)) & ~nothing


def pulls_of(samples: Samples, large: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows (k, n) that span what large neurons and an output bias can make by moving a little, along the kinks they are
    on, and what the samples of these kinks add to the rows where they are rounded, as sizes change.

    They feel nothing of a residual across all of these: members of a group differ by what steps have left, which on a
    rounded kink would be another direction in which the group could move. Kinks hold directions alone, and no size.
    """
    pull, more = rows_of(samples, large)
    constant = samples.constant
    return np.concatenate([pull, constant]), np.concatenate([more, np.zeros(constant.shape)])


def rows_of(samples: Samples, large: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same of large neurons alone, d rows for each of their patterns."""
    rows, more = [np.zeros((0, samples.X.shape[0]))], [np.zeros((0, samples.X.shape[0]))]
    patterns, mass = patterns_of(samples, large), np.abs(large[:, -1])
    for pattern in np.unique(patterns, axis=0):
        slopes, on = np.where(pattern > 0, 1.0, np.where(pattern < 0, samples.leak, 0.0)), pattern == 0
        free, added = np.eye(samples.X.shape[1]), np.zeros(pattern.size)
        if on.any():
            members = (patterns == pattern).all(axis=1)
            w = sphere.normalize((mass[members] @ large[members, :-1])[None])[0]
            heights = samples.X[on] @ w
            added[on] = np.where(heights > 0, 1.0, samples.leak)
            _, values, held = np.linalg.svd(samples.X[on] - np.outer(heights, w), full_matrices=False)
            held = held[values > _SAME_ROW * values.max()]
            free = free - held.T @ held
        rows.append(free @ (slopes[:, None] * samples.X).T)
        more.append(free @ (added[:, None] * samples.X).T)
    return np.concatenate(rows), np.concatenate(more)


def _blurred(values: FloatArray, more: FloatArray) -> float:
    """Singular value from which rows are told apart: beyond rounding, and beyond what rounded kinks add to them."""
    return max(_SAME_ROW * values.max(initial=0.0), float(np.linalg.norm(more, 2)) if more.size else 0.0)


def least_change(rows: FloatArray, more: FloatArray, target: FloatArray) -> FloatArray:
    """Shortest x with rows @ x = target as far as rows are told apart."""
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    kept = values > _blurred(values, more)
    return np.asarray(right[kept].T @ ((left[:, kept].T @ target) / values[kept]))


def beyond(samples: Samples, network: FloatArray, pull: FloatArray, more: FloatArray) -> Alone:
    """Self-interaction beside neurons that can make the rows of `pull`, and `more` on rounded kinks (`pulls_of`)."""
    _, values, span = np.linalg.svd(samples.curved(network, pull), full_matrices=False)
    span = span[values > _blurred(values, samples.curved(network, more))]

    def alone(directions: FloatArray, rows: IntArray) -> FloatArray:
        del rows
        heights = directions[:, :-1] @ samples.X.T
        out = samples.curved(network, directions[:, -1:] * np.maximum(heights, samples.leak * heights))
        return np.asarray(0.5 * np.sum((out - (out @ span.T) @ span) ** 2, axis=1))

    return alone


def fall_of(samples: Samples, network: FloatArray, pull: FloatArray, more: FloatArray) -> float:
    """Fall of the loss, to second order, to the least that a network can make along these rows (`pulls_of`)."""
    left, values, _ = np.linalg.svd(samples.curved(network, pull), full_matrices=False)
    kept = values > _blurred(values, samples.curved(network, more))
    return 0.5 * float(np.sum((left[:, kept].T @ (pull @ samples.weights(network)) / values[kept]) ** 2))


def residual_of(samples: Samples, network: FloatArray) -> FloatArray:
    """-dl/df (n,) of a network of neurons (m, d + 1)."""
    problem = samples.problem
    return np.asarray(problem._backend.numpy(problem.residual(*samples.whole(network)))[:, 0])


def patterns_of(samples: Samples, theta: FloatArray) -> IntArray:
    """Sign of w . x_k, (m, n), 0 within `SAME` of a right angle, and where a kink is rounded."""
    lengths = np.maximum(np.linalg.norm(samples.X, axis=1), np.finfo(float).tiny)
    heights = sphere.normalize(theta[:, :-1]) @ (samples.X / lengths[:, None]).T
    rounded = samples.problem.kink * np.sqrt(np.mean(samples.X**2) * samples.X.shape[1]) / lengths
    return (heights > SAME + rounded).astype(np.int64) - (heights < -SAME)
