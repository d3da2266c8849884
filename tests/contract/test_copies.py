"""What a caller does to his arrays after handing them over changes nothing, in the computation or in its record."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import agf
from agf import registry


def _data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    return X, X @ np.array([2.0, 1.0, 0.5, 0.1])


class Keeps(agf.TwoLayer):
    """A stranger's problem that keeps the arrays it is given, as most do."""

    name = "keeps"

    def __init__(self, X, Y):
        super().__init__(X, Y, activation="linear", width=4)
        self.kept = X

    def features(self, theta, neurons):
        return {"first": np.array(self.kept[0])}


@pytest.mark.parametrize("build", [lambda X, y: agf.problem("diagonal-linear", X=X, y=y), Keeps])
def test_data_changed_later_change_neither_numbers_nor_record(build, tmp_path):
    X, y = _data()
    problem = build(X, y)
    init = problem.init(1e-6)
    first = agf.predict(problem, init, mode="agf")
    before = X.copy()
    X *= 2.0
    y[:] = 0.0
    again = agf.predict(problem, init, mode="agf")
    assert np.array_equal(first.times, again.times)
    again.save(tmp_path / "run.npz")
    assert np.array_equal(agf.load(tmp_path / "run.npz").arguments["X"], before)
    for drop, other in zip(first.drops, again.drops, strict=True):
        for name in drop.features:
            assert np.array_equal(drop.features[name], other.features[name])


def test_weights_changed_later_change_nothing():
    theta = 1e-3 * np.random.default_rng(0).standard_normal((4, 5))
    init = agf.Init.from_params(theta)
    directions, log_norms = init.directions.copy(), init.log_norms.copy()
    direct = agf.Init(directions, log_norms, 1e-3)
    theta *= 5.0
    directions[:] = directions[::-1]
    log_norms[:] = 0.0
    assert np.array_equal(init.log_norms, direct.log_norms)
    assert np.array_equal(init.directions, direct.directions)
    with pytest.raises(ValueError, match="read-only"):
        init.log_norms[0] = 0.0


def test_nested_arrays_and_lists_are_copied_too():
    class Nested(agf.TwoLayer):
        def __init__(self, X, Y, extra):
            super().__init__(X, Y, activation="linear", width=2)
            self.extra = extra

    X, y = _data()
    extra = {"rows": [np.ones(2)], "names": ["a"]}
    problem = Nested(X, y, extra)
    extra["rows"][0][:] = 7.0
    extra["names"].append("b")
    assert problem.extra["rows"][0][0] == 1.0
    assert problem.arguments["extra"]["names"] == ["a"]


@pytest.mark.parametrize("name", registry.names())
def test_problems_are_copied_and_pickled(name):
    if name in ("relu", "modular-addition", "linear-attention", "full-linear-attention"):
        pytest.importorskip("torch")
    cls = registry.find(name)
    problem = cls(**cls.example())
    init = problem.init(1e-3)
    theta = init.params()
    who = np.arange(problem.width)
    for other in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert other.loss_grad(theta, who)[0] == problem.loss_grad(theta, who)[0]
        assert np.array_equal(other.loss_grad(theta, who)[1], problem.loss_grad(theta, who)[1])


@pytest.mark.parametrize("activation", ["tanh", "relu", "square"])
def test_networks_are_copied_and_pickled(activation):
    problem = agf.TwoLayer(*_data(), activation=activation, width=3)
    theta, who = problem.init(1.0).params(), np.arange(3)
    for other in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert other.loss_grad(theta, who)[0] == problem.loss_grad(theta, who)[0]
