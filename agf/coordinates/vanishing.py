"""Neurons of (leaky) ReLU networks whose input weights come to zero, where all their kinks meet.

Where the field beside that point leads back to it on every way, they stay, as in the frozen-residual flow
(`agf.rectified.events.Event.VANISH`): a regular solution [BF24]. Steps would chatter about it for ever.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.sphere import norms

#: Input weights of a (leaky) ReLU neuron, over its norm, from which on it is asked whether they end at zero. Derived:
#: they are there within this many growth times, which is below what rounded kinks move times by.
_ENDS = 1e-5
#: Ways on from there that are tried, each where the one before leads. Limit: who has left on none of them stays.
_WAYS = 8


def vanishing(pull: Callable[[FloatArray], FloatArray], directions: FloatArray, d: int, among: BoolArray) -> BoolArray:
    """Neurons (H,) `among` these whose input weights have all but come to zero and leave on no way on from there.

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
    sizes = norms(directions[:, :d])
    ended = among & (sizes < _ENDS) & (sizes > 0.0)
    rows = directions.copy()
    for _ in range(_WAYS):
        if not ended.any():
            break
        pulls = pull(rows)[:, :d]
        ended &= np.einsum("ij,ij->i", pulls, rows[:, :d]) < 0.0  # it comes nearer
        lengths = norms(pulls)
        ended &= lengths > 0.0
        rows[ended, :d] = pulls[ended] * (sizes / np.where(lengths > 0.0, lengths, 1.0))[ended, None]
    return ended
