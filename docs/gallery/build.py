"""Recompute the pictures and tables of the gallery: `python docs/gallery/build.py [--fast] [fig3 ...]`.

Each page has one block of text, its table, which is replaced; the picture is written beside the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from agf import figures
from agf.records import files

HERE = Path(__file__).parent
TABLE = re.compile(r"^```text\n.*?^```$", re.MULTILINE | re.DOTALL)


def build(name: str, fast: bool) -> None:
    """One picture and one table."""
    rendition = figures.make(name, fast)
    with files.atomic(HERE / f"{name}.png") as picture:
        rendition.figure.savefig(picture, format="png", dpi=110)
    page = HERE / f"{name}.md"
    table = "```text\n" + rendition.table().text() + "\n```"
    text = page.read_text(encoding="utf-8")
    with files.atomic(page, "w") as handle:
        handle.write(TABLE.sub(lambda match: table, text, count=1))


if __name__ == "__main__":
    wanted = [word for word in sys.argv[1:] if word != "--fast"] or list(figures.FIGURES)
    for each in wanted:
        build(each, "--fast" in sys.argv)
        print(each)
