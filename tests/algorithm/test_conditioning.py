"""How much a time moves under a small change, in every mode, on the command line and where the repeat falls short."""

import json

import numpy as np
import pytest
from tiny import Plain

import agf
from agf.algorithm.conditioning import WEIGHTS, condition_drops, perturb
from agf.algorithm.resolved.motion import Motion
from agf.errors import RequestError
from agf.records.settings import Settings
from agf.records.status import Status
from agf.shell.main import main


def test_weights_move_by_a_thousandth_keep_zeros_and_signs_and_move_alike_each_time():
    theta = np.array([[1.0, 0.0], [-2.0, 3.0], [0.0, 0.0], [1.0, 1.0]])
    init = agf.Init.scaled(theta, 1e-200)
    moved, settings = perturb(init, Settings(rtol=1e-6, max_drops=3, t_max=10.0, conditioning=True))
    again, _ = perturb(init, Settings())
    assert np.array_equal(moved.directions, again.directions)
    assert np.array_equal(moved.log_norms, again.log_norms)
    assert np.array_equal(np.sign(moved.directions), np.sign(init.directions))
    change = moved.log_norms[[0, 1, 3]] - init.log_norms[[0, 1, 3]]
    assert np.isneginf(moved.log_norms[2])
    assert 0.01 * WEIGHTS < np.abs(change).max() < 4 * WEIGHTS  # N(0, 1) times that
    assert settings.rtol == pytest.approx(1e-5)
    assert not settings.conditioning


@pytest.mark.parametrize("mode", ["agf", "limit"])
def test_independent_drops_move_by_no_more_than_the_weights(mode):
    # The time of a lone neuron is log(R*/rho) over its rate: 1e-3 of rho moves it by 1e-3 / log(1/alpha) at most.
    problem = Plain([2.0, -0.5, 1.0])
    init = problem.init(1e-8, seed=1)
    plain = agf.predict(problem, init, mode=mode)
    asked = agf.predict(problem, init, mode=mode, conditioning=True)
    assert np.isnan([drop.conditioning for drop in plain.drops]).all()
    assert np.array_equal(plain.half_times, asked.half_times)
    assert all(drop.conditioning < 1e-3 for drop in asked.drops)
    assert asked.stats["utility_evaluations"] > 1.5 * plain.stats["utility_evaluations"]  # the cost of both is told


def test_it_says_in_finite_alpha_mode_by_how_much_a_reshaped_start_moves_a_drop():
    # An independent route: predict from the moved weights, and compare the times.
    problem = Plain([2.0, -0.5, 1.0])
    init = problem.init(1e-2, seed=1)
    asked = agf.predict(problem, init, conditioning=True, mode="agf")
    moved, settings = perturb(init, Settings(mode="agf"))
    other = agf.predict(problem, moved, **settings.to_dict())
    expected = np.abs(other.half_times[1:] / asked.half_times[1:] - 1)
    assert [drop.conditioning for drop in asked.drops] == pytest.approx(expected)
    assert expected.max() > 1e-6


def test_mode_resolved_measures_it_unless_told_not_to():
    problem = Plain([2.0, -0.5])
    init = problem.init(1e-4, seed=1)
    known, unknown = (agf.predict(problem, init, mode="resolved", conditioning=c) for c in (None, False))
    assert all(drop.conditioning < 1e-2 for drop in known.drops)
    assert np.isnan([drop.conditioning for drop in unknown.drops]).all()
    assert unknown.stats["velocity_evaluations"] < 0.8 * known.stats["velocity_evaluations"]


def test_a_drop_that_the_repeat_does_not_reach_is_unbounded_and_the_note_says_why():
    drops = [agf.Drop(1.0, 1.0, 1.0, 0.5), agf.Drop(3.0, 3.0, 3.0, 0.1)]
    times, losses = np.array([0.0, 1.1, 1.1, 4.0]), np.array([1.0, 1.0, 0.5, 0.5])
    told, notes = condition_drops(drops, 1.0, times, losses, Status.MAX_TIME)
    assert told[0].conditioning == pytest.approx(0.1)
    assert told[1].conditioning == np.inf
    assert "drop 2" in notes[0]
    assert "max_time" in notes[0]


@pytest.mark.parametrize("known", [0, 1], ids=["in the first pass", "in the repeat"])
def test_an_interrupt_before_the_bars_are_measured_leaves_them_unknown_and_says_so(monkeypatch, known):
    # Cut as the first of two drops ends: a repeat has measured the first by then, and not the second.
    see, problem = Motion._see, Plain([2.0, -0.5])

    def cut(motion, *moment):
        see(motion, *moment)
        run = motion.run
        if (run.members.joining > run.given.settings.joining) == known and run.state.level < 0.2:
            raise KeyboardInterrupt

    init = problem.init(1e-4, seed=1)
    whole = agf.predict(problem, init, mode="resolved")
    assert all(drop.error < 0.1 for drop in whole.drops)
    monkeypatch.setattr(Motion, "_see", cut)
    stairs = agf.predict(problem, init, mode="resolved")
    assert stairs.status is Status.INTERRUPTED
    unknown = stairs.drops[known:]
    assert unknown
    assert all(drop.error < 0.1 for drop in stairs.drops[:known])
    assert np.isnan([(drop.error, drop.level_error) for drop in unknown]).all()
    assert any("error bars was not run to its end" in note for note in stairs.notes)
    assert "%" not in str(stairs).splitlines()[3 + len(stairs.drops)]


def test_several_starts_at_once_measure_it_as_one_does():
    problem = agf.problem("diagonal-linear", X=np.eye(2) * np.sqrt(2), y=np.sqrt(2) * np.array([2.0, 0.5]))
    inits = [problem.init(1e-3), problem.init(1e-6)]
    for init, stairs in zip(inits, agf.predict_many(problem, inits, conditioning=True, mode="agf"), strict=True):
        alone = agf.predict(problem, init, conditioning=True, mode="agf")
        assert [d.conditioning for d in stairs.drops] == [d.conditioning for d in alone.drops]
        assert max(d.conditioning for d in stairs.drops) < 1e-3


def test_it_is_yes_no_or_left_to_the_mode():
    with pytest.raises(RequestError, match="conditioning"):
        Settings(conditioning="yes")


def test_the_command_line_measures_both_sides(tmp_path, capsys):
    words = ["compare", "diagonal-linear", "--mode", "agf", "--alpha", "1e-3", "--t-max", "30", "--max-drops", "2"]
    more = ["--conditioning", "--repeat", "-o", str(tmp_path / "run.npz")]
    assert main([*words, *more, "--json"]) == 0
    matches = json.loads(capsys.readouterr().out)["matches"]
    assert all(match["conditioning"] is not None for match in matches)
    # ten times a tolerance of 1e-6 moves nothing here
    assert all(match["reproducible"] for match in matches)
    report = agf.load(tmp_path / "run.npz")
    assert report.repeat.settings["rtol"] == pytest.approx(10 * report.trajectory.settings["rtol"])
    assert report.repeat.times[-1] == report.trajectory.times[-1]
    assert report.table().columns[-3:] == ["reproduced to", "conditioning", "learned"]
    assert "Reproduced to" in str(report)
    assert main(["compare", str(tmp_path / "run.npz"), "--curve", str(tmp_path / "run.npz"), "--repeat"]) == 2
    assert "--repeat" in capsys.readouterr().err


def test_a_closed_form_hangs_on_neither_weights_nor_tolerance():
    problem = agf.problem("diagonal-linear", X=np.eye(2) * np.sqrt(2), y=np.sqrt(2) * np.array([2.0, 0.5]))
    stairs = agf.predict(problem, problem.init(1e-8), mode="limit", conditioning=True)
    assert [drop.conditioning for drop in stairs.drops] == [0.0, 0.0]
    assert "conditioning" in stairs.table().columns
    assert "conditioning" not in agf.predict(problem, problem.init(1e-8), mode="agf").table().columns
