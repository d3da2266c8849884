"""Rooms and arrows, read off the code: `python docs/architecture.py` renews picture and table of architecture.md.

A room is a folder of `agf`, or a module at its top. An arrow is an import, wherever in a file it stands but for type
checkers. The floors are those of `[tool.importlinter]` in pyproject.toml, which a test holds the imports to.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE, PICTURE = HERE / "architecture.md", HERE / "architecture.svg"
BLOCK = re.compile(r"(?<=<!-- rooms -->\n).*?(?=<!-- end of rooms -->)", re.DOTALL)
ABOVE = "problems"
"""The plugins of the repository: above all rooms, and only public names are open to them."""

WIDTH, ROW, BOX, HEIGHT = 940, 62, 100, 26


@cache
def files() -> dict[str, Path]:
    """Module -> its file, of `agf` and of the plugins."""
    found = {}
    for package, folder in (("agf", ROOT / "agf"), ("agf_problems", ROOT / "problems" / "agf_problems")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])] = path
    return found


def room(module: str) -> str:
    """The room that a module is in; "" for the front door, `agf` itself."""
    parts = module.split(".")
    return ABOVE if parts[0] == "agf_problems" else "".join(parts[1:2])


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules that a file imports: in functions as well, but not for type checkers."""
    found = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names if name.name in known)
        if isinstance(node, ast.ImportFrom) and node.module in known:
            inside = {f"{node.module}.{name.name}" for name in node.names} & set(known)
            found.update(inside or {node.module})
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


@cache
def uses() -> set[tuple[str, str]]:
    """(module, module that it imports) where these are in two rooms."""
    known = files()
    pairs = ((module, other) for module, path in known.items() for other in imported(path, known))
    return {(module, other) for module, other in pairs if room(other) not in ("", room(module))}


@cache
def arrows() -> set[tuple[str, str]]:
    """(room, room that it imports)."""
    return {(room(module), room(other)) for module, other in uses() if room(module)}


def floors() -> list[list[str]]:
    """Rooms by floor, the highest first, as pyproject.toml has them."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = [one["layers"] for one in linter["contracts"] if one["type"] == "layers"]
    return [[name.strip() for name in re.split(r"[|:]", layer)] for layer in layers]


@cache
def floors_of() -> dict[str, int]:
    """Room -> its floor, counted from the top."""
    return {name: k for k, floor in enumerate(floors()) for name in floor}


@cache
def direct() -> set[tuple[str, str]]:
    """Arrows downwards that no way over other rooms implies."""
    floor = floors_of()
    down = {(a, b) for a, b in arrows() if a in floor and floor[a] < floor[b]}
    below: dict[str, set[str]] = {}
    for name in sorted(floor, key=lambda name: -floor[name]):
        near = {b for a, b in down if a == name}
        below[name] = near.union(*(below[b] for b in near)) if near else set()
    return {(a, b) for a, b in down if not any(b in below[c] for x, c in down if x == a and c != b)}


def places() -> dict[str, tuple[float, float]]:
    """Middle of the box of each room, below the rooms that lead to it as far as there is space."""
    found: dict[str, tuple[float, float]] = {}
    lead = direct()
    for k, floor in enumerate(floors()):
        wanted = []
        for name in floor:
            above = [found[a][0] for a, b in lead if b == name and a in found]
            wanted.append((sum(above) / len(above) if above else WIDTH / 2, name))
        step = WIDTH / len(floor)
        for j, (want, name) in enumerate(sorted(wanted)):
            middle = step * (j + 0.5)
            found[name] = (want if len(floor) == 1 else middle, 30 + ROW * k)
    for floor in floors():  # a room alone on its floor steps aside for arrows that pass it
        if len(floor) == 1:
            x, y = found[floor[0]]
            passing = [
                (found[a][0] + found[b][0]) / 2
                for a, b in lead
                if floor[0] not in (a, b) and found[a][1] < y < found[b][1]
            ]
            spots = [WIDTH * part / 12 for part in range(1, 12)]
            free = max(spots, key=lambda s: min([abs(s - p) for p in passing] + [110]) - 0.3 * abs(s - x))
            found[floor[0]] = (free, y)
    return found


def picture() -> str:
    """The rooms as boxes and the arrows of `direct`, as svg."""
    where = places()
    height = 30 + ROW * (len(floors()) - 1) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#557"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for a, b in sorted(direct()):
        (x0, y0), (x1, y1) = where[a], where[b]
        y0, y1 = y0 + HEIGHT / 2, y1 - HEIGHT / 2
        bend = (y1 - y0) / 2
        out.append(
            f'<path d="M{x0:.0f} {y0:.0f}C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}" '
            f'fill="none" stroke="#557" stroke-opacity="0.6" marker-end="url(#tip)"/>'
        )
    folders = {path.name for path in (ROOT / "agf").iterdir() if path.is_dir()}
    for name, (x, y) in sorted(where.items()):
        fill = "#dbe7f6" if name in folders else "#f4efe2"
        out.append(
            f'<rect x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{BOX}" height="{HEIGHT}" rx="5" '
            f'fill="{fill}" stroke="#557"/><text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">{name}</text>'
        )
    return "\n".join([*out, "</svg>"]) + "\n"


def first(name: str) -> str:
    """The file to read first: the one that the docstring of the room names."""
    known = files()
    if f"agf.{name}" not in known or known[f"agf.{name}"].name != "__init__.py":
        return ""
    said = re.search(r"[Rr]ead `(\w+)`", ast.get_docstring(ast.parse(known[f"agf.{name}"].read_text())) or "")
    return said[1] if said else ""


def purpose(name: str) -> str:
    """First sentence of the docstring of a room."""
    known = files()
    path = known["agf_problems" if name == ABOVE else f"agf.{name}"]
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split())
    return re.split(r"\.(?: |$)|: read ", text)[0] + "."


def table() -> str:
    """One row a room, the highest first, and what the two sides of a comparison have in common."""
    used: dict[str, list[str]] = {}
    floor = floors_of()
    for a, b in sorted(arrows(), key=lambda pair: (floor[pair[1]], pair[1])):
        used.setdefault(a, []).append(b)
    rows = ["| room | what it is for | read first | imports |", "|---|---|---|---|"]
    for name in [ABOVE, *floor]:
        opening = first(name)
        cells = [
            f"`{name}`",
            purpose(name),
            f"`{opening}`" if opening else "",
            ", ".join(used.get(name, [])) or "nothing",
        ]
        rows.append("| " + " | ".join(cells) + " |")
    shared = sorted(reached("algorithm") & reached("training"), key=lambda name: (floor[name], name))
    words = f"`algorithm` and `training` do not know one another. Both stand on: {', '.join(f'`{s}`' for s in shared)}."
    return "\n".join([*rows, "", *textwrap.wrap(words, 120)])


@cache
def reached(name: str) -> set[str]:
    """Rooms below a room, by any number of arrows downwards."""
    floor = floors_of()
    near = {b for a, b in arrows() if a == name and floor[b] > floor[a]}
    return near.union(*(reached(other) for other in near)) if near else near


def page() -> str:
    """The page with its table renewed."""
    return BLOCK.sub(lambda match: table() + "\n", PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
