"""Who is shown a prediction as it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agf.records.state import State
from agf.results.drop import Drop

#: Called with a state, and with the drop that it ends, where it ends one.
Observer = Callable[[State[Any], Drop | None], None]
