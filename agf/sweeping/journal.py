"""The rows of a sweep on disk: one line a finished run, a torn tail is never read and never kept.

A killed process loses nothing, for a line is handed to the system before the next run is computed. A power cut loses at
most the last `SYNC` seconds: waiting for the disk after every line would cost more than small runs themselves.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agf.errors import FileError, explain
from agf.records import files, schema

#: Longest time, in seconds, for which a line is not yet forced to the disk while others follow. Cost: of writing, and
#: of what is lost with the machine.
SYNC = 0.5


def finished(path: Path) -> dict[str, dict[str, Any]]:
    """Entries of one file by key; a last line torn by a kill is ignored. Raises FileError when it is damaged."""
    out = {}
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FileError(explain(f"cannot read {str(path)!r} ({error.strerror}).")) from None
    for line in content.split(b"\n")[:-1]:
        try:
            entry = json.loads(line)
            schema.ROW(entry, "row")
            out[entry["key"]] = entry
        except (ValueError, RecursionError) as error:
            raise FileError(
                explain(f"{str(path)!r} is damaged ({error}).", remedy="Delete that file to compute its runs again.")
            ) from None
    return out


class Appending:
    """Append entries to a file of rows, each written before the next is computed; a torn tail is cut off first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Callable[[dict[str, Any]], None]:
        try:
            # unbuffered: a failed write must not linger in a buffer and fail again at close
            self.handle = open(self.path, "a+b", buffering=0)
            self.handle.seek(0)
            content = self.handle.read()
            self.handle.truncate(content.rfind(b"\n") + 1)
            self.synced = time.monotonic()
        except OSError as error:
            raise self._refusal(error) from None
        return self._append

    def _append(self, entry: dict[str, Any]) -> None:
        line = json.dumps(files.jsonable(entry), allow_nan=False).encode() + b"\n"
        try:
            if self.handle.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if time.monotonic() - self.synced > SYNC:
                self._sync()
        except OSError as error:
            raise self._refusal(error) from None

    def _sync(self) -> None:
        os.fsync(self.handle.fileno())
        self.synced = time.monotonic()

    def _refusal(self, error: OSError) -> FileError:
        return FileError(
            explain(
                f"cannot write {str(self.path)!r} ({error.strerror}).",
                where="sweep",
                remedy="Finished runs are kept; make room or check the folder, and start again.",
            )
        )

    def __exit__(self, *_: object) -> None:
        try:
            self._sync()
        except OSError as error:
            raise self._refusal(error) from None
        finally:
            self.handle.close()
