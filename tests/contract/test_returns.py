"""What a method of somebody's problem returns is checked when it returns it, whoever asked."""

import re

import numpy as np
import pytest

import agf

X = np.random.default_rng(0).standard_normal((10, 2))


class Circle:
    """What looks like phases, but has no clock."""

    def start(self):
        return None

    dormant = active = start


ODD = [
    ("ties", "none", "an agf.Ties"),
    ("ties", (1, 2), "an agf.Ties"),
    ("start_of", None, "an agf.Init"),
    ("kink_normals", 3, "finite float64"),
    ("kink_normals", np.full((10, 2), np.nan), "finite float64"),
    ("kink_normals", np.ones((3, 9)), "finite float64"),
    ("kink_normals", np.ones((4, 10, 2)), "finite float64"),
    ("rounded", 3, "a problem"),
    ("restriction", 3, "booleans"),
    ("restriction", (agf.TwoLayer(X, X[:, 0], activation="relu", width=3), np.ones((1, 1), bool)), "booleans"),
    ("critical", [1, 2], "a list of agf.Critical"),
    ("critical", "none", "a list of agf.Critical"),
    ("critical", [agf.Critical(np.full(3, np.nan), 1.0, "maximum", "x")], "not finite"),
    ("phases", Circle(), "a clock and the methods"),
    ("label", "a\ud800", "UTF-8"),
    ("features", {"a\ud800": np.ones(1)}, "UTF-8"),
    ("features", {"a": np.ma.masked_array([1.0, 2.0], mask=[True, False])}, "real numbers"),
    ("outputs", np.ma.masked_array(np.ones((1, 1))), "float64"),
    ("outputs", np.ones((1, 1)).view(np.matrix), "float64"),
    ("remarks", 3, "a tuple of sentences"),
    ("remarks", ("a", 3), "a tuple of sentences"),
    ("remarks", "a sentence", "a tuple of sentences"),
]


@pytest.mark.parametrize(("method", "value", "words"), ODD, ids=[f"{name} {value!r:.12}" for name, value, _ in ODD])
def test_what_a_method_must_not_return_is_named_where_it_comes_from(method, value, words):
    kind = {method: lambda self, *args, **options: value}
    activation = "tanh" if method == "critical" else "relu"  # of which the circle is known
    problem = type("Mine", (agf.TwoLayer,), kind)(X, X[:, 0], activation=activation, width=3)
    asked = {
        "critical": lambda: agf.landscape(problem, None),
        "kink_normals": lambda: agf.flow(problem, problem.init(1e-3), t_max=1.0),
        "phases": lambda: agf.predict(problem, problem.init(1e-3), mode="agf"),
    }.get(method, lambda: agf.descend(problem, problem.init(1e-3), lr=0.1, steps=3))
    with pytest.raises(agf.ProblemError, match=rf"`{method}`") as raised:
        asked()
    assert words in str(raised.value)


@pytest.mark.parametrize(("method", "value", "words"), [*ODD, ("acquired", 9, "a str")])
def test_methods_that_a_class_comes_by_later_are_watched_as_well(method, value, words):
    Mine = type("Mine", (agf.TwoLayer,), {})
    setattr(Mine, method, lambda self, *args, **options: value)
    problem = Mine(X, X[:, 0], activation="relu", width=3)
    with pytest.raises(agf.ProblemError, match=rf"`{method}` returned") as raised:
        getattr(problem, method)(*[np.zeros((1, 3))] * 5)
    assert words in str(raised.value)


@pytest.mark.parametrize("size", ["big", -1, np.nan, None])
def test_a_footprint_and_the_operations_of_a_gradient_are_positive_numbers(size):
    problem = type("Mine", (agf.TwoLayer,), {"footprint": size})(X, X[:, 0], activation="relu", width=3)
    with pytest.raises(agf.ProblemError, match="has footprint ="):
        problem.init(1e-3)
    problem = type("Mine", (agf.TwoLayer,), {"operations": size})(X, X[:, 0], activation="relu", width=3)
    for asked in (agf.predict, agf.flow):
        with pytest.raises(agf.ProblemError, match="has operations ="):
            asked(problem, problem.init(1e-3))


def test_a_width_that_memory_does_not_hold_fails_the_checks_in_words():
    class Mine(agf.TwoLayer):
        width = property(lambda self: 10**12, lambda self, value: None)

    found = agf.check(Mine(X, X[:, 0], activation="relu", width=3))
    assert not found.passed
    assert "MemoryError" in str(found)


def test_a_problem_that_is_its_own_restriction_is_refused():
    class Mine(agf.TwoLayer):
        def restriction(self):
            return self, np.ones((self.width, self.n_params), bool)

    problem = Mine(X, X[:, 0], activation="relu", width=3)
    with pytest.raises(agf.ProblemError, match="another problem and booleans"):
        agf.flow(problem, problem.init(1e-3))


@pytest.mark.parametrize("kinds", [None, (), "gaussian", ("gaussian", 3)])
def test_kinds_of_initialization_are_names(kinds):
    problem = type("Mine", (agf.TwoLayer,), {"kinds": kinds})(X, X[:, 0], activation="relu", width=3)
    with pytest.raises(agf.ProblemError, match="has kinds ="):
        problem.init(1e-3)


@pytest.mark.parametrize(
    "ask",
    [
        lambda problem, start: agf.landscape(problem, None),
        lambda problem, start: agf.align(problem, start),
        lambda problem, start: agf.escape(problem, start.params()),
        lambda problem, start: agf.tickets(problem, start, keep=1),
        lambda problem, start: agf.rewind(problem, start, cycles=1),
    ],
    ids=["landscape", "align", "escape", "tickets", "rewind"],
)
@pytest.mark.parametrize("late", [0, 1])
def test_whatever_is_asked_of_a_problem_that_raises_is_one_kind_of_error(ask, late):
    class Mine(agf.TwoLayer):
        asked = 0

        def residual(self, theta, neurons):
            self.asked += 1
            if late and self.asked < 60:  # beyond the door
                return super().residual(theta, neurons)
            raise KeyError("mine")

    problem = Mine(X, X[:, 0], activation="relu", width=3)
    start = problem.init(1e-3)
    if late:
        problem._admitted = True
        problem.asked = 59
    with pytest.raises((agf.ProblemError, agf.ComputationError), match="KeyError"):
        ask(problem, start)


def test_bounds_are_told_under_the_floating_point_state_of_the_caller():
    sharp = agf.TwoLayer(X, X[:, 0], activation="relu", width=3, kink=0)
    with np.errstate(all="raise"):
        found = agf.separation(sharp, sharp.init(1e-3))
        assert "early" in found.to_dict()
        str(found.table())


@pytest.mark.parametrize("ask", [lambda problem: agf.landscape(problem, None), lambda p: agf.predict(p, p.init(1e-3))])
def test_what_a_residual_is_when_it_cannot_be_used_is_said_whoever_asks(ask):
    class Mine(agf.TwoLayer):
        def residual(self, theta, neurons):
            return ["no", "array"]

    with pytest.raises(agf.ProblemError, match="what a method returned cannot be used"):
        ask(Mine(X, X[:, 0], activation="tanh", width=3))


@pytest.mark.parametrize("raised", [SystemExit(3), GeneratorExit(), type("Own", (BaseException,), {})("no")])
@pytest.mark.parametrize("method", ["theory", "residual", "label", "example", "footprint", "__init__"])
def test_no_method_leaves_the_program_whoever_calls_it(method, raised):
    def leave(self, *args, **options):
        raise raised

    made = {"example": classmethod, "footprint": property}.get(method, lambda function: function)(leave)
    Mine = type("Mine", (agf.TwoLayer,), {method: made})

    def ask():
        problem = Mine(X, X[:, 0], activation="tanh", width=3)
        asked = {"theory": (), "example": (), "label": (*problem.empty, np.zeros(1, int))}.get(method, problem.empty)
        return problem.init(1e-3) if method == "footprint" else getattr(problem, method)(*asked)

    with pytest.raises(agf.ProblemError, match=rf"leave \(.*py:\d+\): it raised {type(raised).__name__}[:.]") as found:
        ask()
    assert found.value.__cause__ is raised


def mine(**members):
    return type("Mine", (agf.TwoLayer,), {"__module__": __name__, **members})


@pytest.mark.parametrize("name", ["operations", "footprint"])
def test_a_property_that_is_set_and_one_that_raises_are_sentences(name):
    def made(self, X, Y):
        agf.TwoLayer.__init__(self, X, Y)
        setattr(self, name, 7)

    with pytest.raises(agf.ProblemError, match=rf"class Mine: `{name}` is a property.*a plain {name} = None"):
        mine(__init__=made)(X, X[:, 0])
    assert getattr(mine(__init__=made, **{name: None})(X, X[:, 0]), name) == 7

    def raising(self):
        raise ValueError("no such size")

    with pytest.raises(agf.ProblemError, match=rf"class Mine: `{name}` raised ValueError: no such size"):
        mine(**{name: property(raising)})(X, X[:, 0]).init(1e-3)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("smooth", np.ones(2), "Expected True or False"),
        ("quadratic_loss", None, "Expected True or False"),
        ("interchangeable", "yes", "Expected True or False"),
        ("hessian", None, "Expected a method"),
        ("label", "neuron", "Expected a method"),
    ],
)
@pytest.mark.parametrize("where", ["class", "instance", "property"])
def test_what_the_contract_reads_is_refused_wherever_it_was_set(name, value, words, where):
    kinds = {"class": {name: value}, "instance": {}}.get(
        where, {name: property(lambda self: value, lambda self, given: None)}
    )
    problem = mine(**kinds)(X, X[:, 0], activation="tanh", width=3)
    problem.__dict__[name] = value  # which a property hides
    with pytest.raises(agf.ProblemError, match=words):
        problem.init(1e-3)


def test_a_least_loss_beyond_float64_is_refused():
    problem = mine(least_loss=lambda self, init: 10**400)(X, X[:, 0], activation="tanh", width=3)
    with pytest.raises(agf.ProblemError, match=r"`least_loss` breaks the contract.*an int"):
        agf.flow(problem, problem.init(1e-3))


@pytest.mark.parametrize(
    ("method", "value", "found"),
    [
        ("label", "x" * 100_000, "text of 100,000 letters"),
        ("describe", "x" * 100_000, "text of 100,000 letters"),
        ("features", {"a\0b": np.zeros(2)}, "as a name. Expected names of printable letters"),
        ("features", {"": np.zeros(2)}, "as a name. Expected names of printable letters"),
    ],
)
def test_words_that_no_run_file_holds_are_refused_where_they_are_given(method, value, found):
    """They were written, and the file was refused when it was read."""
    problem = mine(**{method: lambda self, *asked: value})(X, X[:, 0], activation="tanh", width=3)
    with pytest.raises(agf.ProblemError, match=re.escape(found)):
        agf.predict(problem, problem.init(1e-3))
