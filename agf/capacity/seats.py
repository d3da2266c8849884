"""How many neurons are asked about: a number of them, or a fraction."""

from __future__ import annotations

from typing import Any

from agf.arrays import count, number
from agf.errors import RequestError, explain


def seats(keep: Any, width: int, where: str, least: int = 0) -> int:
    """`keep` of `width` neurons, below 1 as a fraction, of which so many at least. RequestError for what cannot be."""
    some = 0.0 < number(keep) < 1.0
    found = max(round(float(keep) * width), least) if some else count(keep, "keep", where=where, least=0)
    if not 1 <= found <= width:
        raise RequestError(
            explain(f"keep = {keep:g} is {found} of {width} neurons.", where=where, expected=f"1 to {width}")
        )
    return found
