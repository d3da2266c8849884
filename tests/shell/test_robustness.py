"""What hostile and unlucky users do: each mistake is refused in a sentence, and nothing hangs or turns to NaN."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import agf
from agf import datasets
from agf.errors import ComputationError, DataError, FileError, RequestError
from agf.records import checkpoint, files
from agf.shell import main, runs

EYE = {"X": np.eye(2), "y": [1.0, 2.0]}


@pytest.fixture
def diagonal():
    return agf.problem("diagonal-linear", **EYE)


# -- arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [-1, 1.5, "a", np.nan, True, [1, 2], np.random.default_rng(0)])
def test_a_seed_that_is_no_seed_is_refused_as_such(diagonal, seed):
    with pytest.raises(DataError, match="`seed` must be"):
        diagonal.init(1e-3, seed=seed)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *[(name, value) for name in ("rtol", "tie_rtol", "joining") for value in (0, 2, np.nan, np.inf, "x")],
        *[("horizon", value) for value in (0, -1, np.nan, "x")],
        *[("max_drops", value) for value in (-1, 1.5, np.nan, "3", True)],
        *[(name, value) for name in ("t_max", "max_time") for value in (-1, np.nan, "x", True)],
        *[(name, value) for name in ("mode", "threshold", "settle") for value in ("agff", ["agf"])],
    ],
)
def test_a_setting_that_means_nothing_is_refused_by_name(diagonal, option, value):
    with pytest.raises(RequestError, match=option):
        agf.predict(diagonal, diagonal.init(1e-3), **{option: value})


def test_an_option_that_is_none_has_its_default_and_a_misspelt_one_is_refused_with_the_right_name(diagonal):
    init = diagonal.init(1e-3)
    names = [name for name in inspect.signature(agf.predict).parameters if name not in ("problem", "init", "others")]
    assert {*names} - {"observer", "checkpoint"} == {*agf.Settings().to_dict()}
    assert agf.predict(diagonal, init, **dict.fromkeys(names)).settings == agf.Settings()
    assert (
        agf.predict(diagonal, init, t_max=2.0, mode="agf").settings
        == agf.predict(diagonal, init, max_time=2.0, mode="agf").settings
    )
    for function, start in ((agf.predict, init), (agf.predict_many, [init])):
        with pytest.raises(RequestError, match=r"unknown option `thresold`.*Did you mean `threshold`"):
            function(diagonal, start, thresold="unit")
        with pytest.raises(RequestError, match="`t_max` and `max_time` are one option"):
            function(diagonal, start, t_max=1.0, max_time=2.0)


def test_what_is_no_problem_or_no_initialization_is_refused_by_type(diagonal):
    init = diagonal.init(1e-3)
    for mode in ("agf", "limit", "resolved"):
        with pytest.raises(RequestError, match="a str is not a problem"):
            agf.predict("diagonal-linear", init, mode=mode)
        with pytest.raises(RequestError, match=r"a ndarray is not an initialization.*from_params"):
            agf.predict(diagonal, init.params(), mode=mode)
        with pytest.raises(RequestError, match=r"shape \(1, 2\).*\(2, 2\)"):
            agf.predict(diagonal, agf.Init.from_params([[1e-3, 0.0]]), mode=mode)


@pytest.mark.parametrize(
    ("directions", "log_norms"),
    [
        ([[1.0, 1.0]], [-3.0]),
        ([[0.0, 0.0]], [-3.0]),
        ([[1.0, 0.0]], [np.nan]),
        ([[1.0, 0.0]], [np.inf]),
        ([[np.nan, 0.0]], [-3.0]),
        ([["a", "b"]], [-3.0]),
        ([[1.0, 0.0], [1.0]], [-3.0, -3.0]),
    ],
)
def test_an_init_holds_unit_directions_and_log_norms(directions, log_norms):
    with pytest.raises(DataError, match="Init: "):
        agf.Init(directions, log_norms, 1e-3)


def test_an_init_takes_lists():
    assert agf.Init([[1.0, 0.0], [0.0, 0.0]], [-3.0, -np.inf], 1e-3).width == 2


# -- data -------------------------------------------------------------------------------------------------------


def test_masked_values_are_refused_and_an_empty_mask_is_not():
    X = np.ma.masked_array(np.eye(2), mask=[[True, False], [False, False]])
    with pytest.raises(DataError, match="`X` has masked values"):
        agf.problem("diagonal-linear", X=X, y=[1.0, 2.0])
    agf.problem("diagonal-linear", X=np.ma.masked_array(np.eye(2)), y=[1.0, 2.0])


def test_ragged_inputs_are_refused_in_a_sentence():
    with pytest.raises(DataError, match="`X` cannot be read as numbers"):
        agf.TwoLayer([[1.0, 2.0], [3.0]], [1.0, 2.0], width=2)


# -- computations that must end ---------------------------------------------------------------------------------


def test_the_flow_of_a_diagonal_network_does_not_wait_for_a_coordinate_that_is_zero(diagonal):
    theta = np.array([[0.0, 0.0], [1e-4, 0.0]])
    flow = agf.flow(diagonal, agf.Init.from_params(theta), max_steps=10**4, settle=1e-6)
    assert flow.status.word == "settled"
    # |1 - 0|^2 / 2n is out of reach
    assert flow.losses[-1] == pytest.approx(0.25, rel=1e-6)


# -- files ------------------------------------------------------------------------------------------------------


def rewrite(path, change):
    """The run file with its header passed through `change`, a valid archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize("wrong", [None, "x", -1, 1.5, [], {}, [1], True, 1e400])
def test_a_header_edited_by_hand_is_refused_or_can_still_be_shown(diagonal, tmp_path, wrong):
    init = diagonal.init(1e-3)
    stairs, flow = agf.predict(diagonal, init, mode="agf"), agf.flow(diagonal, init)
    drop = ("result", "drops", 0)
    staircase = [("result", "stats"), ("result", "notes"), ("result", "degree"), ("init", "alpha"), ("arguments",)]
    staircase += [(*drop, key) for key in ("neurons", "collapsed", "label", "runner_up", "time", "utility", "how")]
    places = [(stairs, place) for place in staircase]
    places += [(flow, (key,)) for key in ("settings", "method", "stats", "notes", "arguments", "status")]
    places += [(flow, ("settings", "rtol"))]
    for result, place in places:
        result.save(tmp_path / "run.npz")

        def change(header, place=place):
            for key in place[:-1]:
                header = header[key]
            header[place[-1]] = wrong

        rewrite(tmp_path / "run.npz", change)
        try:
            again = agf.load(tmp_path / "run.npz")
        except FileError:
            continue
        assert str(again.table())
        assert again.table().html()
        assert again.to_dict()


def test_a_curve_with_more_times_than_losses_is_refused(diagonal, tmp_path):
    agf.flow(diagonal, diagonal.init(1e-3)).save(tmp_path / "run.npz")
    kind, header, arrays = files.read(tmp_path / "run.npz")
    files.write(tmp_path / "run.npz", kind, header, {**arrays, "times": arrays["times"][:-1]})
    with pytest.raises(FileError, match="`losses` is of shape"):
        agf.load(tmp_path / "run.npz")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not an ordinary file"):
        agf.load(tmp_path / "pipe")


def test_text_that_calls_itself_npz_is_told_what_it_is_and_not_to_load_pickles(tmp_path):
    (tmp_path / "fake.npz").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="another format, or damaged") as caught:
        datasets.load(str(tmp_path / "fake.npz"))
    assert "pickle" not in str(caught.value)


def test_no_command_writes_over_what_it_reads(diagonal, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    init = diagonal.init(1e-3)
    agf.predict(diagonal, init, mode="agf").save("run.npz")
    shutil.copy("run.npz", "run.svg")
    np.savez("weights.npz", theta=np.full((2, 2), 1e-3))
    np.savez("data.npz", **EYE)
    (tmp_path / "data.csv").write_text("a,y\n1,2\n2,1\n")
    (tmp_path / "loss.csv").write_text("time,loss\n0,2\n1,1\n")
    (tmp_path / "mine.py").write_text("import agf\n")
    (tmp_path / "link.npz").symlink_to("run.npz")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for command in (
        "predict diagonal-linear --data data.csv --target y -o data.csv",
        "train diagonal-linear --data data.npz -o data.npz",
        "train diagonal-linear --data data.npz --checkpoint data.npz",
        "compare diagonal-linear --data data.npz --init weights.npz -o ./weights.npz",
        "compare run.npz --curve loss.csv -o loss.csv",
        "compare run.npz --curve loss.csv -o link.npz",
        "predict ./mine.py:Mine -o mine.py",
        "show run.npz --csv run.npz",
        "plot run.svg -o run.svg",
        "report run.npz -o run.npz",
        "graph run.svg -o run.svg",
        "rerun run.npz -o run.npz",
    ):
        assert main.main(command.split()) == 2, command
        assert "would be written over" in capsys.readouterr().err, command
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


CHATTY = """
import agf


class Chatty(agf.TwoLayer):
    name = "chatty"

    @classmethod
    def example(cls):
        return {}

    def __init__(self) -> None:
        super().__init__([[1.0], [2.0]], [1.0, 2.0], width=2)

    def residual(self, theta, neurons):
        print("I am here")
        return super().residual(theta, neurons)
"""


@pytest.mark.parametrize("command", ["predict", "train", "compare"])
def test_a_problem_that_prints_spoils_no_json(tmp_path, capsys, command):
    (tmp_path / "chatty.py").write_text(CHATTY)
    assert main.main([command, f"{tmp_path}/chatty.py:Chatty", "--alpha", "1e-3", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert "I am here" in err


@pytest.mark.parametrize("rtol", [2.0, 1e-20])
def test_tolerances_that_control_nothing_or_cannot_be_met_are_refused(rtol):
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=np.array([1.0, 0.5]))
    init = problem.init(1e-4)
    with pytest.raises(RequestError, match="rtol"):
        agf.flow(problem, init, rtol=rtol)
    with pytest.raises(RequestError, match="rtol"):
        agf.predict(problem, init, rtol=rtol, mode="agf")


@pytest.mark.parametrize("factor", [1e150, 1e-150])
@pytest.mark.parametrize("name", ["linear", "two-layer", "diagonal-linear"])
def test_data_whose_products_leave_float64_are_refused_with_the_remedy(name, factor):
    x = np.random.default_rng(0).standard_normal((12, 3))
    target = "y" if name == "diagonal-linear" else "Y"
    for scaled in ({"X": x * factor, target: x[:, 0]}, {"X": x, target: x[:, 0] * factor}):
        with pytest.raises(RequestError, match="Rescale"):
            agf.TwoLayer(**scaled, width=2) if name == "two-layer" else agf.problem(name, **scaled)


def test_a_trainer_given_parameters_instead_of_an_init_says_what_it_wants():
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=np.array([1.0, 0.5]))
    for trainer in (agf.flow, lambda p, i: agf.descend(p, i, lr=0.1, steps=2)):
        with pytest.raises(RequestError, match=r"agf\.Init\.from_params"):
            trainer(problem, problem.init(1e-4).params())


# -- files of runs that are none, through every command that reads them ------------------------------------------


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    """A small archive that unpacks to more than a gigabyte; it takes seconds to pack."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("log_norms.npy", "w", force_zip64=True) as member,
    ):
        for _ in range(2**7 + 1):
            member.write(bytes(2**23))
    return path


def hostile(folder, diagonal, bomb):
    """Files that call themselves run files."""
    good = folder / "good.npz"
    agf.predict(diagonal, diagonal.init(1e-3), mode="agf").save(good)
    content = good.read_bytes()
    (folder / "truncated.npz").write_bytes(content[: len(content) // 2])
    (folder / "text.npz").write_text("not an archive\n")
    (folder / "empty.npz").write_bytes(b"")
    shutil.copy(good, folder / "later.npz")
    rewrite(folder / "later.npz", lambda header: header.update(version=99))
    shutil.copy(good, folder / "other.npz")
    rewrite(folder / "other.npz", lambda header: header.update(kind="recipe"))
    np.savez(folder / "foreign.npz", a=np.ones(3))
    with zipfile.ZipFile(good) as archive:
        header = archive.read("header.json")
    np.savez(folder / "objects.npz", log_norms=np.array([{}, []], dtype=object))
    with zipfile.ZipFile(folder / "objects.npz", "a") as archive:
        archive.writestr("header.json", header)
    shutil.copy(bomb, folder / "bomb.npz")
    with zipfile.ZipFile(folder / "bomb.npz", "a") as archive:
        archive.writestr("header.json", header)
    return ["truncated", "text", "empty", "later", "other", "foreign", "objects", "bomb"]


@pytest.mark.parametrize(
    "command",
    ["show", "diff good.npz", "rerun", "graph -o a.graphml", "report -o a.html", "plot -o a.svg",
     "compare --curve", "compare good.npz --curve", "train diagonal-linear --resume"],
)  # fmt: skip
def test_hostile_run_files_are_refused_in_a_sentence_by_every_command(
    diagonal, bomb, tmp_path, monkeypatch, capsys, command
):
    monkeypatch.chdir(tmp_path)
    for name in hostile(tmp_path, diagonal, bomb):
        words = command.split()
        words = (
            ["compare", f"{name}.npz", "--curve", "good.npz"]
            if command == "compare --curve"
            else [*words, f"{name}.npz"]
        )
        code = main.main(words)
        err = capsys.readouterr().err.strip()
        assert code == 2, (name, code, err)
        assert err.startswith("agf: error: "), (name, err)
        assert len(err.splitlines()) == 1
        assert "Traceback" not in err
    assert not (tmp_path / "a.html").exists()


def test_summarize_refuses_what_is_no_sweep(diagonal, bomb, tmp_path, capsys):
    hostile(tmp_path, diagonal, bomb)
    for name in ("", "good.npz", "text.npz", "nothing"):
        assert main.main(["summarize", str(tmp_path / name)]) == 2
        assert "is no sweep" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["predict", "train", "compare"])
def test_a_full_disk_is_a_sentence_and_leaves_the_earlier_file(diagonal, tmp_path, command):
    agf.predict(diagonal, diagonal.init(1e-3), mode="agf").save(tmp_path / "run.npz")
    before = (tmp_path / "run.npz").read_bytes()
    code = (
        "import sys, resource, signal; from agf.shell import main as cli\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    words = [command, "diagonal-linear", "-o", "run.npz"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 2
    assert "cannot write 'run.npz' (File too large)" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "run.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]  # and nothing half-written


def test_the_output_of_training_may_be_named_as_its_checkpoint_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(["train", "diagonal-linear", "-o", "run.npz", "--checkpoint", "run.npz"]) == 0
    assert agf.load("run.npz").status.word == "settled"


def test_two_layer_networks_run_from_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal((30, 2))
    np.savez("data.npz", X=x, Y=np.tanh(x[:, 0]))
    words = ["two-layer", "--data", "data.npz", "-p", "activation=tanh", "--width", "3", "--alpha", "1e-3"]
    assert main.main(["compare", *words, "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["problem"] == "two-layer"
    assert out["max_time_error"] < 0.1
    assert main.main(["predict", *words, "-p", "activation=tan"]) == 2


def test_initial_weights_of_another_shape_are_told_by_the_shape_in_the_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("weights.npz", theta=np.full(3, 1e-3))
    assert main.main(["predict", "diagonal-linear", "--init", "weights.npz"]) == 2
    assert "`theta` has shape (3,)." in capsys.readouterr().err


def test_a_network_whose_neurons_are_all_dead_ends_at_once_on_both_sides(rng):
    """At 20 parameters the flow looks for growth by Arnoldi, which cannot start where nothing moves."""
    x = np.abs(rng.standard_normal((20, 4)))
    problem = agf.TwoLayer(x, x[:, 0], activation="relu", width=4)
    init = agf.Init.from_params(1e-6 * np.hstack([-np.ones((4, 4)), np.ones((4, 1))]))
    stairs, flow = agf.predict(problem, init, mode="agf"), agf.flow(problem, init)
    assert (stairs.status.word, flow.status.word) == ("no_growth", "settled")
    assert len(stairs.drops) == len(flow.drops) == 0


def _gone(folder):
    """An observer in whose first second the folder of the result goes."""

    def observe(*news):
        shutil.rmtree(folder, ignore_errors=True)

    return observe


def test_a_computation_whose_file_can_no_longer_be_written_is_not_lost(tmp_path, monkeypatch, capsys):
    """A disk that was full for a moment ended hours of training, and at the end the result was nowhere."""
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=[2.0, 1.0])
    init = problem.init(1e-3)
    monkeypatch.setattr(checkpoint, "_SOONEST", 0.0)
    for compute in (agf.flow, lambda *args, **options: agf.descend(*args, lr=0.01, steps=3000, **options)):
        folder = tmp_path / "gone"
        folder.mkdir()
        expected = compute(problem, init)
        with pytest.raises(ComputationError, match="folder does not exist") as raised:
            compute(problem, init, checkpoint=folder / "run.npz", observer=_gone(folder))
        assert np.array_equal(raised.value.partial.losses, expected.losses)
    monkeypatch.chdir(tmp_path)
    for command in ("train", "predict", "compare"):
        (tmp_path / "gone").mkdir()
        monkeypatch.setattr(runs, "Watcher", lambda what, update: _gone(tmp_path / "gone"))
        words = [command, "diagonal-linear", "-o", "gone/run.npz", "--json"]
        assert main.main(words) == main.WRONG
        told = capsys.readouterr()
        assert json.loads(told.out)["problem"] == "diagonal-linear"
        assert "folder does not exist." in told.err
        assert "Wrote" not in told.err
