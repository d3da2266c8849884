"""Modular addition measured: maxima of the utility, groups of neurons, a whole prediction against the flow, cost.

    python tests/benchmarks/bench_modular.py [maxima groups staircase speed scaling ties s3]

Prints one table a topic; every ratio is against a baseline of the same run. Run single-threaded (OMP_NUM_THREADS=1).
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np
from agf_problems.modular import ModularAddition
from scipy.optimize import minimize

import agf
from agf.table import Table

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


# -- speed ------------------------------------------------------------------------------------------------------------


class FixedStep:
    """The method the figure was made with: torch over all pairs, Euler steps on each neuron, momentum SGD when active.

    Utility: steps of 0.1 of the mean-squared error (mean over outputs too, so 2/p of our flow time), direction
    renormalised after each, charge 3U against 1/norm - 1. Cost: 10^4 steps of 0.01, momentum 0.9, new neuron at norm 1.
    """

    utility_step, cost_steps, rate, momentum = 0.1, 10_000, 0.01, 0.9

    def __init__(self, problem: ModularAddition, theta: np.ndarray):
        import torch

        torch.set_num_threads(1)
        p = problem.p
        translates = torch.tensor(problem.template.translates())
        pairs = torch.cartesian_prod(torch.arange(p), torch.arange(p))
        self.torch, self.p = torch, p
        self.a, self.b = translates.T[pairs[:, 0]], translates.T[pairs[:, 1]]
        self.target = translates.T[torch.tensor(problem.characters.sums())[pairs[:, 0], pairs[:, 1]]]
        weights = torch.tensor(theta)
        norms = weights.norm(dim=1)
        self.theta = weights / norms[:, None]
        self.threshold = 1 / norms - 1
        self.charge = torch.zeros(len(theta), dtype=torch.float64)
        self.active: list[int] = []

    def output(self, theta):  # torch tensors in and out
        u, v, w = theta.split(self.p, dim=1)
        return (self.a @ u.T + self.b @ v.T) ** 2 @ w

    def utility_steps(self, most: int) -> int:
        """Until a neuron activates, or `most` steps; how many were taken."""
        torch = self.torch
        with torch.no_grad():
            residual = self.target - self.output(self.theta[self.active])
        for step in range(1, most + 1):
            for i in range(len(self.theta)):
                if i in self.active:
                    continue
                one = self.theta[i : i + 1].clone().requires_grad_(True)
                utility = 2 * (residual * self.output(one)).mean()  # the loss is the mean squared error
                utility.backward()
                with torch.no_grad():
                    norm = 1 / (1 + self.threshold[i] - self.charge[i])
                    moved = one + self.utility_step * norm * one.grad
                    self.theta[i] = (moved / moved.norm())[0]
                    self.charge[i] += self.utility_step * 3 * utility.detach()
            over = torch.nonzero(self.charge >= self.threshold).ravel().tolist()
            fresh = [i for i in over if i not in self.active]
            if fresh:
                self.active += fresh
                return step
        return most

    def cost(self, steps: int) -> float:
        torch = self.torch
        weights = self.theta[self.active].clone().requires_grad_(True)
        optimizer = torch.optim.SGD([weights], lr=self.rate, momentum=self.momentum)
        loss = torch.zeros(())
        for _ in range(steps):
            optimizer.zero_grad()
            loss = ((self.target - self.output(weights)) ** 2).mean()
            loss.backward()
            optimizer.step()
        self.theta[self.active] = weights.detach()
        return float(loss) * self.p / 2


def speed() -> Iterator[Table]:
    problem = figure_problem()
    init = problem.init(alpha=1e-2, seed=0)
    began = time.process_time()
    stairs = agf.predict(problem, init)
    ours = time.process_time() - began
    baseline = FixedStep(problem, init.params())
    rows = []
    spent = 0.0
    per_step: list[float] = []
    for k in range(2):  # whole phases; the later ones differ in the number of steps only
        began = time.process_time()
        steps = baseline.utility_steps(10**6)
        per_step.append((time.process_time() - began) / steps)
        middle = time.process_time()
        level = baseline.cost(baseline.cost_steps)
        end = time.process_time()
        spent += end - began
        rows.append(
            [
                str(k + 1),
                str(steps),
                f"{middle - began:.1f}",
                f"{end - middle:.1f}",
                f"{level:.5f}",
                f"{end - began:.1f}",
            ]
        )
    # a phase takes (its flow time) / (2/p 0.1) utility steps; later cost phases have as many steps and more neurons
    unit = 2 / problem.p * baseline.utility_step
    durations = np.diff(stairs.times)[len(rows) :]
    cost_second = float(rows[-1][3])
    rest = sum(d / unit * per_step[-1] + cost_second for d in durations)
    rows.append(["rest", f"{durations.sum() / unit:.0f}", "", "", "", f"{rest:.0f} (steps x measured cost of one)"])
    total = spent + rest
    yield Table(
        "Whole prediction against fixed steps, CPU seconds, same process",
        ["phase", "utility steps", "utility s", "cost s", "level", "total s"],
        rows,
        [f"ours: {len(stairs.drops)} drops in {ours:.2f} s; fixed steps {total:.0f} s; ratio {total / ours:.0f}"],
    )
    began = time.process_time()
    trajectory = agf.flow(problem, init, t_max=1e4, rtol=1e-4)
    flow_seconds = time.process_time() - began
    gradient = seconds(lambda: problem.loss_grad(init.params(), np.arange(18)))
    torch_step = seconds(lambda: baseline.cost(20)) / 20
    yield Table(
        "Flow to t = 10^4 against 10^6 gradient-descent steps (0.01, momentum 0.9, mean-squared error)",
        ["", "gradients", "CPU seconds"],
        [
            ["agf.flow, rtol 1e-4", f"{trajectory.stats['evaluations']:.0f}", f"{flow_seconds:.1f}"],
            ["descent with our gradient", "1000000", f"{1e6 * gradient:.0f} (10^6 x {1e6 * gradient:.0f} us)"],
            [
                "descent with torch over all pairs",
                "1000000",
                f"{1e6 * torch_step:.0f} (10^6 x {1e6 * torch_step:.0f} us)",
            ],
        ],
        [f"final loss {trajectory.losses[-1]:.3g}; gradients saved {1e6 / trajectory.stats['evaluations']:.0f}x"],
    )


# -- scaling ----------------------------------------------------------------------------------------------------------


def scaling(budget: float = 20.0) -> Iterator[Table]:
    """Gradient cost over (H, p); predictions and flows cut at a number of drops or a time, within a memory report."""
    rows = []
    reference = None
    for p in (23, 59, 113):
        for width in (64, 256, 1024):
            problem = ModularAddition(p=p, width=width)
            theta = 0.1 * np.random.default_rng(0).standard_normal((width, 3 * p))
            cost = seconds(
                lambda problem=problem, theta=theta, width=width: problem.loss_grad(theta, np.arange(width)), 0.2
            )
            work = 12 * width**2 * p + 8 * width * p * p
            reference = reference or cost / work
            rows.append(
                [
                    str(p),
                    str(width),
                    f"{1e3 * cost:.3f}",
                    f"{work / 1e6:.1f}",
                    f"{cost / work / reference:.2f}",
                    f"{3 * width * p**3 / work:.1f}",
                ]
            )
    yield Table(
        "One gradient: time against 12 H^2 p + 8 H p^2 multiplications",
        [
            "p",
            "H",
            "ms",
            "10^6 multiplications",
            "time a multiplication (first row 1)",
            "3 H p^3 (all pairs) over ours",
        ],
        rows,
    )
    rows = []
    for p in (23, 59, 113):
        for width in (64, 256, 1024):
            problem = ModularAddition(p=p, template={1: float(p), 2: 0.5 * p}, width=width)
            init = problem.init(alpha=1e-3, seed=0)
            row = [str(p), str(width)]
            for run, bound in ((agf.predict, {"max_drops": 4}), (agf.flow, {"rtol": 1e-4, "max_steps": 300})):
                began = time.process_time()
                result = run(problem, init, observer=_until(budget), **bound)
                spent = time.process_time() - began
                count = len(result.drops)
                row += [f"{spent:.1f}", f"{count}", result.status.word]
            row.append(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f}")
            rows.append(row)
    yield Table(
        f"Prediction (4 drops) and flow (300 steps), at most {budget:.0f} s each, alpha 1e-3, two frequencies",
        ["p", "H", "predict s", "drops", "status", "flow s", "drops", "status", "peak MB so far"],
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


def ties(budget: float = 120.0) -> Table:
    """One-hot template: every |xh| equal; who is learned when is left to the initialization."""
    problem = ModularAddition(p=23, width=72)
    init = problem.init(alpha=1e-3, seed=0)
    stairs = agf.predict(problem, init, observer=_until(budget))
    rows = []
    for drop in stairs.drops:
        learned = drop.features["learned"]
        rows.append(
            [
                f"{drop.half_time:.1f}",
                f"{drop.level:.4f}",
                drop.label,
                str(drop.neurons.size),
                " ".join(f"{c:.2f}" for c in learned),
                f"{float(drop.features['accuracy']):.3f}",
            ]
        )
    return Table(
        f"p = 23, one-hot, H = 72, alpha 1e-3 ({stairs.status.word}, {stairs.stats['seconds']:.0f} s)",
        ["half-drop time", "level", "label", "neurons", "learned share of frequencies 1..11", "accuracy"],
        rows,
    )


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
        stairs = agf.predict(problem, init)
        table = agf.compare(stairs, agf.flow(problem, init, t_max=2 * stairs.times[-1], rtol=1e-4)).table()
        energies = f"energy {stairs.start_level:.3f}, sign {one**2 / 2:.3f}, degree 2 {two**2 / 2:.3f}"
        yield Table(f"S3: {energies}", table.columns, table.rows, table.notes)


TOPICS = {
    "maxima": maxima,
    "groups": groups,
    "staircase": staircase,
    "speed": speed,
    "scaling": scaling,
    "ties": ties,
    "s3": s3,
}


def main() -> None:
    chosen = sys.argv[1:] or list(TOPICS)
    for name in chosen:
        found = TOPICS[name]()
        for table in [found] if isinstance(found, Table) else found:
            print(table.text(), flush=True)
            print()


if __name__ == "__main__":
    main()
