"""Where a command's result goes: run file, picture, one JSON document, a table; and the exit code it means."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

import click

from agf.errors import ComputationError, FileError, RequestError, explain
from agf.records import files
from agf.records.checkpoint import Checkpoint
from agf.records.status import Status
from agf.records.table import Table
from agf.shell import signals
from agf.shell.console import reporter
from agf.shell.main import DONE, FAILED, INTERRUPTED


class Output:
    """The output options of one command, checked before anything is computed.

    Parameters
    ----------
    output : str or None
        Run file or None.
    picture : str or None
        Picture file or None.
    as_json : bool
        As the option says.
    quiet : bool
        As the option says.
    inputs : Iterable[str | None]
        Files that are read, which no output may replace.

    Attributes
    ----------
    kept : Any
        What to deliver when an interrupt finds the command between two results.
    table : callable
        How a result is printed.
    checkpoint : Checkpoint or None
        Who writes the run file as the computation goes on: what it wrote last is not written again, as it may be large.

    Raises
    ------
    FileError
        For a path that cannot be written.
    RequestError
        When both paths are one.
    """

    kept: Any = None
    checkpoint: Checkpoint | None = None

    def __init__(
        self,
        output: str | None,
        picture: str | None,
        as_json: bool,
        quiet: bool,
        inputs: Iterable[str | None] = (),
    ) -> None:
        self.named = [path for path in (output, picture) if path is not None]
        self.output = None if output is None else os.path.abspath(output)  # whoever changes the folder later
        self.picture = None if picture is None else os.path.abspath(picture)
        self.as_json = as_json
        self.report = reporter(quiet)
        self.table: Callable[[Any], Table] = lambda result: result.table()
        if None not in (output, picture) and self.output == self.picture:
            raise RequestError(explain(f"run file and picture are both {output!r}.", remedy="Give two names."))
        inputs = tuple(inputs)
        for path in (output, picture):
            files.check_distinct(path, inputs)
        if output is not None:
            files.check_run(output)
        if picture is not None:
            from agf import plot

            plot.check_path(picture)

    def finish(self, compute: Callable[[], Any]) -> int:
        """Save, draw and print the Staircase, Trajectory or Comparison that `compute` gives; returns the exit code.

        When it raises ComputationError, what it had by then is treated so first.
        """
        try:
            result, failure = compute(), None
        except ComputationError as error:
            result, failure = error.partial, error
        except (KeyboardInterrupt, FileError):
            if self.kept is not None:
                self._deliver(self.kept)
            raise
        if result is not None:
            self._deliver(result)
        if failure is not None and not isinstance(failure.__cause__, FileError):  # which could be written by now
            raise failure
        return exit_code(result)

    def _deliver(self, result: Any) -> None:
        lost = None
        if self.output is not None and (self.checkpoint is None or self.checkpoint.latest is not result):
            try:
                with signals.holding():
                    result.save(self.output)
            except FileError as error:  # the disk is full, or the folder gone: what was computed is printed at least
                lost = error
        if self.as_json:
            print_json(result.to_dict())
        self.report.table(self.table(result))
        if self.picture is not None:
            result.plot(self.picture)
        if lost is not None:
            raise lost
        for written in self.named:
            self.report.say(f"Wrote {written}.")


def print_json(document: Any) -> None:
    """The one document on standard output (see `cli.to_stderr`): strict JSON, NaN as null."""
    click.get_current_context().obj.write(json.dumps(files.jsonable(document), allow_nan=False, indent=2) + "\n")


def exit_code(result: Any) -> int:
    """0 done, 1 failed, 130 interrupted; of a comparison, the worse of its two sides."""
    found = [getattr(result, "status", None)]
    found += [getattr(getattr(result, side, None), "status", None) for side in ("stairs", "trajectory")]
    if Status.INTERRUPTED in found:
        return INTERRUPTED
    return FAILED if any(status is not None and status.failed for status in found) else DONE
