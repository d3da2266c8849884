"""Targets that the leading order of neurons does not see, by a symmetry, at any scale of the weights."""

import mpmath
import numpy as np
import pytest

import agf
from agf.contract.faint import refuse_faint
from agf.networks.activations import activation
from agf.numerics.backend import Backend

X = np.array([[-1, -1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, 1.0]])
Y = np.array([-1, 1, 1, -1.0])
EXACT = {
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "gelu": lambda z: z * mpmath.ncdf(z),
    "silu": lambda z: z / (1 + mpmath.exp(-z)),
}


@pytest.mark.parametrize("name", EXACT)
def test_what_is_beyond_the_line_has_relative_accuracy_at_any_size(name):
    value, slope = activation(name).beyond
    with mpmath.workdps(60):
        line = mpmath.diff(EXACT[name], 0)
        for z in (1e-20, 1e-8, -1e-3, 0.0599, 0.0601, -0.3, 2.0):
            exact = EXACT[name](mpmath.mpf(z)) - line * mpmath.mpf(z), mpmath.diff(EXACT[name], mpmath.mpf(z)) - line
            for found, true in zip((value, slope), exact, strict=True):
                assert float(found(Backend.of(None), np.array([z]))[0] / true) == pytest.approx(1.0, rel=1e-13)


@pytest.mark.parametrize(("name", "power"), [("tanh", 2), ("gelu", 1)])
def test_times_go_as_a_power_of_alpha_down_to_where_powers_of_the_weights_underflow(name, power):
    """The next order alone is homogeneous: theta(t; alpha) = alpha phi(alpha^power t) until neurons are of order one,
    in a time that does not count."""
    problem = agf.TwoLayer(X, Y, activation=name, width=3)
    flows = {alpha: agf.flow(problem, problem.init(alpha, seed=0)) for alpha in (1e-8, 1e-40)}
    times = [flow.time_at(0.25) * alpha**power for alpha, flow in flows.items()]
    assert times[1] == pytest.approx(times[0], rel=1e-7)
    assert max(flow.losses[-1] for flow in flows.values()) < 1e-6
    stairs = agf.predict(problem, problem.init(1e-40, seed=0), conditioning=False)
    assert stairs.half_times[1:] == pytest.approx([flows[1e-40].time_at(0.25)], rel=2e-5)
    assert stairs.levels[-1] < 1e-6  # all of the drop lies within one number of float64
    init, nobody = problem.init(1.0, seed=0), problem.residual(*problem.empty)
    pulls = [problem.pull(init.directions, np.full(3, np.log(rho)), np.arange(3), nobody) for rho in (1e-6, 1e-120)]
    np.testing.assert_allclose(1e114**power * pulls[1], pulls[0], atol=1e-5 * np.abs(pulls[0]).max())


@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_starts_whose_growth_is_rounding_are_refused_with_the_norm_that_serves(name):
    problem = agf.TwoLayer(X, Y, activation=name, loss="logistic", width=3)
    with pytest.raises(agf.errors.RequestError, match="by symmetry, and the next order is below") as refused:
        agf.flow(problem, problem.init(1e-30, seed=0))
    with pytest.raises(agf.errors.RequestError, match="below the rounding of float64"):
        agf.predict(problem, problem.init(1e-30, seed=0))
    factor = float(str(refused.value).split("an alpha ")[1].split(" times")[0])
    refuse_faint(problem, problem.init(2e-30 * factor, seed=0), "flow")
    with pytest.raises(agf.errors.RequestError):
        refuse_faint(problem, problem.init(3e-32 * factor, seed=0), "flow")
    seen = agf.TwoLayer(X, X[:, 0], activation=name, loss="logistic", width=3)
    refuse_faint(seen, seen.init(1e-100, seed=0), "flow")  # the leading order counts


def test_rounding_of_a_utility_is_no_other_degree():
    torch = pytest.importorskip("torch")

    class Own(agf.AutogradProblem):
        name = "own"
        n_params = 4

        def neuron(self, theta, x):
            return theta[3:] * torch.tanh(theta[:3] @ x)

    own, theirs = Own(X, Y, width=3), agf.TwoLayer(X, Y, activation="tanh", width=3)
    init = theirs.init(1e-2, seed=0)
    assert agf.flow(own, init, t_max=6e4).time_at(0.25) == pytest.approx(agf.flow(theirs, init).time_at(0.25), rel=1e-4)
