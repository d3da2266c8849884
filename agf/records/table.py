"""A table that prints as text, renders in notebooks, and knows nothing of terminals.

`report` draws it with rich; `str()` and `_repr_html_` of every result go through here.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from agf.arrays import IntArray


def visible(text: str) -> str:
    """Text as it may be printed: what would move the cursor, break the line, or turn the order of reading is shown.

    Control characters (escapes of a terminal, newlines), formatting marks (bidirectional ones, zero width) and lone
    surrogates become "\\x1b", "\\u202e" and the like.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in text
    )  # fmt: skip


#: Characters of what a result is in short. Limit: it fits a line of a terminal; the end of a longer one is cut.
_LINE = 79


def one_line(text: str) -> str:
    """What a result is, for its repr: "<...>" on one line."""
    shown = visible(text)
    return shown if len(shown) <= _LINE else f"{shown[: _LINE - 4]}...>"


def number(value: object, digits: int = 4) -> str:
    """A number for people: `digits` significant digits, a dash for NaN and None."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return str(int(value))
    real = float(value)  # type: ignore[arg-type]
    if np.isnan(real):
        return "-"
    if real == 0:
        return "0"
    if 1e-3 <= abs(real) < 1e6:
        text = f"{real:.{digits}g}"
        return f"{real:.0f}" if "e" in text else text
    return f"{real:.{digits - 1}e}"


def bound(value: float) -> str:
    """Two significant digits of a bound >= 0 from above: rounded down it would be no bound."""
    text = f"{value:.2g}"
    if float(text) >= value:
        return text
    return f"{float(text) + 10.0 ** (np.floor(np.log10(value)) - 1.0):.2g}"


#: Digits of a number at most. Derived: those that a float64 has.
_MOST_DIGITS = 15


def apart(values: Sequence[float], digits: int = 4, most: int = _MOST_DIGITS) -> list[str]:
    """Numbers for people that are read beside one another: `digits` digits each, and more until two that differ in
    `most` digits look different."""
    words = [[number(value, more) for value in values] for more in range(digits, most + 1)]
    return next(some for some in words if len(set(some)) == len(set(words[-1])))


def level(value: float, scale: float, digits: int = 4) -> str:
    """A loss for people: `number`, but "0" where adding it to `scale`, the loss L(0), changes nothing in float64.

    Such a value (below 1e-16 L(0)) is what rounding leaves of a loss of zero.
    """
    return "0" if abs(value) < 0.5 * np.finfo(np.float64).eps * abs(scale) else number(value, digits)


def counted(count: int, word: str) -> str:
    """How many, in words: "1 run", "12,000 runs"."""
    return f"{count:,} {word}" + "s" * (count != 1)


def those(word: str, which: Collection[object] | IntArray) -> str:
    """Which ones, in words: "drop 2", "drops 1, 6, 8"."""
    return word + "s" * (len(which) != 1) + " " + ", ".join(map(str, which))


def percent(value: float | None) -> str:
    """A relative error for people, e.g. "0.12 %", "<0.001 %" in size or "53 times"; a dash for NaN and None."""
    if value is None or np.isnan(value):
        return "-"
    if np.isinf(value):
        return "inf"
    if 0 < abs(value) < 1e-5:
        return "<0.001 %"
    if abs(value) >= 10:
        return f"{number(value, 2)} times"
    return f"{100 * value:.2g} %" if abs(value) < 0.995 else f"{100 * value:.0f} %"


#: Letters of a cell. Limit: it is read at a glance; a longer one (the label of a million tied coordinates) is cut, and
#: says so.
_LONGEST = 400


def _cell(text: str) -> str:
    shown = visible(text[: _LONGEST + 1])
    return shown if len(text) <= _LONGEST else f"{shown[:_LONGEST]}... ({len(text):,} characters)"


@dataclass(frozen=True)
class Table:
    """A titled table. rows : cells already formatted (see `number`); notes : sentences printed below."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", visible(self.title))
        object.__setattr__(self, "columns", [visible(column) for column in self.columns])
        object.__setattr__(self, "rows", [[_cell(cell) for cell in row] for row in self.rows])
        object.__setattr__(self, "notes", [visible(note) for note in self.notes])

    def text(self) -> str:
        """Plain text, columns right-aligned but the last."""
        cells = [list(self.columns), *[list(row) for row in self.rows]]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.columns))]
        last = len(widths) - 1
        lines = [self.title]
        for index, row in enumerate(cells):
            aligned = [
                c.ljust(w) if j == last else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(aligned).rstrip())
            if index == 0:
                lines.append("  ".join("-" * w for w in widths))
        lines.extend(self.notes)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """An HTML table for notebooks; every cell escaped."""
        head = "".join(f"<th>{escape(c)}</th>" for c in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.rows)
        notes = "".join(f"<div><small>{escape(n)}</small></div>" for n in self.notes)
        return (
            f"<div><b>{escape(self.title)}</b><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{notes}</div>"
        )


class Tabular(ABC):
    """What is shown as a table: printed as text, and in notebooks as HTML."""

    @abstractmethod
    def table(self) -> Table:
        """What it says."""

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()
