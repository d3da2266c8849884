"""Linear attention: predictions against the exact flow, and what they cost next to training on sampled sequences.

Run as a script: python tests/benchmarks/bench_attention.py [errors|seeds|bounds|sequences|scaling ...]. Every table has
its baseline in the same run; nothing is asserted.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from itertools import pairwise

import numpy as np
from agf_problems.linear_attention.problem import LinearAttention

import agf

SEQUENCES = 8192  # fresh sequences a step, as in the authors' notebook
RATE = 0.01  # step size of the notebook's loop


def spectrum(d: int) -> np.ndarray:
    values = 1.0 / np.arange(1, d + 1)
    return 2.0 * values / values.sum()


def observed_half_times(problem: LinearAttention, trajectory: agf.Trajectory) -> np.ndarray:
    return np.array([trajectory.time_at(0.5 * (a + b)) for a, b in pairwise(problem.plateaus())])


def predictions(problem: LinearAttention, init: agf.Init) -> dict[str, agf.Staircase]:
    return {
        "natural": agf.predict(problem, init, mode="agf"),
        "unit (paper)": agf.predict(problem, init, threshold="unit"),
        "resolved": agf.predict(problem, init, mode="resolved"),
        "theory": problem.theory(init=init),
    }


def _errors(problem: LinearAttention, alpha: float, seed: int) -> None:
    init = problem.init(alpha, seed)
    trajectory = agf.flow(problem, init)
    observed = observed_half_times(problem, trajectory)
    print(
        f"\nd = {problem.dimension}, {problem.width} heads, alpha = {alpha:g}, seed {seed}: half-drop times of the flow"
    )
    print(f"{'':14}" + "".join(f"{t:11.5g}" for t in observed) + f"   {trajectory.stats['evaluations']:.0f} gradients")
    for name, stairs in predictions(problem, init).items():
        times = stairs.half_times[1:]
        k = min(times.size, observed.size)
        late = 100 * (times[:k] / observed[:k] - 1)
        level = np.abs(stairs.levels[: k + 1] - problem.plateaus()[: k + 1]).max()
        count = stairs.stats.get("utility_evaluations", 0) + stairs.stats.get("loss_evaluations", 0)
        print(
            f"{name:14}" + "".join(f"{e:9.3f} %" for e in late) + f"   {count:.0f} evaluations, levels to {level:.1e}"
        )


def errors() -> None:
    for alpha in (1e-2, 1e-3):
        _errors(LinearAttention(context=32, heads=5), alpha, 0)


def seeds() -> None:
    for seed in range(5):
        _errors(LinearAttention(spectrum(6), 32, 10), 1e-2, seed)


def bounds() -> None:
    problem = LinearAttention(context=32, heads=5)
    print("\nlower bounds over observed half-drop times (below 1: holds), and the printed one where it fails")
    for alpha in (1e-2, 1e-3):
        for seed in range(4):
            init = problem.init(alpha, seed)
            observed = observed_half_times(problem, agf.flow(problem, init))
            ratios = problem.theory(init=init).bounds / observed
            print(f"alpha {alpha:g} seed {seed}: " + " ".join(f"{r:7.3f}" for r in ratios))
    aligned = problem.least_wait(0, np.log(0.3), radius=1.0)
    printed = np.sqrt(3) / (0.3 * 32 * problem.eigenvalues[0] ** 2)
    print(f"aligned head of norm 0.3 to norm 1: corrected bound {aligned:.4f} (met), printed {printed:.4f}")


def sequences() -> None:
    problem = LinearAttention(context=32, heads=5)
    alpha, steps = 1e-2, 100
    init = problem.init(alpha)
    rng, theta, neurons = np.random.default_rng(0), init.params(), np.arange(5)
    began = time.perf_counter()
    for _ in range(steps):
        theta = theta - RATE * problem.sampled_loss_grad(theta, neurons, rng, SEQUENCES).grad
    each = (time.perf_counter() - began) / steps
    stairs = agf.predict(problem, init, mode="agf")
    needed = stairs.half_times[-1] / RATE
    ours = stairs.stats["utility_evaluations"] + stairs.stats["loss_evaluations"]
    print(f"\nto the last jump, alpha = {alpha:g}")
    print(f"notebook-style loop: {needed:.0f} steps of {SEQUENCES} sequences = {needed * SEQUENCES:.3g} sequence "
          f"evaluations, {each * needed:.0f} s (from {steps} steps)")  # fmt: skip
    print(f"agf.predict: {ours:.0f} evaluations of the exact moments, {stairs.stats['seconds']:.2f} s")
    print(
        f"ratio: {needed * SEQUENCES / ours:.3g} in evaluations, {each * needed / stairs.stats['seconds']:.3g} in time"
    )


def scaling() -> None:
    print("\n   d heads   loss and gradient   peak memory     utility   theory(init)   first 3 drops of agf.predict")
    for d in (16, 64, 256):
        problem = LinearAttention(spectrum(d), 4 * d, d)
        init = problem.init(1e-3)
        theta, neurons = init.params(), np.arange(d)
        residual = problem.residual(theta, neurons)
        loss = _timed(lambda p=problem, t=theta, n=neurons: p.loss_grad(t, n))
        utility = _timed(lambda p=problem, t=theta, n=neurons, r=residual: p.utility(t, n, r))
        tracemalloc.start()
        problem.loss_grad(theta, neurons)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        began = time.perf_counter()
        if d <= 64:
            problem.theory(init=init)
        theory = time.perf_counter() - began if d <= 64 else np.nan
        began = time.perf_counter()
        stairs = agf.predict(problem, init, max_drops=3, mode="agf")
        print(f"{d:4d} {d:5d} {1e3 * loss:16.3f} ms {peak:10.2f} MiB {1e3 * utility:8.3f} ms {theory:12.2f} s "
              f"{time.perf_counter() - began:10.2f} s, {stairs.stats}")  # fmt: skip


def _timed(call, repeats: int = 20) -> float:  # type: ignore[no-untyped-def]
    call()
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats


TABLES = {f.__name__: f for f in (errors, seeds, bounds, sequences, scaling)}


def main(names: list[str] | None = None) -> None:
    for name in names or TABLES:
        TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
