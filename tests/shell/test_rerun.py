"""Runs repeated from their file alone give the same numbers to the bit, and differences are told in words."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

import agf
from agf import FileError
from agf.shell import rerun

ROWS = np.random.default_rng(5)
SMALL = {
    "diagonal-linear": {"X": ROWS.standard_normal((12, 3)), "y": ROWS.standard_normal(12), "names": ["a", "b", "c"]},
    "linear": {"X": ROWS.standard_normal((20, 3)), "Y": ROWS.standard_normal((20, 2)), "width": 3},
    "linear-attention": {"covariance": np.diag([1.0, 0.5]), "context": 8, "heads": 2},
    "modular-addition": {"p": 5, "template": {1: 2.0, 2: 1.0}, "width": 4},
    "relu": {"X": np.eye(2), "Y": np.array([[2.0], [1.0]]), "width": 3},
}


def start(name):
    problem = agf.problem(name, **SMALL[name])
    return problem, problem.init(1e-3, seed=3)


def edit(path, change):
    """The same file with `change(header)` applied to its header."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members.pop("header.json"))
    change(header)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize("name", SMALL)
def test_a_prediction_is_repeated_to_the_bit(name, tmp_path):
    stairs = agf.predict(*start(name), max_drops=2, mode="agf")
    stairs.save(tmp_path / "run.npz")
    again = rerun.rerun(tmp_path / "run.npz")
    assert stairs.drops
    for field in ("times", "half_times", "levels", "accelerated_times"):
        np.testing.assert_array_equal(getattr(again, field), getattr(stairs, field))
    assert [drop.label for drop in again.drops] == [drop.label for drop in stairs.drops]
    assert rerun.numbers(stairs, again) == []
    again.save(tmp_path / "again.npz")
    found = rerun.differences(tmp_path / "run.npz", tmp_path / "again.npz")
    assert not found
    assert str(found) == "The runs are the same: same request, same numbers."


@pytest.mark.parametrize("name", SMALL)
def test_a_gradient_flow_is_repeated_to_the_bit(name, tmp_path):
    flow = agf.flow(*start(name), max_steps=60, snapshots=20)
    flow.save(tmp_path / "run.npz")
    again = rerun.rerun(tmp_path / "run.npz")
    for field in ("times", "losses", "log_norms", "snapshot_times"):
        np.testing.assert_array_equal(getattr(again, field), getattr(flow, field))


def test_minibatches_are_repeated_from_their_seed(tmp_path):
    problem, init = start("linear")
    descent = agf.descend(problem, init, lr=0.05, steps=200, batch_size=4, momentum=0.5, seed=11)
    descent.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(rerun.rerun(tmp_path / "run.npz").losses, descent.losses)


@pytest.mark.parametrize("mode", ["limit", "resolved"])
def test_the_mode_is_repeated(mode, tmp_path):
    stairs = agf.predict(*start("diagonal-linear"), mode=mode)
    stairs.save(tmp_path / "run.npz")
    again = rerun.rerun(tmp_path / "run.npz")
    assert again.mode == stairs.mode
    assert rerun.numbers(stairs, again) == []


def test_what_was_asked_differently_is_said(tmp_path):
    problem, init = start("diagonal-linear")
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    agf.predict(problem, init, mode="agf").save(first)
    other = agf.problem("diagonal-linear", **{**SMALL["diagonal-linear"], "y": SMALL["diagonal-linear"]["y"] * 1.001})
    agf.predict(other, other.init(1e-4, seed=3), threshold="unit", max_drops=1).save(second)
    found = rerun.differences(first, second)
    text = "\n".join(found.requested)
    assert "y: 12 of 12 entries differ, the most at index " in text
    for sentence in ("alpha: 0.001 | 0.0001", "threshold: natural | unit", "max_drops: None | 1"):
        assert sentence in found.requested
    assert "X:" not in text
    assert "number of drops: 3 | 1" in found.numbers
    assert any(sentence.startswith("times: up to ") for sentence in found.numbers)
    assert str(found).startswith("What was requested:\n  ")


def test_a_version_and_a_number_changed_by_hand_are_found(tmp_path):
    problem, init = start("diagonal-linear")
    for name in ("a.npz", "b.npz"):
        agf.predict(problem, init, mode="agf").save(tmp_path / name)

    def change(header):
        header["versions"]["numpy"] = "1.0"
        header["result"]["drops"][1]["level"] *= 1 + 1e-12

    edit(tmp_path / "b.npz", change)
    found = rerun.differences(tmp_path / "a.npz", tmp_path / "b.npz")
    assert found.requested == (f"version of numpy: {np.__version__} | 1.0",)
    (sentence,) = found.numbers
    assert sentence.startswith("levels: up to 1e-12 relative (entry 2: ")


def test_other_initial_weights_of_one_seed_are_noticed(tmp_path):
    problem, init = start("relu")
    for name, theta in (("a.npz", init.params()), ("b.npz", init.params()[::-1])):
        agf.predict(problem, agf.Init.from_params(theta, alpha=1e-3), max_drops=1, mode="agf").save(tmp_path / name)
    assert "initial weights differ" in rerun.differences(tmp_path / "a.npz", tmp_path / "b.npz").requested


def test_curves_on_other_times_are_compared_at_equal_times(tmp_path):
    problem, init = start("diagonal-linear")
    agf.flow(problem, init, t_max=50.0).save(tmp_path / "a.npz")
    agf.flow(problem, init, t_max=50.0, rtol=1e-4).save(tmp_path / "b.npz")
    found = rerun.differences(tmp_path / "a.npz", tmp_path / "b.npz")
    assert any(sentence.startswith("rtol: ") for sentence in found.requested)
    (sentence,) = found.numbers
    assert sentence.startswith("losses at equal times: up to ")


@pytest.fixture
def compared(tmp_path):
    """The path of a comparison with a repeat of its training, and the comparison."""
    problem, init = start("diagonal-linear")
    flow, repeat = agf.flow(problem, init), agf.flow(problem, init, rtol=1e-4)
    report = agf.compare(agf.predict(problem, init, mode="agf"), flow, repeat=repeat)
    report.save(tmp_path / "both.npz")
    return tmp_path / "both.npz", report


def test_both_sides_of_a_comparison_and_its_repeat_are_computed_again_to_the_bit(compared):
    path, report = compared
    again = rerun.rerun(path)
    assert again.stairs is not report.stairs
    assert again.repeat.settings["rtol"] == 1e-4
    assert rerun.numbers(report, again) == []
    assert again.matches == report.matches


def test_a_curve_from_elsewhere_is_kept_and_its_prediction_repeated(compared, tmp_path):
    path, report = compared
    report.trajectory.to_csv(tmp_path / "curve.csv")
    elsewhere = agf.compare(report.stairs, agf.Trajectory.from_csv(tmp_path / "curve.csv"))
    elsewhere.save(path)
    again = rerun.rerun(path)
    assert rerun.from_elsewhere(again.trajectory)
    assert rerun.numbers(elsewhere, again) == []
    edit(path, lambda header: header["parts"]["stairs"].update(fingerprint="0" * 16))
    with pytest.raises(FileError, match="fingerprint"):
        rerun.rerun(path)


def test_comparisons_differ_where_their_sides_do(compared, tmp_path):
    path, _ = compared
    problem, _ = start("diagonal-linear")
    init = problem.init(1e-4, seed=3)
    agf.compare(agf.predict(problem, init, mode="agf"), agf.flow(problem, init)).save(tmp_path / "other.npz")
    assert not rerun.differences(path, path)
    found = rerun.differences(path, tmp_path / "other.npz")
    assert found.requested == ("alpha: 0.001 | 0.0001",)
    assert found.numbers[0].startswith("prediction, times: up to ")
    assert any(sentence.startswith("training, losses") for sentence in found.numbers)
    assert found.numbers[-1] == "only the first has a repeat of the training"


def test_runs_of_two_kinds_are_refused_in_a_sentence(compared, tmp_path):
    path, report = compared
    report.stairs.save(tmp_path / "a.npz")
    report.trajectory.save(tmp_path / "b.npz")
    with pytest.raises(
        agf.RequestError, match=r"a.npz' is a prediction and .*b.npz' is a trajectory. Expected two runs"
    ):
        rerun.differences(tmp_path / "a.npz", tmp_path / "b.npz")
    with pytest.raises(agf.RequestError, match=r"both.npz' is a comparison and"):
        rerun.differences(path, tmp_path / "a.npz")


def test_what_cannot_be_repeated_is_refused(tmp_path):
    problem, init = start("diagonal-linear")
    stairs, flow = agf.predict(problem, init, mode="agf"), agf.flow(problem, init)
    flow.to_csv(tmp_path / "curve.csv")
    agf.Trajectory.from_csv(tmp_path / "curve.csv").save(tmp_path / "curve.npz")
    with pytest.raises(FileError, match="holds no initial weights"):
        rerun.rerun(tmp_path / "curve.npz")
    stairs.save(tmp_path / "lost.npz")
    edit(tmp_path / "lost.npz", lambda header: header["arguments"].update(X={"unsaved": "Tensor"}))
    with pytest.raises(FileError, match=r"does not hold the argument\(s\) X"):
        rerun.rerun(tmp_path / "lost.npz")
    stairs.save(tmp_path / "foreign.npz")
    edit(tmp_path / "foreign.npz", lambda header: header["result"].update(problem="no-such-problem"))
    with pytest.raises(agf.RequestError, match="no-such-problem"):
        rerun.rerun(tmp_path / "foreign.npz")


def test_data_changed_after_the_fact_is_refused(tmp_path):
    problem, init = start("diagonal-linear")
    agf.predict(problem, init, mode="agf").save(tmp_path / "run.npz")
    edit(tmp_path / "run.npz", lambda header: header.update(fingerprint="0" * 16))
    with pytest.raises(FileError, match="fingerprint"):
        rerun.rerun(tmp_path / "run.npz")


def test_a_problem_of_a_file_is_found_where_it_is_named(tmp_path):
    import tiny

    problem = tiny.Product(width=2)
    run = agf.predict(problem, problem.init(1e-4), mode="agf")
    run.save(tmp_path / "run.npz")
    with pytest.raises(
        agf.RequestError, match=r"problem 'product' of this run is not registered.*--problem \./FILE\.py"
    ):
        rerun.rerun(tmp_path / "run.npz")
    where = f"{tiny.__file__}:Product"
    assert rerun.numbers(run, rerun.rerun(tmp_path / "run.npz", problem=where)) == []
    with pytest.raises(agf.RequestError, match=r"is a run of 'product'\. Found problem 'linear'"):
        rerun.rerun(tmp_path / "run.npz", problem="linear")


def test_arrays_are_told_apart_by_their_entries_shapes_and_names(tmp_path):
    X = np.random.default_rng(0).standard_normal((8, 3))
    other = X.copy()
    other[2, 1] += 0.5
    runs = {
        "a": {"X": X, "y": X[:, 0], "names": ["one", "two", "three"]},
        "b": {"X": other, "y": X[:, 0], "names": ["one", "zwei", "three"]},
        "c": {"X": X[:4], "y": X[:4, 0]},
    }
    for name, arguments in runs.items():
        problem = agf.problem("diagonal-linear", **arguments)
        agf.predict(problem, problem.init(1e-6), mode="agf").save(tmp_path / f"{name}.npz")
    found = rerun.differences(tmp_path / "a.npz", tmp_path / "b.npz")
    assert f"X: 1 of 24 entries differ, the most at index (2, 1): {X[2, 1]:.6g} | {other[2, 1]:.6g}" in found.requested
    assert "names: 1 of 3 entries differ, the first at index 1: two | zwei" in found.requested
    found = rerun.differences(tmp_path / "a.npz", tmp_path / "c.npz")
    assert found.requested[:3] == ("X: array (8, 3) | array (4, 3)", "names: 3 names: one, two, three | none",
                               "y: array (8,) | array (4,)")  # fmt: skip
    assert any("in the " in sentence and "half-drop time" in sentence for sentence in found.numbers) or len(
        agf.load(tmp_path / "a.npz").drops
    ) == len(agf.load(tmp_path / "c.npz").drops)


def test_what_two_foreign_files_say_stays_on_its_line():
    found = rerun.Differences(("names: a\nb, \x1b[31m",), ())
    assert str(found).splitlines() == ["What was requested:", "  names: a\\nb, \\x1b[31m", "The same came out."]


def test_a_run_that_never_left_its_start_is_compared_there(tmp_path):
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=np.array([2.0, 1.0]))
    agf.descend(problem, problem.init(1e-3), lr=1e300, steps=3).save(tmp_path / "none.npz")
    agf.descend(problem, problem.init(1e-3), lr=0.1, steps=3).save(tmp_path / "some.npz")
    assert rerun.differences(tmp_path / "none.npz", tmp_path / "none.npz").numbers == ()
    (status, *_) = rerun.differences(tmp_path / "none.npz", tmp_path / "some.npz").numbers
    assert status == "status: nonfinite | steps"
    assert rerun.numbers(agf.load(tmp_path / "none.npz"), rerun.rerun(tmp_path / "none.npz")) == []
