"""The site, `make docs`: pages are Markdown that reads the same in the repository, the reference is docstrings."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import agf

project = "agf"
author = "The agf developers"
copyright = "the agf developers, MIT licence"
version = release = agf.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# The source of the site is the root of the repository, so that links lead to the same pages on the site and in a clone.
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**"]
exclude_patterns = [".*", "out", "agf", "problems", "tests", "audit", "**.ipynb_checkpoints"]
html_theme = "furo"
html_static_path = html_css_files = ["site.css"]
html_title = f"agf {version}"
nb_execution_mode = "off"  # the tests execute the notebooks
myst_heading_anchors = 3
autodoc_typehints = "none"  # docstrings have the types
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
default_role = "literal"

_HERE = Path(__file__).parent
#: The pages in the order of the sidebar; others follow.
_CONTENTS = {
    "Start": ["README", "docs/how-it-works", "docs/notation", "docs/when-it-fails", "docs/accuracy", "docs/speed"],
    "Do": ["docs/write-a-problem", "docs/trained-elsewhere", "docs/sweeps"],
    "See": ["docs/gallery/*", "docs/ties", "docs/notebooks/*"],
    "Look up": [
        "docs/api/index",
        "docs/architecture",
        "docs/departures",
        "docs/bibliography",
        "docs/statements",
        "docs/errata",
        "docs/constants",
        "CONTRIBUTING",
        "CHANGELOG",
    ],
}


def _on_page(app: Any, name: str, source: list[str]) -> None:
    """Pages in the sidebar, names and modules: listed from the folder and the code, so that none is forgotten."""
    if name == root_doc:
        named = {page for pages in _CONTENTS.values() for page in pages}
        more = [f"docs/{path.stem}" for path in sorted(_HERE.glob("*.md"))]
        more = [page for page in more if page not in named and page != root_doc]
        for caption, pages in {**_CONTENTS, "More": more}.items():
            if pages:
                listed = "\n".join(f"/{page}" for page in pages)
                source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n{listed}\n```\n"
    if name == "docs/api/more":
        listed = "".join(path.read_text(encoding="utf-8") for path in (_HERE / "api").glob("*.rst"))
        for public in agf.__all__:
            value = getattr(agf, public)
            if f":: agf.{public}\n" not in listed and callable(value):
                directive = "autoclass" if inspect.isclass(value) else "autofunction"
                source[0] += f"\n.. {directive}:: agf.{public}\n" + ("   :members:\n" if inspect.isclass(value) else "")
    if name == "docs/api/modules":
        for module in agf._MODULES:
            own = [name for name in agf.__all__ if getattr(getattr(agf, name), "__module__", "") == f"agf.{module}"]
            title = f"agf.{module}"
            source[0] += f"\n{title}\n{'-' * len(title)}\n\n.. automodule:: {title}\n   :members:\n"
            source[0] += f"   :exclude-members: {', '.join(own)}\n" if own else ""


def _on_end(app: Any, error: Exception | None) -> None:
    """The site opens at the index, which lies in a folder."""
    if error is None:
        page = f'<meta http-equiv="refresh" content="0; url={root_doc}.html"><a href="{root_doc}.html">agf</a>\n'
        (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def _on_docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text but for backticks and lists: what reStructuredText would read otherwise is escaped."""
    special = re.compile(r"\\|\||(?<=\S)\*|\*(?=\S)|(?<=\w)_(?!\w)")
    for k, line in enumerate(lines):
        if not line.lstrip().startswith(">>>"):
            parts = line.split("`")  # odd ones are between backticks
            parts[::2] = [special.sub(r"\\\g<0>", part) for part in parts[::2]]
            lines[k] = "`".join(parts)


def _on_signature(app: Any, what: str, name: str, value: Any, options: Any, shown: str, returns: str) -> Any:
    """What the constructor of a class takes, though `__new__` may see it first."""
    if what != "class" or issubclass(value, Exception):
        return None
    taken = inspect.signature(value)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in taken.parameters.values()]
    return str(taken.replace(parameters=bare, return_annotation=taken.empty)), None


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", _on_signature)
    app.connect("source-read", _on_page)
    app.connect("build-finished", _on_end)
    app.connect("autodoc-process-docstring", _on_docstring, priority=400)
