"""ReLU networks on whitened digits: predictions against gradient flow, and against a fixed-step baseline.

    python tests/benchmarks/bench_relu.py follow [WIDTH ...]     predictions of both modes against the flow
    python tests/benchmarks/bench_relu.py baseline [WIDTH ...]   the same against fixed steps, from the same start

Every number comes with the flow of the same run from the same weights; "cost" counts gradients of all kinds, of the
whole network or of part of it; "took" is processor seconds of one thread.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import agf
from agf import registry, sphere
from agf.datasets import load
from agf.records.table import Table, number, percent

WIDTHS = (1, 2, 3, 10, 50)
ALPHAS = (1e-10, 1e-20)
#: Flow time until which a run is followed, in units of log(1 / alpha): the first drop comes at about 35.
HORIZON = 110.0
#: The paper's settings for ReLU networks, utility step 20 and learning rate 10 for a loss that averages over the ten
#: outputs, in units of the half-squared loss: a fifth of each.
PAPER_STEP, PAPER_LR = 4.0, 2.0
#: The prediction that is held against fixed steps, the same at every width: resolved in time, in one pass (the second,
#: for the conditioning of drops, has no counterpart there), at a tolerance that beats their errors by far.
SETTING: dict[str, Any] = {"mode": "resolved", "rtol": 3e-4, "conditioning": False}
#: Predictions are timed so often, after a first run that is not counted, and fixed steps so often; medians are given.
REPEATS, FIXED_REPEATS = 5, 3


def network(width: int) -> agf.TwoLayer:
    """Half-squared loss, one-hot labels minus 1/10, inputs whitened."""
    digits = load("digits")
    return registry.problem("relu", X=digits["X"], Y=digits["Y"], width=width, scale="whiten", centre="targets")


def timed(function, *arguments, **options):
    """Result and processor seconds, which other work on the machine disturbs least."""
    start = time.process_time()
    out = function(*arguments, **options)
    return out, time.process_time() - start


def curve_error(stairs: agf.Staircase, flow: agf.Trajectory) -> tuple[float, float]:
    """Largest and mean |predicted - observed loss| / L(0) from half the first drop's time on, evenly in log time."""
    t = np.geomspace(0.5 * stairs.half_times[1], flow.times[-1], 2000)
    gap = np.abs(stairs.curve(t) - flow.loss_at(t)) / stairs.start_level
    return float(gap.max()), float(gap.mean())


def cost(stats: dict[str, float]) -> int:
    """Gradient evaluations of any kind."""
    return int(sum(value for key, value in stats.items() if key.endswith("evaluations")))


def row(words: str, stairs: agf.Staircase, seconds: float, flow: agf.Trajectory, repeat: agf.Trajectory) -> list[str]:
    """One line of either table."""
    report = agf.compare(stairs, flow, repeat=repeat)
    known = [m for m in report.matches if m.reproducible and np.isfinite(m.time_error)]
    times = np.abs([m.time_error for m in known])
    levels = np.abs([m.level_error for m in known if np.isfinite(m.level_error)])
    largest, mean = curve_error(stairs, flow)
    return [
        words, stairs.status.word, str(len(stairs.drops)), str(len(report.drops)), str(len(known)),
        percent(float(np.median(times))) if times.size else "-", percent(float(times.max())) if times.size else "-",
        percent(float(levels.max())) if levels.size else "-", percent(largest), percent(mean),
        str(cost(stairs.stats)), f"{seconds:.3g} s",
    ]  # fmt: skip


COLUMNS = [
    "prediction", "ended", "drops", "visible", "reproducible", "time (median)", "time (worst)", "level (worst)",
    "curve (worst)", "curve (mean)", "cost", "took",
]  # fmt: skip


def follow(widths: tuple[int, ...]) -> None:
    """Both modes against the flow, over widths and scales."""
    for alpha in ALPHAS:
        for width in widths:
            p = network(width)
            init = p.init(alpha, seed=0)
            t_max = -HORIZON * np.log(alpha)
            flow, seconds = timed(agf.flow, p, init, t_max=t_max, snapshots=400)
            repeat = agf.flow(p, init, t_max=t_max, rtol=1e-5, snapshots=400)
            rows = []
            for mode in ("agf", "resolved"):
                stairs, took = timed(agf.predict, p, init, mode=mode, t_max=t_max)
                rows.append(row(mode, stairs, took, flow, repeat))
            title = f"{width} neurons, alpha = {alpha:g}: flow to t = {t_max:.0f}, loss {number(flow.losses[-1])}"
            note = f"flow ({flow.status.word}): cost {cost(flow.stats)}, {seconds:.1f} s."
            print(Table(title, COLUMNS, rows, [note, "Errors of levels and curves are relative to L(0)."]).text(), "\n")


# -- a fixed-step baseline, as the paper's numerics --------------------------------------------------------------------


def fixed_steps(
    p: agf.TwoLayer, init: agf.Init, t_max: float, step: float, lr: float, *, autograd: bool = False
) -> agf.Staircase:
    """[AGF] with fixed steps: Euler ascent of the utility with renormalization, one activation test a step at norm 1,
    then 2,000 steps of gradient descent with momentum 0.9 on the active neurons, from norm 1.

    autograd : one neuron after the other through torch autograd, as the published numerics run; else batched formulas.
    """
    ascend, descend = (_autograd_ascent, _autograd_descent) if autograd else (_batched_ascent, _batched_descent)
    directions, log_norms = init.directions.copy(), init.log_norms.copy()
    active = np.zeros(p.width, dtype=bool)
    theta = np.zeros_like(directions)
    everyone = np.arange(p.width)
    start = p.loss_grad(theta[:0], everyone[:0])[0]
    drops, calls, t = [], 0, 0.0
    while t < t_max and not active.all():
        dormant = everyone[~active]
        residual = p.residual(theta[active], everyone[active])
        while t < t_max and (log_norms[dormant] < 0).all():
            utility, directions[dormant] = ascend(p, directions[dormant], dormant, residual, step)
            log_norms[dormant] += step * 2 * utility
            calls, t = calls + 1, t + step
        new = dormant[log_norms[dormant] >= 0]
        if new.size == 0:
            break
        active[new] = True
        theta[new] = directions[new]
        level, theta[active] = descend(p, theta[active], everyone[active], lr)
        calls += 2000
        drops.append(agf.Drop(time=t, half_time=t, accelerated_time=t, level=level, neurons=new))
    status = agf.Status.ALL_ACTIVE if active.all() else agf.Status.MAX_TIME
    clock = agf.Clock(2, 0.0)
    return agf.Staircase(p.name, 2, clock, start, tuple(drops), status, init=init, stats={"evaluations": calls})


def _batched_ascent(p, directions, neurons, residual, step):
    utility, grad = p.utility(directions, neurons, residual)
    return utility, sphere.normalize(directions + step * grad)


def _batched_descent(p, theta, neurons, lr):
    theta, velocity = theta.copy(), np.zeros_like(theta)
    for _ in range(2000):
        level, grad = p.loss_grad(theta, neurons)
        velocity = 0.9 * velocity - lr * grad
        theta += velocity
    return level, theta


def _autograd_ascent(p, directions, neurons, residual, step):
    import torch

    x, r = torch.from_numpy(p.X), torch.from_numpy(residual)
    utilities, moved = [], []
    for row in torch.from_numpy(directions):
        neuron = row.clone().requires_grad_()
        utility = (torch.relu(x @ neuron[: p.n_inputs])[:, None] * neuron[p.n_inputs :] * r).sum(1).mean()
        utility.backward()
        with torch.no_grad():
            neuron = neuron + step * neuron.grad
        utilities.append(utility.item())
        moved.append((neuron / neuron.norm()).numpy())
    return np.array(utilities), np.array(moved)


def _autograd_descent(p, theta, neurons, lr):
    import torch

    x, y = torch.from_numpy(p.X), torch.from_numpy(p.Y)
    rows = [torch.from_numpy(row).clone().requires_grad_() for row in theta]
    optimizer = torch.optim.SGD(rows, lr=lr, momentum=0.9)
    for _ in range(2000):
        optimizer.zero_grad()
        outputs = [torch.relu(x @ row[: p.n_inputs])[:, None] * row[p.n_inputs :] for row in rows]
        loss = 0.5 * ((y - torch.stack(outputs).sum(0)) ** 2).sum(1).mean()
        loss.backward()
        optimizer.step()
    return loss.item(), np.array([row.detach().numpy() for row in rows])


def baseline(widths: tuple[int, ...]) -> None:
    """One stated prediction, others for comparison, and the baseline at the paper's steps and at a tenth of them.

    The last column is how many times cheaper each is than fixed steps by autograd, in processor seconds of this run.
    """
    import torch  # here, so that importing it is not counted below

    torch.set_num_threads(1)
    alpha = 1e-10
    for width in widths:
        p = network(width)
        init = p.init(alpha, seed=0)
        t_max = -HORIZON * np.log(alpha)
        flow = agf.flow(p, init, t_max=t_max, snapshots=400)
        repeat = agf.flow(p, init, t_max=t_max, rtol=1e-5, snapshots=400)
        runs = []
        for mode, rtol, conditioning in (
            tuple(SETTING.values()), ("agf", 1e-6, None), ("agf", 1e-5, None), ("agf", 1e-3, None),
            ("resolved", 1e-6, None), ("resolved", 1e-4, None), ("resolved", 1e-3, False),
        ):  # fmt: skip
            options = {"mode": mode, "rtol": rtol, "conditioning": conditioning, "t_max": t_max}
            agf.predict(p, init, **options)
            many = [timed(agf.predict, p, init, **options) for _ in range(REPEATS)]
            words = f"{mode}, rtol {rtol:g}" + (", one pass" if conditioning is False else "")
            words = ("* " if options.items() >= SETTING.items() else "") + words
            runs.append((words, many[0][0], float(np.median([took for _, took in many]))))
        for part, autograd in ((1.0, True), (1.0, False), (0.1, False)):
            step, lr = part * PAPER_STEP, part * PAPER_LR
            many = [timed(fixed_steps, p, init, t_max, step, lr, autograd=autograd) for _ in range(FIXED_REPEATS)]
            words = f"fixed steps {step:g}, " + ("autograd" if autograd else "batched")
            runs.append((words, many[0][0], float(np.median([took for _, took in many]))))
        by_autograd = runs[-3][2]
        rows = [[*row(*run, flow, repeat), f"{by_autograd / run[2]:.1f} x"] for run in runs]
        title = f"{width} neurons, alpha = {alpha:g}: against fixed steps (then 2,000 momentum steps a phase)"
        note = "* the setting stated beforehand, the same at every width."
        print(Table(title, [*COLUMNS, "cheaper"], rows, [note]).text(), "\n")


def main() -> None:
    """Print the tables asked for on the command line."""
    which, *widths = sys.argv[1:] or ["follow"]
    chosen = tuple(int(width) for width in widths) or WIDTHS
    {"follow": follow, "baseline": baseline}[which](chosen)


if __name__ == "__main__":
    main()
