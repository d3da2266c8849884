"""What may import what, and how little is loaded to start."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agf

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "agf").glob("*.py"))
PLUGINS = sorted((ROOT / "problems").glob("*.py"))

#: Ranks in the order of dependence: a module imports from lower ranks only (functions may import upwards when called,
#: for example a result that draws itself).
RANKS = [
    {"errors", "status", "arrays", "table", "files", "provenance"},
    {"sphere", "clock", "integrators"},
    {"system", "events", "init", "settings", "curve", "activations", "losses", "backend"},
    {"staircase"},
    {"contract"},
]
#: The reference trainers judge the predictions, so they share nothing with what makes them.
TRAINERS = ("polar", "gradient_flow", "descent", "curve", "integrators", "instability", "system")
PREDICTORS = {"dormant", "threshold", "active", "phases", "limit", "resolved", "engine", "batch"}
#: Loaded only inside the functions that use them.
HEAVY = {"torch", "matplotlib", "networkx", "rich", "sklearn", "pandas", "mlxtend", "plotly", "dask", "joblib"}
#: What a plugin may name: the package itself and the documented modules.
OPEN_TO_PLUGINS = {"agf"} | {
    f"agf.{name}"
    for name in ("arrays", "batch", "clock", "datasets", "errors", "init", "integrators", "losses", "sphere")
}


def imported(path: Path, everywhere: bool) -> set[str]:
    """Absolute names of the modules that a file imports: at module level, or in its functions as well.

    Imports for type checkers alone do not count.
    """
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.FunctionDef | ast.Lambda) and not everywhere:
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def own(names: set[str]) -> set[str]:
    """The modules of the package among imported names."""
    stems = {path.stem for path in MODULES}
    return {name.split(".")[1] for name in names if name.startswith("agf.")} & stems


def test_the_walk_sees_module_level_function_level_and_type_checking_imports(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import os\nif TYPE_CHECKING:\n    import torch\ndef f():\n    from agf import plot\n")
    assert imported(path, everywhere=False) == {"os"}
    assert imported(path, everywhere=True) == {"os", "agf", "agf.plot"}


@pytest.mark.parametrize("rank", range(len(RANKS)))
def test_imports_go_one_way(rank):
    allowed = set().union(*RANKS[: rank + 1])
    for name in RANKS[rank]:
        upward = own(imported(ROOT / "agf" / f"{name}.py", everywhere=False)) - allowed
        assert not upward, f"agf.{name} imports {upward}"


def test_no_module_level_cycle():
    graph = {path.stem: own(imported(path, everywhere=False)) - {path.stem} for path in MODULES}
    while graph:
        free = [name for name, needs in graph.items() if not needs & set(graph)]
        assert free, f"import cycle among {sorted(graph)}"
        for name in free:
            del graph[name]


@pytest.mark.parametrize("name", TRAINERS)
def test_the_trainers_use_nothing_of_what_they_judge(name):
    assert not own(imported(ROOT / "agf" / f"{name}.py", everywhere=True)) & PREDICTORS


@pytest.mark.parametrize("path", [*MODULES, *PLUGINS], ids=lambda path: f"{path.parent.name}.{path.stem}")
def test_heavy_packages_are_imported_inside_functions(path):
    heavy = {name.split(".")[0] for name in imported(path, everywhere=False)} & HEAVY
    assert not heavy


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: path.stem)
def test_a_plugin_uses_public_names_of_the_package_only(path):
    names = {name for name in imported(path, everywhere=True) if name.split(".")[0] == "agf"}
    for name in names:
        module, _, last = name.rpartition(".")
        exported = agf.__all__ if module == "agf" else [last] if module in OPEN_TO_PLUGINS else []
        public = name in OPEN_TO_PLUGINS or last in exported
        assert public, f"{path.name} imports {name}"


def test_plugins_of_different_problems_do_not_import_one_another():
    # Registered classes live in one file each; helper files belong to the problem whose files import them.
    owners: dict[str, set[str]] = {}
    for path in PLUGINS:
        for name in imported(path, everywhere=True):
            if name.startswith("agf_problems."):
                owners.setdefault(name.split(".")[1], set()).add(path.stem)
    from importlib.metadata import entry_points

    registered = {point.value.split(":")[0].split(".")[1] for point in entry_points(group="agf.problems")}
    for module in registered & set(owners):
        others = owners[module] & registered
        assert not others, f"{others} import {module}"


def test_the_package_never_imports_its_plugins():
    for path in MODULES:
        assert not {name for name in imported(path, everywhere=True) if name.startswith("agf_problems")}


def test_no_exported_function_shares_its_name_with_a_module():
    assert not set(agf.__all__) & {path.stem for path in MODULES}


def test_every_exported_name_exists_and_an_unknown_one_is_refused():
    for name in agf.__all__:
        assert getattr(agf, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        agf.nothing  # noqa: B018


def loaded_after(code: str) -> set[str]:
    """Packages loaded by a fresh interpreter that runs `code`."""
    code += "\nimport sys\nsys.stdout.flush()\nprint('LOADED', *{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_import_loads_nothing_heavy():
    loaded = loaded_after("import agf; dir(agf)")
    assert not loaded & (HEAVY | {"scipy", "click"})


def test_documented_modules_are_reached_from_the_package_alone_and_load_nothing_heavy():
    loaded = loaded_after("import agf\nfor name in agf._MODULES: assert getattr(agf, name).__name__ == 'agf.' + name")
    assert not loaded & HEAVY
    assert set(agf._MODULES) <= set(dir(agf))
    assert {f"agf.{name}" for name in agf._MODULES} >= OPEN_TO_PLUGINS - {"agf"}


def test_a_prediction_from_the_shell_loads_no_torch_and_no_plotting():
    code = "from agf.cli import main; assert main(['predict', 'diagonal-linear', '--data', 'diabetes', '--json']) == 0"
    assert not loaded_after(code) & HEAVY
