"""Diagonal networks: speed of the limit sequence against LARS, work of the flow against gradient descent, accuracy.

Every ratio is taken within this run, on one thread. `--quick` leaves out the largest size.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.linear_model import lars_path

import agf
from agf import datasets

sys.path.insert(0, str(Path(__file__).parents[1]))

from diagonal_cases import five_coordinates, returning_problem

REPEATS = 5
ALPHAS = (1e-2, 1e-4, 1e-8, 1e-16, 1e-50, 1e-200)


def standardized(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian columns, standardized; 30 % of the coefficients are not zero; unit noise."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = x @ (rng.standard_normal(d) * (rng.random(d) < 0.3)) + rng.standard_normal(n)
    return x, y - y.mean()


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    data = datasets.load("diabetes")
    return data["X"], data["y"]


def best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Best processor time of several, seconds: one thread, and it hardly depends on what else the machine does."""
    out = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        work()
        out = min(out, time.process_time() - began)
    return out


def speed(quick: bool) -> None:
    print("Limit sequence against sklearn.linear_model.lars_path(method='lasso'): processor seconds, best of several")
    heads = ("stages", "LARS steps", "ours", "LARS", "LARS, Gram", "ratio", "kkt")
    print(f"{'n x d':>12s}" + "".join(f" {head:>10s}" for head in heads))
    sizes = [("diabetes", diabetes())]
    sizes += [(f"{n} x {d}", standardized(n, d)) for n, d in [(800, 400), (64, 6830)] + [(4000, 2000)] * (not quick)]
    for name, (x, y) in sizes:
        repeats = 1 if x.size > 1e6 else REPEATS
        problem = agf.problem("diagonal-linear", X=x, y=y)
        stairs = problem.theory()
        lars = [partial(lars_path, x, y, method="lasso", Gram=gram, max_iter=10**6) for gram in (None, "auto")]
        steps = len(lars[1]()[0]) - 1
        ours, plain, gram = best(problem.theory, repeats), best(lars[0], repeats), best(lars[1], repeats)
        print(
            f"{name:>12s} {len(stairs.drops):10d} {steps:10d} {ours:10.4f} {plain:10.4f} {gram:10.4f} "
            f"{ours / min(plain, gram):10.2f} {stairs.stats['kkt']:10.0e}"
        )


def growth() -> None:
    print("\nGrowth of the cost with d, n = 2d")
    sizes = [100, 200, 400, 800, 1000]
    seconds = []
    for d in sizes:
        problem = agf.problem("diagonal-linear", X=standardized(2 * d, d)[0], y=standardized(2 * d, d)[1])
        stairs = problem.theory()
        seconds.append(best(problem.theory))
        each = 1e3 * seconds[-1] / len(stairs.drops)
        print(f"  d = {d:5d}: {seconds[-1]:8.4f} s, {len(stairs.drops)} stages, {each:.3f} ms a stage")
    print(f"  exponent over the decade: {np.log(seconds[-1] / seconds[0]) / np.log(sizes[-1] / sizes[0]):.2f}")


def work() -> None:
    print("\nGradient flow in z against fixed-step gradient descent (lr 1e-3, 1e6 steps), d = 5, alpha = 1e-16")
    x, y = five_coordinates()
    problem = agf.problem("diagonal-linear", X=x, y=y)
    init = problem.init(1e-16)
    reference = agf.flow(problem, init, t_max=1000.0, rtol=1e-11)
    descent = agf.descend(problem, init, lr=1e-3, steps=10**6)
    rows = [("descent", descent, 10**6)]
    for rtol in (1e-3, 1e-4, 1e-6):
        flow = agf.flow(problem, init, t_max=1000.0, rtol=rtol)
        rows.append((f"flow rtol {rtol:g}", flow, int(flow.stats["evaluations"])))
    levels = problem.theory().levels
    middles = [0.5 * (a + b) for a, b in pairwise(levels)]
    exact = np.array([reference.time_at(level) for level in middles])
    seen = exact < 1000.0
    plateaus = 0.5 * (exact[seen][1:] + exact[seen][:-1])
    print(f"  {'':16s} {'gradients':>10s} {'fewer':>7s} {'time of drops, worst':>21s} {'loss on plateaus, worst':>24s}")
    for name, curve, gradients in rows:
        late = np.array([curve.time_at(level) for level in np.array(middles)[seen]]) / exact[seen] - 1
        off = curve.loss_at(plateaus) / reference.loss_at(plateaus) - 1
        fewer, late, off = 10**6 / gradients, np.abs(late).max(), np.abs(off).max()
        print(f"  {name:16s} {gradients:10d} {fewer:6.0f}x {late:20.3%} {off:23.3%}")


def accuracy() -> None:
    print("\nPredicted half-drop times against gradient flow, relative error of each drop in per cent")
    for name, (x, y) in (
        ("2-d of [PF23]", returning_problem()),
        ("n = 20, d = 5", five_coordinates()),
        ("diabetes", diabetes()),
    ):
        problem = agf.problem("diagonal-linear", X=x, y=y)
        limit = problem.theory()
        slopes = []
        for alpha in ALPHAS:
            init = problem.init(alpha)
            flow = agf.flow(problem, init)
            for threshold in ("natural", "unit"):
                stairs = agf.predict(problem, init, threshold=threshold)
                observed = np.array([flow.time_at(0.5 * (a + b)) for a, b in pairwise(stairs.levels)])
                errors = 100 * np.abs(stairs.half_times[1:] / observed - 1)
                print(f"  {name:14s} {alpha:7.0e} {threshold:8s}", " ".join(f"{e:6.2f}" for e in errors))
            seen = np.array([flow.time_at(0.5 * (a + b)) for a, b in pairwise(limit.levels)]) / -np.log(alpha)
            slopes.append(np.nanmax(np.abs(seen / limit.accelerated_times[1:] - 1)))
        logs = -np.log(ALPHAS)
        slope = np.polyfit(np.log(logs[2:]), np.log(slopes[2:]), 1)[0]
        constants = " ".join(f"{e * g:.3f}" for e, g in zip(slopes, logs, strict=True))
        print(f"  {name:14s} worst error of the limit x log(1/alpha): {constants}")
        print(f"  {name:14s} slope of its log against log log(1/alpha), alpha <= 1e-8: {slope:.3f}")


def main() -> None:
    """Print the tables."""
    speed("--quick" in sys.argv)
    growth()
    work()
    accuracy()


if __name__ == "__main__":
    main()
