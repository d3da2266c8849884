"""What a predicted staircase says: a row a drop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.records import naming
from agf.records.table import Table, level, number, percent

if TYPE_CHECKING:
    from agf.results.staircase import Staircase


def labels(stairs: Staircase) -> list[str]:
    """(K,) what happens at each drop: its label, and what leaves."""
    called: dict[int, str] = {}
    out = []
    known = naming.given(stairs.arguments, stairs.init.width) if stairs.init is not None else None
    word = naming.word_of(*(drop.label for drop in stairs.drops))
    for drop in stairs.drops:
        left = [
            called.get(i, f"{word} {i}" + (f" ({known[i]})" if known and i < len(known) else ""))
            for i in drop.collapsed.tolist()
        ]
        out.append(drop.label + (f"; leaves: {naming.listed(left)}" if left else ""))
        if drop.neurons.size == 1:
            called[int(drop.neurons[0])] = drop.label
    return out


def table(stairs: Staircase) -> Table:
    """The drops; with their error bars, conditioning and overlaps where these are known."""
    drops = stairs.drops
    barred = any(not np.isnan(drop.error) for drop in drops)
    probed = any(not np.isnan(drop.conditioning) for drop in drops)
    probed &= stairs.mode != "auto" or bool(stairs.settings.conditioning)  # in mode auto it is part of the bars
    looked = any(drop.overlap is not None for drop in drops)
    columns = ["drop", "time", "half-drop time", *["within"] * barred, "accelerated", "level", *["within"] * barred]
    columns += [*["conditioning"] * probed, *["overlaps"] * looked, "learned"]
    blank = ["-"] * (probed + looked)
    rows = [["0", "0", "0", *["-"] * barred, "0", number(stairs.start_level, 6), *["-"] * barred, *blank, "start"]]
    for k, (drop, said) in enumerate(zip(drops, labels(stairs), strict=True), 1):
        row = [str(k), number(drop.time, 6), number(drop.half_time, 6), *[percent(drop.error)] * barred]
        row += [number(drop.accelerated_time, 6), level(drop.level, stairs.start_level, 6)]
        row += [*[percent(drop.level_error)] * barred, *[percent(drop.conditioning)] * probed]
        rows.append([*row, *["yes" if drop.overlap else "no"] * looked, said])
    scale = f", {stairs.init.description}" if stairs.init is not None else ""
    return Table(
        f"Predicted staircase of {stairs.problem}{scale}, mode {stairs.mode}",
        columns,
        rows,
        [f"{stairs.status.word}: {stairs.ending}", *stairs.notes],
    )
