"""Linear networks: how right and how fast, each against a baseline of the same run.

    python tests/benchmarks/bench_linear.py [jumps | commuting | coupling | random | timing | width]

jumps : the 10-10-10 problem of the [AGF] notebooks, every jump over log(1/alpha) times the theory.
commuting : b = (10, 1.5), s = (0.1, 1), and 200 random commuting problems against their exact solution.
coupling : the same two modes with inputs turned by an angle: which levels does gradient flow visit?
random : problems that do not commute: the greedy limit and the finite-alpha prediction against gradient flow.
timing : time to the ninth jump of the 10-10-10 problem, next to scipy's solvers in raw weights.
width : theory and prediction for growing d.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from agf_problems.linear.problem import Linear
from scipy.integrate import solve_ivp

import agf

sys.path.insert(0, str(Path(__file__).parents[1]))

from linear_cases import EXAMPLE, authors, commuting, generic, observed

np.set_printoptions(precision=4, suppress=True, linewidth=160)


def jumps() -> None:
    """Jump times over those of the limit."""
    problem = Linear(**authors(), width=10)
    theory = problem.theory()
    print("10-10-10, nine jumps. levels of the theory:", theory.levels[:10])
    print("times of the theory over log(1/alpha):    ", theory.accelerated_times[1:10])
    print("flow (half-drop) over theory; in brackets the largest |prediction / flow - 1|, and right-hand sides")
    for alpha in (1e-4, 1e-8, 1e-12, 1e-15, 1e-30, 1e-100, 1e-300):
        init = problem.init(alpha)
        stairs = agf.predict(problem, init, mode="agf")
        flow = agf.flow(problem, init, t_max=1.1 * stairs.times[9])
        times = observed(flow, theory.levels[:10])
        off = np.abs(stairs.half_times[1:10] / times - 1).max()
        print(f"{alpha:7.0e}", times / (theory.accelerated_times[1:10] * -np.log(alpha)),
              f"[{off:.1e}, {flow.stats['evaluations']:.0f}]")  # fmt: skip


def known() -> None:
    """Commuting problems, where the exact answer is known."""
    for width in (2, 10):
        problem = Linear(**EXAMPLE, width=width)
        theory, published = problem.theory(), problem.theory(rule="conjecture")
        if width == 2:
            print("greedy    ", theory.levels, theory.accelerated_times)
            print("conjecture", published.levels, published.accelerated_times)
        for alpha in (1e-8, 1e-15, 1e-30, 1e-100):
            flow = agf.flow(problem, problem.init(alpha), t_max=-1.3 * np.log(alpha))
            times = observed(flow, theory.levels)
            plateau = float(flow.loss_at(times.mean()))
            print(f"flow, H = {width}, alpha {alpha:.0e}: times {times / -np.log(alpha)}, between them {plateau:.6f}")
    rng = np.random.default_rng(0)
    right, wrong, gap = 0, 0, 0.0
    for _ in range(200):
        b, s, given = commuting(rng)
        problem = Linear(**given)
        order = np.argsort(-b * s)
        levels = 0.5 * np.append(np.cumsum((b**2 * s)[order][::-1])[::-1], 0.0)
        theory, published = problem.theory(), problem.theory(rule="conjecture")
        exact = 1 / (b * s)[order]
        gap = max(gap, np.abs(theory.accelerated_times[1:] / exact - 1).max())
        right += np.allclose(theory.levels, levels, rtol=1e-8, atol=1e-10)
        wrong += not np.allclose(published.levels, levels, rtol=1e-6, atol=1e-10)
    print(f"200 random commuting problems: greedy right on {right} (times to {gap:.0e}), conjecture wrong on {wrong}")


def coupling() -> None:
    """Where the two rules part, and how coupling decides between them at finite alpha."""
    print(
        "b = (10, 1.5), s = (0.1, 1), inputs turned by an angle; visible drops of the flow: time/log(1/alpha) -> level"
    )
    for angle in (0.0, 1e-10, 1e-6, 1e-3, 0.03, 0.3):
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, -s], [s, c]])
        problem = Linear(Sxx=turn @ EXAMPLE["Sxx"] @ turn.T, B=EXAMPLE["B"])
        rules = [
            " ".join(f"{t:.3f}->{level:.3f}" for t, level in zip(th.accelerated_times[1:], th.levels[1:], strict=True))
            for th in (problem.theory(), problem.theory(rule="conjecture"))
        ]
        print(f"angle {angle:g}: greedy {rules[0]}; conjecture {rules[1]}")
        for alpha in (1e-8, 1e-30, 1e-100):
            unit, init = -np.log(alpha), problem.init(alpha)
            flow = agf.flow(problem, init)
            seen = " ".join(f"{d.time / unit:.3f}->{d.after:.3f}" for d in flow.drops)
            stairs = agf.predict(problem, init, mode="agf")
            said = " ".join(
                f"{t / unit:.3f}->{v:.3f}" for t, v in zip(stairs.half_times[1:], stairs.levels[1:], strict=True)
            )
            print(f"   alpha {alpha:.0e}: flow {seen};  prediction {said}")


def random() -> None:
    """Random problems that do not commute."""
    print("shape, blocks, (flow - greedy limit) in flow time per drop at 1e-30 and 1e-100 (a constant if greedy is the "
          "limit), prediction/flow - 1 per drop at 1e-30")  # fmt: skip
    for seed, (d, width, c) in enumerate(
        [(3, 3, 3), (4, 4, 4), (5, 5, 5), (5, 8, 3), (3, 5, 6), (6, 4, 6), (4, 12, 8), (8, 8, 8)]
    ):
        problem = Linear(**generic(seed, d, c), width=width)
        theory = problem.theory()
        late = []
        for alpha in (1e-30, 1e-100):
            unit, init = -np.log(alpha), problem.init(alpha)
            flow = agf.flow(problem, init, t_max=1.2 * theory.accelerated_times[-1] * unit)
            times = observed(flow, theory.levels)
            late.append(times - theory.accelerated_times[1:] * unit)
            if alpha == 1e-30:
                off = agf.predict(problem, init, mode="agf").half_times[1:] / times - 1
        print((d, width, c), len(problem.moments.blocks), late[0], late[1], off)


def timing() -> None:
    """Cost of the nine jumps, relative to DOP853 on raw weights."""
    alpha = 1e-15
    problem = Linear(**authors(), width=10)
    init, theory = problem.init(alpha), problem.theory(alpha=alpha)
    horizon = 4571.5 * 1.06
    neurons = np.arange(10)
    levels = theory.levels[:10]
    rows: list[tuple[str, float, float, str]] = []

    def count(name: str, run: object) -> None:
        began = time.process_time()
        evaluations, times = run()  # type: ignore[operator]
        seconds = time.process_time() - began
        rows.append((name, seconds, evaluations, np.array2string(np.asarray(times), precision=1)))

    def raw(method: str, rtol: float, atol: float) -> tuple[float, np.ndarray]:
        calls = 0

        def velocity(t: float, y: np.ndarray) -> np.ndarray:
            nonlocal calls
            calls += 1
            w, a = y[:100].reshape(10, 10), y[100:].reshape(10, 10)
            pull = problem.syx - (a @ w) @ problem.sxx
            return np.concatenate([(a.T @ pull).ravel(), (pull @ w.T).ravel()])

        theta = init.params()
        start = np.concatenate([theta[:, :10].ravel(), theta[:, 10:].T.ravel()])
        out = solve_ivp(velocity, (0, horizon), start, method, rtol=rtol, atol=atol)
        losses = np.array([
            problem.loss_grad(np.concatenate([y[:100].reshape(10, 10), y[100:].reshape(10, 10).T], axis=1), neurons)[0]
            for y in out.y.T
        ])  # fmt: skip
        below = [
            np.argmax(losses < 0.5 * (a + b)) if (losses < 0.5 * (a + b)).any() else -1 for a, b in pairwise(levels)
        ]
        return calls, np.array([out.t[k] if k >= 0 else np.inf for k in below])

    def flow(rtol: float, method: str) -> tuple[float, np.ndarray]:
        out = agf.flow(problem, init, t_max=horizon, rtol=rtol, method=method)
        return out.stats["evaluations"], observed(out, levels)

    def predicted() -> tuple[float, np.ndarray]:
        stairs = agf.predict(problem, init, max_drops=9, mode="agf")
        return stairs.stats["evaluations"], stairs.half_times[1:]

    problem.theory()
    count("closed form", lambda: (0, problem.theory(alpha=alpha).times[1:10]))
    count("engine", predicted)
    count("flow, factored, rtol 1e-6 (default)", lambda: flow(1e-6, "auto"))
    count("flow, factored, rtol 1e-4, rkc2", lambda: flow(1e-4, "rkc2"))
    count("flow, factored, rtol 1e-6, rk45", lambda: flow(1e-6, "rk45"))
    count("scipy DOP853, rtol 1e-6, atol 1e-21", lambda: raw("DOP853", 1e-6, 1e-21))
    count("scipy LSODA, rtol 1e-6, atol 1e-21", lambda: raw("LSODA", 1e-6, 1e-21))
    count("scipy BDF, rtol 1e-6, atol 1e-21", lambda: raw("BDF", 1e-6, 1e-21))
    base = next(seconds for name, seconds, _, _ in rows if "DOP853" in name)
    print("alpha 1e-15, to flow time 4846; DOP853 = 1 in CPU time; half-drop times of jumps 1 to 9 (inf: never)")
    for name, seconds, evaluations, times in rows:
        print(f"{name:38s} {base / seconds:9.2f} x  {seconds:8.3f} s  {evaluations:8.0f} evaluations  {times}")


def width() -> None:
    """Growth of the cost with the size of the network."""
    print("d = c = H, CPU seconds: build, theory, prediction at 1e-8, evaluations of the active flow, drops")
    for d in (16, 64, 128):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((d, 2 * d))
        marks = [time.process_time()]
        problem = Linear(Sxx=x @ x.T / (2 * d), B=rng.standard_normal((d, d)) / np.sqrt(d))
        marks.append(time.process_time())
        problem.theory()
        marks.append(time.process_time())
        stairs = agf.predict(problem, problem.init(1e-8), max_drops=16, mode="agf")
        marks.append(time.process_time())
        print(d, np.diff(marks), stairs.stats["evaluations"], len(stairs.drops))


def main() -> None:
    parts = {
        "jumps": jumps,
        "commuting": known,
        "coupling": coupling,
        "random": random,
        "timing": timing,
        "width": width,
    }
    for name in sys.argv[1:] or list(parts):
        print(f"== {name}")
        parts[name]()


if __name__ == "__main__":
    main()
