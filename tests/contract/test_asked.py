"""Whatever is given in place of an argument, the sentence names it; what is as declared is no argument's fault."""

import numpy as np
import pytest

import agf
from agf.contract.asked import asked

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
]


@pytest.mark.parametrize(("ask", "names"), CASES, ids=[" ".join(names) for _, names in CASES])
def test_what_is_no_such_argument_is_named(ask, names):
    for name in names:
        for value in ODD:
            empty = name == "theta" and isinstance(value, np.ndarray) and value.size == 0
            if empty or isinstance(value, {"folder": str, "observer": type}.get(name, ())):
                continue
            with pytest.raises(agf.RequestError) as raised:
                ask(**{name: value})
            assert "\n" not in str(raised.value)
            assert len(str(raised.value)) < 700


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
