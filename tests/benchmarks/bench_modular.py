"""Modular addition measured: maxima of the utility, groups of neurons, a whole prediction against the flow, cost.

    python tests/benchmarks/bench_modular.py [maxima groups staircase resolved scaling ties s3]

`ties=FILE.png` also draws the picture.

Prints one table a topic; every ratio is against a baseline of the same run. Run single-threaded (OMP_NUM_THREADS=1).
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np
from agf_problems.modular_addition.problem import ModularAddition
from scipy.optimize import minimize
from work import Work

import agf
from agf.records.table import Table, percent
from agf.results.comparison import loosened
from agf.results.match import REPRODUCIBLE

NOBODY = np.zeros(0, dtype=np.int64)
SPECTRUM = {1: 10, 3: 5, 5: 2.5}


def figure_problem() -> ModularAddition:
    """The case of [AGF] Figure 6: p = 20, three frequencies, 18 neurons."""
    return ModularAddition(p=20, template=SPECTRUM, width=18)


def seconds(call: Callable[[], object], least: float = 0.3) -> float:
    """CPU seconds a call, the best of five batches of at least `least` seconds in all."""
    call()
    began = time.process_time()
    call()
    repeats = max(1, int(0.2 * least / max(time.process_time() - began, 1e-7)))
    best = np.inf
    for _ in range(5):
        began = time.process_time()
        for _ in range(repeats):
            call()
        best = min(best, (time.process_time() - began) / repeats)
    return best


# -- theory -----------------------------------------------------------------------------------------------------------


def ascend(problem: ModularAddition, start: np.ndarray) -> tuple[float, np.ndarray]:
    """Maximum of the utility that an ascent on the sphere reaches, nothing active, and where."""
    nothing = problem.residual(np.zeros((0, problem.n_params)), NOBODY)

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        size = np.linalg.norm(theta)
        unit = theta / size
        utility, gradient = problem.utility(unit[None], np.arange(1), nothing)
        return -utility[0], -(gradient[0] - (gradient[0] @ unit) * unit) / size

    found = minimize(
        negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 20000, "ftol": 1e-16, "gtol": 1e-13}
    )
    return -found.fun, found.x / np.linalg.norm(found.x)


def maxima(starts: int = 50) -> Table:
    rows = []
    for p, kind in ((11, "Gaussian"), (13, "Gaussian"), (23, "Gaussian"), (23, "one-hot")):
        rng = np.random.default_rng(p)
        problem = ModularAddition(p=p, template=rng.standard_normal(p) if kind == "Gaussian" else kind, width=1)
        best = int(np.argmax(problem.max_utilities()))
        counts = np.zeros(problem.characters.frequencies.size, dtype=int)
        worst, top = 0.0, 0.0
        for start in agf.sphere.random(rng, starts, 3 * p):
            utility, direction = ascend(problem, start)
            position = int(problem.neuron_frequencies(direction[None])[0][0])
            counts[position] += 1
            worst = max(worst, abs(utility / problem.max_utilities()[position] - 1))
            top = max(top, utility)
        order = np.argsort(-problem.max_utilities())
        ends = " ".join(f"{problem.characters.frequencies[i]}:{counts[i]}" for i in order)
        rows.append(
            [
                f"{p} {kind}",
                f"{top / problem.max_utilities()[best] - 1:.1e}",
                f"{worst:.1e}",
                str(counts[best]),
                str((counts > 0).sum()),
                ends,
            ]
        )
    return Table(
        f"Ascent of the utility from {starts} random starts",
        [
            "template",
            "largest/formula - 1",
            "worst end/its formula - 1",
            "on the global",
            "frequencies reached",
            "ends, by decreasing |xh|",
        ],
        rows,
    )


def gap(flat: np.ndarray, problem: ModularAddition) -> tuple[float, np.ndarray]:
    """Loss over the gain of the only frequency, and its gradient."""
    gain = problem.template.gains()[0]
    loss, gradient = problem.loss_grad(flat.reshape(problem.width, -1), np.arange(problem.width))
    return loss / gain, gradient.ravel() / gain


def groups(starts: int = 12) -> Table:
    """Least loss of N neurons on one frequency, relative to the bound of [AGF] Theorem 5.2."""
    expected = {1: "8/9", 2: "5/9", 3: "about 1/3", 4: "about 1/6", 5: "not attained"}
    rows = []
    for count in range(1, 9):
        rng = np.random.default_rng(count)
        problem = ModularAddition(p=7, template={1: 3.0}, width=count)
        results = []
        for _ in range(starts):
            start = 0.5 * rng.standard_normal(count * problem.n_params)
            found = minimize(
                gap,
                start,
                (problem,),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-10},
            )
            results.append((found.fun, np.linalg.norm(found.x.reshape(count, -1), axis=1).max()))
        least, norm = min(results)
        rows.append([str(count), f"{least:.6f}", expected.get(count, "0"), f"{norm:.2f}"])
    return Table(
        f"Gap to the bound over the gain |xh|^2/p, best of {starts} starts (p = 7, one frequency)",
        ["neurons", "gap", "published", "largest norm"],
        rows,
    )


# -- the staircase of Figure 6 ----------------------------------------------------------------------------------------


def staircase() -> Iterator[Table]:
    problem = figure_problem()
    init = problem.init(alpha=1e-2, seed=0)
    trajectory = agf.flow(problem, init, t_max=3000.0)
    for options in (
        {"threshold": "unit"},
        {"threshold": "natural"},
        {"threshold": "unit", "settle": "converged"},
        {"threshold": "natural", "settle": "converged"},
        {"mode": "resolved"},
    ):
        stairs = agf.predict(problem, init, **options)
        table = agf.compare(stairs, trajectory).table()
        evaluations = sum(v for k, v in stairs.stats.items() if "evaluations" in k)
        words = ", ".join(f"{k} {v}" for k, v in options.items())
        order = " ".join(",".join(str(n) for n in drop.neurons) for drop in stairs.drops)
        notes = [
            *table.notes,
            f"activations {order}",
            f"{evaluations:.0f} evaluations, {stairs.stats['seconds']:.1f} s, {stairs.status.word}",
        ]
        yield Table(f"p = 20, alpha 1e-2, seed 0: {words}", table.columns, table.rows, notes)


def resolved(seeds: int = 10) -> Iterator[Table]:
    """Mode resolved on the same case from ten seeds: against the flow, and what both cost to the same time."""
    problem = figure_problem()
    work = Work(problem)
    rows, late = [], []
    for seed in range(seeds):
        init = problem.init(alpha=1e-2, seed=seed)
        work.take()
        began = time.process_time()
        stairs = agf.predict(problem, init, mode="resolved")
        ours, ours_seconds = work.take(), time.process_time() - began
        began = time.process_time()
        flow = agf.flow(problem, init, t_max=float(stairs.curve_times[-1]))
        flow_seconds, theirs = time.process_time() - began, work.take()
        repeat = agf.flow(problem, init, **loosened(flow))
        report = agf.compare(stairs, flow, repeat=repeat)
        kept = [match for match in report.matches if match.reproducible]
        rows.append(
            [
                str(seed),
                f"{len(kept)} of {len(report.matches)}",
                percent(report.max_time_error),
                percent(report.curve_error),
                percent(max(match.conditioning for match in report.matches)),
                f"{theirs:.0f}",
                f"{ours:.0f}",
                f"{ours / theirs:.2f}",
                f"{ours_seconds / flow_seconds:.2f}",
            ]
        )
        for match in report.matches:
            if not match.reproducible or match.conditioning > REPRODUCIBLE:
                words = [str(seed), str(match.k), f"{match.predicted_time:.6g}", f"{match.observed_time:.6g}"]
                words += [percent(x) for x in (match.time_error, match.spread, match.conditioning)]
                late.append([*words, match.label])
    yield Table(
        "p = 20, alpha 1e-2, ten seeds: mode resolved against the flow, to the same time; work in gradients",
        ["seed", "reproducible drops", "largest error of these", "of the curve", "largest conditioning", "flow",
         "resolved", "work", "CPU"],
        rows,
        ["Work and CPU: both passes of mode resolved, that is with conditioning, over those of the flow."],
    )  # fmt: skip
    yield Table(
        "Drops that the flow does not repeat to 0.3 % at ten times its tolerance, or whose conditioning is above that",
        ["seed", "drop", "predicted", "observed", "error", "reproduced to", "conditioning", "learned"],
        late,
    )


# -- scaling ----------------------------------------------------------------------------------------------------------

SIZES = [(p, width) for p in (23, 59, 113) for width in (64, 256, 1024)]


def multiplications(p: int, width: int, waves: int) -> tuple[float, str]:
    """Of one gradient, by the cheaper of its two routes, and which: partner by partner or through all they take."""
    around = 2 * width * (5 * waves * p + 2 * p * p)
    pairs, tensor = width**2 * (4 * waves + 2 * p), 4 * width * waves**2 * p
    return (around + pairs, "pairs") if pairs <= tensor else (around + tensor, "tensor")


def gradients() -> Table:
    rows = []
    reference = None
    for words, template in (("one-hot", "one-hot"), ("two frequencies", {1: 2.0, 2: 1.0})):
        for p, width in SIZES:
            problem = ModularAddition(p=p, template=template, width=width)
            theta = 0.1 * np.random.default_rng(0).standard_normal((width, 3 * p))
            everyone = np.arange(width)
            cost = seconds(
                lambda problem=problem, theta=theta, everyone=everyone: problem.loss_grad(theta, everyone), 0.2
            )
            work, route = multiplications(p, width, 2 * problem.template.learnable.size)
            reference = reference or cost / work
            rows.append(
                [
                    words,
                    str(p),
                    str(width),
                    f"{1e3 * cost:.3f}",
                    route,
                    f"{work / 1e6:.2f}",
                    f"{cost / work / reference:.2f}",
                    f"{3 * width * p**3 / work:.1f}",
                ]
            )
    return Table(
        "One gradient: time against the formula of `multiplications`",
        [
            "template",
            "p",
            "H",
            "ms",
            "route",
            "10^6 multiplications",
            "time of one (first row 1)",
            "all pairs over ours",
        ],
        rows,
    )


def _one(case: tuple[int, int, float]) -> list[str]:
    """A prediction and a flow of two frequencies in a process of their own, each until done or out of its budget."""
    p, width, budget = case
    problem = ModularAddition(p=p, template={1: float(p), 2: 0.5 * p}, width=width)
    init = problem.init(alpha=1e-3, seed=0)
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = [str(p), str(width)]
    for run in (
        lambda: agf.predict(problem, init, observer=_until(budget), mode="agf"),
        lambda: agf.flow(problem, init, rtol=1e-4, observer=_until(budget)),
    ):
        began = time.process_time()
        result = run()
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - idle) / 2**10
        level = result.levels[-1] if isinstance(result, agf.Staircase) else result.losses[-1]
        row += [
            f"{time.process_time() - began:.1f}",
            str(len(result.drops)),
            f"{level / problem.template.energy * 2:.1e}",
            result.status.word,
            f"{peak:.0f}",
        ]
    return row


def scaling(budget: float = 60.0) -> Iterator[Table]:
    """Gradient cost over (H, p); whole predictions and flows, or what `budget` CPU seconds reach of them."""
    yield gradients()
    rows = []
    context = multiprocessing.get_context("spawn")
    for p, width in SIZES:
        with context.Pool(1) as pool:  # a process each, for the peak of its memory
            rows += pool.map(_one, [(p, width, budget)])
    half = ["CPU s", "drops", "level / first", "status", "peak MB"]
    yield Table(
        f"Whole prediction (left) and flow (right), at most {budget:.0f} s each; two frequencies, alpha 1e-3. "
        "Peaks are of the process, over what it had after the imports",
        ["p", "H", *half, *half],
        rows,
    )


def _until(budget: float) -> Callable[..., None]:
    """An observer that interrupts a run which has used its time."""
    began = time.process_time()

    def check(*_: object) -> None:
        if time.process_time() - began > budget:
            raise KeyboardInterrupt

    return check


# -- ties -------------------------------------------------------------------------------------------------------------


def ties(picture: str = "") -> Iterator[Table]:
    """One-hot template: every |xh| equal; who is learned when is left to the initialization."""
    problem = ModularAddition(p=23, width=72)
    init = problem.init(alpha=1e-3, seed=0)
    stairs = agf.predict(problem, init, t_max=6e5, mode="agf")
    flow = agf.flow(problem, init, rtol=1e-4, t_max=6e5)
    if picture:
        draw_ties(problem, init, stairs, flow, picture)
    frequencies = problem.characters.frequencies
    first = np.full(frequencies.size, np.nan)
    half = np.full(frequencies.size, np.nan)
    full = np.full(frequencies.size, np.nan)
    for drop in stairs.drops:
        learned = drop.features["learned"]
        owner = drop.features["neuron_frequency"][drop.neurons]
        for at in np.flatnonzero(np.isin(frequencies, owner)):
            first[at] = np.fmin(first[at], drop.half_time)
        half = np.where(np.isnan(half) & (learned > 0.5), drop.half_time, half)
        full = np.where(np.isnan(full) & (learned > 0.99), drop.half_time, full)
    observed = flow.features("learned")
    moments = flow.snapshot_times
    active = stairs.drops[-1].active
    owner = stairs.drops[-1].features["neuron_frequency"]
    rows = [
        [
            str(frequencies[at]),
            f"{frozen_race(problem, init)[at]:.0f}",
            f"{first[at]:.0f}",
            f"{half[at]:.0f}",
            f"{moments[np.argmax(observed[:, at] > 0.5)]:.0f}",
            f"{full[at]:.0f}",
            f"{moments[np.argmax(observed[:, at] > 0.99)]:.0f}",
            str(int(np.sum(active & (owner == frequencies[at])))),
        ]
        for at in np.argsort(first)
    ]
    yield Table(
        "p = 23, one-hot, H = 72, alpha 1e-3: each frequency, first to last",
        [
            "frequency",
            "norm 1, nothing active",
            "first neuron",
            "half learned",
            "in the flow",
            "0.99",
            "in the flow",
            "neurons",
        ],
        rows,
        [
            f"prediction: {len(stairs.drops)} drops to {stairs.levels[-1]:.2g} in {stairs.stats['seconds']:.0f} s",
            f"flow: {len(flow.drops)} drops to {flow.losses[-1]:.2g}, accuracy {flow.features('accuracy')[-1]:.3f}",
        ],
    )
    table = agf.compare(stairs, flow).table()
    yield Table("Every drop against the flow", table.columns, table.rows, table.notes)


def draw_ties(problem: ModularAddition, init: agf.Init, stairs: agf.Staircase, flow: agf.Trajectory, path: str) -> None:
    """The loss, and how much of each frequency is learned, in the flow and in the prediction."""
    from agf import plot
    from agf.figures.figure import subplots

    figure, axes = subplots(1, 3, width=4.0, height=3.0)
    losses, trained, stepped = axes.flat
    span = (1.7e5, 5.2e5)
    losses.plot(flow.times, flow.losses, color=plot.RULE, lw=3, label="gradient flow")
    losses.step(stairs.half_times[1:], stairs.levels[1:], where="post", color="black", lw=1, label="mode agf")
    losses.set(xlabel="flow time", ylabel="loss", yscale="log", ylim=(1e-4, 1), xlim=span)
    losses.legend(frameon=False, fontsize="small")
    fine = np.linspace(*span, 400)
    shares = {
        "gradient flow": (flow.snapshot_times, flow.features("learned"), trained),
        "mode agf": (stairs.half_times[1:], np.array([drop.features["learned"] for drop in stairs.drops]), stepped),
    }
    order = np.argsort(frozen_race(problem, init))
    for name, (moments, learned, axis) in shares.items():
        last = np.searchsorted(moments, fine, side="right") - 1
        image = np.where(last[:, None] >= 0, learned[np.maximum(last, 0)], 0.0)[:, order].T
        shown = axis.imshow(image, aspect="auto", cmap="Greys", vmin=0, vmax=1, interpolation="nearest",
                            extent=(*span, order.size - 0.5, -0.5))  # fmt: skip
        axis.set(xlabel="flow time", ylabel="frequency, by the closed form", title=f"learned share, {name}")
        axis.set_yticks(range(order.size), [str(k) for k in problem.characters.frequencies[order]])
        figure.colorbar(shown, ax=axis)
    for axis in axes.flat:
        axis.set_xticks([2e5, 3e5, 4e5, 5e5], ["2e5", "3e5", "4e5", "5e5"])
    figure.savefig(path, dpi=150)


def frozen_race(problem: ModularAddition, init: agf.Init) -> np.ndarray:
    """(K,) when the first neuron that grows on each frequency reaches norm 1 if nothing ever becomes active: this is
    where the initialization alone would have the frequencies come in."""
    waves = problem.three_waves(init.params())
    times = waves.time_to(1.0)
    owner = waves.strongest()
    return np.array([np.min(times[owner == at], initial=np.inf) for at in range(problem.characters.frequencies.size)])


# -- a group that does not commute ------------------------------------------------------------------------------------


def s3() -> Iterator[Table]:
    """Experiment outside the plugin and the theory: S3, the network as samples; x = sign + character of degree 2.

    Levels to expect if representations are learned one at a time: the energy |x|^2/2 less that of the part in each.
    """
    elements = list(permutations(range(3)))
    number = {g: i for i, g in enumerate(elements)}
    product = np.array([[number[tuple(a[b[i]] for i in range(3))] for b in elements] for a in elements])
    inverse = np.argmin(product, axis=1)  # the identity is number 0
    sign = np.array([round(np.linalg.det(np.eye(3)[list(g)])) for g in elements]) / np.sqrt(6)
    degree_two = np.array([sum(g[i] == i for i in range(3)) - 1.0 for g in elements]) / np.sqrt(6)
    for one, two in ((3.0, 2.0), (1.5, 3.0)):
        x = one * sign + two * degree_two
        encoding = x[product[inverse]]  # (a.x)[j] = x[a^-1 j]
        pairs = [(a, b) for a in range(6) for b in range(6)]
        problem = agf.TwoLayer(
            [np.concatenate([encoding[a], encoding[b]]) for a, b in pairs],
            [encoding[product[a, b]] for a, b in pairs],
            activation="square",
            width=20,
        )
        init = problem.init(alpha=1e-3, seed=0)
        stairs = agf.predict(problem, init, mode="agf")
        table = agf.compare(stairs, agf.flow(problem, init, t_max=2 * stairs.times[-1], rtol=1e-4)).table()
        energies = f"energy {stairs.start_level:.3f}, sign {one**2 / 2:.3f}, degree 2 {two**2 / 2:.3f}"
        yield Table(f"S3: {energies}", table.columns, table.rows, table.notes)


TOPICS = {
    "maxima": maxima,
    "groups": groups,
    "staircase": staircase,
    "resolved": resolved,
    "scaling": scaling,
    "ties": ties,
    "s3": s3,
}


def main() -> None:
    chosen = sys.argv[1:] or list(TOPICS)
    for word in chosen:
        name, _, picture = word.partition("=")
        found = TOPICS[name](picture) if picture else TOPICS[name]()
        for table in [found] if isinstance(found, Table) else found:
            print(table.text(), flush=True)
            print()


if __name__ == "__main__":
    main()
