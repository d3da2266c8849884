"""What people read while a command runs: tables, sentences and progress, on standard error.

`reporter` chooses one of three: drawn with rich on a terminal, plain text in a pipe or log file, or the silent twin.
Commands talk to whichever they got, so that none of them asks whether anybody is listening.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agf.table import Table

Update = Callable[[str], None]
#: Least width, in characters, of the last column of a table, which holds words.
_LEAST_WORDS = 20


class Silent:
    """Says nothing: `--quiet`."""

    def say(self, words: str) -> None:
        """A sentence."""

    def table(self, table: Table) -> None:
        """A table."""

    @contextmanager
    def progress(self, words: str) -> Iterator[Update]:
        """A context that shows what is going on; the function it gives replaces the words."""
        del words
        yield lambda words: None


class Plain(Silent):
    """Plain text, without progress: for pipes and log files."""

    def say(self, words: str) -> None:
        print(words, file=sys.stderr)

    def table(self, table: Table) -> None:
        print(table.text(), file=sys.stderr)


class Terminal(Silent):
    """Drawn with rich."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)

    def say(self, words: str) -> None:
        self.console.print(words, markup=False)

    def table(self, table: Table) -> None:
        from rich import box
        from rich.table import Table as Drawn
        from rich.text import Text

        drawn = Drawn(
            title=Text(table.title),
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        last = len(table.columns) - 1
        needed = 0
        for j, column in enumerate(table.columns):
            # A cut number would be another number: only words wrap, those of the headings and of the last column.
            widest = max([len(row[j]) for row in table.rows], default=0)
            least = max(len(word) for word in [*column.split(), ""])
            least = max(least, min(widest, _LEAST_WORDS) if j == last else widest)
            drawn.add_column(Text(column), justify="left" if j == last else "right", min_width=least, overflow="fold")
            needed += least + 2
        if needed > self.console.width:
            self.console.print(Text(table.text()), soft_wrap=True)
            return
        for row in table.rows:
            drawn.add_row(*[Text(cell) for cell in row])
        self.console.print(drawn)
        for note in table.notes:
            self.say(note)

    @contextmanager
    def progress(self, words: str) -> Iterator[Update]:
        from rich.text import Text

        with self.console.status(Text(words)) as status:
            yield lambda words: status.update(Text(words))


def reporter(quiet: bool = False) -> Silent:
    """The reporter for this process: silent when asked, drawn on a terminal, plain text elsewhere."""
    if quiet:
        return Silent()
    return Terminal() if sys.stderr.isatty() else Plain()
