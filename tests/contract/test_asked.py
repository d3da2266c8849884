"""Whatever is given in place of an argument, the sentence names it; what is as declared is no argument's fault."""

import inspect
from enum import Enum

import numpy as np
import pytest
import torch

import agf
from agf.arrays import number
from agf.asked import asked

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 3))
PROBLEM = agf.TwoLayer(X, X @ [1.0, 0.5, -0.3], activation="relu", width=4)
INIT = PROBLEM.init(1e-2)


class Rude:
    """What says nothing of itself, and is no array either."""

    def __repr__(self):
        raise RuntimeError

    def __array__(self, *args, **options):
        raise RuntimeError


ODD = [Rude(), object(), "text", 1j, [[1], [2, 3]], np.ones((2, 2)), {}, type, np.zeros(0)]
#: Function, and by argument: what is no such thing.
CASES = [
    (lambda **given: agf.predict(PROBLEM, INIT, **given), ("mode", "settle", "observer")),
    (lambda **given: agf.flow(PROBLEM, INIT, t_max=1.0, **given), ("method", "observer")),
    (lambda **given: agf.certificate(PROBLEM, **given), ("state",)),
    (lambda **given: agf.Engine(PROBLEM, INIT, **given), ("settings", "phases")),
    (lambda **given: agf.separation(PROBLEM, INIT, **given), ("log_eps", "eps", "alpha0")),
    (lambda **given: agf.landscape(PROBLEM, **given), ("theta", "residual")),
    (lambda **given: agf.masked(PROBLEM, **given), ("mask",)),
    (lambda **given: agf.merge(PROBLEM, INIT.params(), **given), ("rule", "cosine")),
    (lambda **given: agf.TwoLayer(X, X[:, 0], **given), ("kink", "bias", "reduction")),
    (lambda **given: agf.sweep("diagonal-linear", **given), ("folder",)),
    (lambda **given: PROBLEM.init(1e-2, **given), ("kind",)),
    (lambda **given: agf.Settings(**given), ("mode", "rtol", "t_max")),
    (lambda **given: agf.Init.scaled(**{"theta": np.ones((2, 2)), "alpha": 1e-3, **given}), ("alpha",)),
    (lambda **given: agf.Init.from_params(np.ones((2, 2)), **given), ("alpha",)),
    (lambda **given: agf.Clock.from_norms(**{"degree": 2, "log_norms": np.zeros(2), **given}), ("degree",)),
    (lambda **given: agf.Clock(2, 1.0).flow(**given), ("accelerated",)),
    (lambda **given: agf.Clock.steps(**{"flow_time": 1.0, "lr": 0.1, **given}), ("lr", "momentum")),
]


@pytest.mark.parametrize(("ask", "names"), CASES, ids=[" ".join(names) for _, names in CASES])
def test_what_is_no_such_argument_is_named(ask, names):
    for name in names:
        for value in ODD:
            empty = name == "theta" and isinstance(value, np.ndarray) and value.size == 0
            if empty or isinstance(value, {"folder": str, "observer": type}.get(name, ())):
                continue
            if name in ("accelerated", "lr", "momentum") and isinstance(value, np.ndarray):
                continue  # times and rates of any shape
            with pytest.raises(agf.RequestError) as raised:
                ask(**{name: value})
            assert "\n" not in str(raised.value)
            assert len(str(raised.value)) < 700


#: Modules whose functions people call, as `agf.NAME` or `agf.module.NAME`; those of the others are for plugins' loops.
CALLED = ("datasets", "figures", "graph", "losses", "plot", "registry", "summary")
#: What takes nothing that could be wrong.
FREE = {"names", "listing", "watch"}
#: What is no more than a record of what was computed; what a plugin derives from says itself what it takes.
RECORDS = (agf.Certificate, agf.Critical, agf.Drop, agf.State, agf.Activation, agf.Settled, agf.Snapshot)
DERIVED = (agf.AgfError, agf.Problem, agf.FlowSystem, agf.Ties, Enum)


def asks(public) -> bool:
    if isinstance(public, type):
        return issubclass(public, (*DERIVED, *RECORDS)) or hasattr(public.__init__, "__wrapped__")
    return hasattr(public, "__wrapped__") or public.__name__ in FREE


def test_whatever_people_call_names_its_arguments():
    public = [getattr(agf, name) for name in agf._EXPORTS if name not in ("Step", "Phases")]
    for module in CALLED:
        found = vars(getattr(agf, module))
        public += [one for one in found.values() if inspect.isfunction(one) and one.__module__ == f"agf.{module}"]
    assert [one.__name__ for one in public if one.__name__[0] != "_" and not asks(one)] == []


@pytest.mark.parametrize("name", ["nothing", 3, None, [], {}])
def test_a_feature_that_there_is_not_is_named_with_those_that_there_are(name):
    stairs = agf.predict(agf.problem("diagonal-linear", X=X, y=X[:, 0]), agf.Init.from_params(np.full((3, 2), 1e-4)))
    with pytest.raises(agf.RequestError, match=r"there is no feature .* Expected one of .*coefficients"):
        stairs.features(name)


@pytest.mark.parametrize(
    "axis", [{"alpha": np.zeros(0)}, {"init": {1, 2}}, {"rtol": torch.tensor([True])}, {"seed": 3}]
)
def test_a_wrong_axis_of_a_sweep_is_a_sentence(axis, tmp_path):
    with pytest.raises(agf.RequestError):
        agf.sweep("diagonal-linear", folder=tmp_path / "s", **{"alpha": [1e-3], **axis})


@pytest.mark.parametrize("k", [np.inf, 1.5, True, "0", 10**30, None, np.zeros(2)])
def test_a_snapshot_that_there_is_not_is_a_sentence(k):
    with pytest.raises(agf.RequestError, match=r"there is no snapshot|`k` cannot be used"):
        agf.flow(PROBLEM, INIT, t_max=1.0).params(k)


@pytest.mark.parametrize("times", [True, "3", np.array("3"), [True], 1j, None, Rude()])
def test_what_is_no_number_is_not_read_as_one(times):
    run = agf.flow(PROBLEM, INIT, t_max=1.0)
    with pytest.raises(agf.RequestError):
        run.loss_at(times)
    assert np.isnan(number(times if isinstance(times, Rude) else np.array(times)))


@pytest.mark.parametrize("frozen", [None, 3, ["a"], np.array(1.0), [1.5]])
def test_items_of_a_list_are_looked_at(frozen):
    run = agf.flow(PROBLEM, INIT, t_max=1.0)
    with pytest.raises(
        agf.RequestError, match=r"course: `frozen` cannot be used.* Expected a tuple of which each is an"
    ):
        agf.course(PROBLEM, run, frozen=frozen)


def test_an_error_over_arguments_that_are_as_declared_is_raised_as_it_is():
    @asked
    def divided(count: int, by: "float | None" = None, *, name: str = "", what=None):
        return count / by

    with pytest.raises(ZeroDivisionError):
        divided(3, 0.0)
    with pytest.raises(
        agf.RequestError, match=r"divided: `by` cannot be used. Found 'x', of type str. Expected a number"
    ):
        divided(3, "x", what=object())
    with pytest.raises(TypeError, match="unexpected keyword"):
        divided(3, 1.0, other=2)
