"""What `python -m build` makes: a wheel with everything in it, from which an empty environment runs the demo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import agf

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(*command: object, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Folder with the sdist, and the wheel that was made from it."""
    root, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "out", "_build")
    shutil.copytree(ROOT, root, ignore=unwanted, dirs_exist_ok=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, root)
    return out


def test_the_sdist_has_what_it_takes_to_test_and_to_document(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "docs/index.md"} <= names
    assert {"tests/test_packaging.py", "agf/__init__.py", "problems/agf_problems/__init__.py"} <= names


def test_the_wheel_has_every_module_and_resource_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = [(ROOT / "agf", "agf"), (ROOT / "problems" / "agf_problems", "agf_problems")]
    expected = {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for folder, package in sources
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == expected


def test_an_empty_environment_runs_the_demonstration_from_the_wheel(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel)
    (site,) = home.glob("lib/python*/site-packages")
    # What agf depends on is taken from here instead of being downloaded; an editable agf here is not seen, as the files
    # with which it hooks itself into imports are read in the site-packages of the environment alone.
    (site / "here.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    place = run(python, "-c", "import agf, agf_problems; print(agf.__file__)", cwd=tmp_path, env=environment).strip()
    assert Path(place).is_relative_to(home)
    command = ["compare", "diagonal-linear", "--data", "diabetes", "--alpha", "1e-16", "-o", "diabetes.npz"]
    told = run(home / "bin" / "agf", *command, "--plot", "diabetes.png", cwd=tmp_path, env=environment)
    assert "predicted (mode auto) against observed (gradient flow)" in told
    assert agf.load(tmp_path / "diabetes.npz").matches
    assert (tmp_path / "diabetes.png").read_bytes()[:4] == b"\x89PNG"


def test_the_name_under_which_it_is_distributed_is_its_own():
    assert PROJECT["name"] == "agf-staircase"  # `agf` in the package index is somebody else's
    assert PROJECT["scripts"] == {"agf": "agf.shell.entry:main"}


def test_a_script_beside_a_clone_called_agf_finds_the_package(tmp_path):
    """Not the folder, which comes first on the path: `make demo` and `make test` put the clone there too."""
    clone = tmp_path / "agf"
    (clone / "agf").mkdir(parents=True)
    (clone / "agf" / "__init__.py").write_text("here = 1\n")
    shutil.copy(ROOT / "Makefile", clone)
    venv.create(clone / ".venv", symlinks=True)
    script = tmp_path / "script.py"
    script.write_text("import agf\nprint(agf.here)\n")
    run("make", "path", cwd=clone)
    assert run(clone / ".venv" / "bin" / "python", script, cwd=tmp_path).split() == ["1"]
