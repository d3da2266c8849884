"""What the commands take is what the functions behind them take, and what they write is what its name says."""

import inspect

import numpy as np
import pytest

import agf
from agf import registry
from agf.shell.main import DONE, FAILED, WRONG, main
from agf.shell.main import agf as group

#: Keywords that the command line has other means for.
ELSEWHERE = {"observer", "checkpoint", "resume", "problem", "init", "others", "parameters", "seed"}


def options(command):
    return {option.name for option in group.get_command(None, command).params}


def keywords(function):
    return set(inspect.signature(function).parameters) - ELSEWHERE


def test_commands_take_what_the_functions_take():
    assert keywords(agf.predict) <= options("predict")
    assert keywords(agf.flow) | keywords(agf.descend) <= options("train")
    both = keywords(agf.predict) | keywords(agf.flow)
    # where both sides have one of a name, the prediction has it: `settle` is a rule there
    assert both - options("compare") == {"snapshots"}
    own = {"arguments", "flow", "keep_files", "do"}  # -p and --data, --t-max, --no-files, and --do under another name
    assert keywords(agf.sweep) - own <= options("sweep")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "diagonal-linear", "-o", "a.csv"], "'a.csv' would hold an npz archive, and is named as a table"),
        (["train", "diagonal-linear", "-o", "a.PNG"], "agf show RUN --csv FILE"),
        (["train", "diagonal-linear", "--checkpoint", "a.json"], "named as JSON"),
        (["report", "run.npz", "-o", "a.pdf"], "'a.pdf' would hold a page"),
        (["show", "run.npz", "--csv", "a.npz"], "would hold a table, and is named as an npz archive"),
        (["rerun", "run.npz", "-o", "a.csv"], "named as a table"),
        (["prune", "run.npz", "--keep", "1", "-o", "a.csv"], "named as a table"),
    ],
)
def test_a_name_that_says_another_format_is_refused_before_anything_is_computed(
    tmp_path, monkeypatch, capsys, words, message
):
    monkeypatch.chdir(tmp_path)
    assert main(words) == WRONG
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_says_no_format_is_that_of_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("run", "run.1", "run.agf", "run.npz"):
        assert main(["predict", "diagonal-linear", "--alpha", "1e-3", "--quiet", "-o", name]) == DONE
        assert agf.load(name).drops
    stairs = agf.load("run")
    with pytest.raises(agf.FileError, match="is named as a table"):
        stairs.save("a.csv")


def test_what_is_no_run_is_told_by_what_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", X=np.eye(2), y=np.ones(2))
    (tmp_path / "data.csv").write_text("a,y\n1,2\n")
    assert main(["show", "data.npz"]) == WRONG
    assert (
        "cannot read 'data.npz': it is not an agf run file, but holds arrays (X, y). It may be data (--data)"
        in capsys.readouterr().err
    )
    assert main(["show", "data.csv"]) == WRONG
    told = capsys.readouterr().err
    assert "cannot read 'data.csv': it is damaged or not a run file. Give" in told
    assert "zip" not in told


@pytest.mark.parametrize("words", [[], ["--data", "data.csv", "--target", "y"]])
@pytest.mark.parametrize("command", ["check", "predict", "problems"])
def test_a_plugin_without_its_methods_is_told_so_whatever_the_data(tmp_path, monkeypatch, capsys, command, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a,y\n1,2\n2,1\n")
    (tmp_path / "mine.py").write_text("import agf\nclass Mine(agf.Problem):\n    name = 'mine'\n")
    assert main([command, "mine.py", *(words if command != "problems" else [])]) == WRONG
    assert "class Mine: it does not define loss_grad, residual, utility." in capsys.readouterr().err


def test_a_plugin_that_names_no_data_is_told_how(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a,y\n1,2\n2,1\n")
    text = "import agf\nclass Mine(agf.TwoLayer):\n    data_arguments = ()\n    def __init__(self, X, y): pass\n"
    (tmp_path / "mine.py").write_text(text)
    assert main(["predict", "mine.py", "--data", "data.csv", "--target", "y"]) == WRONG
    assert "data_arguments = ('X', 'y')" in capsys.readouterr().err


@pytest.mark.parametrize("name", registry.names())
def test_the_kinds_of_initialization_of_a_problem_are_listed(name, capsys):
    assert main(["problems", name]) == DONE
    told = capsys.readouterr().err
    cls = registry.find(name)
    assert "Kinds of initialization (--kind): " in told
    assert all(kind in told for kind in cls.kinds)
    usual = inspect.signature(cls.init).parameters["kind"].default
    assert f"{usual} (default)" in told


def test_options_of_the_numerics_reach_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["diagonal-linear", "--alpha", "1e-3", "--quiet", "-o", "run.npz"]
    assert (
        main(["predict", *words, "--mode", "resolved", "--rtol", "1e-5", "--joining", "0.01", "--t-max", "9"]) == DONE
    )
    found = agf.load("run.npz").settings
    assert (found.rtol, found.joining, found.t_max) == (1e-5, 0.01, 9.0)
    assert main(["predict", *words, "--horizon", "2", "--tie-rtol", "1e-8"]) == DONE
    assert (agf.load("run.npz").settings.horizon, agf.load("run.npz").settings.tie_rtol) == (2.0, 1e-8)
    assert main(["train", *words, "--lr", ".1", "--steps", "9", "--frozen", "-1", "--snapshots", "3"]) == DONE
    found = agf.load("run.npz").settings
    assert (found["frozen"], found["snapshots"]) == ([1], 3)
    assert main(["train", *words, "--settle", "1e-2", "--max-gradients", "1e5"]) == DONE
    found = agf.load("run.npz").settings
    assert (found["settle"], found["max_gradients"]) == (1e-2, 1e5)


def test_everything_that_predict_takes_a_sweep_takes_too():
    predict, sweep = (
        {word for option in group.get_command(None, name).params for word in (*option.opts, *option.secondary_opts)}
        for name in ("predict", "sweep")
    )
    assert predict <= sweep


@pytest.mark.parametrize(
    ("words", "told", "never"),
    [
        (["escape", "--at", "run.npz"], "No such option '--at'. Example: agf escape flow.npz", "Did you mean"),
        (["predict", "relu", "--alhpa", "1"], "Did you mean '--alpha'?", "Example"),
        (["predict"], "Missing argument 'NAME'. Example: agf predict ", "Did you mean"),
    ],
)
def test_a_wrong_word_is_answered_by_what_was_meant_or_an_example(words, told, never, capsys):
    assert main(words) == WRONG
    error = capsys.readouterr().err
    assert told in error
    assert never not in error


def test_what_is_compared_may_be_named_without_an_option_and_exchanged_sides_are_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    start = ["diagonal-linear", "--alpha", "1e-3", "--max-drops", "1", "--quiet"]
    assert main(["predict", *start, "-o", "p.npz"]) == DONE
    assert main(["train", "diagonal-linear", "--alpha", "1e-3", "--t-max", "30", "--quiet", "-o", "t.npz"]) == DONE
    assert main(["show", "t.npz", "--csv", "t.csv"]) == DONE
    documents = []
    for words in (["p.npz", "--curve", "t.npz"], ["p.npz", "t.npz"]):
        capsys.readouterr()
        assert main(["compare", *words, "--json", "--quiet"]) == DONE
        documents.append(capsys.readouterr().out)
    assert documents[0] == documents[1]
    for words, told in (
        (["t.npz", "p.npz"], "are exchanged. agf compare p.npz --curve t.npz"),
        (["t.csv", "p.npz"], "are exchanged. agf compare p.npz --curve t.csv"),
        (["p.npz", "p.npz"], "'p.npz' holds no trajectory, but a prediction."),
        (
            ["t.npz", "t.npz"],
            "'t.npz' holds no prediction, but a training run. Expected a run file of agf predict or compare.",
        ),
        (["p.npz", "t.npz", "--curve", "t.csv"], "two curves are given."),
    ):
        assert main(["compare", *words]) == WRONG
        assert told in capsys.readouterr().err


def test_a_command_whose_gradients_are_used_up_fails_and_writes_the_drops_so_far(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["diagonal-linear", "--alpha", "1e-3", "--mode", "resolved", "--max-gradients", "100"]
    assert main(["predict", *words, "-o", "run.npz"]) == FAILED
    found = agf.load("run.npz")
    assert (found.status.word, found.settings.max_gradients, len(found.drops)) == ("max_steps", 100.0, 1)
    assert "Raise max_gradients (100) to see more." in capsys.readouterr().err
    np.savetxt("curve.csv", np.c_[[0.0, 1.0], [1.0, 0.5]], delimiter=",", header="time,loss", comments="")
    assert main(["compare", *words, "--curve", "curve.csv"]) == FAILED
    assert main(["compare", *words, "--curve", "curve.csv", "--max-steps", "9"]) == WRONG
    with pytest.raises(agf.RequestError, match="`max_gradients` must be a positive finite number"):
        agf.Settings(max_gradients=0)
