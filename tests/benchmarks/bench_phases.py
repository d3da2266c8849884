"""Cost of the two phases: against width, samples, scale and a generic solver with one event a neuron.

Every ratio is against a baseline of the same run. `python tests/benchmarks/bench_phases.py [scipy]
[scale] [width] [horizon]` prints the tables.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import agf
from agf.algorithm import dormant
from agf.algorithm.dormant import Crossing, Threshold
from agf.algorithm.field import Batch
from agf.clock import Clock
from agf.records.table import Table, number

sys.path.insert(0, str(Path(__file__).parents[1]))

from stubs import DiagonalToy, QuadraticUtility

NOBODY = np.zeros(0, dtype=np.int64)


def network(width: int, samples: int, activation: str) -> agf.Problem:
    """A network on random inputs with a target of five ReLU teachers."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((samples, 20))
    y = np.maximum(X @ rng.standard_normal((20, 5)), 0.0) @ rng.standard_normal(5)
    return agf.TwoLayer(X, y - y.mean(), activation, width=width)


def first_crossing(problem: agf.Problem, init: agf.Init, natural: bool = True) -> tuple[Crossing, dict[str, float]]:
    """The first dormant phase, and its counters."""
    empty = np.zeros((0, problem.n_params))
    stats: dict[str, float] = {}
    found = dormant.cross(
        Batch(
            problem,
            problem.residual(empty, NOBODY),
            Clock.from_norms(problem.degree, init.log_norms),
            init.directions,
            init.log_norms,
            np.arange(init.width),
        ),
        Threshold(problem, natural, empty, NOBODY),
        stats=stats,
    )
    assert isinstance(found, Crossing)
    return found, stats


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Result, seconds, and peak memory in MiB (large arrays are few, so tracing them costs little)."""
    tracemalloc.start()
    began = time.perf_counter()
    out = call()
    seconds = time.perf_counter() - began
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return out, seconds, peak


def width_and_samples() -> Table:
    """Evaluations should not grow with either; seconds like the product of both."""
    rows = []
    base = 0.0
    sizes = [("tanh", 100, 500), ("tanh", 1000, 500), ("tanh", 10_000, 500), ("tanh", 1000, 50), ("tanh", 1000, 5000)]
    for activation, width, samples in [*sizes, ("relu", 100, 500), ("relu", 100, 5000)]:
        problem = network(width, samples, activation)
        init = problem.init(1e-8, seed=0)
        (_, stats), seconds, peak = timed(lambda problem=problem, init=init: first_crossing(problem, init))
        evaluation = _evaluation(problem, init)
        base = base or seconds
        state = init.directions.nbytes / 2**20
        rows.append(
            [activation, str(width), str(samples), f"{stats['utility_evaluations']:.0f}",
             f"{stats['self_interactions']:.0f}",
             f"{seconds:.2f}", number(seconds / base, 3), number(seconds / evaluation, 3), f"{peak:.0f}",
             number(peak / state, 3)]
        )  # fmt: skip
    return Table(
        "First dormant phase, 20 inputs, alpha 1e-8",
        ["activation", "width", "samples", "utility calls", "self-interactions", "s", "x first",
         "in full evaluations",
         "peak MiB", "x size of the directions"],
        rows,
        ["A full evaluation is one utility of all neurons, measured beside it."],
    )  # fmt: skip


def _evaluation(problem: agf.Problem, init: agf.Init) -> float:
    """Seconds of one utility of all neurons, the best of three."""
    neurons = np.arange(init.width)
    residual = problem.residual(np.zeros((0, problem.n_params)), NOBODY)
    best = np.inf
    for _ in range(3):
        began = time.perf_counter()
        problem.utility(init.directions, neurons, residual)
        best = min(best, time.perf_counter() - began)
    return best


def against_scipy() -> Table:
    """Same crossing by scipy's DOP853 with one event a neuron, on quadratic utilities (exact answer known)."""
    rows = []
    for width in (10, 50, 200):
        rng = np.random.default_rng(1)
        matrices = rng.standard_normal((width, 4, 4))
        matrices = matrices + matrices.transpose(0, 2, 1)
        problem = QuadraticUtility(matrices)
        init = agf.Init.scaled(rng.standard_normal((width, 4)), 1e-8)
        began = time.process_time()
        found, _ = first_crossing(problem, init, natural=False)
        ours = time.process_time() - began
        our_time = float(Clock.from_norms(2, init.log_norms).flow(found.time))
        began = time.process_time()
        theirs, calls = _scipy(problem, init, 2.0 * our_time)
        seconds = time.process_time() - began
        exact = abs(problem.exact(init.directions, init.log_norms, our_time)[1].max())
        gap = abs(problem.exact(init.directions, init.log_norms, theirs)[1].max())
        rows.append([str(width), f"{ours:.3f}", f"{seconds:.3f}", number(seconds / ours, 3), str(calls),
                     f"{exact:.1e}", f"{gap:.1e}"])  # fmt: skip
    return Table(
        "Crossing of quadratic utilities, alpha 1e-8",
        ["width", "CPU s", "CPU s scipy, events", "ratio", "calls scipy", "log norm off", "off, scipy"],
        rows,
        ["scipy: DOP853, rtol 1e-6, one terminal event a neuron, raw weights with atol 1e-6 alpha."],
    )


def _scipy(problem: QuadraticUtility, init: agf.Init, end: float) -> tuple[float, int]:
    shape = init.directions.shape
    neurons = np.arange(init.width)

    def flow(_: float, y: np.ndarray) -> np.ndarray:
        return problem.utility(y.reshape(shape), neurons, None)[1].ravel()

    def event(i: int) -> Callable[[float, np.ndarray], float]:
        def crossed(_: float, y: np.ndarray) -> float:
            row = y.reshape(shape)[i]
            return float(row @ row) - 1.0

        crossed.terminal = True  # type: ignore[attr-defined]
        return crossed

    run = solve_ivp(flow, (0, end), init.params().ravel(), method="DOP853", rtol=1e-6, atol=1e-6 * init.alpha,
                    events=[event(i) for i in range(init.width)])  # fmt: skip
    return float(run.t[-1]), int(run.nfev)


def scale() -> Table:
    """All drops of a diagonal toy at every scale: evaluations against log 1/alpha."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4))
    rows = []
    base = 0.0
    for alpha in (1e-4, 1e-8, 1e-16, 1e-50, 1e-100, 1e-200):
        problem = DiagonalToy(X, X @ np.array([2.0, -1.0, 0.5, 0.2]))
        stairs = agf.predict(problem, problem.init(alpha, seed=0), mode="agf")
        calls = stairs.stats["utility_evaluations"] + stairs.stats["loss_evaluations"]
        base = base or calls
        rows.append([f"{alpha:g}", str(len(stairs.drops)), f"{calls:.0f}", number(calls / base, 3)])
    return Table("All drops of a diagonal toy, d = 4", ["alpha", "drops", "evaluations", "x first row"], rows)


def horizon() -> Table:
    """Modular addition, p = 20, 18 neurons, alpha 1e-2 (numerics of the active phase): work by settle rule."""
    problem = agf.problem("modular-addition", p=20, width=18, template={1: 10.0, 3: 5.0, 5: 2.5})
    init = problem.init(1e-2, seed=0)
    rows = []
    base = 0.0
    for options in ({"horizon": 10.0}, {"horizon": 3.0}, {}, {"rtol": 1e-4}):
        began = time.perf_counter()
        stairs = agf.predict(problem, init, max_drops=12, **options)
        seconds = time.perf_counter() - began
        calls = stairs.stats["loss_evaluations"]
        base = base or calls
        order = " ".join(str(int(drop.neurons[0])) for drop in stairs.drops)
        words = ", ".join(f"{name} {value:g}" for name, value in options.items()) or "default"
        rows.append([words, order, f"{calls:.0f}", number(calls / base, 3),
                     f"{stairs.stats['utility_evaluations']:.0f}", f"{seconds:.1f}"])  # fmt: skip
    return Table(
        "Twelve drops of modular addition",
        ["settings", "order of neurons", "losses", "x first row", "utilities", "s"],
        rows,
    )


TABLES = {"scipy": against_scipy, "scale": scale, "width": width_and_samples, "horizon": horizon}


def main() -> None:
    for name in sys.argv[1:] or TABLES:
        print(TABLES[name]().text(), flush=True)


if __name__ == "__main__":
    main()
