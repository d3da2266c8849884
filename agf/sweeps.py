"""Many runs: the product of settings, computed once each, in a folder that survives kills and may be shared.

A sweep is a folder. `sweep.json` says what it is; `rows/CHUNK.jsonl` holds one line a finished run, appended
at once; `runs/` holds the run files. A chunk is a block of seeds at one combination of the other settings; a process
computes it under a file lock that the operating system releases when the process dies, so nothing is computed twice and
a killed sweep goes on where it stopped. There is no scheduler here: joblib runs the chunks, locally or on a Dask
cluster.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from agf import files, ledger, provenance, registry
from agf.contract import Problem
from agf.errors import AgfError, ComputationError, FileError, RequestError, explain
from agf.init import Init
from agf.settings import Settings
from agf.status import Status

FORMAT = "agf-sweep"
VERSION = 1
ACTIONS = ("predict", "train", "compare")
#: Seeds a chunk: large enough to batch, small enough to share and to show progress.
CHUNK = 32
_INIT_AXES = ("alpha", "seed", "kind")
_SETTINGS_AXES = tuple(item.name for item in fields(Settings))


@dataclass(frozen=True)
class Plan:
    """What to run.

    problem : registered name, or path.py:Class.  arguments : fixed constructor arguments (data among them).
    axes : name -> values, in order: alpha, seed, kind, any field of `Settings`, any constructor argument.
    do : which of "predict", "train", "compare".  flow : options of `agf.flow`.
    keep_files : whether run files are written besides the table.
    """

    problem: str
    axes: dict[str, list[Any]]
    arguments: dict[str, Any] = field(default_factory=dict)
    do: tuple[str, ...] = ("predict",)
    flow: dict[str, Any] = field(default_factory=dict)
    keep_files: bool = True

    def __post_init__(self) -> None:
        where = "sweep"
        for action in self.do:
            if action not in ACTIONS:
                raise RequestError(explain(f"unknown action {action!r}.", where=where, expected=", ".join(ACTIONS)))
        if not self.do:
            raise RequestError(explain("nothing to do.", where=where, expected="one of " + ", ".join(ACTIONS)))
        if "alpha" not in self.axes:
            raise RequestError(explain("no alpha given.", where=where, remedy="For example --alpha 1e-2,1e-4."))
        for name, values in self.axes.items():
            if not values:
                raise RequestError(explain(f"the range of `{name}` is empty.", where=where))
            if len({_canonical(value) for value in values}) != len(values):
                raise RequestError(explain(f"the range of `{name}` has repeated values.", where=where))
            if name in self.arguments:
                raise RequestError(explain(f"`{name}` is given both as fixed and as an axis.", where=where))

    def identity(self) -> dict[str, Any]:
        """What must not change between start and resume. Values of the axes may be added to, their names not."""
        return {
            "problem": self.problem,
            "fingerprint": provenance.fingerprint(self.arguments),
            "axes": sorted(self.axes),
            "do": list(self.do),
            "flow": files.jsonable(self.flow),
        }

    def runs(self) -> list[dict[str, Any]]:
        """Every combination, the last axis fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values())]

    def chunks(self) -> dict[str, list[dict[str, Any]]]:
        """Runs grouped by chunk name: same settings but for a block of seeds. Independent of the ranges asked for."""
        out: dict[str, list[dict[str, Any]]] = {}
        for run in self.runs():
            seed = run.get("seed", 0)
            rest = {name: value for name, value in run.items() if name != "seed"}
            out.setdefault(_digest({**rest, "block": int(seed) // CHUNK}), []).append(run)
        return out


def reopen(folder: str | os.PathLike[str]) -> Sweep:
    """The sweep in a folder with every run that was asked for in it, to read. Raises FileError when it is none."""
    marker = Path(folder) / "sweep.json"
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
        known = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((Path(folder) / "asked").iterdir())]
    except (OSError, json.JSONDecodeError):
        raise FileError(explain(f"{str(folder)!r} is no sweep.", expected="a folder written by agf sweep")) from None
    axes: dict[str, list[Any]] = {}
    for asked in known:
        for name, values in asked.items():
            axes.setdefault(name, []).extend(value for value in values if value not in axes.get(name, []))
    return Sweep(Path(folder), Plan(found["problem"], axes, {}, tuple(found["do"]), found["flow"]))


def key(run: Mapping[str, Any]) -> str:
    """Name of a run: a digest of its settings, the same in every process and every sweep that asks for it."""
    return _digest(dict(run))


def _canonical(value: Any) -> str:
    return json.dumps(files.jsonable(value), sort_keys=True)


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(values).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Sweep:
    """A sweep's folder and the runs asked for; reads what is finished."""

    folder: Path
    plan: Plan

    def entries(self) -> Iterator[dict[str, Any]]:
        """Finished runs in the order of the plan, one dict each; memory is bounded by one chunk."""
        for name, runs in self.plan.chunks().items():
            finished = ledger.finished(_rows(self.folder, name))
            for run in runs:
                if key(run) in finished:
                    yield finished[key(run)]

    def missing(self) -> int:
        """How many of the runs asked for are not finished."""
        return len(self.plan.runs()) - sum(1 for _ in self.entries())

    def failures(self) -> list[tuple[dict[str, Any], str]]:
        """Settings and message of every run that failed."""
        return [(entry["run"], entry["error"]) for entry in self.entries() if entry["error"]]

    def table(self) -> Iterator[dict[str, Any]]:
        """The tidy table: one row a run and drop (k = 0 is the start), see `columns`."""
        for entry in self.entries():
            yield from _tidy(entry)

    def columns(self) -> list[str]:
        """Names of the table's columns."""
        return ["run", *self.plan.axes, *_COLUMNS]

    def write_table(self, path: str | os.PathLike[str]) -> Path:
        """Write the table as `.csv`, or `.parquet` (needs pandas and pyarrow). The same runs give the same bytes."""
        target = Path(path)
        if target.suffix == ".parquet":
            buffer = io.BytesIO()
            self.to_frame().to_parquet(buffer, index=False)
            with files.atomic(target) as handle:
                handle.write(buffer.getvalue())
            return target
        if target.suffix != ".csv":
            raise RequestError(explain(f"unknown table format {target.name!r}.", expected="a .csv or .parquet name"))
        with files.atomic(target, "w") as handle:
            writer = csv.DictWriter(handle, self.columns(), lineterminator="\n", restval="")
            writer.writeheader()
            for row in self.table():
                writer.writerow({name: _cell(value) for name, value in row.items()})
        return target

    def to_frame(self) -> Any:
        """The table as a pandas DataFrame. Raises RequestError when pandas is not installed."""
        try:
            import pandas as pd
        except ImportError:
            raise RequestError(explain("this needs pandas.", remedy="pip install 'agf[frames]'")) from None
        return pd.DataFrame(list(self.table()), columns=self.columns())


_COLUMNS = (
    "source", "k", "time", "half_time", "accelerated_time", "level", "label", "neurons", "collapsed",
    "observed_time", "time_error", "level_error", "status", "error",
)  # fmt: skip


def _cell(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


def _tidy(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    base = {"run": entry["key"], **entry["run"], "status": "", "error": entry["error"]}
    if entry["error"]:
        yield {**base, "source": "", "k": 0}
        return
    if "predict" in entry:
        doc = entry["predict"]
        matches = {match["k"]: match for match in entry.get("compare", [])}
        yield {
            **base, "source": "predict", "k": 0, "time": 0.0, "half_time": 0.0, "accelerated_time": 0.0,
            "level": doc["start_level"], "label": "start", "status": doc["status"],
        }  # fmt: skip
        for k, drop in enumerate(doc["drops"], 1):
            row = {
                **base, "source": "predict", "k": k, "status": doc["status"], "label": drop["label"],
                "neurons": " ".join(map(str, drop["neurons"])), "collapsed": " ".join(map(str, drop["collapsed"])),
            }  # fmt: skip
            for name in ("time", "half_time", "accelerated_time", "level"):
                row[name] = drop[name]
            if k in matches:
                row.update({name: matches[k][name] for name in ("observed_time", "time_error", "level_error")})
            yield row
    if "train" in entry:
        doc = entry["train"]
        for k, drop in enumerate(doc["drops"], 1):
            yield {
                **base, "source": "train", "k": k, "half_time": drop["time"], "level": drop["after"],
                "status": doc["status"],
            }  # fmt: skip


# -- running ------------------------------------------------------------------------------------------------------

Observer = Callable[[int, int, int], None]


def sweep(
    problem: str,
    *,
    folder: str | os.PathLike[str],
    alpha: Iterable[float],
    seed: Iterable[int] = (0,),
    do: Sequence[str] = ("predict",),
    jobs: int = 1,
    dask: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    flow: Mapping[str, Any] | None = None,
    keep_files: bool = True,
    observer: Observer | None = None,
    **axes: Iterable[Any],
) -> Sweep:
    """Run the product of settings, resuming what the folder already has.

    Parameters
    ----------
    problem : registered name, or path.py:Class.
    folder : made when absent; any number of processes may work in it at once.
    alpha, seed, axes : values of each axis; `axes` may name fields of `Settings` (threshold=["natural", "unit"]) and
        constructor arguments (width=[10, 20]).
    do : any of "predict", "train", "compare" ("compare" includes both).
    jobs : processes.  dask : address of a Dask scheduler to use instead.
    arguments : fixed constructor arguments, such as the data.  flow : options of `agf.flow`.
    keep_files : whether run files are written besides the table.
    observer : called as observer(finished, total, failed) as chunks end.

    Returns
    -------
    Sweep. Failures of single runs are recorded in it, not raised.

    Raises
    ------
    RequestError for a wrong request or a folder of another sweep; FileError when the folder cannot be written (what was
    finished stays); ComputationError when workers keep dying.
    """
    plan = Plan(
        problem,
        {"alpha": list(alpha), **{name: list(values) for name, values in axes.items()}, "seed": list(seed)},
        dict(arguments or {}),
        tuple(do),
        dict(flow or {}),
        keep_files,
    )
    return run(plan, folder, jobs=jobs, dask=dask, observer=observer)


def run(
    plan: Plan,
    folder: str | os.PathLike[str],
    *,
    jobs: int = 1,
    dask: str | None = None,
    observer: Observer | None = None,
) -> Sweep:
    """Compute what is missing of `plan` in `folder`; see `sweep`."""
    root = Path(folder)
    _check_axes(plan)
    _claim(root, plan)
    with files.atomic(root / "asked" / f"{_digest(plan.axes)}.json", "w") as handle:
        json.dump(files.jsonable(plan.axes), handle)
    result = Sweep(root, plan)
    tell = observer or (lambda finished, total, failed: None)
    todo = plan.chunks()
    total = len(plan.runs())
    losses = 0
    while True:
        open_chunks = {name: runs for name, runs in todo.items() if _unfinished(root, name, runs)}
        finished = total - sum(len(_unfinished(root, name, runs)) for name, runs in open_chunks.items())
        failed = len(result.failures())
        tell(finished, total, failed)
        if not open_chunks:
            return result
        before = finished
        try:
            for done, bad in _execute(root, plan, open_chunks, jobs, dask):
                finished, failed = finished + done, failed + bad
                tell(finished, total, failed)
        except (BrokenPipeError, EOFError, RuntimeError) as error:
            if isinstance(error, AgfError) or not _is_lost_worker(error):
                raise
            losses = 0 if finished > before else losses + 1
            if losses == 3:
                raise ComputationError(
                    explain(
                        f"workers died three times in a row without finishing a run ({type(error).__name__}).",
                        where=f"sweep {root}",
                        remedy="Finished runs are kept. Check memory, or use fewer jobs, and start again.",
                    ),
                    result,
                ) from error
        if finished == before:
            time.sleep(0.5)  # the rest is being computed by other processes; take over what they leave


def _check_axes(plan: Plan) -> None:
    """Refuse bad axes before anything is computed, by building the first run of every value."""
    import inspect

    cls = registry.find(plan.problem)
    parameters = inspect.signature(cls.__init__).parameters
    settings_names = set(_SETTINGS_AXES) | set(_INIT_AXES)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for name in plan.axes:
        if name not in settings_names and name not in parameters and not open_ended:
            expected = ", ".join(sorted([*settings_names, *list(parameters)[1:]]))
            raise RequestError(explain(f"unknown axis `{name}`.", where="sweep", expected=f"one of {expected}"))
    for name in set(plan.axes) & set(_SETTINGS_AXES):
        for value in plan.axes[name]:
            Settings.of({name: value})
    seeds = plan.axes.get("seed", [0])
    if not all(isinstance(s, int | np.integer) and s >= 0 for s in seeds):
        raise RequestError(explain("seeds must be integers >= 0.", where="sweep", found=seeds))


def _claim(root: Path, plan: Plan) -> None:
    identity = {"format": FORMAT, "version": VERSION, **plan.identity()}
    try:
        if root.exists() and not root.is_dir():
            raise RequestError(explain(f"{str(root)!r} is a file.", where="sweep", expected="a folder"))
        marker = root / "sweep.json"
        if not marker.exists():
            if root.exists() and any(not entry.name.startswith(".") for entry in root.iterdir()):
                raise RequestError(
                    explain(f"{str(root)!r} is not empty and not a sweep.", where="sweep", remedy="Name a new folder.")
                )
            for name in ("rows", "runs", "locks", "asked"):
                (root / name).mkdir(parents=True, exist_ok=True)
            with files.atomic(marker, "w") as handle:
                json.dump({**identity, "versions": provenance.versions()}, handle, indent=1)
            return
        found = json.loads(marker.read_text(encoding="utf-8"))
    except json.JSONDecodeError:
        raise FileError(explain(f"{str(root / 'sweep.json')!r} is damaged.", remedy="Name a new folder.")) from None
    except OSError as error:
        raise FileError(explain(f"cannot use the folder {str(root)!r} ({error.strerror}).")) from None
    changed = [name for name, value in identity.items() if found.get(name) != value]
    if changed:
        words = {"fingerprint": "the fixed arguments or data", "axes": "which axes there are"}
        raise RequestError(
            explain(
                f"{str(root)!r} belongs to another sweep; what differs: {', '.join(words.get(n, n) for n in changed)}.",
                where="sweep",
                found="; ".join(f"{n}: {found.get(n)} there, {identity[n]} here" for n in changed),
                remedy="Name a new folder, or repeat the settings it was started with.",
            )
        )


def _is_lost_worker(error: BaseException) -> bool:
    names = {type(error).__name__, type(error.__cause__).__name__}
    return bool(names & {"TerminatedWorkerError", "BrokenProcessPool", "KilledWorker", "BrokenPipeError", "EOFError"})


def _execute(
    root: Path, plan: Plan, chunks: dict[str, list[dict[str, Any]]], jobs: int, dask: str | None
) -> Iterator[tuple[int, int]]:
    from joblib import Parallel, delayed, parallel_config

    if jobs == 1 and dask is None:
        for name, runs in chunks.items():
            yield _chunk(root, plan, name, runs)
        return
    tasks = [delayed(_chunk)(root, plan, name, runs) for name, runs in chunks.items()]
    if dask is None:
        with parallel_config("loky", inner_max_num_threads=1):
            yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)
        return
    try:
        from distributed import Client
    except ImportError:
        raise RequestError(explain("this needs dask.", remedy="pip install 'agf[cluster]'")) from None
    try:
        client = Client(dask, timeout="10s")
    except (OSError, ValueError) as error:
        raise RequestError(explain(f"no Dask scheduler answers at {dask!r} ({error}).", where="sweep")) from None
    with client, parallel_config("dask"):
        yield from Parallel()(tasks)


def _rows(root: Path, name: str) -> Path:
    return root / "rows" / f"{name}.jsonl"


def _unfinished(root: Path, name: str, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    finished = ledger.finished(_rows(root, name))
    return [item for item in runs if key(item) not in finished]


# -- one chunk, in a worker ---------------------------------------------------------------------------------------


def _chunk(root: Path, plan: Plan, name: str, runs: list[dict[str, Any]]) -> tuple[int, int]:
    """Compute the unfinished runs of one chunk; returns how many finished and how many of them failed.

    (0, 0) when another process holds the chunk.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(root / "locks" / f"{name}.lock", timeout=0)
    try:
        with lock:
            todo = _unfinished(root, name, runs)
            if not todo:
                return 0, 0
            done = failed = 0
            with ledger.Appending(_rows(root, name)) as append:
                for entry in _compute(root, plan, todo):
                    append(entry)
                    done += 1
                    failed += bool(entry["error"])
            return done, failed
    except Timeout:
        return 0, 0


def _compute(root: Path, plan: Plan, runs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Entries of runs that share everything but the seed."""
    from agf.engine import predict_many

    first = runs[0]
    arguments = {k: v for k, v in first.items() if k not in _INIT_AXES and k not in _SETTINGS_AXES}
    settings = {k: v for k, v in first.items() if k in _SETTINGS_AXES}
    try:
        problem = registry.build(registry.find(plan.problem), {**plan.arguments, **arguments})
        inits = [_init(problem, item) for item in runs]
    except Exception as error:  # recorded per run: one bad combination must not end the sweep
        for item in runs:
            yield _entry(item, error=error)
        return
    stairs: Sequence[Any] = [None] * len(runs)
    if {"predict", "compare"} & set(plan.do):
        try:
            stairs = predict_many(problem, inits, **settings)
        except Exception:  # one of them failed: find out which
            stairs = [_alone(problem, init, settings) for init in inits]
    for item, init, prediction in zip(runs, inits, stairs, strict=True):
        try:
            if isinstance(prediction, Exception):
                raise prediction
            yield _finish(root, plan, problem, item, init, prediction)
        except FileError:
            raise
        except Exception as error:
            yield _entry(item, error=error)


def _alone(problem: Problem, init: Init, settings: dict[str, Any]) -> Any:
    """The prediction, or the exception that it raised."""
    from agf.engine import predict

    try:
        stairs = predict(problem, init, **settings)
    except Exception as error:
        return error
    if stairs.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return stairs


def _init(problem: Problem, item: dict[str, Any]) -> Init:
    options = {"kind": item["kind"]} if "kind" in item else {}
    return problem.init(item["alpha"], int(item.get("seed", 0)), **options)


def _finish(root: Path, plan: Plan, problem: Problem, item: dict[str, Any], init: Any, stairs: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    results: dict[str, Any] = {}
    if stairs is not None:
        document = stairs.to_dict()
        parts["predict"] = {
            "drops": document["drops"], "status": document["status"], "start_level": stairs.start_level,
            "degree": stairs.degree, "clock_scale": document["clock_scale"],
        }  # fmt: skip
        results["predict"] = stairs
    if {"train", "compare"} & set(plan.do):
        from agf.gradient_flow import flow

        trajectory = flow(problem, init, **plan.flow)
        if trajectory.status is Status.INTERRUPTED:
            raise KeyboardInterrupt  # half a run is no row
        parts["train"] = {
            "drops": [{"time": d.time, "after": d.after} for d in trajectory.drops],
            "status": trajectory.status.word,
        }
        results["train"] = trajectory
        if "compare" in plan.do:
            from agf.comparison import compare

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
