"""One chunk of a sweep, in whatever process works on it: the runs that share everything but the seed.

A process holds the chunk by a file lock, which the operating system releases when the process dies. A run that fails
becomes an entry with its message, and the others go on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agf.algorithm.prediction import predict_each
from agf.contract.admission import admit
from agf.contract.problem import Problem
from agf.errors import AgfError, FileError
from agf.init import Init
from agf.records.status import Status
from agf.sweeping import journal
from agf.sweeping.plan import Plan, init, key, settings


def rows(root: Path, name: str) -> Path:
    """The file of a chunk's finished runs."""
    return root / "rows" / f"{name}.jsonl"


def unfinished(root: Path, name: str, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of a chunk's runs that no process has finished."""
    finished = journal.finished(rows(root, name))
    return [item for item in runs if key(item) not in finished]


def compute(root: Path, plan: Plan, name: str, runs: list[dict[str, Any]]) -> tuple[int, int]:
    """Compute the unfinished runs of one chunk; returns how many finished and how many of them failed.

    (0, 0) when another process holds the chunk.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(root / "locks" / f"{name}.lock", timeout=0)
    try:
        with lock:
            todo = unfinished(root, name, runs)
            if not todo:
                return 0, 0
            done = failed = 0
            with journal.Appending(rows(root, name)) as append:
                for entry in _entries(root, plan, todo):
                    append(entry)
                    done += 1
                    failed += bool(failure(entry))
            return done, failed
    except Timeout:
        return 0, 0


def failure(entry: dict[str, Any]) -> str:
    """Why a finished run is a failure: what was raised, or the statuses in which it failed; "" where it is none."""
    if entry["error"]:
        return str(entry["error"])
    found = [(entry[part], Status.from_word(entry[part]["status"])) for part in ("predict", "train") if part in entry]
    return " ".join(f"{end.word}: {part.get('ending', end.sentence)}" for part, end in found if end.failed)


def _entries(root: Path, plan: Plan, runs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    try:
        options = settings(runs[0])
        problem = plan.build(runs[0])
        inits = [init(problem, item) for item in runs]
        for start in inits:
            admit(problem, start, "sweep")
    except Exception as error:  # recorded per run: one bad combination must not end the sweep
        for item in runs:
            yield _entry(item, error=error)
        return
    wanted = {"predict", "compare"} & set(plan.do)
    predictions = predict_each(problem, inits, options) if wanted else itertools.repeat(None)
    for item, start, prediction in zip(runs, inits, predictions, strict=False):
        try:
            if isinstance(prediction, Exception):
                raise prediction
            yield _finish(root, plan, problem, item, start, prediction)
        except FileError:
            raise
        except Exception as error:
            yield _entry(item, error=error)


def _finish(root: Path, plan: Plan, problem: Problem, item: dict[str, Any], start: Init, stairs: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    results: dict[str, Any] = {}
    if stairs is not None:
        document = stairs.to_dict()
        parts["predict"] = {
            "drops": document["drops"], "status": document["status"], "ending": stairs.ending,
            "start_level": stairs.start_level, "degree": stairs.degree, "clock_scale": document["clock_scale"],
        }  # fmt: skip
        results["predict"] = stairs
    if {"train", "compare"} & set(plan.do):
        from agf.training.gradient_flow import flow

        trajectory = flow(problem, start, **plan.flow)
        if trajectory.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # half a run is no row
        parts["train"] = {
            "drops": [{"time": d.time, "after": d.after} for d in trajectory.drops],
            "status": trajectory.status.word,
            "ending": trajectory.ending,
        }
        results["train"] = trajectory
        if "compare" in plan.do:
            from agf.results.comparison import compare

            report = compare(stairs, trajectory)
            parts["compare"] = [
                {
                    "k": match.k,
                    "observed_time": match.observed_time,
                    "time_error": match.time_error,
                    "level_error": match.level_error,
                }
                for match in report.matches
            ]
    name = key(item)
    if plan.keep_files:
        for what, result in results.items():
            result.save(root / "runs" / f"{name}-{what}.npz")
    return _entry(item, parts)


def _entry(
    item: dict[str, Any], parts: dict[str, Any] | None = None, error: BaseException | None = None
) -> dict[str, Any]:
    message = (
        "" if error is None else (str(error) if isinstance(error, AgfError) else f"{type(error).__name__}: {error}")
    )
    return {"key": key(item), "run": item, "error": message, **(parts or {})}
