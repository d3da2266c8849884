"""Where dormant (leaky) ReLU neurons end on a frozen residual, and how fast they grow there (`DormantFlow`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf import sphere
from agf.arrays import FloatArray, IntArray
from agf.rectified.dormant_flow import DormantFlow
from agf.rectified.events import Fate
from agf.rectified.walls import Walls


@dataclass(frozen=True)
class Ends:
    """Ends of m neurons.

    directions : (m, d + 1) unit rows that they turn to; where they stand, for those that no longer move.
    utilities : (m,) there.  fates : (m,) a `Fate` each.
    log_norms : (m,) of the straight line to which the log of the norm tends, at time 0; its slope is twice the utility.
    patterns : (m, n) sign of w . x_k there.  slopes : (m, n) slope of sigma at every sample.
    """

    directions: FloatArray
    utilities: FloatArray
    fates: IntArray
    log_norms: FloatArray
    patterns: IntArray
    slopes: FloatArray


def ends(walls: Walls, directions: FloatArray, log_norms: FloatArray, leak: float = 0.0) -> Ends:
    """Follow unit rows (w, a), (m, d + 1), of these log norms (m,) for ever."""
    flow = DormantFlow(walls, directions, log_norms)
    flow.run()
    rows = np.arange(log_norms.size)
    speed = np.linalg.norm(flow.D, axis=1)
    safe = np.where(speed > 0, speed, 1.0)
    sign = np.where(flow.a < 0, -1.0, 1.0)
    grows = flow.fate == Fate.ALIGNS
    shrinks = flow.fate == Fate.OPPOSED
    sign[grows] = flow.pieces.sign[grows]  # one that started at 0, or against the field, has turned by then
    out = np.column_stack([flow.w, flow.a])
    out[grows] = np.column_stack([(sign / safe)[:, None] * flow.D, sign])[grows] / np.sqrt(2)
    utilities = np.where(grows, speed / 2, np.where(shrinks, -speed / 2, 0.0))
    norms = flow.log_norms.copy()
    norms[grows] += (np.log(np.where(grows, flow.pieces.plus, 1.0)) - 0.5 * np.log(2) - speed * flow.time)[grows]
    norms[shrinks] += (speed * flow.time)[shrinks]
    share = np.clip(0.5 * (1.0 + flow.at.sides + flow.at.shares), 0.0, 1.0)  # of the positive side of each wall
    there = walls.owner >= 0
    slopes = np.full((rows.size, walls.owner.size), leak)
    own = share[:, walls.owner[there]]
    own = np.where(walls.orient[there] > 0, own, 1.0 - own)
    slopes[:, there] = leak + (1.0 - leak) * own
    return Ends(out, utilities, flow.fate, norms, walls.pattern(flow.at.sides), slopes)


def isotropic(rng: np.random.Generator, count: int, d: int, sign: float) -> FloatArray:
    """Balanced neurons of this sign in uniform directions: (count, d + 1) unit rows."""
    w = sphere.random(rng, count, d)
    return np.column_stack([w, np.full(count, sign)]) / np.sqrt(2)
