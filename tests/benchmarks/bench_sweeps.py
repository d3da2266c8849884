"""Sweeps: seeds together against one by one, processes and a Dask cluster, overhead, memory, a storm of kills.

    python tests/benchmarks/bench_sweeps.py [together] [scaling] [overhead] [storm]

Ratios are against the baseline named in each table, in the same run; other load on the machine enters both alike.
"""

from __future__ import annotations

import copy
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# One process is the baseline, not one with two threads.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

from sweep_plugin import PLUGIN

import agf
from agf import datasets, registry
from agf.algorithm.prediction import predict_many
from agf.records.table import Table
from agf.sweeping import sweep as sweeps

SEEDS = 1000


def cpu(work: Callable[[], Any]) -> float:
    """Processor seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def wall(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


#: Methods of which one call could serve many seeds.
_SHAREABLE = ("loss_grad", "residual", "utility", "self_interaction")


def watched(problem: agf.Problem) -> tuple[agf.Problem, dict[str, float]]:
    """A copy of the problem that adds up the processor time of each method; a method called by another counts once."""
    spent = dict.fromkeys((*_SHAREABLE, "hessian"), 0.0)
    mine = copy.copy(problem)
    inside: list[str] = []

    def wrap(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            if inside:
                return method(*args)
            inside.append(name)
            start = time.process_time()
            try:
                return method(*args)
            finally:
                spent[name] += time.process_time() - start
                inside.pop()

        return timed

    for name in spent:
        setattr(mine, name, wrap(name, getattr(problem, name)))
    return mine, spent


def together() -> None:
    """1,000 diagonal seeds together and one by one; what sharing could gain for the others, which are looped."""
    problem = agf.problem("diagonal-linear", **datasets.load("diabetes"))
    rows = []
    for count in (32, SEEDS):
        inits = [problem.init(1e-8, seed, kind="gaussian") for seed in range(count)]
        few = inits[: min(count, 100)]
        alone = cpu(lambda few=few: [agf.predict(problem, init, mode="agf") for init in few]) / len(few)
        many = cpu(lambda inits=inits: predict_many(problem, inits, mode="agf")) / count
        rows.append([f"{count}", f"{1e3 * alone:.2f}", f"{1e3 * many:.2f}", f"{alone / many:.1f}"])
    columns = ["seeds", "one by one, ms a seed", "together, ms a seed", "ratio"]
    print(Table("diagonal-linear, diabetes, gaussian, alpha 1e-8 (one by one: 100 at most)", columns, rows).text())

    relu = agf.problem("relu", **{**registry.find("relu").example(), "width": 10})
    cases = [
        ("modular-addition p = 11, alpha 1e-2", agf.problem("modular-addition", p=11), 1e-2),
        ("relu digits, width 10, alpha 1e-4", relu, 1e-4),
    ]
    rows = []
    for name, problem, alpha in cases:
        mine, spent = watched(problem)
        inits = [mine.init(alpha, seed) for seed in (1, 2)]
        total = cpu(lambda mine=mine, inits=inits: [agf.predict(mine, init, mode="agf") for init in inits])
        shareable = sum(spent[method] for method in _SHAREABLE) / total
        parts = [f"{total / len(inits):.2f}", f"{shareable:.0%}", f"{spent['hessian'] / total:.0%}"]
        rows.append([name, f"{len(inits)}", *parts, f"{1 / (1 - shareable):.2f}"])
    columns = ["looped", "seeds", "s a seed", "in shareable calls", "in Hessians", "gain if those calls were free"]
    print(Table("What sharing calls over seeds could gain where predictions are looped", columns, rows).text())


def toy(folder: Path) -> str:
    path = folder / "toy.py"
    path.write_text(PLUGIN)
    return f"{path}:Toy"


def scaling(folder: Path) -> None:
    """The same sweep in one and two processes and on a Dask cluster of two workers, without their start-up.

    Smaller alphas take longer; 16 blocks for two workers leave an uneven end of a few per cent.
    """
    from distributed import LocalCluster

    options = {
        "alpha": [10.0**-k for k in range(2, 18)], "kind": ["gaussian"], "do": ("predict", "train"),
        "keep_files": False, "arguments": datasets.load("diabetes"), "flow": {"t_max": 200.0},
    }  # fmt: skip

    def run(name: str, **how: Any) -> float:
        sweeps.sweep("diagonal-linear", folder=folder / f"{name}-warm", **options, seed=[64], **how)
        return wall(lambda: sweeps.sweep("diagonal-linear", folder=folder / name, **options, seed=range(12), **how))

    one = run("one")
    two = run("two", jobs=2)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        dask = run("dask", dask=cluster.scheduler_address)
    rows = [[name, f"{t:.1f}", f"{one / t:.2f}"] for name, t in (("1 process", one), ("2", two), ("Dask, 2", dask))]
    load = f"Mean load of the machine over the last five minutes: {os.getloadavg()[1]:.1f}."
    print(Table("192 runs in 16 blocks, predict and train", ["workers", "s", "speed-up on 1"], rows, [load]).text())


def overhead(folder: Path) -> None:
    """What a run costs besides itself, and memory, over 10^4 runs of almost no work."""
    count = 10_000
    name = toy(folder)
    problem = agf.problem(name)
    inits = [problem.init(1e-3, seed) for seed in range(1000)]
    bare = cpu(lambda: predict_many(problem, inits, mode="agf")) / len(inits)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = wall(
        lambda: sweeps.sweep(name, folder=folder / "many", alpha=[1e-3], seed=range(count), keep_files=False)
    )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    again = wall(lambda: sweeps.sweep(name, folder=folder / "many", alpha=[1e-3], seed=range(count), keep_files=False))
    rows = [
        ["a run alone, ms", f"{1e3 * bare:.3f}"],
        ["a run in the sweep, ms", f"{1e3 * seconds / count:.3f}"],
        ["finding all of them finished, ms a run", f"{1e3 * again / count:.3f}"],
        ["peak memory before, MB", f"{before / 1024:.0f}"],
        ["peak memory after, MB", f"{after / 1024:.0f}"],
    ]
    print(Table(f"{count} small runs in one process", ["what", "value"], rows).text())


def storm(folder: Path, kills: int = 20) -> None:
    """Kill a sweep 20 times at random moments; its table must be that of an undisturbed one."""
    name = toy(folder)
    options = {"alpha": [1e-3, 1e-6], "seed": range(400), "keep_files": False, "arguments": {"pause": 0.02}}
    code = f"import agf, sys; agf.sweep({name!r}, folder=sys.argv[1], jobs=1, **{options!r})"
    rng = random.Random(0)
    rows = folder / "storm" / "rows"
    finished: list[int] = []
    while len(finished) < kills:
        process = subprocess.Popen([sys.executable, "-c", code, str(folder / "storm")])
        size = lines(rows)
        while lines(rows) == size and process.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.3))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        finished.append(lines(rows))
    stormy = sweeps.sweep(name, folder=folder / "storm", **options)
    calm = sweeps.sweep(name, folder=folder / "calm", **{**options, "arguments": {"pause": 0.02}}, jobs=2)
    a, b = stormy.write_table(folder / "a.csv").read_bytes(), calm.write_table(folder / "b.csv").read_bytes()
    total = lines(rows)
    values = [
        ["kills", str(len(finished))],
        ["finished at each", " ".join(map(str, finished))],
        ["runs computed, of " + str(len(stormy.plan.runs())), str(total)],
        ["same bytes as undisturbed", str(a == b)],
    ]
    print(Table("A storm of kill -9", ["what", "value"], values).text())


def lines(rows: Path) -> int:
    """Finished runs in a folder of rows."""
    return sum(path.read_bytes().count(b"\n") for path in rows.glob("*.jsonl"))


def main(chosen: Iterable[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = {
            "together": together,
            "scaling": lambda: scaling(Path(folder)),
            "overhead": lambda: overhead(Path(folder)),
            "storm": lambda: storm(Path(folder)),
        }
        for name in chosen or work:
            work[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
