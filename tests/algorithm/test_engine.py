"""The loop, with scripted phases (exact counts) and scripted problems through the generic phases (exact times)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st
from stubs import DiagonalToy, Scripted, ScriptedPhases, norms_init

import agf
from agf.algorithm.engine import Engine
from agf.errors import ProblemError, RequestError
from agf.records.settings import Settings
from agf.records.state import Activation, Settled
from agf.records.status import Status

NOBODY = np.zeros(0, dtype=np.int64)


def activation(time, *neurons, runner_up=None):
    return Activation(time, 0.9 * time, np.array(neurons), np.ones(len(neurons)), runner_up)


def settled(level, *collapsed):
    return Settled(level, np.array(collapsed, dtype=np.int64), 1e-9, 1e-18, "script")


def scripted(script, width=4):
    problem = Scripted(np.ones(width))
    init = norms_init(np.full(width, -3.0))
    return Engine(problem, init, phases=ScriptedPhases(init, script))


def walk(engine):
    """All steps until a status."""
    state, steps = engine.init(), []
    while not steps or steps[-1].status is None:
        steps.append(engine.step(state))
        state = steps[-1].state
    return steps


# -- scripted phases -------------------------------------------------------------------------------------------


def test_every_scripted_drop_is_recorded_once_and_in_order():
    script = [(activation(1.0, 2), settled(0.5)), (activation(2.5, 0, 1), settled(0.2)), (Status.NO_GROWTH, None)]
    steps = walk(scripted(script))
    assert len(steps) == 3
    assert [step.status for step in steps] == [None, None, Status.NO_GROWTH]
    first, second = steps[0].drop, steps[1].drop
    assert first.neurons.tolist() == [2]
    assert second.neurons.tolist() == [0, 1]
    # the clock's unit is the mean threshold, 3
    assert (first.time, second.time, first.half_time) == pytest.approx((3.0, 7.5, 2.7))
    assert (first.level, second.level) == (0.5, 0.2)
    assert second.active.tolist() == [True, True, True, False]


def test_an_activation_at_time_zero_and_a_phase_of_length_zero_are_legal():
    script = [(activation(0.0, 0), settled(0.5)), (activation(0.0, 1), settled(0.4)), (Status.ALL_ACTIVE, None)]
    steps = walk(scripted(script))
    assert [step.drop.time for step in steps[:2]] == [0.0, 0.0]


def test_several_collapses_in_one_phase_are_all_recorded_and_no_longer_active():
    script = [
        (activation(1.0, 0, 1, 2), settled(0.5)),
        (activation(2.0, 3), settled(0.1, 0, 2)),
        (Status.NO_GROWTH, None),
    ]
    drop = walk(scripted(script))[1].drop
    assert drop.collapsed.tolist() == [0, 2]
    assert drop.active.tolist() == [False, True, False, True]


def test_a_phase_that_fails_ends_the_run_and_keeps_what_was_there():
    script = [(activation(1.0, 0), settled(0.5)), (activation(2.0, 1), Status.NONFINITE)]
    steps = walk(scripted(script))
    assert [step.drop is None for step in steps] == [False, True]
    assert steps[-1].status is Status.NONFINITE


@pytest.mark.parametrize("time", [np.nan, np.inf, 0.5])
def test_a_phase_that_goes_back_in_time_or_nowhere_is_a_broken_contract(time):
    script = [(activation(1.0, 0), settled(0.5)), (activation(time, 1), settled(0.1))]
    engine = scripted(script)
    state = engine.step(engine.init()).state
    with pytest.raises(ProblemError, match="dormant phase ended at time"):
        engine.step(state)


def test_an_initialization_of_another_shape_is_refused_with_both_shapes():
    with pytest.raises(RequestError, match=r"\(3, 2\).*\(4, 2\)"):
        Engine(Scripted(np.ones(4)), norms_init([-1.0, -1.0, -1.0]))


def test_the_engine_keeps_no_memory_so_a_step_can_be_repeated():
    problem = Scripted([3.0, 1.0, 2.0])
    engine = Engine(problem, norms_init([-3.0, -3.0, -3.0]), Settings(threshold="unit"))
    state = engine.init()
    once, again = engine.step(state), engine.step(state)
    assert once.drop.time == again.drop.time
    assert not state.active.any()


# -- scripted problems through the generic phases -------------------------------------------------------------


def predict(rates, log_norms, threshold="unit", levels=None, degree=2, interactions=None, **options):
    problem = Scripted(rates, levels, degree, interactions)
    return agf.predict(problem, norms_init(log_norms), threshold=threshold, **options)


def test_constant_utilities_activate_when_their_charge_reaches_the_threshold():
    """kappa U t = log(1/rho): times log(1/rho_i) / (2 U_i); rates change with the number of active neurons."""
    stairs = predict([[3.0, 1.0, 2.0], [0.0, 0.5, 1.0], [0.0, 4.0, 0.0]], [-6.0, -6.0, -8.0], mode="agf")
    first = 6.0 / 6.0
    # neuron 2 has charge 2*2*1 of 8, so 4 more at rate 2: 2 later; neuron 1 has 2 + 2 of 6, so 2 more at rate 8
    assert stairs.times == pytest.approx([0.0, first, first + 2.0, first + 2.0 + 0.25], rel=1e-9)
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0], [2], [1]]
    assert stairs.levels == pytest.approx([1.0, 0.5, 0.25, 0.125])
    assert stairs.status is Status.ALL_ACTIVE


@pytest.mark.parametrize("degree", [2, 3, 4, 5])
@pytest.mark.parametrize("log_alpha", [-2.0, -20.0, -460.0, -690.0])
def test_the_first_time_is_the_threshold_over_the_rate_at_any_degree_and_scale(degree, log_alpha):
    options = {"degree": degree, "max_drops": 1, "mode": "agf"}
    if (2 - degree) * log_alpha > np.log(np.finfo(float).max):  # flow times are the threshold, exp of this
        with pytest.raises(RequestError, match="beyond float64"):
            predict([1.5, 1.0], [log_alpha, log_alpha], **options)
        return
    stairs = predict([1.5, 1.0], [log_alpha, log_alpha], **options)
    # in accelerated time, c = 1 for both neurons, so t = 1 / (kappa U)
    assert stairs.accelerated_times[1] == pytest.approx(1.0 / (degree * 1.5), rel=1e-9)


def test_equal_neurons_activate_together_and_the_runner_up_is_named():
    stairs = predict([2.0, 1.9, 2.0, 1.0], [-5.0, -5.0, -5.0, -5.0], max_drops=1, mode="agf")
    assert stairs.drops[0].neurons.tolist() == [0, 2]
    index, lacks = stairs.drops[0].runner_up
    assert index == 1
    # charge left 5 - 2*1.9*1.25 = 0.25 at rate 3.8, in units of the mean threshold 5
    assert lacks == pytest.approx(0.25 / 3.8 / 5.0, rel=1e-6)


def test_a_tie_is_within_tie_rtol_and_not_beyond():
    near, far = (
        predict([2.0, 2.0 * (1 - 1e-10)], [-5.0, -5.0], mode="agf"),
        predict([2.0, 2.0 * (1 - 1e-8)], [-5.0, -5.0], mode="agf"),
    )
    assert near.drops[0].neurons.tolist() == [0, 1]
    assert far.drops[0].neurons.tolist() == [0]
    assert predict([2.0, 2.0 * (1 - 1e-8)], [-5.0, -5.0], tie_rtol=1e-6, mode="agf").drops[0].neurons.tolist() == [0, 1]


def test_neurons_that_start_at_their_threshold_activate_at_time_zero():
    stairs = predict([1.0, 0.5, 1.0], [0.0, 0.3, -2.0], max_drops=1, mode="agf")
    assert stairs.times[1] == 0.0
    assert stairs.drops[0].neurons.tolist() == [0, 1]


def test_a_neuron_above_its_threshold_with_no_positive_utility_stays_dormant():
    stairs = predict([-1.0, 1.0], [0.5, -2.0], max_drops=1, mode="agf")
    assert stairs.drops[0].neurons.tolist() == [1]
    assert stairs.drops[0].log_norms[0] == pytest.approx(0.5 - 2.0, abs=1e-6)


@pytest.mark.parametrize("rates", [[0.0, 0.0], [-1.0, -2.0], [-1.0, 0.0]])
def test_no_positive_utility_ends_with_a_status_and_an_empty_staircase(rates):
    stairs = predict(rates, [-3.0, -3.0], mode="agf")
    assert stairs.status is Status.NO_GROWTH
    assert stairs.times.tolist() == [0.0]
    assert stairs.levels.tolist() == [1.0]


def test_an_exactly_zero_neuron_never_moves():
    stairs = predict([1.0, 1.0], [-3.0, -np.inf], mode="agf")
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0]]
    assert stairs.status is Status.NO_GROWTH


def test_nothing_to_fit_is_fitted_at_once():
    stairs = predict([1.0, 1.0], [-3.0, -3.0], levels=[0.0, 0.0, 0.0], mode="agf")
    assert stairs.status is Status.FITTED
    assert stairs.drops == ()


@pytest.mark.parametrize("degree", [2, 3])
def test_natural_thresholds_are_the_norm_at_which_the_neuron_saturates(degree):
    """R* = (U / 2C)^(1/kappa); the half-drop comes 0.8814 / (4U) earlier for kappa 2."""
    stairs = predict([2.0], [-5.0], "natural", degree=degree, interactions=[0.25], max_drops=1, mode="agf")
    log_radius = np.log(2.0 / 0.5) / degree
    drop = stairs.drops[0]
    assert drop.log_norms == pytest.approx([log_radius], abs=1e-8)
    assert drop.time == pytest.approx(agf.clock.threshold(np.array([-5.0]), degree, log_radius)[0] / (2.0 * degree))
    if degree == 2:
        assert drop.time - drop.half_time == pytest.approx(np.log(np.sqrt(2) + 1) / 2 / 4.0, rel=1e-6)


def test_natural_thresholds_use_each_neurons_own_interaction():
    stairs = predict([1.0, 1.0], [-5.0, -5.0], "natural", interactions=[0.5, 5e-4], mode="agf")
    # R* = 1 and 10^1.5: the second needs 3.45 more of charge at rate 2
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0], [1]]
    assert stairs.times[1:] == pytest.approx([2.5, 2.5 + 1.5 * np.log(10) / 2], rel=1e-8)


def test_a_neuron_without_self_interaction_never_saturates_and_never_activates():
    stairs = predict([1.0, 5.0], [-5.0, -5.0], "natural", interactions=[0.5, 0.0], max_drops=1, mode="agf")
    assert stairs.drops[0].neurons.tolist() == [0]


def test_max_drops_and_max_time_stop_where_they_say():
    options = {"rates": [3.0, 2.0, 1.0], "log_norms": [-6.0, -6.0, -6.0]}
    none, one, all_ = (predict(**options, max_drops=k) for k in (0, 1, 9))
    assert (len(none.drops), len(one.drops), len(all_.drops)) == (0, 1, 3)
    assert none.status is one.status is Status.MAX_DROPS
    assert all_.status is Status.ALL_ACTIVE
    short = predict(**options, t_max=1.2)
    assert short.times.tolist() == pytest.approx([0.0, 1.0])
    assert short.status is Status.MAX_TIME


@pytest.mark.parametrize("where", ["utility", "self_interaction", "loss_grad"])
def test_a_non_finite_value_is_a_status_with_a_note_and_keeps_the_drops_so_far(where):
    class Broken(Scripted):
        def utility(self, theta, neurons, residual):
            value, gradient = super().utility(theta, neurons, residual)
            if where == "utility" and 0 not in neurons:
                value[neurons == 2] = np.nan
            return value, gradient

        def self_interaction(self, directions, neurons, active, active_neurons):
            value = super().self_interaction(directions, neurons, active, active_neurons).copy()
            if where == "self_interaction" and active_neurons.size:
                value[neurons == 2] = np.nan
            return value

        def loss_grad(self, theta, neurons):
            value, gradient = super().loss_grad(theta, neurons)
            return value, gradient + (np.nan if where == "loss_grad" and neurons.size == 2 else 0.0)

    stairs = agf.predict(Broken([3.0, 2.0, 1.0]), norms_init([-6.0, -6.0, -6.0]), mode="agf")
    assert stairs.status is Status.NONFINITE
    assert len(stairs.drops) == 1
    assert len(stairs.notes) == 2  # the other: the loss of this script counts neurons, however small they are
    if where != "loss_grad":
        assert f"`{where}`" in stairs.notes[0]
        assert "neuron(s) 2" in stairs.notes[0]


def test_a_wrong_shape_is_a_broken_contract_that_names_the_method():
    class Broken(Scripted):
        def utility(self, theta, neurons, residual):
            return super().utility(theta, neurons, residual)[0][:, None], theta

    with pytest.raises(ProblemError, match=r"`utility` returned shape \(2, 1\).*\(2,\)"):
        agf.predict(Broken([1.0, 1.0]), norms_init([-3.0, -3.0]), mode="agf")


def test_an_interrupt_keeps_the_drops_so_far():
    def observer(state, drop):
        if drop is not None and drop.neurons[0] == 2:
            raise KeyboardInterrupt

    problem = Scripted([3.0, 1.0, 2.0])
    stairs = agf.predict(problem, norms_init([-6.0, -6.0, -6.0]), observer=observer, mode="agf")
    assert stairs.status is Status.INTERRUPTED
    assert [drop.neurons.tolist() for drop in stairs.drops] == [[0], [2]]


def test_observers_see_every_step_with_its_state():
    seen = []
    problem = Scripted([3.0, 1.0, 2.0])
    stairs = agf.predict(
        problem,
        norms_init([-6.0] * 3),
        observer=lambda state, drop: seen.append((int(state.active.sum()), drop)),
        mode="agf",
    )
    assert [count for count, _ in seen] == [1, 2, 3, 3]
    assert [drop.time for _, drop in seen[:-1]] == [drop.time for drop in stairs.drops]  # bars come in the end
    assert seen[-1][1] is None


@pytest.mark.parametrize(
    "options",
    [{"mode": "exact"}, {"threshold": "big"}, {"rtol": 0.0}, {"horizon": -1.0}, {"colour": 1}, {"max_drops": -1}],
)
def test_settings_that_mean_nothing_are_refused(options):
    with pytest.raises(RequestError, match=next(iter(options))):
        agf.predict(Scripted([1.0]), norms_init([-3.0]), **options)


@pytest.mark.parametrize(
    ("mode", "option"),
    [
        ("limit", {"threshold": "unit"}),
        ("limit", {"settle": "horizon"}),
        ("limit", {"horizon": 2.0}),
        ("limit", {"joining": 0.1}),
        ("agf", {"joining": 0.1}),
        ("resolved", {"settle": "converged"}),
        ("resolved", {"horizon": 2.0}),
    ],
)
def test_options_that_do_not_apply_to_a_mode_are_refused_with_the_modes_they_apply_to(mode, option):
    name = next(iter(option))
    with pytest.raises(RequestError, match=rf"`{name}` does not apply to mode '{mode}'.*Expected mode"):
        agf.predict(Scripted([1.0]), norms_init([-3.0]), mode=mode, **option)


@pytest.mark.parametrize("mode", ["agf", "limit", "resolved"])
def test_a_run_file_records_the_options_that_were_used_and_no_others(mode, tmp_path):
    problem = DiagonalToy(np.eye(2), [2.0, 1.0])
    stairs = agf.predict(problem, problem.init(1e-4), mode=mode, conditioning=False)
    stairs.save(tmp_path / "run.npz")
    again = agf.load(tmp_path / "run.npz").settings
    assert again == stairs.settings
    used = {"agf": {"threshold", "settle", "horizon"}, "limit": set(), "resolved": {"threshold", "joining"}}[mode]
    assert used == again.to_dict().keys() & {"threshold", "settle", "horizon", "joining"}


def test_the_engine_refuses_a_mode_without_phases():
    with pytest.raises(RequestError, match=r"does not alternate two phases.*agf or limit"):
        Engine(Scripted([1.0]), norms_init([-3.0]), Settings(mode="resolved"))


def test_mode_limit_is_the_same_engine_with_phases_of_its_own():
    problem = DiagonalToy(np.eye(2), [2.0, 1.0])
    init = problem.init(1e-8)
    stairs = agf.predict(problem, init, mode="limit")
    steps = walk(Engine(problem, init, Settings(mode="limit")))
    assert [step.drop.time for step in steps if step.drop is not None] == stairs.times[1:].tolist()
    assert steps[-1].status is stairs.status


# -- laws --------------------------------------------------------------------------------------------------------


@given_settings(max_examples=10)
@given(st.permutations(range(5)), st.integers(0, 100))
def test_the_order_of_neurons_changes_nothing_but_their_indices(order, seed):
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.5, 3.0, 5)
    log_norms = rng.uniform(-9.0, -3.0, 5)
    order = np.array(order)
    plain, shuffled = predict(rates, log_norms, mode="agf"), predict(rates[order], log_norms[order], mode="agf")
    assert shuffled.times == pytest.approx(plain.times, rel=1e-12)
    assert [order[drop.neurons].tolist() for drop in shuffled.drops] == [drop.neurons.tolist() for drop in plain.drops]


@given_settings(max_examples=5)
@given(st.sampled_from([2, 3]), st.floats(-8.0, 8.0), st.integers(0, 20))
def test_times_and_levels_follow_the_units_of_the_targets(degree, log_scale, seed):
    """y -> s y with theta(0) -> s^(1/kappa) theta(0): L -> s^2 L, and t -> s^(2/kappa - 2) t."""
    scale = np.exp(log_scale)
    rng = np.random.default_rng(seed)
    X, beta = rng.standard_normal((12, 3)), rng.uniform(0.5, 2.0, 3)
    small = DiagonalToy(X, X @ beta, degree)
    large = DiagonalToy(X, scale * X @ beta, degree)
    theta = 1e-3 * rng.standard_normal((3, degree))
    plain = agf.predict(small, agf.Init.from_params(theta), mode="agf")
    scaled = agf.predict(large, agf.Init.from_params(scale ** (1 / degree) * theta), mode="agf")
    assert [d.neurons.tolist() for d in scaled.drops] == [d.neurons.tolist() for d in plain.drops]
    # steps are chosen by the same relative rules, so only rounding differs; times are conditioned like 1 / rounding
    assert scaled.times == pytest.approx(scale ** (2 / degree - 2) * plain.times, rel=1e-7)
    assert scaled.levels == pytest.approx(scale**2 * plain.levels, rel=1e-6, abs=1e-6 * scale**2 * plain.levels[0])


@pytest.mark.parametrize(
    ("name", "value"), [("degree", 1), ("degree", -1), ("degree", 2.5), ("width", 0), ("n_params", None)]
)
def test_a_problem_whose_sizes_cannot_be_is_refused_before_anything_is_computed(name, value):
    problem = DiagonalToy(np.eye(2), [1.0, 2.0])
    init = problem.init(1e-3)
    setattr(problem, name, value)
    for call in (
        lambda: problem.init(1e-3),
        lambda: agf.predict(problem, init, mode="agf"),
        lambda: agf.flow(problem, init),
    ):
        with pytest.raises(ProblemError, match=f"has {name} = {value}.*an integer, at least"):
            call()
