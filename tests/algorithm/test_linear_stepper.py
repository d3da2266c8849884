"""Dormant neurons that move by one matrix: their closed form against matrix exponentials and against small steps."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import expm

import agf
from agf.algorithm import choose_stepper, dormant
from agf.algorithm.field import Batch
from agf.algorithm.linear_stepper import LinearStepper, linear
from agf.algorithm.threshold import ExactThreshold
from agf.clock import Clock
from agf.coordinates.mode_system import form
from agf.records.settings import Settings
from agf.records.status import Status


def network(rng, width=6, activation="tanh"):
    x = rng.standard_normal((40, 3))
    return agf.TwoLayer(x, np.sin(x @ rng.standard_normal((3, 2))), activation=activation, width=width)


def frozen(problem, init):
    """All neurons dormant."""
    none = np.zeros((0, problem.n_params))
    residual = problem.residual(none, np.zeros(0, dtype=np.int64))
    clock = Clock.from_norms(2, init.log_norms)
    return Batch(problem, residual, clock, init.directions, init.log_norms, np.arange(init.width), init)


@pytest.mark.parametrize("activation", ["tanh", "gelu", "silu"])
@pytest.mark.parametrize("e_folds", [0.1, 4.0, 300.0])
def test_a_phase_is_the_exponential_of_one_matrix(rng, activation, e_folds):
    problem = network(rng, activation=activation)
    batch = frozen(problem, problem.init(1e-3))
    matrix = form(problem, batch.residual)
    top = np.linalg.eigvalsh(matrix)[-1]
    time = e_folds / top
    directions, log_norms = dormant.carry_batch(batch, float(batch.clock.accelerated(time)))
    theta = batch.directions @ expm((matrix - top * np.eye(problem.n_params)) * time)
    sizes = np.linalg.norm(theta, axis=1)
    # rounding of an exponent of 300 and of the parts
    np.testing.assert_allclose(directions, theta / sizes[:, None], atol=1e-11)
    np.testing.assert_allclose(log_norms, batch.log_norms + np.log(sizes) + e_folds, atol=1e-10)


def test_a_part_of_1e_100_grows_to_lead_when_its_time_has_come(rng):
    problem = network(rng, width=1)
    init = problem.init(1e-300)
    batch = frozen(problem, init)
    rates, vectors = np.linalg.eigh(form(problem, batch.residual))
    steps = LinearStepper(batch, form(problem, batch.residual), 1e-6)
    steps._sign = np.ones((1, rates.size))
    steps._logs = np.full((1, rates.size), -np.inf)
    steps._logs[0, -1], steps._logs[0, -2] = -100 * np.log(10.0), 0.0
    even = 100 * np.log(10.0) / (rates[-1] - rates[-2])
    before, at, after = (steps.state(np.array([0]), np.array([even * f]))[0] for f in (0.9, 1.0, 1.1))
    assert abs(before[: steps.p] @ vectors[:, -2]) == pytest.approx(1.0, abs=1e-12)
    assert abs(at[: steps.p] @ vectors[:, -1]) == pytest.approx(0.5**0.5, rel=1e-9)
    assert abs(after[: steps.p] @ vectors[:, -1]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("alpha", [1e-2, 1e-8, 1e-100])
@pytest.mark.parametrize("beside", [0, 2])
def test_neurons_cross_when_small_steps_say(rng, monkeypatch, alpha, beside):
    problem = network(rng, width=30)
    batch = frozen(problem, problem.init(alpha))
    active = rng.standard_normal((beside, problem.n_params))
    names = np.arange(beside)
    batch = replace(batch, residual=problem.residual(active, names))
    threshold = ExactThreshold(problem, True, active, names)
    exact = dormant.cross(batch, threshold)
    monkeypatch.setattr(choose_stepper, "linear", lambda batch: None)
    stepped = dormant.cross(batch, threshold, rtol=1e-9)
    assert exact.time == pytest.approx(stepped.time, rel=1e-8)  # the tolerance of some tens of steps
    assert exact.neurons.tolist() == stepped.neurons.tolist()
    np.testing.assert_allclose(exact.directions, stepped.directions, atol=1e-6)
    np.testing.assert_allclose(exact.log_norms, stepped.log_norms, atol=1e-6)


def test_a_neuron_without_a_growing_part_never_crosses(rng):
    problem = network(rng, width=1)
    matrix = form(problem, frozen(problem, problem.init(1e-3)).residual)
    rates, vectors = np.linalg.eigh(matrix)
    init = agf.Init.from_params(1e-3 * vectors[:, :1].T)
    engine = agf.Engine(problem, init, Settings.of({"mode": "agf"}))
    # rounding of the eigenvector is a part along the growing ones: that grows, as it would in training
    _, found = engine.phases.dormant(engine.init())
    grown = np.log(np.abs(init.directions[0] @ vectors[:, -1]))
    assert found is Status.NO_GROWTH or float(engine.clock.flow(found.time)) * rates[-1] > -grown


def test_what_a_phase_asks_of_the_data_does_not_grow_with_its_length(rng, monkeypatch):
    problem = network(rng, width=500)
    asked = []
    utility = type(problem).utility
    monkeypatch.setattr(type(problem), "utility", lambda self, t, n, r: asked.append(len(t)) or utility(self, t, n, r))
    rows = []
    for alpha in (1e-4, 1e-200):
        init = problem.init(alpha)
        engine = agf.Engine(problem, init, Settings.of({"mode": "agf"}))
        state = engine.init()
        asked.clear()
        engine.phases.dormant(state)
        rows.append(sum(asked))
    assert rows[1] <= rows[0] + 100
    assert rows[0] < 10 * problem.width


@pytest.mark.parametrize("activation", ["relu", "square", "leaky-relu"])
def test_other_activations_do_not_move_by_a_matrix(rng, activation):
    problem = network(rng, activation=activation)
    assert linear(frozen(problem, problem.init(1e-2))) is None
