"""Sweeps: the product of settings, sharing, resuming after kills, isolation of failures, refusals."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sweep_plugin import PLUGIN

from agf.errors import ComputationError, FileError, RequestError
from agf.sweeping import sweep as sweeps

# One drop a neuron at closed-form times; `fail_seed` raises, `pause` sleeps, `die` kills its process, `die_once` once.


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text(PLUGIN)
    return f"{path}:Toy"


def start(toy, folder, **options):
    options = {"alpha": [1e-3, 1e-6], "seed": range(5), "keep_files": False} | options
    return sweeps.sweep(toy, folder=folder, **{"mode": ["agf"], **options})


def test_the_table_has_every_combination_and_drop_in_the_order_asked(toy, tmp_path):
    result = start(toy, tmp_path / "s", width=[1, 2])
    rows = list(result.table())
    assert len(rows) == 2 * 5 * (2 + 3)  # alphas x seeds x (rows of width 1 + rows of width 2)
    assert [row["k"] for row in rows[:2]] == [0, 1]
    assert result.missing() == 0
    assert not result.failures()
    text = result.write_table(tmp_path / "t.csv").read_text()
    assert text.splitlines()[0].startswith("run,alpha,mode,width,seed,source,k,time")


def test_two_processes_give_the_same_bytes_as_one(toy, tmp_path):
    one = start(toy, tmp_path / "one", seed=range(40)).write_table(tmp_path / "one.csv")
    two = start(toy, tmp_path / "two", seed=range(40), jobs=2).write_table(tmp_path / "two.csv")
    assert one.read_bytes() == two.read_bytes()


def test_nothing_is_computed_twice_and_seeds_can_be_added(toy, tmp_path):
    start(toy, tmp_path / "s")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "s" / "rows").iterdir()}
    start(toy, tmp_path / "s")
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "s" / "rows").iterdir()}
    more = start(toy, tmp_path / "s", seed=range(7))
    assert len(list(more.entries())) == 14


def test_a_folder_whose_plans_have_their_former_name_is_read_and_added_to(toy, tmp_path):
    start(toy, tmp_path / "s")
    (tmp_path / "s" / "plans").rename(tmp_path / "s" / "asked")
    assert len(list(sweeps.reopen(tmp_path / "s").entries())) == 10
    start(toy, tmp_path / "s", seed=range(7))
    assert len(list(sweeps.reopen(tmp_path / "s").entries())) == 14


def test_a_run_that_fails_is_reported_and_the_others_finish(toy, tmp_path):
    result = start(toy, tmp_path / "s", arguments={"fail_seed": 3})
    failures = result.failures()
    assert [(run["alpha"], run["seed"]) for run, _ in failures] == [(1e-3, 3), (1e-6, 3)]
    assert all("ZeroDivisionError: on purpose" in message for _, message in failures)
    assert sum(1 for entry in result.entries() if not entry["error"]) == 8


def test_an_interrupt_ends_the_sweep_and_leaves_no_half_run(toy, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        start(toy, tmp_path / "s", seed=range(40), arguments={"stop_seed": 35})
    kept = [json.loads(line) for path in (tmp_path / "s" / "rows").iterdir() for line in path.read_text().splitlines()]
    assert sorted(entry["run"]["seed"] for entry in kept) == list(range(35))  # all that were finished
    assert {entry["predict"]["status"] for entry in kept} == {"all_active"}


def test_an_interrupted_training_is_no_row(toy, tmp_path, monkeypatch):
    from types import SimpleNamespace

    import agf

    stopped = SimpleNamespace(status=agf.Status.INTERRUPTED, drops=())
    monkeypatch.setattr("agf.training.gradient_flow.flow", lambda *_, **__: stopped)
    with pytest.raises(KeyboardInterrupt):
        start(toy, tmp_path / "s", do=("train",))
    assert not [path for path in (tmp_path / "s" / "rows").iterdir() if path.stat().st_size]


def test_a_bad_combination_fails_alone(toy, tmp_path):
    result = start(toy, tmp_path / "s", alpha=[1e-3, 1e6])
    assert {run["alpha"] for run, _ in result.failures()} == {1e6}


def test_a_torn_last_line_is_cut_and_computed_again(toy, tmp_path):
    whole = start(toy, tmp_path / "s").write_table(tmp_path / "a.csv").read_bytes()
    for path in (tmp_path / "s" / "rows").iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    again = start(toy, tmp_path / "s").write_table(tmp_path / "b.csv").read_bytes()
    assert whole == again


def test_a_worker_that_is_killed_is_replaced(toy, tmp_path):
    result = start(toy, tmp_path / "s", jobs=2, arguments={"die_once": str(tmp_path / "died")})
    assert (tmp_path / "died").exists()
    assert result.missing() == 0
    assert not result.failures()


def test_workers_that_always_die_end_the_sweep_in_a_sentence(toy, tmp_path):
    with pytest.raises(ComputationError, match="workers died three times"):
        start(toy, tmp_path / "d", alpha=[1e-3], seed=[0], jobs=2, arguments={"die": True})


def test_a_dask_cluster_gives_the_same_bytes(toy, tmp_path):
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as cluster:
        address = cluster.scheduler_address
        there = start(toy, tmp_path / "there", seed=range(40), dask=address, arguments={"fail_seed": 3})
    here = start(toy, tmp_path / "here", seed=range(40), arguments={"fail_seed": 3})
    assert len(there.failures()) == 2
    a, b = there.write_table(tmp_path / "a.csv"), here.write_table(tmp_path / "b.csv")
    assert a.read_bytes() == b.read_bytes()


def test_a_dask_worker_that_is_killed_is_replaced(toy, tmp_path):
    from distributed import LocalCluster

    arguments = {"die_once": str(tmp_path / "died")}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        result = start(toy, tmp_path / "s", dask=cluster.scheduler_address, arguments=arguments)
    assert (tmp_path / "died").exists()
    assert result.missing() == 0
    assert not result.failures()


def test_dask_workers_that_always_die_end_the_sweep_in_a_sentence(toy, tmp_path):
    import dask
    from distributed import LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), LocalCluster(**options) as cluster:
        address = cluster.scheduler_address
        with pytest.raises(ComputationError, match="workers died three times"):
            start(toy, tmp_path / "d", alpha=[1e-3], seed=[0], dask=address, arguments={"die": True})


def test_dask_reports_runs_as_they_end(toy, tmp_path):
    from distributed import LocalCluster

    seen = []
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, processes=False) as cluster:
        start(toy, tmp_path / "s", dask=cluster.scheduler_address, observer=lambda *now: seen.append(now))
    assert seen[0] == (0, 10, 0)
    assert seen == sorted(seen)
    assert seen[-1] == (10, 10, 0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_counts_runs_not_blocks(toy, tmp_path, jobs):
    seen = []
    options = {"alpha": [1e-3], "seed": range(12), "jobs": jobs, "arguments": {"pause": 0.1}}
    for _ in range(2):
        start(toy, tmp_path / "s", **options, observer=lambda *now: seen.append(now))
    assert seen[0] == (0, 12, 0)
    assert seen[-1] == (12, 12, 0)
    assert len(seen) > 4  # one block of seeds, and yet something was told in between


def test_seeds_that_change_nothing_are_a_warning(toy, tmp_path):
    data = {"X": np.eye(3), "y": np.arange(1.0, 4.0)}
    options = {"folder": tmp_path / "s", "alpha": [1e-3], "arguments": data}
    with pytest.warns(UserWarning, match="all 4 seeds are the same run"):
        sweeps.sweep("diagonal-linear", seed=range(4), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sweeps.sweep("diagonal-linear", seed=[1], **options)
        start(toy, tmp_path / "t")
        kinds = {**options, "folder": tmp_path / "k", "kind": ["gaussian"]}
        sweeps.sweep("diagonal-linear", seed=range(2), **kinds)


def test_a_scheduler_that_does_not_answer_is_named(toy, tmp_path):
    with pytest.raises(RequestError, match="no Dask scheduler answers at 'nowhere'"):
        start(toy, tmp_path / "s", dask="nowhere")


def test_parquet_holds_what_csv_holds(toy, tmp_path):
    import pandas as pd

    result = start(toy, tmp_path / "s", arguments={"fail_seed": 3})
    parquet = pd.read_parquet(result.write_table(tmp_path / "t.parquet"))
    csv = pd.read_csv(result.write_table(tmp_path / "t.csv"))
    assert list(parquet.columns) == list(csv.columns) == result.columns()
    for name in ("time", "half_time", "level", "seed", "k"):
        assert parquet[name].dtype.kind in "fi"
        pd.testing.assert_series_equal(parquet[name], csv[name])
    again = start(toy, tmp_path / "s", arguments={"fail_seed": 3}).write_table(tmp_path / "u.parquet")
    assert again.read_bytes() == (tmp_path / "t.parquet").read_bytes()


def test_seeds_that_share_work_resume_to_the_same_bytes(tmp_path):
    options = {"alpha": [1e-4], "seed": range(12), "kind": ["gaussian"], "keep_files": False}
    rng = np.random.default_rng(0)
    options["arguments"] = {"X": rng.standard_normal((20, 4)), "y": rng.standard_normal(20)}
    whole = sweeps.sweep("diagonal-linear", folder=tmp_path / "s", **options).write_table(tmp_path / "a.csv")
    (path,) = (tmp_path / "s" / "rows").iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:40])  # killed in the sixth
    again = sweeps.sweep("diagonal-linear", folder=tmp_path / "s", **options).write_table(tmp_path / "b.csv")
    assert whole.read_bytes() == again.read_bytes()
    assert path.read_bytes() == b"".join(lines)


def test_a_sweep_killed_at_any_moment_resumes_to_the_same_bytes(toy, tmp_path):
    arguments = {"pause": 0.01}
    code = (
        "import sys; from agf.sweeping import sweep as sweeps; "
        f"sweeps.sweep({toy!r}, folder=sys.argv[1], alpha=[1e-3, 1e-6], seed=range(20), mode=['agf'], "
        f"keep_files=False, arguments={arguments!r})"
    )
    folder = tmp_path / "storm"
    kills = 0
    for delay in (0.05, 0.1, 0.15, 0.2):
        process = subprocess.Popen([sys.executable, "-c", code, str(folder)])
        deadline = time.monotonic() + 30
        while not any((folder / "rows").glob("*.jsonl")) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        time.sleep(delay)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 2
    stormy = start(toy, folder, seed=range(20), arguments=arguments).write_table(tmp_path / "a.csv").read_bytes()
    calm = start(toy, tmp_path / "calm", seed=range(20), arguments=arguments).write_table(tmp_path / "b.csv")
    assert stormy == calm.read_bytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"do": ("train",)}, "do"),
        ({"arguments": {"fail_seed": 2}}, "fixed arguments.*fail_seed: not given there, 2 here"),
        ({"width": [2]}, "which axes"),
    ],
)
def test_a_folder_of_another_sweep_is_refused_naming_what_differs(toy, tmp_path, change, words):
    start(toy, tmp_path / "s")
    with pytest.raises(RequestError, match=words):
        start(toy, tmp_path / "s", **change)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": []}, "`seed` is empty"),
        ({"alpha": [1e-3, 1e-3]}, "repeated"),
        ({"depth": [2]}, "unknown axis `depth`"),
        ({"threshold": ["odd"]}, "unknown threshold"),
        ({"seed": [0.5]}, "integers"),
        ({"do": ("fly",)}, "unknown action"),
        ({"do": ()}, "nothing to do"),
        ({"kind": ["gaussian", "odd"]}, "unknown kind of initialization"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_written(toy, tmp_path, options, words):
    with pytest.raises(RequestError, match=words):
        start(toy, tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()


def test_a_foreign_or_damaged_folder_is_refused(toy, tmp_path):
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "thesis.txt").write_text("mine")
    with pytest.raises(RequestError, match="not a sweep"):
        start(toy, tmp_path / "f")
    start(toy, tmp_path / "s")
    (tmp_path / "s" / "sweep.json").write_text("{")
    with pytest.raises(FileError, match="damaged"):
        start(toy, tmp_path / "s")


def test_damaged_rows_are_named_not_dropped(toy, tmp_path):
    start(toy, tmp_path / "s")
    path = next((tmp_path / "s" / "rows").iterdir())
    path.write_bytes(b"garbage\n" + path.read_bytes())
    with pytest.raises(FileError, match=path.name):
        start(toy, tmp_path / "s")


def test_a_full_disk_keeps_what_was_finished(toy, tmp_path):
    code = (
        "import sys, resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "from agf.sweeping import sweep as sweeps; from agf.errors import FileError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "try:\n"
        f"    sweeps.sweep({toy!r}, folder=sys.argv[1], alpha=[1e-3], mode=['agf'], seed=range(20), keep_files=False)\n"
        "except FileError as error:\n"
        "    print(error)\n"
    )
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s")], capture_output=True, text=True, env=env, check=True
    )
    assert "Finished runs are kept" in done.stdout
    rows = next((tmp_path / "s" / "rows").iterdir()).read_bytes()
    kept = [json.loads(line) for line in rows.split(b"\n")[:-1]]
    assert 0 < len(kept) < 20
    result = start(toy, tmp_path / "s", alpha=[1e-3], seed=range(20))
    assert result.missing() == 0
