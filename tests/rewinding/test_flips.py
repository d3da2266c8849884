"""Sign flips are located where they happen, and output signs flip only through dormancy."""

from __future__ import annotations

import json

import numpy as np
import pytest
import race_cases
from scipy.integrate import solve_ivp

import agf
from agf.shell.main import main


def one_neuron(seed=0):
    """One ReLU neuron on data of a teacher along the first axis, starting from the wrong side of it."""
    X = np.random.default_rng(seed).standard_normal((200, 2))
    return agf.TwoLayer(X, np.maximum(X[:, 0], 0), width=1, kink=0), np.array([[-0.4, 0.9, 0.5]])


def test_an_input_weight_flips_where_an_independent_integration_finds_it():
    problem, theta = one_neuron()
    run = agf.flow(problem, agf.Init.from_params(theta), t_max=20.0, rtol=1e-7)  # sharp kinks cost steps their order
    found = run.flips("inner")
    assert [(flip.parameter, flip.sign) for flip in found.flips][:1] == [(0, 1)]

    def velocity(t, y):
        return -problem.loss_grad(y.reshape(1, 3), np.arange(1))[1].ravel()

    def crossing(t, y):
        return y[0]

    crossing.terminal = True
    true = solve_ivp(velocity, (0, 60), theta.ravel(), rtol=1e-9, atol=1e-12, events=crossing)
    assert found[0].time == pytest.approx(true.t[-1], rel=1e-3)
    assert np.exp(found[0].log_norm) == pytest.approx(np.linalg.norm(true.y[:, -1]), rel=1e-3)


def test_an_output_weight_flips_at_the_smallest_norm_the_neuron_has():
    """|a| < |w| and the wrong sign of a: the neuron shrinks to where a = 0 and the norm is sqrt(|w|^2 - a^2) at 0."""
    X = np.abs(np.random.default_rng(1).standard_normal((50, 1)))
    problem = agf.TwoLayer(X, X[:, 0], width=1, kink=0)
    run = agf.flow(problem, agf.Init.from_params(np.array([[0.8, -0.3]])), t_max=40.0)
    found = run.flips("outer")
    assert len(found) == 1
    assert np.exp(found[0].log_norm) == pytest.approx(np.sqrt(0.8**2 - 0.3**2), rel=1e-4)  # a^2 - w^2 is conserved
    assert found[0].log_norm <= run.log_norms.min() + 1e-4
    assert len(run.flips("inner")) == 0
    assert len(run.flips("all")) == 1


@pytest.mark.parametrize("training", ["flow", "descend"])
def test_an_output_bias_that_changes_sign_is_no_flip_of_a_neuron(training):
    """It follows the mean of the targets first, and was counted as an outer flip of a second neuron."""
    X = np.random.default_rng(1).standard_normal((60, 2))
    problem = agf.TwoLayer(X, np.maximum(X[:, 0], 0) - 0.2, width=1, bias="output", kink=0)
    init = agf.Init.from_params([[0.3, 0.1, 0.3], [0.0, 0.0, -0.1]])
    run = agf.flow(problem, init, t_max=30.0) if training == "flow" else agf.descend(problem, init, lr=0.1, steps=300)
    assert (np.diff(np.sign(run.directions[:, 1, 2])) != 0).any()
    assert len(run.flips("outer")) == 0
    assert run.flips("outer").watched == 1


def test_balanced_neurons_flip_input_weights_and_no_output_weight():
    X, y = race_cases.blobs()
    problem = agf.TwoLayer(X, y == 1, loss="logistic", width=20)
    run = agf.flow(problem, problem.init(1e-3, kind="balanced"), t_max=10.0)
    assert len(run.flips("inner")) > 0
    assert len(run.flips("outer")) == 0


def test_descent_is_interpolated_and_says_so():
    problem, theta = one_neuron()
    run = agf.descend(problem, agf.Init.from_params(theta), lr=0.05, steps=1200)
    flow = agf.flow(problem, agf.Init.from_params(theta), t_max=60.0)
    found = run.flips("inner")
    assert found.located == "interpolation"
    assert found[0].time == pytest.approx(flow.flips("inner")[0].time, rel=0.05)  # lr = .05, and 200 snapshots


def test_the_command_and_the_picture(tmp_path, capsys):
    problem, theta = one_neuron()
    run = agf.flow(problem, agf.Init.from_params(theta), t_max=60.0)
    path = str(tmp_path / "run.npz")
    run.save(path)
    assert main(["flips", path, "--json"]) == 0
    printed = capsys.readouterr()
    assert "sign after" in printed.err
    assert json.loads(printed.out)["flips"][0]["parameter"] == 0
    assert main(["plot", path, "--view", "signs", "-o", str(tmp_path / "signs.svg")]) == 0


def test_what_cannot_be_is_refused_in_a_sentence():
    problem, theta = one_neuron()
    run = agf.flow(problem, agf.Init.from_params(theta), t_max=1.0)
    with pytest.raises(agf.RequestError, match="one of inner, outer, all"):
        run.flips("sideways")
    diagonal = agf.problem("diagonal-linear", X=np.eye(2), y=[1.0, 2.0])
    with pytest.raises(agf.RequestError, match='kind="all"'):
        agf.flow(diagonal, diagonal.init(1e-2)).flips("inner")
