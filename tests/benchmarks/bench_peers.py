"""Gradient flow at moderate and extreme scales against general solvers: error and CPU, and predictions against a loop.

    python tests/benchmarks/bench_peers.py [flow] [predict]

`flow`: the diagonal network of [AGF] figure 3 (n = 20, d = 5) in its weights (u, v), to 1.35 times the time of its last
drop, by the solvers of scipy, torchdiffeq and diffrax (where these are installed), with their defaults and with
absolute tolerances scaled by alpha. The error is the largest relative one of the times at which the loss passes
half-way down a drop, on each solver's own dense output, against `agf.flow` at rtol 1e-12; CPU is that of the run with
what the error needs: dense output, and the loss at every step. Of the tuned runs two are shown: those with the largest
tolerance whose error is at most ten times that of agf.flow, and at most that of agf.flow; else the most accurate one.

`predict`: `agf.predict` against twenty lines of numpy that do what [AGF] Algorithm 1 says: coordinates move at the rate
of their correlation with the residual until one reaches its threshold, then least squares on the active ones.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from itertools import pairwise

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.integrate import solve_ivp

import agf
from agf.arrays import FloatArray
from agf.figures.diagonal import data
from agf.records.table import Table

ALPHAS = (1e-2, 1e-4, 1e-8, 1e-16, 1e-64, 1e-300)
TOLERANCES = (1e-5, 3e-6, 1e-6, 3e-7, 1e-7, 3e-8, 1e-8, 3e-9, 1e-9, 1e-10)
#: Errors that tuned runs may have, over ours.
ALLOWED = (10.0, 1.0)
REPEATS = 5

Dense = Callable[[float], FloatArray]
#: Times and states at the steps, and the dense output.
Run = tuple[FloatArray, FloatArray, Dense]


def best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Least CPU time of several, seconds."""
    out = np.inf
    for _ in range(repeats):
        began = time.process_time()
        work()
        out = min(out, time.process_time() - began)
    return float(out)


class Weights:
    """The flow in the weights (u, v) from alpha to time `end`, and the levels half-way down its drops."""

    def __init__(self, alpha: float) -> None:
        self.problem = agf.problem("diagonal-linear", **data())
        theory = self.problem.theory()
        self.alpha, self.init = alpha, self.problem.init(alpha)
        self.end = float(1.35 * theory.accelerated_times[-1] * -np.log(alpha))
        self.levels = [0.5 * (a + b) for a, b in pairwise(theory.levels)]
        self.x, self.y = (np.asarray(value, dtype=np.float64) for value in data().values())
        self.n, self.d = self.x.shape
        self.xn = self.x / self.n
        self.start = self.init.params().T.ravel()
        exact = agf.flow(self.problem, self.init, t_max=self.end, rtol=1e-12)
        self.times = np.array([exact.time_at(level) for level in self.levels])

    def rhs(self, t: float, w: FloatArray) -> FloatArray:
        """Minus the gradient, (2 d,)."""
        u, v = w[: self.d], w[self.d :]
        g = (self.y - self.x @ (u * v)) @ self.xn
        return np.concatenate([g * v, g * u])

    def loss(self, w: FloatArray) -> FloatArray:
        """Losses (T,) of states (2 d, T)."""
        r = self.y[:, None] - self.x @ (w[: self.d] * w[self.d :])
        return 0.5 * np.sum(r * r, axis=0) / self.n

    def error(self, run: Run) -> float:
        """Largest relative error of a half-drop time; inf where a drop is missed."""
        times, states, dense = run
        losses, worst = self.loss(states), 0.0
        for level, exact in zip(self.levels, self.times, strict=True):
            below = np.flatnonzero(losses < level)
            if not below.size or below[0] == 0:
                return float("inf")
            low, high = times[below[0] - 1], times[below[0]]
            for _ in range(60):
                middle = 0.5 * (low + high)
                low, high = (low, middle) if self.loss(dense(middle)[:, None])[0] < level else (middle, high)
            worst = max(worst, abs(high / exact - 1.0))
        return float(worst)


def scipy_run(flow: Weights, method: str, **tolerances: float) -> Run:
    """By `solve_ivp` with dense output."""
    out = solve_ivp(flow.rhs, (0.0, flow.end), flow.start, method=method, dense_output=True, **tolerances)
    flow.loss(out.y)
    return out.t, out.y, out.sol


def torchdiffeq_run(flow: Weights, **tolerances: float) -> Run:
    """By torchdiffeq's dopri5 at 2000 times, which are then joined by straight lines."""
    import torch
    from torchdiffeq import odeint

    x, xn, y = (torch.from_numpy(value) for value in (flow.x, flow.xn, flow.y))

    def rhs(t: object, w: object) -> object:
        u, v = w[: flow.d], w[flow.d :]
        g = (y - x @ (u * v)) @ xn
        return torch.cat([g * v, g * u])

    times = np.linspace(0.0, flow.end, 2000)
    states = odeint(rhs, torch.from_numpy(flow.start), torch.from_numpy(times), method="dopri5", **tolerances)
    table = states.numpy().T
    return times, table, lambda t: np.array([np.interp(t, times, row) for row in table])


def diffrax_runner(flow: Weights) -> Callable[..., Run]:
    """By diffrax's Tsit5, compiled before it is timed, with the states of every step."""
    import diffrax
    import jax

    jax.config.update("jax_enable_x64", True)
    x, xn, y = (jax.numpy.asarray(value) for value in (flow.x, flow.xn, flow.y))

    def rhs(t: object, w: object, args: object) -> object:
        u, v = w[: flow.d], w[flow.d :]
        g = (y - x @ (u * v)) @ xn
        return jax.numpy.concatenate([g * v, g * u])

    @jax.jit
    def solve(rtol: float, atol: float) -> object:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(rhs), diffrax.Tsit5(), 0.0, flow.end, None, jax.numpy.asarray(flow.start), max_steps=2**15,
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol), throw=False,
            saveat=diffrax.SaveAt(steps=True, dense=True),
        )  # fmt: skip

    def run(rtol: float = 1e-3, atol: float = 1e-6) -> Run:
        out = jax.block_until_ready(solve(rtol, atol))
        times = np.asarray(out.ts)
        kept = np.isfinite(times)
        states = np.asarray(out.ys).T[:, kept]
        flow.loss(states)
        return times[kept], states, lambda t: np.asarray(out.evaluate(t))

    run(1e-3, 1e-6)
    return run


def row(flow: Weights, name: str, runner: Callable[..., Run], ours: tuple[float, float]) -> list[str]:
    """Cells of a solver: its defaults, then tuned to ten times our error and to our error."""
    cells = [name]
    plain = runner()
    cells += [f"{flow.error(plain):.0e}", f"{best(runner):.4f}"]
    tried: list[tuple[float, float]] = []  # error and relative tolerance
    for allowed in ALLOWED:
        for rtol in TOLERANCES[len(tried) :]:
            if tried and min(tried)[0] <= allowed * ours[0]:
                break
            tried.append((flow.error(runner(rtol=rtol, atol=rtol * flow.alpha)), rtol))
        error, rtol = min(tried)
        seconds = best(lambda rtol=rtol: runner(rtol=rtol, atol=rtol * flow.alpha))
        cells += [f"{rtol:g}", f"{error:.0e}", f"{seconds:.4f}", f"{seconds / ours[1]:.1f}"]
    return cells


def peers(alpha: float) -> Table:
    """Ours and theirs at one scale."""
    flow = Weights(alpha)

    def ours() -> agf.Trajectory:
        return agf.flow(flow.problem, flow.init, t_max=flow.end)

    run = ours()
    error = max(abs(run.time_at(level) / exact - 1.0) for level, exact in zip(flow.levels, flow.times, strict=True))
    mine = float(error), best(ours)
    rows = [["agf.flow", f"{error:.0e}", f"{mine[1]:.4f}", *["", "", "", "1.0"] * len(ALLOWED)]]
    for method in ("LSODA", "DOP853", "RK45"):
        rows.append(row(flow, method, lambda method=method, **some: scipy_run(flow, method, **some), mine))
    if alpha >= 1e-16:
        for name, make in (("torchdiffeq dopri5", lambda: lambda **some: torchdiffeq_run(flow, **some)),
                           ("diffrax Tsit5", lambda: diffrax_runner(flow))):  # fmt: skip
            try:
                rows.append(row(flow, name, make(), mine))
            except ImportError:
                print(f"{name} is not installed; its row is left out.", file=sys.stderr)
    columns = ["solver", "error", "CPU s", *["tuned rtol", "error", "CPU s", "ratio"] * len(ALLOWED)]
    return Table(f"alpha = {alpha:g}: half-drop times by {run.stats['steps']:.0f} steps", columns, rows, [])


# -- predictions ------------------------------------------------------------------------------------------------


def loop(x: FloatArray, y: FloatArray, alpha: float) -> list[float]:
    """[AGF] Algorithm 1 for a diagonal network, from activation to activation, each followed by least squares."""
    n, d = x.shape
    beta, active = np.zeros(d), np.zeros(d, dtype=bool)
    s, sign, losses = np.zeros(d), np.zeros(d), [0.5 * float(y @ y) / n]
    unit = -np.log(alpha)
    while not active.all():
        g = x.T @ (y - x @ beta) / n
        if np.max(np.abs(g)) < 1e-9 * np.max(np.abs(x.T @ y / n)):
            break
        with np.errstate(divide="ignore"):
            times = np.where(active, np.inf, (unit - np.sign(g) * s) / np.abs(g))
        first = int(np.argmin(times))
        s = np.where(active, s, s + g * times[first])
        active[first], sign[first] = True, np.sign(g[first])
        while True:
            beta = np.zeros(d)
            beta[active] = np.linalg.lstsq(x[:, active], y, rcond=None)[0]
            wrong = active & (beta * sign < 0)
            if not wrong.any():
                break
            active &= ~wrong
        losses.append(0.5 * float(np.sum((y - x @ beta) ** 2)) / n)
    return losses


def predict() -> Table:
    """CPU of both, by size."""
    rows = []
    for d in (5, 10, 20, 50, 100, 200):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((4 * d, d))
        y = x @ (10 * rng.standard_normal(d)) + rng.standard_normal(4 * d)
        problem = agf.problem("diagonal-linear", X=x, y=y)
        init = problem.init(1e-8)
        theirs = best(lambda x=x, y=y: loop(x, y, 1e-8))
        ours = best(lambda problem=problem, init=init: agf.predict(problem, init, mode="agf"))
        limit = best(problem.theory)
        cells = [f"{1e3 * seconds:.2f}" for seconds in (theirs, ours, limit)]
        rows.append([str(d), *cells, f"{ours / theirs:.2f}", f"{limit / theirs:.2f}"])
    columns = ["d", "loop ms", "predict ms", "theory ms", "predict / loop", "theory / loop"]
    return Table("The staircase of a diagonal network, n = 4 d, alpha = 1e-8", columns, rows, [])


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    wanted = sys.argv[1:] or ["flow", "predict"]
    with np.errstate(all="ignore"):
        if "flow" in wanted:
            for alpha in ALPHAS:
                print(peers(alpha).text(), end="\n\n", flush=True)
        if "predict" in wanted:
            print(predict().text(), flush=True)


if __name__ == "__main__":
    main()
