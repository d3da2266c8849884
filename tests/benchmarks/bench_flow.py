"""The reference trainer against general solvers: evaluations, seconds and errors in one run.

    python tests/benchmarks/bench_flow.py [scalar] [relu] [stiff] [saddle]

`scalar`: time of uv = 1/2 in u' = v (1 - uv), v' = u (1 - uv), u(0) = v(0) = a, whose exact answer is known.
The others: times at which the loss passes half-way down each visible drop, against `agf.flow` at a tenfold tighter
tolerance. A run counts as finished only when it reached the end within its budget with every drop in it, to 3 %: a
solver that sits at a saddle with status 0 does not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.integrate import BDF, DOP853, LSODA, OdeSolver, solve_ivp

import agf
from agf import registry
from agf.arrays import FloatArray
from agf.records.table import Table, number, percent
from agf.results.interpolant import crossing

BUDGET_EVALUATIONS = 60_000
BUDGET_SECONDS = 30.0
#: Largest relative error of a drop's time in a run that counts as right.
GOOD = 0.03
NO_SLOPES = np.zeros(0)


# -- the scalar problem -----------------------------------------------------------------------------------------


class Scalar(agf.Problem):
    """f = u v, target 1, L = (1 - uv)^2 / 2."""

    name = "scalar"
    degree = n_params = 2
    width = 1

    def residual(self, theta, neurons):
        return 1 - float(np.sum(theta[:, 0] * theta[:, 1]))

    def utility(self, theta, neurons, residual):
        return residual * theta[:, 0] * theta[:, 1], residual * theta[:, ::-1]

    def loss_grad(self, theta, neurons):
        r = self.residual(theta, neurons)
        return r * r / 2, -r * theta[:, ::-1]


def event_time(method: str, a: float, options: dict[str, float]) -> tuple[float, int]:
    """Time at which a scipy solver reports uv = 1/2 (inf if it never does) and its right-hand sides."""

    def rhs(t, y):
        return y[::-1] * (1 - y[0] * y[1])

    def half(t, y):
        return y[0] * y[1] - 0.5

    half.terminal = True
    end = 5 * np.log(1 / a)
    with np.errstate(all="ignore"):
        run = solve_ivp(rhs, (0, end), [a, a], method=method, events=half, **options)
    return (run.t_events[0][0] if run.t_events[0].size else np.inf), run.nfev


def scalar() -> Table:
    rows = []
    for a in (1e-2, 1e-4, 1e-8, 1e-16, 1e-30, 1e-100, 1e-200):
        exact = np.log(1 / a) + 0.5 * np.log1p(-a * a)
        init = agf.Init.scaled(np.ones((1, 2)), a)
        ours = agf.flow(Scalar(), init)
        found = [(ours.time_at(0.125), int(ours.stats["evaluations"]))]
        for method in ("DOP853", "LSODA"):
            found.append(event_time(method, a, {}))
            found.append(event_time(method, a, {"rtol": 1e-8, "atol": 1e-8 * a}))
        rows.append([f"{a:g}"] + [f"{t / exact - 1:+.1e} ({n})" for t, n in found])
    columns = ["a", "agf.flow", "DOP853", "DOP853 1e-8", "LSODA", "LSODA 1e-8"]
    notes = [
        "Relative error of the event time (right-hand sides or gradients); defaults, and rtol 1e-8 with atol 1e-8 a.",
        "agf.flow goes on to settle and records the loss curve; the others stop at the event.",
    ]
    return Table("Time of uv = 1/2 with default settings", columns, rows, notes)


# -- loss curves of networks ------------------------------------------------------------------------------------


@dataclass
class Case:
    """A network trained from small weights to flow time `end`. lr : of the fixed-step baseline."""

    title: str
    problem: agf.Problem
    init: agf.Init
    end: float
    lr: float

    def __post_init__(self) -> None:
        self.evaluations, self.began = 0, 0.0
        self.neurons = np.arange(self.problem.width)

    def rhs(self, t: float, y: FloatArray) -> FloatArray:
        """Minus the gradient in raw weights, counted."""
        self.evaluations += 1
        return -self.problem.loss_grad(y.reshape(self.init.directions.shape), self.neurons)[1].ravel()

    def loss(self, y: FloatArray) -> float:
        return self.problem.loss_grad(y.reshape(self.init.directions.shape), self.neurons)[0]


Curve = Iterator[tuple[float, float]]


def scipy_curve(case: Case, solver: type[OdeSolver], rtol: float, atol: float) -> Curve:
    stepper = solver(case.rhs, 0.0, case.init.params().ravel(), case.end, rtol=rtol, atol=atol)
    yield 0.0, case.loss(stepper.y)
    while stepper.status == "running":
        stepper.step()
        yield stepper.t, case.loss(stepper.y)


def gd_curve(case: Case) -> Curve:
    y, t = case.init.params().ravel(), 0.0
    while t < case.end:
        yield t, case.loss(y)
        for _ in range(50):
            y, t = y + case.lr * case.rhs(t, y), t + case.lr
    yield t, case.loss(y)


def torchdiffeq_curve(case: Case, rtol: float, atol: float) -> Curve:
    import torch
    from torchdiffeq import odeint

    def rhs(t, y):
        check_budget(case)
        return torch.from_numpy(case.rhs(float(t), y.numpy()))

    # one call: torchdiffeq interpolates on its own dense output
    times = torch.linspace(0, case.end, 400, dtype=torch.float64)
    states = odeint(rhs, torch.from_numpy(case.init.params().ravel()), times, rtol=rtol, atol=atol, method="dopri5")
    for t, y in zip(times.tolist(), states.numpy(), strict=True):
        yield t, case.loss(y)


class OverBudget(Exception):
    """A solver used up its evaluations or seconds."""


def check_budget(case: Case) -> None:
    if case.evaluations > BUDGET_EVALUATIONS or time.perf_counter() - case.began > BUDGET_SECONDS:
        raise OverBudget


def time_error(
    levels: FloatArray, times: FloatArray, t: FloatArray, losses: FloatArray, slopes: FloatArray = NO_SLOPES
) -> float:
    """Largest relative error of the times at which a curve first passes the levels; inf when it passes one never."""
    passed = [crossing(t, losses, slopes, level) for level in levels]
    return float(np.max(np.abs(np.array(passed) / times - 1), initial=0.0))


def measure(case: Case, make: Callable[[], Curve], levels: FloatArray, times: FloatArray) -> list[str]:
    """Row cells of one solver: evaluations, seconds, time error, verdict."""
    case.evaluations, case.began = 0, time.perf_counter()
    points: list[tuple[float, float]] = []
    try:
        with np.errstate(all="ignore"):
            for point in make():
                points.append(point)
                check_budget(case)
    except OverBudget:
        pass
    seconds = time.perf_counter() - case.began
    t, losses = np.array(points).reshape(-1, 2).T
    reached = t[-1] if t.size else 0.0
    error = time_error(levels, times, t, losses)
    if reached < case.end * (1 - 1e-9):
        verdict = f"unfinished at t = {number(reached)}"
    else:
        verdict = "finished" if error < GOOD else "MISSES DROPS" if np.isinf(error) else "INACCURATE"
    return [str(case.evaluations), f"{seconds:.1f}", percent(error), verdict]


def curves(case: Case) -> Table:
    rtol = 1e-6 if case.problem.smooth else 1e-4
    truth = agf.flow(case.problem, case.init, t_max=case.end, rtol=rtol / 10)
    levels = np.array([0.5 * (drop.before + drop.after) for drop in truth.drops])
    times = np.array([truth.time_at(level) for level in levels])
    rows = []
    for name, tolerance in (("agf.flow, defaults", rtol), ("agf.flow, rtol 1e-3", 1e-3)):
        run = agf.flow(case.problem, case.init, t_max=case.end, rtol=tolerance)
        error = time_error(levels, times, run.times, run.losses, run.slopes)
        cells = str(int(run.stats["evaluations"])), f"{run.stats['seconds']:.1f}", percent(error)
        rows.append([name, *cells, "finished" if error < GOOD else "INACCURATE"])
    small = 1e-3 * float(np.exp(case.init.log_norms.max()))
    solvers: list[tuple[str, Callable[[], Curve]]] = [
        (f"gradient descent, lr {case.lr:g}", lambda: gd_curve(case)),
        ("DOP853, rtol 1e-4, atol 1e-3 alpha", lambda: scipy_curve(case, DOP853, 1e-4, small)),
        ("LSODA, rtol 1e-4, atol 1e-3 alpha", lambda: scipy_curve(case, LSODA, 1e-4, small)),
        ("BDF, rtol 1e-4, atol 1e-3 alpha", lambda: scipy_curve(case, BDF, 1e-4, small)),
        ("LSODA, defaults", lambda: scipy_curve(case, LSODA, 1e-3, 1e-6)),
    ]
    try:
        import torchdiffeq  # noqa: F401
    except ImportError:
        print("torchdiffeq is not installed (extra: bench); its rows are left out.", file=sys.stderr)
    else:
        solvers += [
            ("torchdiffeq dopri5, rtol 1e-4, atol 1e-3 alpha", lambda: torchdiffeq_curve(case, 1e-4, small)),
            ("torchdiffeq dopri5, defaults", lambda: torchdiffeq_curve(case, 1e-7, 1e-9)),
        ]
    for name, make in solvers:
        print(f"{case.title}: {name} ...", file=sys.stderr, flush=True)
        rows.append([name, *measure(case, make, levels, times)])
    base = int(rows[0][1]), float(rows[0][2])
    for row in rows:
        row[2:2] = [f"{int(row[1]) / base[0]:.1f}"]
        row[4:4] = [f"{float(row[3]) / max(base[1], 1e-9):.1f}"]
    columns = ["gradients", "ratio", "seconds", "ratio", "time error", "verdict", "method"]
    budget = f"budget {BUDGET_EVALUATIONS} gradients or {BUDGET_SECONDS:g} s each"
    note = f"{levels.size} visible drops to flow time {case.end:g}; {budget}."
    return Table(f"{case.title}: {case.problem.describe()}", columns, [[*row[1:], row[0]] for row in rows], [note])


def relu() -> Table:
    problem = agf.problem("relu", **{**registry.find("relu").example(), "width": 50})
    return curves(Case("ReLU", problem, problem.init(alpha=1e-6, seed=0), end=600.0, lr=0.2))


def stiff() -> Table:
    problem = agf.problem("modular-addition", p=11, template={1: 10.0, 2: 5.0}, width=12)
    return curves(Case("Stiff", problem, problem.init(alpha=1e-2, seed=0), end=300.0, lr=1e-3))


def saddle() -> Table:
    """Ten modes of a fully connected network at alpha = 1e-15, as the field's own notebook trains it."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((10, 10)))[0] for _ in range(2))
    target = left @ np.diag(np.arange(1, 11) ** -1.5) @ right
    problem = agf.problem("linear", Sxx=np.eye(10), B=target, width=10)
    return curves(Case("Saddles", problem, problem.init(alpha=1e-15, seed=0), end=600.0, lr=0.05))


def main() -> None:
    tables = {"scalar": scalar, "relu": relu, "stiff": stiff, "saddle": saddle}
    for name in sys.argv[1:] or tables:
        print(tables[name]().text(), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
