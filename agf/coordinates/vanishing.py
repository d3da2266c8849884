"""Neurons of (leaky) ReLU networks whose input weights come to zero, where all their kinks meet.

Steps of descent pass that point and wander about it until they come to directions that lead away, or to some where
nothing is active. Where there are none they stay, and any method would chatter there for ever: a regular solution
[BF24]. The field has no length there, so that what steps do about the point does not hang on how long they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.rounding import UNIT
from agf.sphere import lengths, norms

#: Input weights of a (leaky) ReLU neuron, over its norm, from which on it is asked whether they end at zero. Derived:
#: they are there within this many growth times, which is below what rounded kinks move times by.
ENDS = 1e-5
#: Steps of descent about the point, the first a fourth of the distance at which it is asked. Limit: one that has not
#: come away by then stays.
_STEPS = 200
#: Steps after which it is asked whether they lead away for ever. Cost: of steps; most that do are on their way by then.
_ASKED = 8
#: Distance, in the longest of them, within which it must be during the second half of them to stay. Limit: steps that
#: turn back at the point land within one of it, and what goes away more slowly than a twentieth of its field stays.
_NEAR = 4.0


def vanishing(pull: Callable[[FloatArray], FloatArray], directions: FloatArray, d: int, among: BoolArray) -> BoolArray:
    """Neurons (H,) `among` these whose input weights have all but come to zero and do not leave again.

    Parameters
    ----------
    pull : callable
        Unit rows (H, P) -> pull on them (H, P), at the present norms and residual.
    directions : float ndarray, shape (H, P)
        Unit rows.
    d : int
        Number of input weights, the first parameters.
    among : bool ndarray, shape (H,)
        Neurons that are asked about.
    """
    ended = among & (lengths(directions[:, :d]) < ENDS)
    if ended.any():  # hardly ever
        ended &= directions[:, :d].any(axis=1)
    if not ended.any():
        return ended
    rows = directions.copy()
    ended &= np.einsum("ij,ij->i", pull(rows)[:, :d], rows[:, :d]) < 0.0  # it comes nearer
    if not ended.any():
        return ended

    def field(w: FloatArray) -> FloatArray:
        rows[ended, :d] = w
        return pull(rows)[ended, :d]

    ended[ended] = ~away(field, directions[ended, :d])[1]
    return ended


def away(field: Callable[[FloatArray], FloatArray], w: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Where steps of descent about w = 0 take input weights (m, d), and whether that is away from it, (m,).

    Where the field is the same in its own direction, it leads through cones in which it stays so, and away.

    field : (m, d) -> their fields (m, d), the same at every length of w.
    """
    w, largest = w.copy(), np.zeros(w.shape[0])
    D = field(w)
    step = (norms(w) / (4.0 * np.maximum(norms(D), np.finfo(float).tiny)))[:, None]
    near = np.ones(w.shape[0], dtype=bool)
    for k in range(_STEPS):
        longest = norms(D)
        if k == _ASKED:
            along = D * (norms(w) / np.maximum(longest, np.finfo(float).tiny))[:, None]
            if ((norms(field(along) - D) <= UNIT * longest) & (longest > 0.0)).all():
                return along, np.ones(w.shape[0], dtype=bool)
        largest = np.maximum(largest, longest)
        w += step * D
        if 2 * k >= _STEPS:  # where no field is left it is dead, beside the point
            near &= (longest > 0.0) & (norms(w) <= _NEAR * step[:, 0] * largest)
        D = field(w)
    return w, ~near
