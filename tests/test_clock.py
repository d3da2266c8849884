"""Laws of the clock: charge, norm and threshold undo one another at any scale; half-drop ratios follow the law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

import agf
from agf import clock
from agf.clock import Clock

degrees = st.integers(2, 6)


@given(degrees, st.floats(-40.0, -0.1), st.floats(0.0, 1.0))
def test_charge_and_log_norm_are_inverse(degree, start, part):
    end = start * (1.0 - part)
    charge = clock.charge(np.array([end]), np.array([start]), degree)
    back = clock.log_norm(charge, np.array([start]), degree)
    # a charge close to the blow-up fixes the norm only through what is left: exp((degree - 2)(end - start)) of rounding
    slack = 1e-13 * abs(start) + 4e-16 * np.exp((degree - 2) * (end - start))
    assert back == pytest.approx([end], abs=max(slack, 1e-13)) or slack > 0.1


@given(degrees, st.floats(-40.0, -0.1), st.floats(-2.0, 2.0))
def test_log_threshold_is_the_logarithm_of_the_threshold(degree, start, radius):
    start = min(start, radius - 1e-3)
    plain = clock.threshold(np.array([start]), degree, radius)
    assert np.log(plain) == pytest.approx(clock.log_threshold(np.array([start]), degree, radius), rel=1e-12, abs=1e-12)


def test_threshold_of_degree_two_is_the_distance_in_log_norm_and_zero_above():
    assert clock.threshold(np.array([-5.0]), 2) == pytest.approx([5.0])
    assert clock.log_threshold(np.array([1.0]), 2) == pytest.approx([-np.inf])


@pytest.mark.parametrize("degree", [2, 3, 4, 5])
@pytest.mark.parametrize("alpha", [1e-2, 1e-8, 1e-200, 1e-300])
def test_log_thresholds_are_finite_at_any_scale(degree, alpha):
    value = clock.log_threshold(np.array([np.log(alpha)]), degree)
    assert np.isfinite(value).all()
    if (
        degree > 2
    ):  # (alpha^(2 - degree) - 1) / (degree - 2), whose logarithm is (degree - 2) log 1/alpha to leading order
        exact = -(degree - 2) * np.log(alpha) - np.log(degree - 2) + np.log1p(-(alpha ** (degree - 2.0)))
        assert value == pytest.approx([exact], rel=1e-12)


@given(degrees, st.floats(-30.0, -1.0))
def test_the_frozen_law_solves_its_equation(degree, start):
    """d rho/dt = degree U rho^(degree - 1), by a difference of the closed law over a small charge."""
    rho0 = np.exp(start)
    step = 1e-6 * rho0 ** (2.0 - degree)
    left, right = clock.log_norm(np.array([0.0, step]), np.array([start, start]), degree)
    assert (right - left) / step == pytest.approx(rho0 ** (degree - 2.0), rel=1e-5 * degree)


@pytest.mark.parametrize(("degree", "known"), [(2, 0.64359), (3, 0.79784), (4, 0.89733)])
def test_half_drop_ratios_have_their_known_values(degree, known):
    assert clock.half_drop_ratio(degree) == pytest.approx(known, abs=5e-6)


@pytest.mark.parametrize("degree", [2, 3, 4, 5])
def test_the_half_drop_of_a_saturating_neuron_is_where_the_ratio_says(degree):
    """rho' = degree (U rho^(degree-1) - 2 C rho^(2 degree-1)), U = 2C = 1, against the frozen law at the same time."""
    start = 1e-3
    half = np.log((1.0 - np.sqrt(0.5)) ** (1.0 / degree))

    def slowness(log_rho):  # dt / d log rho
        rho = np.exp(log_rho)
        return 1.0 / (degree * (rho ** (degree - 2.0) - rho ** (2.0 * degree - 2.0)))

    time = quad(slowness, np.log(start), half, epsrel=1e-12, epsabs=0.0, limit=500)[0]
    frozen = clock.log_norm(np.array([degree * time]), np.array([np.log(start)]), degree)
    # the ratio is the limit of a small start, off by start^2 (a neuron loses the integral of r / (1 - r^degree) to
    # saturation, and here it starts at r = start); an error e of the time moves the norm by e start^(2 - degree)
    slack = start**2 + 1e-11 * start ** (2.0 - degree)
    assert np.exp(frozen) == pytest.approx([clock.half_drop_ratio(degree)], rel=slack)


def test_the_clock_has_the_mean_threshold_as_its_unit_without_overflow():
    plain = Clock.from_norms(2, np.log([1e-3, 1e-5]))
    assert plain.scale == pytest.approx(4 * np.log(10))
    tiny = Clock.from_norms(3, np.log([1e-200, 1e-200]))
    assert tiny.log_scale == pytest.approx(200 * np.log(10))
    assert tiny.flow(tiny.accelerated(3.5e200)) == pytest.approx(3.5e200)


def test_exactly_zero_neurons_do_not_count_in_the_unit():
    assert Clock.from_norms(2, np.array([-4.0, -np.inf])).scale == pytest.approx(4.0)


def test_where_no_norm_is_below_one_the_unit_goes_with_the_largest():
    # log(e 2 / 1) and log(e 2 / 2): whatever the units of the weights
    assert Clock.from_norms(2, np.log([1.0, 2.0])).scale == pytest.approx(1.0 + np.log(2.0) / 2)
    assert Clock.from_norms(2, np.log([1e9, 2e9])).scale == pytest.approx(1.0 + np.log(2.0) / 2)
    assert Clock.from_norms(3, np.log([4.0])).scale == pytest.approx((1 - np.exp(-1)) / 4)


@pytest.mark.parametrize("norms", [[-np.inf], []])
def test_without_neurons_accelerated_time_is_flow_time(norms):
    assert Clock.from_norms(2, np.array(norms)).scale == 1.0


def test_time_zero_is_zero_in_every_unit_even_where_the_scale_overflows():
    huge = Clock(4, 1000.0)
    assert huge.scale == np.inf
    assert huge.flow(0.0) == huge.flow_time(0.0) == 0.0
    assert huge.flow(1.0) == huge.flow_time(1.0) == np.inf


@given(degrees, st.floats(-600.0, 690.0), st.floats(0.0, 1e300))
def test_one_time_has_the_flow_time_of_many(degree, log_scale, time):
    one = Clock(degree, log_scale).flow_time(time)
    assert type(one) is float
    assert one == Clock(degree, log_scale).flow(time)


@given(st.floats(1e-6, 1.0), st.floats(0.0, 0.99), st.floats(0.0, 1e6))
def test_steps_and_flow_time_are_inverse(lr, momentum, time):
    assert Clock.flow_of_steps(Clock.steps(time, lr, momentum), lr, momentum) == pytest.approx(time, rel=1e-12)


# -- misprints of the sources (docs/errata.md) ------------------------------------------------------------------------


def test_the_printed_bound_of_higher_degrees_is_the_blow_up_time_and_exceeds_the_jump():
    """[AGF] eq. 17: 1 / (kappa mu U*); an aligned neuron with U* = 1 jumps at (1/mu - 1) / (kappa U*)."""
    mu, degree = 0.3, 3
    start = np.log([mu])
    right, printed = (1 / mu - 1) / degree, 1 / (degree * mu)
    assert clock.threshold(start, degree) / degree == pytest.approx([right])
    assert clock.log_norm(np.array([degree * right]), start, degree) == pytest.approx([0.0], abs=1e-12)
    assert clock.log_norm(np.array([degree * printed * (1 - 1e-9)]), start, degree) > 15.0
    assert right == pytest.approx((1 - mu) * printed)


def test_thresholds_scale_like_alpha_to_two_minus_degree():
    """[AGF] eq. 21 divides by alpha^(kappa - 2) where it must multiply for a finite limit, 1 / (kappa - 2)."""
    for degree in (3, 4, 5):
        scaled = [clock.threshold(np.log([alpha]), degree)[0] * alpha ** (degree - 2) for alpha in (1e-4, 1e-8)]
        assert scaled == pytest.approx([1 / (degree - 2)] * 2, rel=2e-4)


def test_the_norm_in_accelerated_time_has_the_unit_of_time_in_its_exponent():
    """[AGF] eq. 15 has rho0 exp(S) with S in accelerated time: it is rho0 exp(eta S), eta the flow time of its unit."""
    start = np.array([np.log(1e-3)])
    unit = Clock.from_norms(2, start)
    accelerated = 2 * 0.7 * 0.4  # degree U times an accelerated time
    norm = clock.log_norm(np.array([2 * 0.7 * float(unit.flow(0.4))]), start, 2)
    assert norm == pytest.approx(start + unit.scale * accelerated)
    assert not np.allclose(norm, start + accelerated)


def test_arguments_of_another_kind_are_named():
    for call in (
        lambda: clock.charge("a", np.zeros(2), 2),
        lambda: clock.charge(np.zeros(2), [[1], [1, 2]], 3),
        lambda: clock.threshold(None, 3),
        lambda: clock.threshold(np.zeros(2), "two"),
        lambda: clock.half_drop_ratio(0),
        lambda: clock.half_drop_ratio("two"),
    ):
        with pytest.raises(agf.errors.AgfError, match=r"log_norms|log_start|degree"):
            call()
