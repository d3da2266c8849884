"""What people read: plain in pipes, drawn on terminals without ever cutting a number, silent when asked."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from agf.records.table import Table
from agf.shell import console

TABLE = Table(
    "Drops",
    ["drop", "half-drop time", "learned"],
    [["1", "62.2055", "coordinate 2 (bmi)"], ["12", "1.2346e+09", "coordinate 4 (s1); leaves: coordinate 5 [s2]"]],
    ["fitted: [bold]nothing[/bold] is left."],
)


def drawn(width: int) -> str:
    terminal = console.Terminal()
    terminal.console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, highlight=False)
    terminal.table(TABLE)
    return terminal.console.file.getvalue()


@pytest.mark.parametrize("width", [20, 40, 50, 60, 80, 200])
def test_no_number_is_cut_at_any_width(width):
    text = drawn(width)
    for cell in ("62.2055", "1.2346e+09", "coordinate", "[s2]"):
        assert cell in text
    assert "…" not in text
    assert "[bold]nothing[/bold]" in text  # notes are words, not markup


def test_words_wrap_where_there_is_room_for_numbers():
    assert max(len(line.rstrip()) for line in drawn(50).splitlines()[:-1]) <= 50


def test_an_empty_table_can_be_drawn():
    terminal = console.Terminal()
    terminal.console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    terminal.table(Table("Nothing", ["drop", "learned"], []))
    assert "learned" in terminal.console.file.getvalue()


def test_the_reporter_is_plain_off_a_terminal_and_silent_when_asked(capsys):
    assert type(console.reporter()) is console.Plain
    for reporter, said in ((console.reporter(quiet=True), ""), (console.reporter(), TABLE.text() + "\nhello\n")):
        reporter.table(TABLE)
        reporter.say("hello")
        with reporter.progress("working") as update:
            update("working on it")
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", said)


def test_progress_on_a_terminal_shows_the_latest_words():
    terminal = console.Terminal()
    terminal.console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with terminal.progress("predicting") as update:
        update("predicting: drop 3")
    assert "predicting" in terminal.console.file.getvalue()


def test_a_comparison_fits_80_columns_with_every_number_and_word_of_it():
    words = "coordinate 4 (s1); leaves: coordinate 5 (s2)"
    row = ["10", "2954.61", "10830.9", "-0.043 %", "0.27026", "0.27026", "<0.001 %", "12", words]
    columns = ["drop", "predicted", "observed", "error", "level", "observed", "error", "visible drop", "learned"]
    terminal = console.Terminal()
    terminal.console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None, highlight=False)
    terminal.table(Table("Drops", columns, [row]))
    text = terminal.console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for cell in [*row[:-1], *words.split()]:
        assert cell in text
