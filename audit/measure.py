"""What the package says about one table, against the reference."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import agf
from audit import reference
from audit.reference import Flow
from audit.tables import Table

#: The modes of prediction that are audited, where the installed package has them.
MODES = ("agf", "resolved", "auto")
#: CPU seconds for one computation; to take longer is an ending of its own.
BUDGET = 20.0


class OutOfTimeError(BaseException):
    """Not an Exception: nothing that is audited may catch it."""


@contextmanager
def budget(seconds: float = BUDGET) -> Iterator[None]:
    """Raise OutOfTimeError after so many CPU seconds."""

    def stop(*_: object) -> None:
        raise OutOfTimeError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def record(table: Table, alpha: float, code: str) -> dict[str, Any]:
    """The record of one table, however it ends; `code` says what was audited."""
    try:
        found = measure(table, alpha)
    except (ArithmeticError, OutOfTimeError) as error:
        found = {"failed": f"reference: {str(error) or 'out of time'}"}
    return {"name": table.name, "shape": list(table.X.shape), "alpha": alpha, "code": code, **found}


def measure(table: Table, alpha: float) -> dict[str, Any]:
    """One plain record; errors are relative, and a computation that raises is an ending of its own."""
    with budget():
        truth = reference.flow(table.X, table.y, alpha)
    problem = agf.problem("diagonal-linear", X=table.X, y=table.y)
    init = problem.init(alpha)
    record: dict[str, Any] = {
        "start": truth.data.start,
        "minimum": truth.data.minimum,
        "reference": {"evaluations": truth.evaluations, "end": float(truth.times[-1]), "whole": truth.whole},
        "theory": _theory(problem, table),
        "flow": _flow(problem, init, truth, reference.limit(table.X, table.y)[1]),
    }
    for mode in modes():
        record[mode] = _prediction(problem, init, truth, mode)
    return record


def modes() -> list[str]:
    """Those of `MODES` that the package knows."""
    known = []
    for mode in MODES:
        try:
            agf.Settings(mode=mode)
        except agf.RequestError:
            continue
        known.append(mode)
    return known


def _theory(problem: Any, table: Table) -> dict[str, Any]:
    """Largest relative difference of times and levels from the independent recursion."""
    times, levels = reference.limit(table.X, table.y)
    try:
        with budget():
            stairs = problem.theory()
    except (Exception, OutOfTimeError) as error:
        return {"status": _named(error), "error": np.inf}
    mine = stairs.accelerated_times[1:]
    if mine.size != times.size:
        return {"status": f"{mine.size} drops, not {times.size}", "error": np.inf}
    gap = np.max(np.abs(mine / times - 1.0), initial=0.0)
    fall = np.max(np.abs(stairs.levels[1:] - levels), initial=0.0) / stairs.start_level
    return {"status": stairs.status.word, "error": float(max(gap, fall))}


def _flow(problem: Any, init: Any, truth: Flow, levels: np.ndarray) -> dict[str, Any]:
    """How the trainer ended, what it left, and its largest error at the middles of the limit's drops."""
    began = time.process_time()
    try:
        with budget():
            run = agf.flow(problem, init)
    except (Exception, OutOfTimeError) as error:
        return {"status": _named(error), "seconds": time.process_time() - began}
    steps = np.concatenate([[truth.data.start], levels])
    errors = []
    for middle in 0.5 * (steps[:-1] + steps[1:]):
        right, found = truth.passes(middle), run.time_at(middle)
        if np.isfinite(right) and np.isfinite(found):
            errors.append(abs(found / right - 1.0))
    return {
        "status": run.status.word,
        "seconds": time.process_time() - began,
        "gradients": _gradients(run.stats),
        "end": float(run.times[-1]),
        "left": max(float(run.losses[-1]) - truth.data.minimum, 0.0) / truth.data.start,
        "error": float(max(errors, default=0.0)),
    }


def _prediction(problem: Any, init: Any, truth: Flow, mode: str) -> dict[str, Any]:
    """How a prediction ended, and every drop against the truth: half-drop times at its own middles, levels."""
    began = time.process_time()
    try:
        with budget():
            stairs = agf.predict(problem, init, mode=mode)
    except (Exception, OutOfTimeError) as error:
        return {"status": _named(error), "seconds": time.process_time() - began, "drops": []}
    seconds = time.process_time() - began
    levels = stairs.levels
    true = [truth.passes(middle) for middle in 0.5 * (levels[:-1] + levels[1:])]
    drops = []
    for k, (drop, right) in enumerate(zip(stairs.drops, true, strict=True)):
        last = k + 1 == len(true)  # its level is where the flow ends: on the way there nothing is as flat
        after = truth.times[-1] if last else true[k + 1]
        seen = np.isfinite(right) and np.isfinite(after) and after > right
        level = (truth.loss(after) if last else truth.flattest(right, after)) if seen else np.nan
        drops.append(
            {
                "time": drop.half_time,
                "true": right,
                "error": drop.half_time / right - 1.0 if np.isfinite(right) and right > 0 else np.nan,
                "bar": getattr(drop, "error", np.nan),
                "fall": float(levels[k] - levels[k + 1]) / truth.data.start,
                "level_error": (drop.level - level) / truth.data.start,
                "level_bar": getattr(drop, "level_error", np.nan),
            }
        )
    return {
        "status": stairs.status.word,
        "seconds": seconds,
        "gradients": _gradients(stairs.stats),
        "left": max(float(levels[-1]) - truth.data.minimum, 0.0) / truth.data.start,
        "drops": drops,
    }


def _gradients(stats: dict[str, float]) -> float:
    """Evaluations of a gradient: of the loss, of the velocity, of utilities."""
    return float(sum(value for name, value in stats.items() if name.endswith("evaluations")))


def _named(error: BaseException) -> str:
    return "out of time" if isinstance(error, OutOfTimeError) else f"raised {type(error).__name__}"
