"""What a caller does to his arrays after handing them over changes nothing, in the computation or in its record."""

from __future__ import annotations

import copy
import json
import pickle
import zipfile
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import agf
from agf import AgfError, registry
from agf.records import naming
from agf.records.provenance import fingerprint


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


def _of_fractions(kind):
    return lambda X: [[kind(value) for value in row] for row in X.tolist()]


def _of_pandas(dtype):
    return lambda X: pytest.importorskip("pandas").DataFrame(X, columns=list("abcd")).astype(dtype)


def _of_torch(dtype):
    def tensor(X):
        torch = pytest.importorskip("torch")
        return torch.tensor(X, dtype=getattr(torch, dtype), requires_grad=True)

    return tensor


@pytest.mark.parametrize(
    "kind",
    [
        _of_fractions(Decimal), _of_fractions(Fraction), _of_pandas(object), _of_pandas("Int64"),
        _of_pandas("Float64"), _of_torch("bfloat16"), lambda X: X.astype(object), lambda X: X.astype(np.longdouble),
    ],
)  # fmt: skip
def test_what_is_computed_is_what_a_run_file_holds(kind, tmp_path):
    """Objects were computed with and not recorded, and a tensor of bfloat16 was an error after the computation."""
    X = np.random.default_rng(0).integers(-4, 5, (12, 4)).astype(float)
    y = X @ np.array([2.0, 1.0, 0.5, 0.0])
    expected = agf.problem("diagonal-linear", X=X, y=y)
    problem = agf.problem("diagonal-linear", X=kind(X), y=y)
    stairs = agf.predict(problem, problem.init(1e-6), mode="agf")
    assert np.array_equal(stairs.times, agf.predict(expected, expected.init(1e-6), mode="agf").times)
    stairs.save(tmp_path / "run.npz")
    assert np.array_equal(agf.load(tmp_path / "run.npz").arguments["X"], X)


class Carries(agf.TwoLayer):
    name = "carries"

    def __init__(self, X, Y, extra):
        super().__init__(X, Y, activation="linear", width=2)


@pytest.mark.parametrize(
    ("extra", "held"),
    [
        ([[1, 2], [3]], False), ({"a": np.ones(2)}, False), ({"a": {"b": 1}}, False), ({"a": {1}}, False),
        ({(1, 2): 3}, False), ({"a": float("nan")}, False),
        pytest.param(10**400, False, id="beyond float64"), ([float("nan"), "a"], False),
        ([[1, "a"]], False), (np.ma.array([1.0, 2.0], mask=[0, 1]), False), (len, False), (None, True),
        (float("nan"), True), (float("inf"), True), ([float("inf"), 1.0], True), ([None, 1], True), (True, True),
        (np.str_("a"), True), (np.float64(0.1), True), (np.bool_(True), True), ({1: 2.0}, True),
        ([["a", "b"]], True), ("text", True), ([], True), (np.zeros((0, 3)), True),
    ],
)  # fmt: skip
def test_an_argument_is_read_back_as_it_was_or_said_not_to_be_held(extra, held, tmp_path):
    """Ragged lists and sets ended the saving of a result, nested dicts made a file that could not be read, NaN became
    None, infinity text, a mask was lost."""
    problem = Carries(*_data(), extra)
    agf.predict(problem, problem.init(1e-6), mode="agf").save(tmp_path / "run.npz")
    loaded = agf.load(tmp_path / "run.npz")
    with zipfile.ZipFile(tmp_path / "run.npz") as archive:
        header = json.loads(archive.read("header.json"))
    if not held:
        assert header["arguments"]["extra"] == {"unsaved": type(extra).__name__}
        assert "extra" not in loaded.arguments
        return
    assert header["fingerprint"] == fingerprint(loaded.arguments)
    found = loaded.arguments["extra"]
    if isinstance(extra, float | list | np.ndarray | np.bool_) and extra is not True:
        assert np.array_equal(found, extra, equal_nan=isinstance(extra, float))
    else:
        assert found == extra


def test_a_frame_names_its_columns_in_files_too(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = _data()
    problem = agf.problem("diagonal-linear", X=pandas.DataFrame(X, columns=["age", "bmi", "bp", "s1"]), y=y)
    agf.flow(problem, problem.init(1e-3), t_max=0.1).save(tmp_path / "run.npz")
    loaded = agf.load(tmp_path / "run.npz")
    assert loaded.arguments["names"] == ["age", "bmi", "bp", "s1"]
    assert naming.neurons(loaded, 4)[1] == "coordinate 1 (bmi)"


@pytest.mark.parametrize("loss", ["half-squared", "logistic", "cross-entropy"])
@pytest.mark.parametrize("kind", ["objects", "strings", "categories", "Decimal", "Int64"])
def test_labels_of_pandas_are_read_and_recorded_alike(kind, loss, tmp_path):
    """Text of pandas was not recorded, and Decimals were classes in the computation and measurements in the file."""
    pandas = pytest.importorskip("pandas")
    X, _ = _data()
    side = np.where(X[:, 0] > 0, 1, -1)
    words = pandas.Series(np.where(side > 0, "up", "down"))
    Y = {
        "objects": words.to_numpy(dtype=object), "strings": words.astype("string"),
        "categories": words.astype("category"), "Decimal": [Decimal(int(v)) for v in side],
        "Int64": pandas.Series(side).astype("Int64"),
    }[kind]  # fmt: skip
    problem = agf.problem("relu", X=X, Y=Y, loss=loss, width=2)
    init = problem.init(0.1)
    agf.descend(problem, init, lr=0.01, steps=2).save(tmp_path / "run.npz")
    again = agf.problem("relu", **agf.load(tmp_path / "run.npz").arguments)
    expected = agf.problem("relu", X=X, Y=side if kind in ("Decimal", "Int64") else words.tolist(), loss=loss, width=2)
    who = np.arange(2)
    losses = {p.n_outputs: p.loss_grad(init.params(), who)[0] for p in (problem, again, expected)}
    assert len(losses) == 1
    assert again.loss_grad(init.params(), who)[0] == problem.loss_grad(init.params(), who)[0]


@pytest.mark.parametrize("loss", ["logistic", "exponential", "cross-entropy"])
def test_labels_that_are_masked_or_dates_are_refused(loss):
    """What lies under a mask was read as a label."""
    X, _ = _data()
    side = np.where(X[:, 0] > 0, 1, -1)
    days = np.where(side > 0, "2020-01-01", "2020-01-02").astype("datetime64[D]")
    for Y in (np.ma.array(side, mask=np.arange(side.size) == 0), days):
        with pytest.raises(agf.DataError, match=r"masked|datetime64"):
            agf.TwoLayer(X, Y, loss=loss)


@pytest.mark.parametrize("kind", [Decimal, Fraction, np.longdouble, np.array])
def test_numbers_of_any_kind_are_options(kind, tmp_path):
    """Some of them were errors inside, and others ended the saving of a result."""
    problem = agf.problem("diagonal-linear", X=_data()[0], y=_data()[1])
    init, value = problem.init(1e-3), kind(0.001)
    runs = [
        agf.flow(problem, init, rtol=value, settle=value, t_max=value),
        agf.descend(problem, init, lr=value, momentum=value, steps=2),
        agf.predict(problem, init, mode="agf", rtol=value, tie_rtol=value, horizon=value, max_drops=1),
        agf.predict(problem, init, mode="resolved", t_max=value),
    ]
    for run in runs:
        run.save(tmp_path / "run.npz")
        agf.load(tmp_path / "run.npz")
    assert runs[0].settings["rtol"] == runs[1].settings["momentum"] == runs[2].settings.horizon == 0.001
    assert agf.TwoLayer(*_data(), activation="leaky-relu", leak=value, kink=value).kink == 0.001
    for odd in ("0.001", b"0.001", True):
        with pytest.raises(AgfError):
            agf.TwoLayer(*_data(), activation="leaky-relu", leak=odd)


def test_a_seed_of_128_bits_is_recorded_and_read(tmp_path):
    problem, seed = agf.TwoLayer(*_data(), activation="tanh", width=2), 2**128 - 1
    run = agf.descend(problem, problem.init(0.1, seed=seed), lr=0.01, steps=2, batch_size=3, seed=seed)
    run.save(tmp_path / "run.npz")
    loaded = agf.load(tmp_path / "run.npz")
    assert loaded.init.seed == loaded.settings["seed"] == seed
    with pytest.raises(agf.DataError, match="seed"):
        agf.descend(problem, problem.init(0.1), lr=0.01, steps=2, batch_size=3, seed=-1)
