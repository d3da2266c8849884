"""The dormant phase as a user gets it: clusters, time lines, states at any time, files, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

import agf
from agf.shell.main import main

M4 = (np.array([[1, 0.2], [0.3, 1], [-1, 0.5], [-0.4, -1]]), np.array([1, -0.8, 1.2, 0.6]))
T3 = (np.c_[[-0.75, -0.5, 0.125], np.ones(3)], np.array([1.1, 0.1, 0.8]))


@pytest.fixture(scope="module")
def phase():
    problem = agf.TwoLayer(*M4, width=400)
    return agf.align(problem, problem.init(1e-6, seed=0, kind="balanced"))


def test_clusters_are_the_critical_directions_of_the_landscape(phase):
    known = agf.landscape(agf.TwoLayer(*M4))
    ends = {(one.direction[-1] > 0, round(one.utility, 12)) for one in known.ends}
    found = [phase.cluster(k) for k in range(phase.n_clusters)]
    assert {(one.sign > 0, round(one.utility, 12)) for one in found} == ends
    assert sum(one.neurons.size for one in found) == 400
    assert [one.neurons.size for one in found] == sorted((one.neurons.size for one in found), reverse=True)
    assert {one.fate for one in found} == {"aligns", "opposed"}


def test_the_state_at_a_time_has_the_charge_that_the_utility_integrates_to(phase):
    problem = agf.TwoLayer(*M4, width=400)
    residual, everybody = problem.residual(np.zeros((0, 3)), np.zeros(0, dtype=int)), np.arange(400)
    sharp = agf.TwoLayer(*M4, width=400, kink=0)
    times = np.linspace(0.0, 4.0, 801)
    rates = np.array([2 * sharp.utility(phase.at(t)[0], everybody, residual)[0] for t in times])
    quadrature = np.trapezoid(rates, times, axis=0)
    # on a kink relu'(0) = 0 is not the slope of the slide, but there w . x_k = 0, so that the utility is right
    assert phase.charge(4.0) == pytest.approx(quadrature, abs=2e-3)
    assert np.array_equal(phase.charge(0.0), np.zeros(400))


def test_events_come_in_order_and_the_last_is_the_arrival(phase):
    for neuron in range(50):
        times = [time for time, *_ in phase.events(neuron)]
        assert times == sorted(times)
        assert phase.arrivals[neuron] == (times[-1] if times else 0.0)
    assert phase.last == phase.event_times.max()
    assert phase.counts.sum() == phase.event_times.size


def test_a_phase_that_is_stopped_is_the_same_until_then(phase):
    problem = agf.TwoLayer(*M4, width=400)
    init = problem.init(1e-6, seed=0, kind="balanced")
    cut = agf.align(problem, init, t_max=3.0)
    assert np.array_equal(cut.event_times, phase.event_times[phase.event_times <= 3.0])
    assert set(cut.fate) == {"turning", "aligns", "opposed"}
    assert np.array_equal(cut.at(3.0)[0], phase.at(3.0)[0])
    with pytest.raises(agf.RequestError, match="at most 3"):
        cut.at(4.0)


def test_beside_active_neurons_the_residual_is_theirs():
    # beside the least-squares fit of T3 the directions that grow are those along (2, 1) [BF24]: a neuron that is active
    # on all samples has no field and stays, one between the samples turns
    problem = agf.TwoLayer(*T3, width=3, kink=0)
    beta = np.linalg.lstsq(*T3, rcond=None)[0]
    size = np.sqrt(np.linalg.norm(beta))
    active = np.r_[beta / size, size][None]
    start = np.array([[-0.26, 0.67, 0.7], [1.0, 0.3, 1.1], [0.0, -1.0, 1.0]])
    found = agf.align(problem, agf.Init.from_params(1e-6 * start), theta=active)
    assert found.fate == ("flat", "aligns", "dead")
    ray = np.array([2.0, 1.0]) / np.sqrt(5)  # across the second sample: the field is what is left along it
    rate = (T3[1] - T3[0] @ beta)[2] * (T3[0][2] @ ray) / 3
    assert rate == pytest.approx(0.0305787, abs=1e-7)
    assert 2 * found.utilities[1] == pytest.approx(rate, rel=1e-12)
    assert np.degrees(np.arctan2(found.ends[1, 1], found.ends[1, 0])) == pytest.approx(26.565, abs=1e-3)


def test_run_files_json_and_pictures(phase, tmp_path):
    phase.save(tmp_path / "phase.npz")
    again = agf.load(tmp_path / "phase.npz")
    assert again.to_dict() == phase.to_dict()
    assert np.array_equal(again.at(2.0)[0], phase.at(2.0)[0])
    assert json.loads(json.dumps(phase.to_dict()))["neurons"] == 400
    assert "400 neurons" in str(phase)
    phase.plot(tmp_path / "phase.png")
    assert (tmp_path / "phase.png").stat().st_size > 1000
    with pytest.raises(agf.RequestError, match="no such neuron"):
        phase.events(400)
    with pytest.raises(agf.RequestError, match="no such cluster"):
        phase.cluster(99)


def test_what_has_no_cones_is_refused_in_a_sentence():
    tanh = agf.TwoLayer(*T3, activation="tanh", width=2)
    with pytest.raises(agf.RequestError, match=r"has no cones .* Expected relu"):
        agf.align(tanh, tanh.init(1e-3))
    relu = agf.TwoLayer(*T3, width=2)
    with pytest.raises(agf.RequestError, match="an Init of 3 parameters"):
        agf.align(relu, agf.Init.from_params(np.ones((2, 4))))
    with pytest.raises(agf.RequestError, match="t_max"):
        agf.align(relu, relu.init(1e-3), t_max=-1.0)


@pytest.mark.parametrize(
    "X",
    [np.eye(3), np.ones((3, 2)), [[1.0], [-2.0], [0.5]], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]],
     np.c_[np.arange(3.0), np.ones(3)], [[1.0, 2.0]]],
    ids=["orthogonal", "duplicate", "one column", "a zero row", "a bias column", "one sample"],
)  # fmt: skip
def test_special_inputs_have_their_phase(X):
    X = np.asarray(X, dtype=float)
    problem = agf.TwoLayer(X, np.array([1.0, -2.0, 0.5])[: X.shape[0]], width=50)
    found = agf.align(problem, problem.init(1e-6, seed=1))
    assert "turning" not in found.fate
    assert np.isfinite(found.at(5.0)[1]).all()


def test_the_command_lists_clusters_and_time_lines(capsys, tmp_path):
    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    np.savez(tmp_path / "m4.npz", X=M4[0], Y=M4[1])
    arguments = ("align", "relu", "--data", tmp_path / "m4.npz", "--width", 20, "--kind", "balanced")
    code, out, err = run(*arguments, "--neuron", 2, "--json", "-o", tmp_path / "phase.npz")
    assert code == 0
    assert json.loads(out)["neurons"] == 20
    assert "Events of neuron 2" in err
    assert run("show", tmp_path / "phase.npz")[0] == 0
    assert run("show", tmp_path / "phase.npz", "--csv", tmp_path / "a.csv")[0] == 2
    code, _, err = run("align", "linear")
    assert code == 2
    assert "has no cones" in err


def test_several_outputs_of_rank_one_are_one_output(tmp_path):
    """Two classes as centred one-hot rows: Y = y b; the rest of the output weights stays, and w moves as by a . b."""
    X, y = T3[0], np.array([1.0, -1.0, 1.0])
    b = np.array([3.0, -4.0]) / 5
    problem = agf.TwoLayer(X, np.outer(y, b), width=30, kink=0)
    init = problem.init(1e-6, seed=0)
    phase = agf.align(problem, init)
    sign = np.sign(phase.along @ b)
    assert phase.along == pytest.approx(sign * b, abs=1e-14)
    theta = init.params()
    one = agf.TwoLayer(X, y, width=30, kink=0)
    alone = agf.align(one, agf.Init.from_params(np.column_stack([theta[:, :2], theta[:, 2:] @ b])))
    assert phase.fate == alone.fate
    np.testing.assert_allclose(phase.event_times, alone.event_times, rtol=1e-12)
    np.testing.assert_allclose(phase.charges, alone.charges, rtol=1e-10, atol=1e-12)
    flow = agf.flow(problem, init, t_max=2.0)  # all is tiny: the residual stands still
    directions, log_norms = phase.at(2.0)
    moved = flow.params(-1)
    reduced = np.column_stack([moved[:, :2], moved[:, 2:] @ phase.along])
    np.testing.assert_allclose(reduced, directions * np.exp(log_norms)[:, None], rtol=0, atol=1e-4 * 1e-6)
    path = tmp_path / "phase.npz"
    phase.save(path)
    assert agf.load(path).along == pytest.approx(phase.along)
    assert "component of the output weights along" in str(phase)


def test_outputs_of_a_higher_rank_are_refused_with_what_does_it():
    problem = agf.TwoLayer(np.eye(3), np.eye(3), width=2)
    with pytest.raises(agf.RequestError, match=r"rank 3 in 3 outputs.*agf\.dormant\.carry"):
        agf.align(problem, problem.init(1e-6))


def test_files_of_phases_and_landscapes_are_drawn_from_the_command_line(phase, tmp_path, capsys):
    phase.save(tmp_path / "phase.npz")
    agf.landscape(agf.TwoLayer(*M4)).save(tmp_path / "landscape.npz")
    for name in ("phase", "landscape"):
        picture = tmp_path / f"{name}.png"
        assert main(["plot", str(tmp_path / f"{name}.npz"), "-o", str(picture)]) == 0
        assert picture.stat().st_size > 1000
    assert main(["plot", str(tmp_path / "phase.npz"), str(tmp_path / "landscape.npz"), "-o", str(picture)]) == 2
    assert "holds a dormant phase" in capsys.readouterr().err


def test_the_command_follows_new_neurons_beside_those_of_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("three.npz", X=T3[0], Y=T3[1])
    words = ["--data", "three.npz", "--kind", "balanced", "--alpha", "1e-4", "--mode", "resolved"]
    assert main(["predict", "two-layer", *words, "-o", "stairs.npz", "--quiet"]) == 0
    for drop, rate in ((0, 0.7149689), (1, 0.0305787)):  # beside the linear fit they go where none was left
        assert main(["align", "two-layer", "--at", f"stairs.npz:{drop}", "--kind", "balanced", "--json"]) == 0
        ends = json.loads(capsys.readouterr().out)["clusters"]
        assert 2 * max(end["utility"] for end in ends) == pytest.approx(rate, rel=1e-3)
    assert main(["align", "--at", "stairs.npz:1"]) == 0
    assert "of 10 new neurons of two-layer, drawn now, beside drop 1 of stairs.npz" in capsys.readouterr().err
