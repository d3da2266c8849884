"""A run file that is written again and again while a run lasts, so that a killed run leaves its last state readable."""

from __future__ import annotations

import os
import time as wall
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from agf.errors import ComputationError, FileError
from agf.records import files

#: Seconds between writes: a tenth of the age of the run within these bounds, and ten times what a write takes. Cost: of
#: writing, and of what is lost with a run that is killed.
_SOONEST, _LATEST = 1.0, 60.0


class Result(Protocol):
    """Anything that can be saved: a prediction, a trajectory, a comparison."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a run file."""
        ...


class Checkpoint:
    """The run file `path`, or nothing when it is None.

    Parameters
    ----------
    whole : callable or None
        Makes what is written of a result, for one that is part of another.
    eager : bool
        Write the first result at once, and then as often as writing takes little of the time: for results that come
        rarely, each a good deal of work.

    Raises
    ------
    FileError
        At once for one that cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        whole: Callable[[Any], Result] | None = None,
        eager: bool = False,
    ) -> None:
        if path is not None:
            files.check_run(path)
        self.path, self.whole = None if path is None else os.path.abspath(path), whole
        self.soonest = 0.0 if eager else _SOONEST
        self.began = self.saved = wall.perf_counter()
        self.cost = 0.0
        self.latest: Result | None = None  # what the file holds
        if eager:
            self.saved = -float("inf")

    @classmethod
    def of(cls, kept: Checkpoint | str | os.PathLike[str] | None) -> Checkpoint:
        """A checkpoint as it is, or the one at a path."""
        return kept if isinstance(kept, Checkpoint) else cls(kept)

    def offer(self, make: Callable[[], Result]) -> None:
        """Save what `make` gives if it is time to."""
        now = wall.perf_counter()
        pause = max(min(max(0.1 * (now - self.began), self.soonest), _LATEST), 10 * self.cost)
        if self.path is not None and now - self.saved > pause:
            with suppress(FileError):  # a full disk may have space again by the end, where it is told
                self._save(make())
            self.saved = wall.perf_counter()
            self.cost = self.saved - now

    def watching(self, observer: Callable[..., None] | None, make: Callable[[], Result]) -> Callable[..., None] | None:
        """An observer that also offers what `make` gives whenever there is news."""
        if self.path is None:
            return observer

        def watch(*news: Any) -> None:
            if observer is not None:
                observer(*news)
            self.offer(make)

        return watch

    def save(self, result: Result) -> None:
        """Save now; an interrupt meanwhile is raised when it is done. Where nothing can be written any more, a
        ComputationError carries the result."""
        try:
            self._save(result)
        except FileError as error:
            raise ComputationError(str(error), result) from error

    def _save(self, result: Result) -> None:
        if self.path is None:
            return
        interrupted = False
        try:
            self._write(result)
        except KeyboardInterrupt:  # what was begun is gone
            interrupted = True
            self._write(result)
        if interrupted:
            raise KeyboardInterrupt

    def _write(self, result: Result) -> None:
        assert self.path is not None
        (result if self.whole is None else self.whole(result)).save(self.path)
        self.latest = result

    @contextmanager
    def last(self) -> Iterator[None]:
        """Save what a ComputationError raised inside carries."""
        try:
            yield
        except ComputationError as error:
            if error.partial is not None:
                with suppress(FileError):  # what went wrong first is told
                    self._save(error.partial)
            raise
