"""The other systems: `python -m audit.systems [--only WORD] [--budget SECONDS] [--page]`, default predictions and flow.

The trainer is the truth here (scipy confirms it on tables), where it repeats itself: a drop counts as reproducible if
ten times its tolerance moves its half-drop time by less than a fifth of a percent. `--page` writes the table into
docs/accuracy.md; a row that was not run this time stays as it is there.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import agf
from agf.registry import find
from audit.measure import OutOfTimeError, budget

#: Relative change of a half-drop time of the flow from which on a drop does not count as reproducible.
REPEATS = 2e-3
Maker = Callable[[int], tuple[Any, agf.Init]]


@dataclass
class Row:
    """What two or more seeds of one system gave.

    errors, bars, firm : of each drop whose middle the flow passes: relative error, bar, whether the flow repeats it.
    """

    errors: list[float] = field(default_factory=list)
    bars: list[float] = field(default_factory=list)
    firm: list[bool] = field(default_factory=list)
    phantoms: int = 0
    gradients: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, problem: Any, init: agf.Init, seconds: float, mode: str) -> None:
        """One seed."""
        with budget(seconds):
            began = time.process_time()
            flow = agf.flow(problem, init)
            spent = time.process_time() - began
        with budget(seconds):
            loose = agf.flow(problem, init, rtol=10.0 * flow.settings["rtol"])
        with budget(seconds):
            began = time.process_time()
            stairs = agf.predict(problem, init, mode=mode)
            self.seconds.append((time.process_time() - began) / max(spent, 1e-3))
        self.gradients.append(_gradients(stairs.stats) / _gradients(flow.stats))
        levels = stairs.levels
        for drop, middle in zip(stairs.drops, 0.5 * (levels[:-1] + levels[1:]), strict=True):
            true, other = flow.time_at(middle), loose.time_at(middle)
            if not np.isfinite(true):
                self.phantoms += 1
                continue
            self.errors.append(abs(drop.half_time / true - 1.0))
            self.bars.append(drop.error)
            self.firm.append(bool(abs(other / true - 1.0) < REPEATS))

    def text(self) -> list[str]:
        """Cells of the table, see `HEAD`."""
        errors, bars, firm = np.array(self.errors), np.array(self.bars), np.array(self.firm, dtype=bool)
        worst = f"{100 * errors.max():.2g} %" if errors.size else "-"
        sure = f"{100 * errors[firm].max():.2g} %" if firm.any() else "-"
        within = f"{int((errors <= bars).sum())} of {errors.size}"
        cost = f"{np.median(self.gradients):.2g}" if self.gradients else "-"
        clock = f"{np.median(self.seconds):.2g}" if self.seconds else "-"
        firm_of = f"{int(firm.sum())} of {errors.size}"
        return [firm_of, sure, worst, within, str(self.phantoms), cost, clock, "; ".join(self.left_out)]


class Sensing(agf.Problem):
    """Matrix sensing, f_n = sum_i u_i . A_n u_i with random symmetric A_n, no linear network."""

    name = "sensing"
    degree = 2
    width, n_params, count = 3, 4, 60

    def __init__(self, seed: int) -> None:
        a = np.random.default_rng(seed).standard_normal((self.count, self.n_params, self.n_params))
        self.forms = a + a.transpose(0, 2, 1)
        self.target = np.einsum("nij,ij->n", self.forms, np.diag([1.0, 0.5, 0.2, 0.0]))

    def residual(self, theta: Any, neurons: Any) -> Any:
        return self.target - np.einsum("nij,hi,hj->n", self.forms, theta, theta)

    def utility(self, theta: Any, neurons: Any, residual: Any) -> tuple[Any, Any]:
        pull = np.einsum("n,nij,hj->hi", residual, self.forms, theta) / self.count
        return np.sum(pull * theta, axis=1), 2 * pull

    def loss_grad(self, theta: Any, neurons: Any) -> tuple[float, Any]:
        r = self.residual(theta, neurons)
        return 0.5 * float(r @ r) / self.count, -self.utility(theta, neurons, r)[1]


def _sensing(seed: int) -> tuple[Any, agf.Init]:
    problem = Sensing(seed)
    return problem, problem.init(1e-8, seed=seed)


def _gradients(stats: dict[str, float]) -> float:
    return float(sum(value for name, value in stats.items() if name.endswith("evaluations")))


def _relu(width: int) -> Maker:
    def make(seed: int) -> tuple[Any, agf.Init]:
        problem = agf.problem("relu", **{**find("relu").example(), "width": width})
        return problem, problem.init(1e-6, seed=seed)

    return make


def _table(name: str, alpha: float, **options: Any) -> Maker:
    """A network on standard normal inputs: targets of rank three with singular values apart, and noise."""

    def make(seed: int) -> tuple[Any, agf.Init]:
        rng = np.random.default_rng(100 + seed)
        x = rng.standard_normal((60, 5))
        maps = [np.linalg.qr(rng.standard_normal((5, 3)))[0] for _ in range(2)]
        y = x @ (maps[0] * [2.0, 1.0, 0.4]) @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
        y += 0.1 * rng.standard_normal(y.shape)
        if name == "linear":
            problem = agf.problem("linear", X=x, Y=y, **options)
        else:
            target = y[:, 0] if name != "quadratic" else (x @ maps[1][:, :2]) ** 2 @ [1.0, 0.4]
            problem = agf.TwoLayer(x, y if name == "identity" else target, **options)
        return problem, problem.init(alpha, seed=seed)

    return make


def _plain(name: str, alpha: float, **options: Any) -> Maker:
    def make(seed: int) -> tuple[Any, agf.Init]:
        arguments = {**find(name).example(), **options}
        problem = agf.problem(name, **arguments)
        return problem, problem.init(alpha, seed=seed)

    return make


SYSTEMS: dict[str, tuple[Maker, int]] = {
    "linear, 1e-6": (_table("linear", 1e-6), 3),
    "linear attention, 1e-2": (_plain("linear-attention", 1e-2), 2),
    "modular addition p = 20, 1e-2": (_plain("modular-addition", 1e-2, p=20), 3),
    "gaussian teacher, 1e-4": (_plain("gaussian-teacher", 1e-4), 3),
    "own linear, 1e-8": (_table("identity", 1e-8, activation="linear", width=6), 3),
    "matrix sensing, 1e-8": (_sensing, 3),
    "own tanh, 1e-4": (_table("tanh", 1e-4, activation="tanh", width=6), 3),
    "own gelu, 1e-4": (_table("gelu", 1e-4, activation="gelu", width=6), 3),
    "own square, 1e-4": (_table("quadratic", 1e-4, activation="square", width=6), 3),
    "own leaky ReLU, 1e-4": (_table("leaky", 1e-4, activation="leaky-relu", width=6), 3),
    **{f"relu, digits, width {width}, 1e-6": (_relu(width), 2) for width in (1, 2, 3, 5, 10, 20, 50)},
}
HEAD = ["system", "reproducible", "their worst", "worst", "within", "phantom", "gradients", "CPU", "left out"]
PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
BLOCK = re.compile(r"(<!-- systems -->\n).*?(<!-- end of systems -->)", re.DOTALL)


def write(rows: dict[str, list[str]]) -> None:
    """Put rows into the table of the page, in the order of `SYSTEMS`; those of other systems stay."""
    text = PAGE.read_text()
    found = BLOCK.search(text)
    lines = found.group(0).splitlines()[3:-1] if found else []
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    known = {row[0]: row[1:] for row in cells}
    table = [(name, {**known, **rows}[name]) for name in SYSTEMS if name in known or name in rows]
    body = [HEAD, ["---"] * len(HEAD), *[[name, *row] for name, row in table]]
    block = "".join("| " + " | ".join(row) + " |\n" for row in body)
    PAGE.write_text(BLOCK.sub(lambda match: match[1] + block + match[2], text))


def main() -> int:
    parser = argparse.ArgumentParser(prog="audit.systems", description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--mode", default="auto")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds for one computation")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    print("  ".join(HEAD))
    for name, (make, seeds) in SYSTEMS.items():
        if options.only not in name:
            continue
        row = Row()
        for seed in range(seeds):
            try:
                row.add(*make(seed), options.budget, options.mode)
            except OutOfTimeError:
                row.left_out.append(f"seed {seed}: out of time")
            except agf.RequestError as error:
                row.left_out.append(f"seed {seed}: {error}")
        cells = row.text()
        print("  ".join([name, *cells]), flush=True)
        if options.page:
            write({name: cells})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
