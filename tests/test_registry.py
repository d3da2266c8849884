"""Problems by name and by file; strangers' broken plugins are listed with their reason and break nothing else."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import agf
from agf import registry
from agf.conformance import template

GOOD = """
import agf
class Mine(agf.TwoLayer):
    name = "mine"
"""


@pytest.fixture
def write(tmp_path):
    def one(text, name="mine.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return one


@pytest.fixture
def points(monkeypatch, tmp_path):
    """Pretend that these entry points are installed: name -> "module:object"."""

    def install(**values):
        monkeypatch.syspath_prepend(str(tmp_path))
        real = registry._points()
        fake = {name: EntryPoint(name, value, registry.GROUP) for name, value in values.items()}
        monkeypatch.setattr(registry, "_points", lambda: {**real, **fake})

    return install


def test_every_registered_problem_loads():
    listed = registry.listing()
    assert [one.name for one in listed] == registry.names()
    assert {one.name: one.reason for one in listed if one.cls is None} == {}
    assert all(one.cls.name == one.name for one in listed)


def test_a_plugin_by_entry_point_is_found(write, points):
    write(GOOD, "good_plugin.py")
    points(mine="good_plugin:Mine")
    assert registry.find("mine").name == "mine"
    assert isinstance(agf.problem("mine", X=np.eye(2), Y=[1, 2]), agf.TwoLayer)


def test_what_is_installed_is_read_once_until_a_place_changes(write, tmp_path, monkeypatch):
    read = []
    real = registry.entry_points
    monkeypatch.setattr(registry, "entry_points", lambda **group: read.append(1) or real(**group))
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(3):
        assert "mine" not in registry.names()
    assert len(read) == 1
    (tmp_path / "mine-1.0.dist-info").mkdir()
    (tmp_path / "mine-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (tmp_path / "mine-1.0.dist-info" / "entry_points.txt").write_text("[agf.problems]\nmine = good_plugin:Mine\n")
    write(GOOD, "good_plugin.py")
    assert registry.find("mine").name == "mine"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("Mine = 3", "'mine' is not a problem. Found 3. Expected a subclass of agf.Problem"),
        ("", "AttributeError"),
    ],
)
def test_a_broken_plugin_is_listed_with_its_reason_and_breaks_nothing_else(write, points, text, reason):
    name = f"broken_{abs(hash(text))}"
    write(text, f"{name}.py")
    points(mine=f"{name}:Mine")
    listed = {one.name: one for one in registry.listing()}
    assert listed["mine"].cls is None
    assert reason in listed["mine"].reason
    assert listed["relu"].cls is not None
    with pytest.raises(agf.ProblemError, match="mine"):
        registry.find("mine")
    assert registry.find("relu").name == "relu"


def test_an_unknown_name_lists_the_valid_ones():
    with pytest.raises(agf.RequestError, match=r"there is no problem 'rleu'. Expected one of .*relu.*\./mine.py:Mine"):
        agf.problem("rleu")


def test_a_run_in_the_place_of_a_problem_is_told_to_be_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.npz").write_bytes(b"")
    with pytest.raises(agf.RequestError, match=r"there is no problem 'run.npz'. Found a file that is no Python file."):
        agf.problem("run.npz")


def test_a_problem_is_named_by_file_with_or_without_its_class(write):
    path = write(GOOD)
    assert registry.find(path).name == registry.find(f"{path}:Mine").name == "mine"


@pytest.mark.parametrize(
    ("text", "suffix", "error", "words"),
    [
        (GOOD, ":Yours", agf.RequestError, "has no class 'Yours'. Expected one of Mine"),
        ("x = 1", ":Yours", agf.RequestError, "has no class 'Yours'. Expected a subclass of agf.Problem"),
        (GOOD + "class Other(Mine): name = 'other'", "", agf.RequestError, "defines 2 problems. Found Mine, Other"),
        ("x = 1", "", agf.RequestError, "defines 0 problems. Found none"),
        ("x = 1", ":x", agf.ProblemError, "'x' is not a problem"),
        ("import no_such_package", "", agf.ProblemError, "cannot be imported .ModuleNotFoundError"),
        ("def broken(:", "", agf.ProblemError, "cannot be imported .SyntaxError"),
        ("raise SystemExit(3)", "", agf.ProblemError, "cannot be imported .SystemExit: 3"),
    ],
)
def test_a_file_that_holds_no_usable_problem_is_refused(write, text, suffix, error, words):
    with pytest.raises(error, match=words):
        registry.find(write(text) + suffix)


def test_a_missing_file_is_refused():
    with pytest.raises(agf.RequestError, match=r"there is no file 'nowhere.py'"):
        registry.find("nowhere.py:Mine")


def test_two_files_of_one_name_do_not_disturb_one_another(write, tmp_path):
    (tmp_path / "other").mkdir()
    first = registry.find(write(GOOD))
    second = registry.find(write(GOOD.replace("mine", "yours"), "other/mine.py"))
    assert (first.name, second.name) == ("mine", "yours")
    assert first.__module__ != second.__module__


def test_unknown_and_missing_parameters_are_named():
    with pytest.raises(agf.RequestError, match=r"unknown parameter `depth`. Expected one of X, Y, width"):
        agf.problem("relu", X=np.eye(2), Y=[0, 1], depth=3)
    with pytest.raises(agf.RequestError, match=r"missing parameter.* Y"):
        agf.problem("relu", X=np.eye(2))
    for name in ("linear", "relu", "diagonal-linear"):
        with pytest.raises(agf.RequestError, match=rf"`agf problems {name}` lists .*find\('{name}'\).example\(\)"):
            agf.problem(name)


def test_the_template_runs_as_it_is(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "my_net.py"
    template.write(path)
    cls = registry.find(f"{path}:MyNet")
    problem = cls(**cls.example())
    assert (cls.name, problem.degree) == ("my-net", 2)
    assert agf.check(problem).passed


def test_the_comments_of_the_template_hold(tmp_path):
    torch = pytest.importorskip("torch")
    text = template.text("mine.py")
    method = [line for line in text.splitlines() if line.startswith(("    #     ", "    # def"))]
    path = tmp_path / "mine.py"
    path.write_text(text + "\n" + "\n".join(line.replace("    # ", "    ", 1) for line in method) + "\n")
    cls = registry.find(str(path))
    problem = cls(**cls.example())
    assert problem.interchangeable is False
    x = torch.ones(2, 3, dtype=torch.float64)
    assert problem.neuron_inputs(x, torch.tensor([1, 2]))[0].tolist() == [[0, 1, 0]] * 2
    assert agf.check(problem).passed


@pytest.mark.parametrize(
    ("name", "words"),
    [("mine.txt", "not a Python file"), ("mine.py", "exists already"), ("no/where.py", "its folder does not exist")],
)
def test_the_template_is_not_written_where_it_should_not_be(tmp_path, name, words):
    (tmp_path / "mine.py").write_text("precious")
    with pytest.raises(agf.FileError, match=words):
        template.write(tmp_path / name)
    assert (tmp_path / "mine.py").read_text() == "precious"


@pytest.mark.parametrize(
    ("file", "name"), [("my-net.py", "MyNet"), ("tanh.py", "Tanh"), ("3d.py", "Mine"), ("é.py", "Mine")]
)
def test_the_class_is_named_after_the_file(file, name):
    assert f"class {name}(agf.AutogradProblem):" in template.text(file)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("import torch_that_is_not.there", "Install torch_that_is_not"),
        ("import sys; sys.modules['torch'] = None; import torch", r"pip install torch"),
        ("x = 1 +", r"mine\.py:3: it cannot be imported .SyntaxError.*Mend the file"),
        ("1 / 0", r"mine\.py:3: it cannot be imported .ZeroDivisionError: division by zero.*Mend the file"),
    ],
)
def test_a_file_that_cannot_be_imported_says_on_which_line_and_what_helps(tmp_path, monkeypatch, line, remedy):
    import sys

    monkeypatch.setitem(sys.modules, "torch", sys.modules.get("torch"))
    (tmp_path / "mine.py").write_text(f"# a problem\n\n{line}\n", encoding="utf-8")
    with pytest.raises(agf.ProblemError, match=remedy):
        registry.find(str(tmp_path / "mine.py"))


@pytest.mark.parametrize("odd", [None, 3, b"relu", ["relu"], agf.TwoLayer])
def test_a_name_is_text(odd):
    for ask in (registry.find, agf.problem, lambda name: agf.sweep(name, folder="never", alpha=[1e-3])):
        with pytest.raises(agf.RequestError, match="name of a problem is text"):
            ask(odd)


@pytest.mark.parametrize(
    "line", ["name = None", "data_arguments = 7", "data_arguments = 'X'", "kinds = 3", "kinds = (1, 2)"]
)
def test_attributes_that_are_words_are_checked_where_a_class_is_found(write, line):
    text = f"import agf\n\nclass Mine(agf.TwoLayer):\n    {line}\n"
    with pytest.raises(agf.ProblemError, match=f"class Mine: its attribute `{line.split()[0]}` cannot be"):
        registry.find(str(write(text)))


def test_a_problem_of_one_says_so_in_the_singular():
    one = np.ones((1, 1))
    sizes = {
        "diagonal-linear": {"X": one, "y": [1.0]},
        "linear": {"Sxx": one, "B": one, "width": 1},
        "linear-attention": {"covariance": one, "context": 1, "heads": 1},
        "full-linear-attention": {"covariance": one, "context": 1, "heads": 1},
        "modular-addition": {"p": 3, "template": "one-hot", "width": 1},
        "relu": {"X": one, "Y": [1.0], "width": 1},
        "gaussian-teacher": {"teacher": one, "width": 1},
    }
    for name, arguments in sizes.items():
        told = agf.problem(name, **arguments).describe()
        assert re.search(r"\b1 ", told), told
        assert not re.search(r"\b1 [\w-]+( [\w-]+)?(s|ies)\b", told), told
