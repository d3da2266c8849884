"""The page of statements names code and tests that exist, and says of each statement whether it holds."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache, reduce
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "statements.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| statement")
]


@cache
def names_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_row_has_all_its_cells_and_a_verdict():
    assert len(ROWS) > 40
    for row in ROWS:
        assert len(row) == 5, row
        assert re.match(r"yes|mended|no:|on problems|-", row[2]), row


def test_every_function_named_exists():
    for row in ROWS:
        named = re.findall(r"`([\w.]+):([\w.]+)`", row[3])
        assert named, row
        for module, qualified in named:
            reduce(getattr, qualified.split("."), importlib.import_module(module))


def test_every_test_named_exists():
    for row in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row[4])
        assert named, row
        for path, name in named:
            assert name in names_in(path), (path, name)


def test_what_is_mended_or_wrong_stands_in_the_errata():
    errata = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    for row in ROWS:
        if row[2].startswith(("mended", "no:")):
            tests = re.findall(r"::(\w+)`", row[4])
            assert any(f"`{test}`" in errata for test in tests), row
