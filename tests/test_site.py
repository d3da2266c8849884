"""The site builds without a warning, every link in it leads somewhere, and its reference has every public name."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import agf

pytest.importorskip("myst_nb")
pytest.importorskip("furo")
ROOT = Path(__file__).parents[1]


def test_make_docs_builds_though_there_is_a_folder_of_that_name():
    (line,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY:")]
    assert "docs" in line.split()


def built(folder: Path) -> Path:
    out = folder / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-c", "docs"]
    command += ["-d", str(folder / "doctrees"), ".", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr.strip(), done.stderr
    return out


class _Page(HTMLParser):
    """Links of a page, and the names that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attributes}
        self.links |= {given[key] for key in ("href", "src") if key in given}
        self.names |= {given[key] for key in ("id", "name") if key in given}


def broken_links(site: Path) -> list[str]:
    """Links within the site that lead nowhere, each with its page."""
    pages = {path: _Page(path) for path in site.rglob("*.html")}
    assert len(pages) > 20
    broken = []
    for path, page in pages.items():
        for link in page.links:
            there = urlsplit(link)
            if there.scheme or there.netloc:
                continue
            target = (path.parent / unquote(there.path)).resolve() if there.path else path
            if not target.exists() or (
                there.fragment and target in pages and there.fragment not in pages[target].names
            ):
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


def missing_names(site: Path) -> set[str]:
    """Public names that the reference lacks; the entry of a name has it as its id."""
    known = set().union(*(_Page(path).names for path in (site / "docs" / "api").glob("*.html")))
    names = {f"agf.{name}" for name in agf.__all__ if name != "__version__"} | {f"module-agf.{m}" for m in agf._MODULES}
    exported = {id(getattr(agf, name)) for name in agf.__all__}
    for module in (importlib.import_module(f"agf.{name}") for name in agf._MODULES):
        for key, value in vars(module).items():
            own = (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == module.__name__
            if own and not key.startswith("_") and id(value) not in exported:
                names.add(f"{module.__name__}.{key}")
    return names - known


def test_the_site_builds_without_a_warning_and_is_whole(tmp_path):
    site = built(tmp_path)
    assert not broken_links(site)
    assert not missing_names(site)
