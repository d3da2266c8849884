"""What may import what, and how little is loaded to start."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agf

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "agf").rglob("*.py"))
PLUGINS = sorted((ROOT / "problems").rglob("*.py"))

#: Loaded only inside the functions that use them.
HEAVY = {"torch", "matplotlib", "networkx", "rich", "sklearn", "pandas", "mlxtend", "plotly", "dask", "joblib"}
#: What a plugin may name: the package itself and the documented modules.
OPEN_TO_PLUGINS = {"agf"} | {
    f"agf.{name}"
    for name in "arrays batch clock datasets errors factored init integrators losses rounding sphere stopping".split()  # noqa: SIM905
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


def test_the_walk_sees_module_level_function_level_and_type_checking_imports(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import os\nif TYPE_CHECKING:\n    import torch\ndef f():\n    from agf import plot\n")
    assert imported(path, everywhere=False) == {"os"}
    assert imported(path, everywhere=True) == {"os", "agf", "agf.plot"}


def test_layers_and_the_independence_of_trainers_and_predictors_hold():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_who_comes_in_by_the_front_door_stands_above_what_is_behind_it():
    """`import agf` reaches every room. The rooms of the users' jobs may, and one network, whose closed form is that of
    a plug-in: it predicts with few neurons, by public names."""
    users = ("shell", "figures", "page")
    found = set()
    for path in MODULES:
        where = path.relative_to(ROOT / "agf")
        if where.parts[0] in users or where.name == "__init__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            whole = isinstance(node, ast.Import) and any(alias.name == "agf" for alias in node.names)
            some = isinstance(node, ast.ImportFrom) and node.module == "agf"
            if whole or (some and any(alias.name in agf.__all__ for alias in node.names)):
                found.add(where.as_posix())
    assert found == {"networks/theory.py"}


@pytest.mark.parametrize("path", [*MODULES, *PLUGINS], ids=lambda path: ".".join(path.with_suffix("").parts[-2:]))
def test_heavy_packages_are_imported_inside_functions(path):
    heavy = {name.split(".")[0] for name in imported(path, everywhere=False)} & HEAVY
    assert not heavy


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: ".".join(path.with_suffix("").parts[-2:]))
def test_a_plugin_uses_public_names_of_the_package_only(path):
    names = {name for name in imported(path, everywhere=True) if name.split(".")[0] == "agf"}
    for name in names:
        module, _, last = name.rpartition(".")
        exported = agf.__all__ if module == "agf" else [last] if module in OPEN_TO_PLUGINS else []
        public = name in OPEN_TO_PLUGINS or last in exported
        assert public, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: ".".join(path.with_suffix("").parts[-2:]))
def test_a_system_imports_of_the_built_in_problems_itself_alone(path):
    for name in imported(path, everywhere=True):
        if name.startswith("agf_problems."):
            assert name.split(".")[1] == path.parent.name, f"{path} imports {name}"


def test_no_exported_name_is_that_of_a_module_or_room():
    assert not set(agf.__all__) & {path.stem for path in (ROOT / "agf").iterdir()}


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


def test_the_phases_are_reached_from_the_package_alone():
    from agf import active, dormant, phases

    assert callable(dormant.carry)
    assert callable(active.settle)
    assert callable(phases.GenericPhases)


def test_a_prediction_from_the_shell_loads_no_torch_and_no_plotting():
    code = "from agf.shell.main import main\n"
    code += "assert main(['predict', 'diagonal-linear', '--data', 'diabetes', '--json']) == 0"
    assert not loaded_after(code) & HEAVY


def marches(path: Path) -> list[int]:
    """Lines of a file that take steps of a flow: calls of `march`, as a name or an attribute."""
    calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    return [node.lineno for node in calls if ast.unparse(node.func).split(".")[-1] == "march"]


@pytest.mark.parametrize("path", [*MODULES, *PLUGINS], ids=lambda path: ".".join(path.with_suffix("").parts[-2:]))
def test_steps_of_a_flow_are_taken_by_its_driver_alone(path):
    """Methods hand the steps of the integrators on, and `drive` asks its rules after each: no other loop does."""
    owners = {ROOT / "agf" / name for name in ("stopping/driver.py", "stopping/methods.py")}
    assert (path in owners) == bool(marches(path)), f"{path}: {marches(path)}; compose rules in agf.stopping.driver"
