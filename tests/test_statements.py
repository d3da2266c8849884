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


@cache
def sources():
    """Name -> source, with its parametrization, of tests that are named by the numbers of statements."""
    found = {}
    for path in ROOT.glob("tests/*/test_*.py"):
        source = path.read_text(encoding="utf-8")
        if not re.search(r"^def test_t?\d", source, flags=re.M):
            continue
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found[node.name] = "\n".join(source.splitlines()[first - 1 : node.end_lineno])
    return found


def numbers(text):
    return {abs(float(found)) for found in re.findall(r"(?<![\w.])\d*\.?\d+(?:e-?\d+)?", text.replace(",", ""))}


def test_numbers_in_tables_of_statements_stand_in_the_tests_that_they_name():
    """But for those that a cell says were measured: of networks, or seeds, that are no test's."""
    held = 0
    for page in ("masks.md", "races.md"):
        for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
            *cells, told = line.strip("|").split(" | ")
            named = re.findall(r"`(test_\w+?)(?:_\.\.\.)?`", cells[-1] if cells else "")
            for name in named:
                assert any(test.startswith(name) for test in sources()), (page, name)
            tests = [source for test, source in sources().items() if test.startswith(tuple(named))]
            if named:
                said = numbers(re.sub(r"`[^`]*`", "", re.split(r"\bmeasured\b", told, flags=re.I)[0]))
                assert said <= numbers("\n".join(tests).replace("_", "")), (page, told)
                held += len(said)
    assert held > 20
