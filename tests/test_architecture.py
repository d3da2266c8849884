"""The page on the architecture says what the code does: its rooms, its arrows, and the walk of theta."""

from __future__ import annotations

import functools
import graphlib
import importlib
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np

import agf

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REMEDY = "run: python docs/architecture.py"


def script():
    spec = importlib.util.spec_from_file_location("architecture", DOCS / "architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_picture_and_table_are_those_of_the_code():
    architecture = script()
    assert architecture.page() == architecture.PAGE.read_text(encoding="utf-8"), REMEDY
    assert architecture.picture() == architecture.PICTURE.read_text(encoding="utf-8"), REMEDY


def test_no_module_and_no_room_comes_back_to_itself():
    architecture = script()
    known = architecture.files()
    modules = {name: architecture.imported(path, known) - {name, "agf"} for name, path in known.items()}
    rooms = {}
    for name, others in modules.items():
        if name not in ("agf", "agf_problems"):
            here = architecture.room(name)
            rooms.setdefault(here, set()).update({architecture.room(other) for other in others} - {here})
    assert len(rooms) > 30
    for graph in (modules, rooms):
        graphlib.TopologicalSorter(graph).prepare()  # a CycleError says which


def test_every_room_has_a_floor_and_every_folder_says_what_to_read_first():
    architecture = script()
    rooms = {architecture.room(module) for module in architecture.files()} - {"", architecture.ABOVE}
    assert rooms == set(architecture.floors_of()) - {architecture.ABOVE}
    for folder in (path for path in (ROOT / "agf").iterdir() if (path / "__init__.py").exists()):
        first = architecture.first(folder.name)
        assert not first or (folder / f"{first}.py").exists(), f"{folder.name}: {first}"


def test_the_head_of_the_algorithm_names_each_of_its_modules_and_no_other():
    folder = ROOT / "agf" / "algorithm"
    named = re.findall(r"`(\w+)`", importlib.import_module("agf.algorithm").__doc__)
    here = {path.stem for path in folder.iterdir() if not path.stem.startswith("_")}
    assert set(named) == here, sorted(set(named) ^ here)


def test_arrows_that_are_left_out_follow_from_those_that_are_drawn():
    architecture = script()
    floor, drawn = architecture.floors_of(), architecture.direct()

    def below(name):
        near = {b for a, b in drawn if a == name}
        return near.union(*(below(one) for one in near)) if near else near

    for a, b in architecture.arrows():
        if a in floor and floor[a] < floor[b]:
            assert b in below(a), f"{a} -> {b}"


def test_the_walk_of_theta_names_what_is_called_in_the_order_of_the_first_calls():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## The walk of theta")[2]
    named = re.findall(r"`([\w.]+:[\w.]+)`", text)
    assert len(named) > 15
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    problem = agf.TwoLayer(X, np.tanh(X @ [1.0, -1.0, 0.5]), activation="tanh", width=4)
    init, called = problem.init(1e-6), []
    home = str(Path(agf.__file__).parent)

    def note(frame, event, argument):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(home):
            inside = path[len(home) + 1 : -len(".py")].replace("/", ".")
            called.append(f"{inside}:{frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        agf.predict(problem, init, max_drops=1, mode="agf")
    finally:
        sys.setprofile(before)
    order = {name: k for k, name in reversed(list(enumerate(called)))}
    order |= {name.removesuffix(".__init__"): k for name, k in order.items() if name.endswith(".__init__")}
    assert not [name for name in named if name not in order]
    rounds = [name for name in named if name not in ("algorithm.threshold:Threshold.log_radius",)]  # asked all along
    assert [order[name] for name in rounds] == sorted(order[name] for name in rounds)


def test_what_stands_for_a_line_of_the_paper_is_there_and_says_what_it_does():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Rooms")[0]
    named = re.findall(r"`([\w.]+):([\w.]+)`", text)
    assert len(named) > 10
    for module, path in named:
        thing = importlib.import_module(f"agf.algorithm.{module}")
        for part in path.split("."):
            thing = getattr(thing, part)
        assert thing.__doc__, f"{module}:{path}"


def test_departures_name_files_that_exist():
    text = (DOCS / "departures.md").read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| ") and not row.startswith("| departure")]
    assert len(rows) > 12
    for row in rows:
        for name in re.findall(r"`([\w/]+(?:\.py)?)`", row.rsplit("|", 2)[1]):
            path = ROOT / name if name.startswith(("agf/", "problems/")) else ROOT / "agf" / "algorithm" / name
            assert path.exists(), name


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or what one has."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        try:
            functools.reduce(getattr, parts[k:], module)
        except AttributeError:
            return False
        return True
    return False


def test_names_of_the_package_in_docstrings_and_pages_exist():
    pages = [*DOCS.glob("*.md"), *(ROOT / "agf").rglob("*.py"), *(ROOT / "problems").rglob("*.py")]
    named = {
        (name, path.name)
        for path in pages
        for name in re.findall(r"`((?:agf|agf_problems)\.[\w.]*\w)", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 100
    assert not [one for one in named if not exists(one[0])]
