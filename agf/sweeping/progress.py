"""How many runs of a sweep are finished, whoever computes them: read off the rows as they are written."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agf.sweeping.chunk import failure, rows
from agf.sweeping.plan import key

#: Called as observer(finished, total, failed).
Observer = Callable[[int, int, int], None]
#: Seconds between two looks at the rows. Cost: of looking.
_EVERY = 0.3


class Count:
    """Finished and failed runs of these chunks, told to an observer whenever they have changed.

    Parameters
    ----------
    root : Path
        Folder of the sweep.
    chunks : Mapping[str, list of dict]
        The runs asked for, by the name of their chunk.
    tell : Observer or None
        Whom to tell; no one where None.
    """

    def __init__(self, root: Path, chunks: Mapping[str, list[dict[str, Any]]], tell: Observer | None) -> None:
        self.root, self.tell = root, tell
        self.total = sum(len(runs) for runs in chunks.values())
        self.finished = self.failed = 0
        self._open = {name: {key(run) for run in runs} for name, runs in chunks.items()}
        self._read = dict.fromkeys(chunks, 0)
        self._told: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def look(self) -> int:
        """Read what is new, tell, and say how many are finished."""
        with self._lock:
            for name, keys in self._open.items():
                if keys:
                    self._look_at(name, keys)
            if self.tell is not None and self._told != (self.finished, self.failed):
                self._told = (self.finished, self.failed)
                self.tell(self.finished, self.total, self.failed)
            return self.finished

    def _look_at(self, name: str, keys: set[str]) -> None:
        try:
            with open(rows(self.root, name), "rb") as handle:
                handle.seek(self._read[name])
                new = handle.read()
        except OSError:
            return
        whole = new[: new.rfind(b"\n") + 1]  # a line under way is read when it is whole
        self._read[name] += len(whole)
        for line in whole.splitlines():
            entry = json.loads(line)  # checked when the sweep was opened, and written by us since
            if entry["key"] in keys:
                keys.discard(entry["key"])
                self.finished += 1
                self.failed += bool(failure(entry))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look again and again in the background, where there is somebody to tell."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_EVERY):
                self.look()

        thread = threading.Thread(target=watch, name="agf-count", daemon=True)
        if self.tell is not None:
            thread.start()
        try:
            yield
        finally:
            done.set()
            if self.tell is not None:
                thread.join()
