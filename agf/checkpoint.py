"""A run file that is written again and again while a run lasts, so that a killed run leaves its last state readable."""

from __future__ import annotations

import os
import time as wall
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agf import files
from agf.errors import ComputationError
from agf.trajectory import Trajectory

#: Seconds between writes: a tenth of the age of the run within these bounds, and ten times what a write takes.
_SOONEST, _LATEST = 1.0, 60.0


class Checkpoint:
    """The run file `path`, or nothing when it is None. Raises FileError at once for one that cannot be written."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        if path is not None:
            files.check_writable(path)
        self.path = path
        self.began = self.saved = wall.perf_counter()
        self.cost = 0.0

    def offer(self, make: Callable[[], Trajectory]) -> None:
        """Save what `make` gives if it is time to."""
        now = wall.perf_counter()
        pause = max(min(max(0.1 * (now - self.began), _SOONEST), _LATEST), 10 * self.cost)
        if self.path is not None and now - self.saved > pause:
            self.save(make())
            self.saved = wall.perf_counter()
            self.cost = self.saved - now

    def save(self, trajectory: Trajectory) -> None:
        """Save now."""
        if self.path is not None:
            trajectory.save(self.path)

    @contextmanager
    def last(self) -> Iterator[None]:
        """Save what a ComputationError raised inside carries."""
        try:
            yield
        except ComputationError as error:
            if error.partial is not None:
                self.save(error.partial)
            raise
