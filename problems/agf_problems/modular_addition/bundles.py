"""Drops of one label in a row are one drop of a loss curve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agf import Drop, Staircase


def bundled(stairs: Staircase) -> Staircase:
    """The staircase with such drops as one, each at the time at which the loss crossed the middle of its fall."""
    drops: list[Drop] = []
    levels = stairs.levels
    start = 0
    for stop in range(1, len(stairs.drops) + 1):
        if stop < len(stairs.drops) and stairs.drops[stop].label == stairs.drops[start].label:
            continue
        group = stairs.drops[start:stop]
        middle = 0.5 * (levels[start] + levels[stop])
        crossing = group[int(np.argmax(levels[start + 1 : stop + 1] <= middle))]
        time, half_time = crossing.time, crossing.half_time
        below = np.flatnonzero(stairs.curve_losses <= middle)
        if below.size and below[0] > 0:  # the predicted curve itself says when
            around = slice(below[0] - 1, below[0] + 1)
            time = half_time = float(np.interp(-middle, -stairs.curve_losses[around], stairs.curve_times[around]))
        drops.append(
            replace(
                group[-1],
                time=time,
                half_time=half_time,
                accelerated_time=crossing.accelerated_time * (time / crossing.time),
                neurons=np.concatenate([drop.neurons for drop in group]),
                collapsed=np.concatenate([drop.collapsed for drop in group]),
                utility=np.concatenate([drop.utility for drop in group]),
            )
        )
        start = stop
    return replace(stairs, drops=tuple(drops), bounds=None, notes=(*stairs.notes, "Drops bundled by frequency."))
