"""Recompute the pictures and tables of the gallery: `python docs/gallery/build.py [--fast] [fig3 ...]`.

Each page has one block of text, its table, which is replaced; the picture is written beside the page. The table of the
fast version goes to `fast.json` in the same act: the tests compute it again, and where it has moved the page is stale.
`--stamp` writes that alone, for a page whose numbers have been found to be right.
"""

from __future__ import annotations

import argparse
import json
import re
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


def main() -> None:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"all of them by default: {', '.join(figures.FIGURES)}"
    )
    parser.add_argument("--fast", action="store_true", help="pictures and tables of the fast versions, to look at")
    parser.add_argument("--stamp", action="store_true", help="renew fast.json alone")
    request = parser.parse_args()
    if unknown := sorted(set(request.names) - set(figures.FIGURES)):
        parser.error(f"no figure {', '.join(unknown)}; there are {', '.join(figures.FIGURES)}")
    for name in request.names or figures.FIGURES:
        if not request.stamp:
            build(name, request.fast)
        if not request.fast:
            stamp(name)
        print(name)


if __name__ == "__main__":
    main()
