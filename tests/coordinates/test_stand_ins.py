"""Equal neurons are one: exact for any activation, and what rounding alone would part stays together in every mode."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import agf
from agf.algorithm import prediction
from agf.coordinates.stand_ins import StandIns, tied_copies

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((14, 3)), RNG.standard_normal((14, 2))
OF = np.array([0, 1, 0, 2, 0, 1])


def network(activation, width=6, **options):
    return agf.TwoLayer(X, Y, activation=activation, width=width, **options)


@pytest.mark.parametrize("activation", ["tanh", "gelu", "linear", "square"])
@pytest.mark.parametrize("loss", ["half-squared", "exponential"])
def test_a_stand_in_is_its_copies_together(activation, loss):
    """The embedding phi = sqrt(k) theta is isometric: losses, gradients, Hessians and pulls are those of the copies."""
    whole = agf.TwoLayer(X, Y if loss == "half-squared" else Y[:, 0] > 0, activation=activation, loss=loss, width=6)
    one, neurons = StandIns(whole, OF), np.arange(3)
    phi = 0.4 * np.random.default_rng(0).standard_normal((3, whole.n_params))
    theta = (phi / np.sqrt([3, 2, 1])[:, None])[OF]
    value, gradient = one.loss_grad(phi, neurons)
    expected, each = whole.loss_grad(theta, np.arange(6))
    assert value == pytest.approx(expected, rel=1e-14)
    summed = np.array([each[g == OF].sum(axis=0) for g in range(3)]) / np.sqrt([3, 2, 1])[:, None]
    assert gradient == pytest.approx(summed, rel=1e-10, abs=1e-14)
    along, h = np.random.default_rng(1).standard_normal(phi.shape), 1e-5
    bent = (one.loss_grad(phi + h * along, neurons)[1] - one.loss_grad(phi - h * along, neurons)[1]) / (2 * h)
    assert one.hessian(phi, neurons) @ along.ravel() == pytest.approx(bent.ravel(), rel=1e-5, abs=1e-8)
    norms = np.linalg.norm(phi, axis=1)
    pull = one.network_pull(phi / norms[:, None], np.log(norms), neurons, np.ones(3, dtype=bool))
    assert pull * norms[:, None] ** (one.degree - 1) == pytest.approx(-gradient, rel=1e-9, abs=1e-13)
    apart = one.pull(phi / norms[:, None], np.log(norms), neurons, one.residual(phi, neurons))
    assert apart == pytest.approx(pull, rel=1e-9, abs=1e-13)
    # to leading order: what a small neuron takes off, and what all of it costs
    units, nothing = phi / norms[:, None], one.residual(*one.empty)
    assert one.utility(units, neurons, nothing)[1] == pytest.approx(
        one.pull(units, np.full(3, -12.0), neurons, nothing), rel=1e-3, abs=1e-4
    )
    alone = one.self_interaction(units, neurons, *one.empty)
    wanted = whole.self_interaction(units, neurons, *whole.empty) * np.array([3.0, 2.0, 1.0]) ** (2 - one.degree)
    assert alone == pytest.approx(wanted, rel=1e-12)


def pairs(problem, alpha, seed=0, sign=1.0):
    """Weights of which the first two rows are equal, or opposite."""
    theta = problem.init(1.0, seed=seed).params()
    theta[1] = sign * theta[0]
    return agf.Init.from_params(alpha * theta)


@pytest.mark.parametrize(("activation", "sign"), [("tanh", 1.0), ("linear", 1.0), ("tanh", -1.0), ("gelu", 1.0)])
def test_equal_neurons_stay_equal_bit_by_bit_in_every_mode(activation, sign):
    problem = agf.TwoLayer(X, X @ [1.0, -0.5, 0.2], activation=activation, width=3)
    init = pairs(problem, 1e-4, sign=sign)
    flow = agf.flow(problem, init, t_max=40.0)
    for run in (flow, agf.descend(problem, init, lr=0.05, steps=300)):
        assert np.array_equal(run.directions[:, 0], sign * run.directions[:, 1])
        assert np.array_equal(run.log_norms[:, 0], run.log_norms[:, 1])
    for mode in ("auto", "resolved", "agf", "limit"):
        found = agf.predict(problem, init, mode=mode, t_max=None if mode == "limit" else 40.0)
        assert found.drops
        assert found.init is init
        assert found.problem == "two-layer"
        for drop in found.drops if activation != "linear" else ():  # these are of modes
            assert np.array_equal(drop.directions[0], sign * drop.directions[1])
            assert drop.active[0] == drop.active[1]
            assert (0 in drop.neurons) == (1 in drop.neurons)
    resumed = agf.flow(problem, init, t_max=40.0, resume=agf.flow(problem, init, t_max=40.0, max_steps=20))
    assert np.array_equal(resumed.losses, flow.losses)


def test_a_linear_network_of_copies_has_no_more_modes_than_stand_ins():
    """A second mode of two equal neurons is rounding: training took a million velocities, and learned it."""
    problem = agf.TwoLayer(X, X @ RNG.standard_normal((3, 2)), activation="linear", width=2)
    init = pairs(problem, 1e-6)
    one = agf.TwoLayer(problem.X, problem.Y, activation="linear", width=1)
    alone = agf.Init(init.directions[:1], init.log_norms[:1] + 0.5 * np.log(2), init.alpha)
    assert agf.flow(problem, init).losses[-1] == pytest.approx(agf.flow(one, alone).losses[-1], rel=1e-10)
    for mode in ("auto", "agf"):
        found, expected = (agf.predict(*given, mode=mode) for given in ((problem, init), (one, alone)))
        assert found.half_times == pytest.approx(expected.half_times, rel=1e-12)
        assert found.levels == pytest.approx(expected.levels, rel=1e-12)
    three = agf.TwoLayer(problem.X, problem.Y, activation="linear", width=3)
    for mode in ("auto", "agf"):
        drop = agf.predict(three, pairs(three, 1e-6), mode=mode).drops[0]
        assert drop.neurons.tolist() == [0]
        assert drop.log_norms.shape == drop.active.shape == (3,)
        assert drop.features


def test_opposite_neurons_of_an_activation_that_is_not_odd_are_two():
    problem = network("gelu", width=3)
    assert not tied_copies(problem, pairs(problem, 1e-4, sign=-1.0)).any
    assert tied_copies(network("erf", width=3), pairs(problem, 1e-4, sign=-1.0)).any


def test_rounding_parts_no_equal_neurons_at_a_saddle_that_they_share():
    """Two copies of a tanh neuron make what one makes: the exact flow rests where it has learned that.

    Velocities of copies differ in their last bits, and that grew to a drop of its own, under an infinite bar.
    """
    inputs = np.random.default_rng(1).standard_normal((12, 2))
    targets = np.tanh(inputs @ [1.0, -0.5])[:, None] * [1.0, 0.5] + np.tanh(inputs @ [0.3, 1.0])[:, None] * [-0.3, 0.6]
    problem = agf.TwoLayer(inputs, targets, activation="tanh", width=2)
    init = pairs(problem, 1e-6)

    def loss(row):
        return 0.5 * np.sum((targets - 2.0 * row[2:] * np.tanh(inputs @ row[:2])[:, None]) ** 2) / 12

    def velocity(_, row):
        h = np.tanh(inputs @ row[:2])
        r = targets - 2.0 * row[2:] * h[:, None]
        return np.append(((r @ row[2:]) * (1 - h**2)) @ inputs, h @ r) / 12

    run = solve_ivp(velocity, (0.0, 3000.0), init.params()[0], method="LSODA", rtol=1e-9, atol=1e-15)
    losses = np.array([loss(row) for row in run.y.T])
    flow, found = agf.flow(problem, init), agf.predict(problem, init)
    assert flow.losses[-1] == pytest.approx(losses[-1], rel=1e-3)
    assert found.levels[-1] == pytest.approx(losses[-1], rel=1e-3)
    assert len(found.drops) == len(flow.drops)
    for before, drop in zip(found.levels, found.drops, strict=False):
        when = np.interp(-0.5 * (before + drop.level), -losses, run.t)
        assert abs(drop.half_time / when - 1) < drop.error < 0.01


def test_stand_ins_take_no_more_room_and_work_than_their_copies():
    """A thousand neurons, half of them equal, were refused: counted as if each of 501 were 500."""
    whole = network("tanh", width=1000)
    one = StandIns(whole, np.maximum(np.arange(1000) - 499, 0))
    assert one.width == 501
    for name in ("footprint", "operations"):
        assert 1 <= one.width * getattr(one, name) / (1000 * getattr(whole, name)) < 1.01


def test_what_a_prediction_leaves_on_the_way_is_of_the_neurons_that_were_given(tmp_path, monkeypatch):
    """The run file of one that is killed, and what an error carries, are not of stand-ins."""
    problem, path, predicted = network("tanh", width=3), tmp_path / "run.npz", prediction._predicted
    init = pairs(problem, 1e-4)

    def failing(*given):
        raise agf.ComputationError("failed", predicted(*given))

    monkeypatch.setattr(prediction, "_predicted", failing)
    with pytest.raises(agf.ComputationError) as failed:
        agf.predict(problem, init, mode="agf", checkpoint=path)
    for found in (failed.value.partial, agf.load(path)):
        assert found.init.width == found.drops[0].log_norms.size == 3
