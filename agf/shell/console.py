"""What people read while a command runs: tables, sentences and progress, on standard error.

`reporter` chooses one of three: drawn with rich on a terminal, plain text in a pipe or log file, or the silent twin.
Commands talk to whichever they got, so that none of them asks whether anybody is listening.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Literal

from agf.records.table import Table, visible

Update = Callable[[str], None]
#: Least width of the last column of a table, which holds words: with two blanks between columns, and with one.
_WORDS, _FEW_WORDS = 24, 12
#: Seconds between two lines of progress in a log, or before the first. Limit: most computations are over by then.
LOGGED = 10.0


def lines(message: str) -> str:
    """Sentences as they may be printed, their own line breaks kept."""
    return "\n".join(visible(line) for line in message.split("\n"))


class Silent:
    """Says nothing: `--quiet`."""

    def say(self, message: str) -> None:
        """A sentence."""

    def table(self, table: Table) -> None:
        """A table."""

    @contextmanager
    def progress(self, message: str) -> Iterator[Update]:
        """A context that shows what is going on; the function it gives replaces the message."""
        del message
        yield lambda message: None


class Plain(Silent):
    """Plain text: for pipes and log files, with a line of progress each time that twice as long has passed."""

    def say(self, message: str) -> None:
        print(lines(message), file=sys.stderr)

    @contextmanager
    def progress(self, message: str) -> Iterator[Update]:
        del message
        began, due = monotonic(), LOGGED

        def update(words: str) -> None:
            nonlocal due
            passed = monotonic() - began
            if passed >= due:
                due = 2.0 * passed
                self.say(f"{words} (after {passed:.0f} s)")

        yield update

    def table(self, table: Table) -> None:
        print(table.text(), file=sys.stderr)


class Terminal(Silent):
    """Drawn with rich."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)

    def say(self, message: str) -> None:
        self.console.print(lines(message), markup=False)

    def table(self, table: Table) -> None:
        from rich import box
        from rich.table import Table as Drawn
        from rich.text import Text

        # A cut number would be another number: only words wrap, those of the headings and of the last column.
        last = len(table.columns) - 1
        cells = [max([len(row[j]) for row in table.rows], default=0) for j in range(last + 1)]
        whole = [max(cell, len(column)) for cell, column in zip(cells, table.columns, strict=True)]
        least = [max([cell, *map(len, column.split())]) for cell, column in zip(cells, table.columns, strict=True)]
        for gap, words, widths in ((2, whole[last], whole), (2, _WORDS, least), (1, _FEW_WORDS, least)):
            room = self.console.width - sum(widths[:last]) - gap * last
            if room >= min(words, whole[last]):
                break
        else:
            self.console.print(Text(table.text()), soft_wrap=True)
            return
        drawn = Drawn(
            title=Text(table.title, style="bold"),
            title_justify="left",
            title_style="",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, gap - 1, 0, 0),  # the box adds one
        )
        for j, column in enumerate(table.columns):
            justify: Literal["left", "right"] = "left" if j == last else "right"
            width = min(room, whole[last]) if j == last else widths[j]
            drawn.add_column(Text(column), justify=justify, width=width, overflow="fold")
        for row in table.rows:
            drawn.add_row(*[Text(cell) for cell in row])
        self.console.print(drawn)
        if table.notes:
            self.console.print()
        for note in table.notes:
            self.say(note)

    @contextmanager
    def progress(self, message: str) -> Iterator[Update]:
        from rich.text import Text

        with self.console.status(Text(message)) as status:
            yield lambda message: status.update(Text(visible(message)))


def reporter(quiet: bool = False) -> Silent:
    """The reporter for this process: silent when asked, drawn on a terminal, plain text elsewhere."""
    if quiet:
        return Silent()
    return Terminal() if sys.stderr.isatty() else Plain()
