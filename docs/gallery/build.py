"""Recompute the pictures and tables of the gallery: `python docs/gallery/build.py [--fast] [fig3 ...]`.

Each page has one block of text, its table, which is replaced; the picture is written beside the page. The table of the
fast version goes to `fast.json` in the same act: the tests compute it again, and where it has moved the page is stale.
`--stamp` writes that alone, for a page whose numbers have been found to be right.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from agf import figures
from agf.records import files

HERE = Path(__file__).parent
TABLE = re.compile(r"^```text\n.*?^```$", re.MULTILINE | re.DOTALL)
FAST = HERE / "fast.json"


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


def stamp(name: str) -> None:
    """The lines of the table of the fast version, beside those of the other pages."""
    found = json.loads(FAST.read_text(encoding="utf-8")) if FAST.exists() else {}
    found[name] = figures.make(name, fast=True).table().text().splitlines()
    with files.atomic(FAST, "w") as handle:
        json.dump(dict(sorted(found.items())), handle, indent=1)
        handle.write("\n")


if __name__ == "__main__":
    wanted = [word for word in sys.argv[1:] if not word.startswith("--")] or list(figures.FIGURES)
    for each in wanted:
        if "--stamp" not in sys.argv:
            build(each, "--fast" in sys.argv)
        if "--fast" not in sys.argv:
            stamp(each)
        print(each)
