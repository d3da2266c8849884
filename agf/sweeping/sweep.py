"""Many runs: the product of settings, computed once each, in a folder that survives kills and may be shared.

A sweep is a folder. `sweep.json` says what it is; `rows/CHUNK.jsonl` holds one line a finished run, appended
at once; `runs/` holds the run files. A chunk is a block of seeds at one combination of the other settings; a process
computes it under a file lock that the operating system releases when the process dies, so nothing is computed twice and
a killed sweep goes on where it stopped. There is no scheduler here: joblib runs the chunks, or a Dask cluster.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agf.asked import asked
from agf.errors import ComputationError, FileError, RequestError, explain
from agf.records import files, provenance, schema
from agf.records.table import Table, counted, one_line
from agf.sweeping import journal
from agf.sweeping.chunk import compute, failure, rows, unfinished
from agf.sweeping.plan import MOST, Plan, digest, key, marked
from agf.sweeping.progress import Count, Observer
from agf.sweeping.watch import end_with

__all__ = ["Observer", "Plan", "Sweep", "key", "reopen", "run", "sweep"]

FORMAT = "agf-sweep"
#: Version of the folder of a sweep. Limit: one of another is refused.
VERSION = 1


def reopen(folder: str | os.PathLike[str]) -> Sweep:
    """The sweep in a folder with every run that was asked for in it, to read.

    Raises
    ------
    FileError
        When it is none.
    """
    try:
        found = _read(Path(folder) / _MARKER, schema.SWEEP)
        known = [
            _read(path, schema.AXES)
            for name in (_PLANS, *_FORMER)
            for path in sorted((Path(folder) / name).glob("[!.]*.json"))
        ]
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, RequestError):
            raise
        why = str(error) if isinstance(error, schema.Wrong) else None
        raise FileError(
            explain(f"{str(folder)!r} is no sweep.", found=why, expected="a folder written by agf sweep")
        ) from None
    axes: dict[str, list[Any]] = {}
    for planned in known:
        for name, values in planned.items():
            axes.setdefault(name, []).extend(value for value in values if value not in axes.get(name, []))
    return Sweep(Path(folder), Plan(found["problem"], axes, {}, tuple(found["do"]), found["flow"]))


@dataclass(frozen=True, repr=False)
class Sweep:
    """A sweep's folder and the runs asked for; reads what is finished."""

    folder: Path
    plan: Plan

    def __repr__(self) -> str:
        runs = counted(len(self.plan.runs()), "run")
        return one_line(f"<Sweep of {self.plan.problem}, {runs}, in {str(self.folder)!r}>")

    def _repr_html_(self) -> str:
        """What varies, and how far it is."""
        rows = [[name, str(len(values)), ", ".join(map(str, values[:8])) + ", ..." * (len(values) > 8)]
                for name, values in self.plan.axes.items()]  # fmt: skip
        runs = len(self.plan.runs())
        done = f"{runs - self.missing():,} of {runs:,} runs are finished; `agf summarize` tells what came out."
        return Table(
            f"Sweep of {self.plan.problem} in {self.folder}", ["setting", "values", "which"], rows, [done]
        ).html()

    def entries(self) -> Iterator[dict[str, Any]]:
        """Finished runs in the order of the plan, one dict each; memory is bounded by one chunk."""
        for name, runs in self.plan.chunks().items():
            finished = journal.finished(rows(self.folder, name))
            for run in runs:
                if key(run) in finished:
                    yield finished[key(run)]

    def missing(self) -> int:
        """How many of the runs asked for are not finished."""
        return len(self.plan.runs()) - sum(1 for _ in self.entries())

    def failures(self) -> list[tuple[dict[str, Any], str]]:
        """Settings and message of every run that failed: that raised, or ended in a status that is a failure."""
        return [(entry["run"], message) for entry in self.entries() if (message := failure(entry))]

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
        """The table as a pandas DataFrame: a row a run and drop.

        * `run`: key of the run: a digest of its settings; then a column for each setting that varies
        * `source`: `predict`, or `train` for a drop seen in the curve; empty for a run that failed
        * `k`: number of the drop, from 1; 0 is the start
        * `time`: flow time of the switch
        * `half_time`: flow time at which the loss has fallen half-way
        * `accelerated_time`: `time` over the unit of accelerated time
        * `level`: loss on the plateau after it
        * `label`: what was learned
        * `neurons`: indices of the neurons that became active, joined by blanks
        * `collapsed`: indices of those that returned to dormancy, likewise
        * `observed_time`: where the run was compared: flow time at which the curve makes the drop
        * `time_error`: predicted over observed time, minus 1
        * `level_error`: predicted minus observed level, over the loss of the zero function
        * `status`: why the prediction or the training ended
        * `error`: what was raised, for a run that failed

        Returns
        -------
        pandas.DataFrame
            What does not apply is NaN or empty.

        Raises
        ------
        RequestError
            When pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise RequestError(explain("this needs pandas.", remedy="pip install pandas pyarrow")) from None
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


@asked
def sweep(
    problem: str,
    *,
    folder: str | os.PathLike[str],
    alpha: Iterable[float] | None = None,
    seed: Iterable[int] = (0,),
    kind: Iterable[str] | None = None,
    init: Iterable[str | os.PathLike[str]] | None = None,
    mode: Iterable[str] | None = None,
    threshold: Iterable[str] | None = None,
    settle: Iterable[str] | None = None,
    horizon: Iterable[float] | None = None,
    rtol: Iterable[float] | None = None,
    tie_rtol: Iterable[float] | None = None,
    joining: Iterable[float] | None = None,
    max_drops: Iterable[int] | None = None,
    t_max: Iterable[float] | None = None,
    max_gradients: Iterable[float] | None = None,
    conditioning: Iterable[bool] | None = None,
    do: Sequence[str] = ("predict",),
    jobs: int = 1,
    dask: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    flow: Mapping[str, Any] | None = None,
    keep_files: bool = True,
    observer: Observer | None = None,
    **parameters: Iterable[Any],
) -> Sweep:
    """Run the product of settings, resuming what the folder already has.

    Parameters
    ----------
    problem : str
        Registered name, or path.py:Class.
    folder : str or os.PathLike[str]
        Made when absent; any number of processes may work in it at once.
    alpha : Iterable[float], optional
        Scales of the initialization, one axis of the product, as are all up to `do` that are given.
    seed : Iterable[int], optional
        Seeds of the initialization.
    kind : Iterable[str], optional
        Kinds of initialization.
    init : Iterable[str or os.PathLike], optional
        Files of weights to start from (npz with the array `theta`, or of torch), in place of alpha, seed and kind.
    mode : Iterable[str], optional
        Values of that option of `agf.predict`.
    threshold : Iterable[str], optional
        Values of that option of `agf.predict`.
    settle : Iterable[str], optional
        Values of that option of `agf.predict`.
    horizon : Iterable[float], optional
        Values of that option of `agf.predict`.
    rtol : Iterable[float], optional
        Values of that option of `agf.predict`.
    tie_rtol : Iterable[float], optional
        Values of that option of `agf.predict`.
    joining : Iterable[float], optional
        Values of that option of `agf.predict`.
    max_drops : Iterable[int], optional
        Values of that option of `agf.predict`.
    t_max : Iterable[float], optional
        Values of that option of `agf.predict`.
    max_gradients : Iterable[float], optional
        Values of that option of `agf.predict`.
    conditioning : Iterable[bool], optional
        Values of that option of `agf.predict`.
    do : Sequence[str], optional
        Any of "predict", "train", "compare" ("compare" includes both).
    jobs : int, optional
        Processes.
    dask : str or None, optional
        Address of a Dask scheduler to use instead.
    arguments : Mapping[str, Any] or None, optional
        Fixed constructor arguments, such as the data.
    flow : Mapping[str, Any] or None, optional
        Options of `agf.flow`.
    keep_files : bool, optional
        Whether run files are written besides the table.
    observer : Observer or None, optional
        Called as observer(finished, total, failed) as runs end, from another thread too.
    parameters : Iterable[Any]
        Values of constructor arguments of the problem, as in width=[10, 20].

    Returns
    -------
    Sweep
        Failures of single runs are recorded in it, not raised. Seeds that change nothing are a warning.

    Raises
    ------
    RequestError
        For a wrong request or a folder of another sweep.
    FileError
        When the folder cannot be written: what was finished stays.
    ComputationError
        When workers keep dying.
    """
    given = {
        "kind": kind, "mode": mode, "threshold": threshold, "settle": settle, "horizon": horizon, "rtol": rtol,
        "tie_rtol": tie_rtol, "joining": joining, "max_drops": max_drops, "t_max": t_max,
        "max_gradients": max_gradients, "conditioning": conditioning, **parameters,
    }  # fmt: skip
    axes = {name: _listed(name, values) for name, values in given.items() if values is not None}
    if init is None:
        axes = {"alpha": _listed("alpha", () if alpha is None else alpha), **axes, "seed": _listed("seed", seed)}
    else:
        axes = {"init": [marked(path) for path in init], **axes}
        axes |= {} if alpha is None else {"alpha": _listed("alpha", alpha)}
    plan = Plan(
        problem,
        axes,
        dict(arguments or {}),
        tuple(do),
        dict(flow or {}),
        keep_files,
    )
    if idle := plan.idle_seeds():
        warnings.warn(idle, stacklevel=2)
    return run(plan, folder, jobs=jobs, dask=dask, observer=observer)


def _listed(name: str, values: Iterable[Any]) -> list[Any]:
    """The values of an axis, unless they are too many to hold."""
    found = list(itertools.islice(values, MOST + 1))
    if len(found) > MOST:
        raise RequestError(explain(f"the range of `{name}` is too long.", where="sweep", expected=f"at most {MOST:,}"))
    return [value.item() if hasattr(value, "detach") else value for value in found]  # of tensors, which no file holds


def run(
    plan: Plan,
    folder: str | os.PathLike[str],
    *,
    jobs: int = 1,
    dask: str | None = None,
    observer: Observer | None = None,
) -> Sweep:
    """Compute what is missing of `plan` in `folder`; see `sweep`."""
    root = Path(folder).absolute()
    plan.check_axes()
    plan.check_problem()
    _claim(root, plan)
    with files.atomic(root / _PLANS / f"{digest(plan.axes)}.json", "w") as handle:
        json.dump(files.jsonable(plan.axes), handle)
    result = Sweep(root, plan)
    todo = plan.chunks()
    count = Count(root, todo, observer)
    losses = 0
    while True:
        open_chunks = {
            name: runs for name, runs in todo.items() if unfinished(root, name, runs)
        }  # refuses damaged rows
        before = count.look()
        if not open_chunks:
            return result
        try:
            with count.watching():
                for _ in _execute(root, plan, open_chunks, jobs, dask):
                    count.look()
        except Exception as error:
            if not _is_lost_worker(error):
                raise
            losses = 0 if count.look() > before else losses + 1
            if losses == 3:
                raise ComputationError(
                    explain(
                        f"workers died three times in a row without finishing a run ({type(error).__name__}).",
                        where=f"sweep {root}",
                        remedy="Finished runs are kept. Check memory, or use fewer jobs, and start again.",
                    ),
                    result,
                ) from error
        if count.look() == before:
            time.sleep(0.5)  # the rest is being computed by other processes; take over what they leave


_MARKER = "sweep.json"
_PLANS = "plans"
_FOLDERS = ("rows", "runs", "locks", _PLANS)
#: Former names of the folder of plans, which is still read.
_FORMER = ("asked",)


def _is_ours(entry: Path) -> bool:
    """Whether something in a folder without a marker may be what a killed start of a sweep left there."""
    return entry.name.startswith(".") or (entry.name in (*_FOLDERS, *_FORMER) and entry.is_dir())


def _read(path: Path, rule: schema.Rule) -> Any:
    """A JSON document of a sweep's folder. Raises ValueError, or OSError, when it is not what it must be."""
    document = json.loads(path.read_text(encoding="utf-8"))
    rule(document, path.name)
    return document


def _claim(root: Path, plan: Plan) -> None:
    """Make the folder of a sweep, or see that it is of this one."""
    from filelock import FileLock

    identity = {"format": FORMAT, "version": VERSION, **plan.identity()}
    fixed = {name: provenance.brief(value) for name, value in plan.arguments.items()}
    try:
        if root.exists() and not root.is_dir():
            raise RequestError(explain(f"{str(root)!r} is a file.", where="sweep", expected="a folder"))
        if not (root / _MARKER).exists():
            if root.exists() and any(not _is_ours(entry) for entry in root.iterdir()):
                raise RequestError(
                    explain(f"{str(root)!r} is not empty and not a sweep.", where="sweep", remedy="Name a new folder.")
                )
            for name in _FOLDERS:
                (root / name).mkdir(parents=True, exist_ok=True)
        with FileLock(root / "locks" / "claim.lock"):  # several processes may start one sweep together
            if not (root / _MARKER).exists():
                with files.atomic(root / _MARKER, "w") as handle:
                    json.dump({**identity, "arguments": fixed, "versions": provenance.versions()}, handle, indent=1)
            found = _read(root / _MARKER, schema.SWEEP)
        (root / _PLANS).mkdir(exist_ok=True)  # a sweep of before has it under its former name
        for folder in (root, root / _PLANS, root / "runs"):
            files.remove_parts(folder)
    except (ValueError, RecursionError) as error:
        if isinstance(error, RequestError):
            raise
        why = f"{str(root / _MARKER)!r} is damaged ({error})."
        raise FileError(explain(why, remedy="Name a new folder.")) from None
    except OSError as error:
        raise FileError(explain(f"cannot use the folder {str(root)!r} ({error.strerror}).")) from None
    changed = [name for name, value in identity.items() if found.get(name) != value]
    if changed:
        words = {"fingerprint": "the fixed arguments or data", "axes": "which axes there are"}
        differ = [(name, found.get(name), identity[name]) for name in changed if name != "fingerprint"]
        if "fingerprint" in changed:
            there = found.get("arguments", {})
            named = [name for name in {**there, **fixed} if there.get(name) != fixed.get(name)]
            differ += [(name, there.get(name, "not given"), fixed.get(name, "not given")) for name in named]
        raise RequestError(
            explain(
                f"{str(root)!r} belongs to another sweep; what differs: {', '.join(words.get(n, n) for n in changed)}.",
                where="sweep",
                found="; ".join(f"{name}: {there} there, {here} here" for name, there, here in differ),
                remedy="Name a new folder, or repeat the settings it was started with.",
            )
        )


#: Exceptions of joblib and Dask that say that a worker died, by name: their modules are imported only where used.
_LOST = {
    "TerminatedWorkerError", "BrokenProcessPool", "BrokenPipeError", "EOFError",
    "KilledWorker", "CancelledError", "FutureCancelledError", "FuturesCancelledError", "CommClosedError",
}  # fmt: skip


def _is_lost_worker(error: BaseException) -> bool:
    return bool(_LOST & {type(error).__name__, type(error.__cause__).__name__})


def _execute(
    root: Path, plan: Plan, chunks: dict[str, list[dict[str, Any]]], jobs: int, dask: str | None
) -> Iterator[tuple[int, int]]:
    """Work on the chunks; a word as each ends: how many of its runs finished, and how many of them failed."""
    if dask is not None:
        yield from _on_dask(root, plan, chunks, dask)
    elif jobs == 1:
        for name, runs in chunks.items():
            yield compute(root, plan, name, runs)
    else:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config("loky", inner_max_num_threads=1, initializer=end_with, initargs=(os.getpid(),)):
            tasks = [delayed(compute)(root, plan, name, runs) for name, runs in chunks.items()]
            yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)


def _on_dask(
    root: Path, plan: Plan, chunks: dict[str, list[dict[str, Any]]], address: str
) -> Iterator[tuple[int, int]]:
    """One task a chunk. The plan, with the data, goes to every worker once."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise RequestError(explain("this needs dask.", remedy="pip install dask distributed")) from None
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise RequestError(explain(f"no Dask scheduler answers at {address!r} ({error}).", where="sweep")) from None
    with client:
        shared = client.scatter(plan, broadcast=True, hash=False)
        tasks = [client.submit(compute, root, shared, name, runs, pure=False) for name, runs in chunks.items()]
        for _, found in as_completed(tasks, with_results=True):
            yield found
