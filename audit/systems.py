"""The other systems: `python -m audit.systems [--only WORD] [--budget SECONDS]`, default predictions against the flow.

The trainer is the truth here (scipy confirms it on tables), where it repeats itself: a drop counts as reproducible if
ten times its tolerance moves its half-drop time by less than a fifth of a percent.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
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
        """Cells of the table."""
        errors, bars, firm = np.array(self.errors), np.array(self.bars), np.array(self.firm, dtype=bool)
        worst = f"{100 * errors.max():.2g} %" if errors.size else "-"
        sure = f"{100 * errors[firm].max():.2g} %" if firm.any() else "-"
        within = f"{int((errors <= bars).sum())}/{errors.size}"
        cost = f"{np.median(self.gradients):.2g}" if self.gradients else "-"
        clock = f"{np.median(self.seconds):.2g}" if self.seconds else "-"
        return [f"{int(firm.sum())}", sure, worst, within, str(self.phantoms), cost, clock, "; ".join(self.left_out)]


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
    "linear 1e-6": (_table("linear", 1e-6), 2),
    "linear attention 1e-2": (_plain("linear-attention", 1e-2), 2),
    "modular addition p = 20, 1e-2": (_plain("modular-addition", 1e-2, p=20), 10),
    "gaussian teacher 1e-4": (_plain("gaussian-teacher", 1e-4), 2),
    "own linear 1e-8": (_table("identity", 1e-8, activation="linear", width=6), 2),
    "own tanh 1e-4": (_table("tanh", 1e-4, activation="tanh", width=6), 2),
    "own gelu 1e-4": (_table("gelu", 1e-4, activation="gelu", width=6), 2),
    "own square 1e-4": (_table("quadratic", 1e-4, activation="square", width=6), 2),
    **{f"relu digits, width {width}, 1e-6": (_relu(width), 2) for width in (1, 2, 3, 5, 10, 20, 50)},
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="audit.systems", description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--mode", default="auto")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds for one computation")
    options = parser.parse_args()
    head = ["", "reproducible", "their worst", "worst", "within", "phantom", "gradients", "CPU", "left out"]
    print("  ".join(head))
    for name, (make, seeds) in SYSTEMS.items():
        if options.only not in name:
            continue
        row = Row()
        for seed in itertools.islice(itertools.count(), seeds):
            try:
                row.add(*make(seed), options.budget, options.mode)
            except OutOfTimeError:
                row.left_out.append(f"seed {seed}: out of time")
            except agf.RequestError as error:
                row.left_out.append(f"seed {seed}: {error}")
        print("  ".join([name, *row.text()]), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
