"""Many initializations at once: the same as one by one, and independent of one another to the last bit."""

import numpy as np
import pytest
from diagonal_cases import diagonal, five_coordinates, random_problem, returning_problem
from sweep_plugin import PLUGIN

import agf
from agf.algorithm.prediction import predict_each, predict_many

#: Both routes do the same arithmetic up to the order of sums inside the linear algebra: a few hundred roundings.
ROUNDING = 1e-12


def document(stairs):
    """What a run file says, without how long it took."""
    return {**stairs.to_dict(), "stats": None}


def alone(problem, inits, **options):
    return [agf.predict(problem, init, **{"mode": "agf", **options}) for init in inits]


def assert_agree(many, single):
    for ours, theirs in zip(many, single, strict=True):
        assert ours.status is theirs.status
        assert len(ours.drops) == len(theirs.drops)
        for a, b in zip(ours.drops, theirs.drops, strict=True):
            assert (a.neurons.tolist(), a.collapsed.tolist(), a.label) == (
                b.neurons.tolist(), b.collapsed.tolist(), b.label,
            )  # fmt: skip
            assert (a.runner_up is None) == (b.runner_up is None)
            if a.runner_up is not None:
                assert a.runner_up[0] == b.runner_up[0]
                assert a.runner_up[1] == pytest.approx(b.runner_up[1], abs=ROUNDING * a.accelerated_time)
            assert a.time == pytest.approx(b.time, rel=ROUNDING)
            assert a.half_time == pytest.approx(b.half_time, rel=ROUNDING)
            assert a.level == pytest.approx(b.level, rel=ROUNDING, abs=ROUNDING * theirs.start_level)
            np.testing.assert_allclose(a.log_norms, b.log_norms, rtol=ROUNDING, atol=ROUNDING)
            np.testing.assert_array_equal(a.active, b.active)
            # bars are made of differences, of which roundings are a larger part
            assert [a.error, a.level_error] == pytest.approx([b.error, b.level_error], rel=1e-6)


@pytest.mark.parametrize("threshold", ["natural", "unit"])
@pytest.mark.parametrize("case", ["returning", "five", "tall", "wide", "correlated"])
def test_diagonal_seeds_together_are_as_one_by_one(case, threshold):
    named = {"returning": returning_problem, "five": five_coordinates}
    x, y = named[case]() if case in named else random_problem(np.random.default_rng(5), case)
    problem = diagonal(x, y)
    for alpha in (1e-3, 1e-200):
        inits = [problem.init(alpha, seed, kind="gaussian") for seed in range(12)]
        assert_agree(predict_many(problem, inits, threshold=threshold), alone(problem, inits, threshold=threshold))


def test_coordinates_that_return_to_dormancy_do_so_together():
    problem = diagonal(*returning_problem())
    inits = [problem.init(1e-4, seed, kind="gaussian") for seed in range(12)]
    many = predict_many(problem, inits, mode="agf")
    assert any(drop.collapsed.size for stairs in many for drop in stairs.drops)
    assert_agree(many, alone(problem, inits))


def test_equal_columns_tie_together():
    x, y = five_coordinates()
    problem = diagonal(np.column_stack([x, x[:, 2], -x[:, 2]]), y)
    inits = [problem.init(1e-6, seed) for seed in range(3)]
    many = predict_many(problem, inits, mode="agf")
    assert any(drop.neurons.size == 3 for stairs in many for drop in stairs.drops)
    assert_agree(many, alone(problem, inits))


@pytest.mark.parametrize("mode", ["agf", "limit"])
def test_every_bit_is_the_same_whoever_else_was_asked(mode):
    x, y = random_problem(np.random.default_rng(3), "correlated")
    problem = diagonal(x, y)
    inits = [problem.init(1e-4, seed, kind="gaussian") for seed in range(20)]
    everybody = [document(stairs) for stairs in predict_many(problem, inits, mode=mode)]
    assert len({str(stairs["drops"][0]["time"]) for stairs in everybody}) > (1 if mode == "agf" else 0)
    for some in ([7], [3, 4, 19], list(range(10, 20))):
        again = predict_many(problem, [inits[i] for i in some], mode=mode)
        assert [document(stairs) for stairs in again] == [everybody[i] for i in some]


def test_seeds_end_for_their_own_reasons():
    x = np.eye(2) * 2.0
    problem = diagonal(x, np.array([1.0, -1.0]))
    # u = v never turns negative: coordinate 1 has no part of the sign that it would need
    stuck = agf.Init.from_params(np.full((2, 2), 1e-5))
    free = problem.init(1e-5, 0, kind="gaussian")
    many = predict_many(problem, [stuck, free], mode="agf")
    assert [stairs.status for stairs in many] == [agf.Status.NO_GROWTH, agf.Status.FITTED]
    assert [len(stairs.drops) for stairs in many] == [1, 2]
    assert_agree(many, alone(problem, [stuck, free]))


def test_nothing_to_learn_is_fitted_at_once():
    problem = diagonal(np.eye(3), np.zeros(3))
    (stairs,) = predict_many(problem, [problem.init(1e-3, 0)], mode="agf")
    assert stairs.status is agf.Status.FITTED
    assert not stairs.drops


@pytest.mark.parametrize("options", [{"max_drops": 2}, {"max_drops": 0}, {"t_max": 3.0}, {"tie_rtol": 0.5}])
def test_bounds_and_ties_hold_as_one_by_one(options):
    x, y = five_coordinates()
    problem = diagonal(x, y)
    inits = [problem.init(1e-6, seed, kind="gaussian") for seed in range(6)]
    assert_agree(predict_many(problem, inits, **{"mode": "agf", **options}), alone(problem, inits, **options))


def test_large_data_are_predicted_in_a_loop(monkeypatch):
    from agf_problems.diagonal_linear import problem as module

    x, y = five_coordinates()
    problem = diagonal(x, y)
    inits = [problem.init(1e-6, seed, kind="gaussian") for seed in range(3)]
    monkeypatch.setattr(module, "MAX_SIZE", x.size - 1)
    assert problem.many_phases(inits, agf.Settings()) is None
    singles = [document(stairs) for stairs in alone(problem, inits)]
    assert [document(stairs) for stairs in predict_many(problem, inits, mode="agf")] == singles


def test_a_problem_without_shared_work_is_predicted_in_a_loop(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text(PLUGIN)
    problem = agf.problem(f"{path}:Toy")
    inits = [problem.init(1e-3, seed) for seed in range(4)]
    singles = [document(stairs) for stairs in alone(problem, inits)]
    assert [document(stairs) for stairs in predict_many(problem, inits, mode="agf")] == singles


def test_no_initialization_gives_no_staircase():
    assert predict_many(diagonal(*five_coordinates()), [], mode="agf") == []


def test_one_by_one_those_that_raise_give_their_exception_and_the_others_their_result(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text(PLUGIN)
    problem = agf.problem(f"{path}:Toy", fail_seed=2)
    inits = [problem.init(1e-3, seed) for seed in range(4)]
    found = list(predict_each(problem, inits, agf.Settings(mode="agf")))
    assert [isinstance(one, Exception) for one in found] == [False, False, True, False]
    assert "on purpose" in str(found[2])
    with pytest.raises(type(found[2]), match="on purpose"):
        predict_many(problem, inits, mode="agf")


def test_a_result_is_given_before_the_next_is_computed(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text(PLUGIN)
    problem = agf.problem(f"{path}:Toy", stop_seed=2)
    found = predict_each(problem, [problem.init(1e-3, seed) for seed in range(4)], agf.Settings(mode="agf"))
    assert [next(found).status.word for _ in range(2)] == ["all_active", "all_active"]
    with pytest.raises(KeyboardInterrupt):
        next(found)


def test_sharing_that_fails_is_no_failure_of_those_that_can_be_predicted(monkeypatch):
    x, y = five_coordinates()
    problem = diagonal(x, y)
    inits = [problem.init(1e-6, seed, kind="gaussian") for seed in range(3)]
    singles = [document(stairs) for stairs in alone(problem, inits)]

    def broken(self, inits, settings):
        raise ZeroDivisionError

    monkeypatch.setattr(type(problem), "many_phases", broken)
    with pytest.warns(UserWarning, match="`many_phases` of problem 'diagonal-linear' raised ZeroDivisionError"):
        assert [document(stairs) for stairs in predict_many(problem, inits, mode="agf")] == singles
