"""The numbers of the gallery are those of today's code: figures that take seconds are computed again in full."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from agf import figures

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
TABLE = re.compile(r"^```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


def agree(shown: str, found: str, percent: bool) -> bool:
    """Numbers to a thousandth, the rtol of the training; errors, differences of nearly equal ones, to .05 %."""
    try:
        one, other = float(shown.lstrip("<")), float(found.lstrip("<"))
    except ValueError:
        return shown == found
    # a level below a billionth of the first is what the flow happened to stop at
    return math.isclose(one, other, rel_tol=1e-3, abs_tol=0.05 if percent else 1e-8)


@pytest.mark.parametrize("name", ["fig3", "fig4", "fig5", "fig8", "two-edged-three"])
def test_a_table_of_the_gallery_is_what_the_figure_gives_today(name):
    match = TABLE.search((GALLERY / f"{name}.md").read_text(encoding="utf-8"))
    assert match is not None
    shown, found = match.group(1).split(), figures.make(name).table().text().split()
    stale = f"{name} is stale: `python docs/gallery/build.py {name}` renews it"
    assert len(shown) == len(found), stale
    for one, other, unit in zip(shown, found, [*shown[1:], ""], strict=True):
        assert agree(one, other, unit == "%"), (stale, one, other)


def test_every_table_of_the_gallery_is_of_the_figure_of_its_page():
    for name, (_, title) in figures.FIGURES.items():
        match = TABLE.search((GALLERY / f"{name}.md").read_text(encoding="utf-8"))
        if match is None:  # nothing is predicted there
            assert not re.fullmatch(r"fig\d", name), name
        else:
            assert match.group(1).startswith(f"{name}: {title}"[:100]), name
