"""The numbers of the gallery are those of today's code: figures that take seconds are computed again in full.

The others are held by their fast versions, in test_figures.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_docs import check_output

from agf import figures

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
TABLE = re.compile(r"^```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
#: Those that take less than five seconds and have a table of drops. The others (figure 6 takes minutes, the scales half
#: of one, figure 7 and most races train) are held by their fast versions alone, which go through the same code.
NAMES = ["fig3", "fig4", "fig5", "fig8", "min-toy", "landscape"]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_the_gallery_is_what_the_figure_gives_today(name):
    match = TABLE.search((GALLERY / f"{name}.md").read_text(encoding="utf-8"))
    assert match is not None
    check_output(
        match.group(1), figures.make(name).table().text()
    )  # stale: `python docs/gallery/build.py NAME` renews it


def test_every_table_of_the_gallery_is_of_the_figure_of_its_page():
    for name, (_, title) in figures.FIGURES.items():
        match = TABLE.search((GALLERY / f"{name}.md").read_text(encoding="utf-8"))
        if match is None:  # nothing is predicted there
            assert not re.fullmatch(r"fig\d", name), name
        else:
            assert match.group(1).startswith(f"{name}: {title}"[:100]), name
