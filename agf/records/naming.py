"""What neurons and the components of features are called: by the names the problem was given, else by number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from agf.errors import RequestError, explain, shown

#: Neurons that a list names, and how many where they are more. Limit: results have them all.
_MOST_NAMED, _FIRST_NAMED = 20, 8
#: What the label of a drop ends in where its neurons had been learned before.
GREW = " grew on"


class Named(Protocol):
    """What has the constructor arguments of a problem."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Constructor arguments of the problem."""
        ...


def given(arguments: Mapping[str, Any], count: int) -> list[str] | None:
    """The argument `names` of the problem, where it is a list of one name for each of `count` coordinates."""
    names = arguments.get("names")
    if not isinstance(names, list | tuple | np.ndarray) or np.shape(names) != (count,):
        return None
    return [str(name) for name in names]


def feature(name: Any, known: Iterable[str], where: str) -> str:
    """The name of a feature that there is. Raises RequestError, with all their names, for another one."""
    names = list(known)
    if isinstance(name, str) and name in names:
        return name
    expected = f"one of {', '.join(names)}" if names else "none: it has no features"
    raise RequestError(explain(f"there is no feature {shown(name)}.", where=where, expected=expected))


def neurons(run: Named, count: int, word: str = "neuron") -> list[str]:
    """(count,) what the neurons of a run are called: "coordinate 7 (bmi)" where the coordinates have names, else the
    word and the number."""
    names = given(run.arguments, count)
    if names is None:
        return [f"{word} {i}" for i in range(count)]
    return [f"coordinate {i} ({name})" for i, name in enumerate(names)]


def components(run: Named, feature: str, count: int) -> Sequence[str]:
    """(count,) what the components of a feature are called: the names where there is one a component."""
    return given(run.arguments, count) or [f"{feature} {i}" for i in range(count)]


def word_of(*labels: str) -> str:
    """The word that one of these labels of drops begins with, in the singular: "mode" of "modes 1 (sigma 3), 2"; else
    "neuron"."""
    found = (re.match(r"([a-z]+?)s? \d", label) for label in labels)
    return next((first[1] for first in found if first is not None), "neuron")


def listed(names: Sequence[str]) -> str:
    """These names; of many the first, and how many more there are."""
    if len(names) <= _MOST_NAMED:
        return ", ".join(names)
    return ", ".join([*names[:_FIRST_NAMED], f"and {len(names) - _FIRST_NAMED:,} more"])
