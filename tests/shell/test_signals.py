"""Told to stop, or killed: what was computed is on disk, and the exit code says by which signal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import agf
from agf.records.checkpoint import Checkpoint
from agf.records.status import Status
from agf.shell import signals
from agf.shell.main import main

AGF = [sys.executable, "-c", "import sys; from agf.shell.main import main; sys.exit(main())"]

PLUGIN = '''
import time
from pathlib import Path

import agf
import numpy as np


class Slow(agf.TwoLayer):
    """Four drops; every call takes `pause` seconds, and call number `wait` a minute."""

    name = "slow"
    calls = 0

    def __init__(self, X, Y, width=8, pause: float = 0.0, wait: int = -1):
        super().__init__(X, Y, activation="linear", width=width)
        self.pause, self.wait = pause, wait

    @classmethod
    def example(cls):
        return {"X": np.eye(4), "Y": np.diag([4.0, 2.0, 1.0, 0.5])}

    def loss_grad(self, theta, neurons):
        self.calls += 1
        time.sleep(self.pause)
        if self.calls == self.wait:
            Path("waiting").touch()
            time.sleep(60)
        return super().loss_grad(theta, neurons)
'''
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def heed() -> None:
    """What a job in the background, or the test runner, may have told its children to ignore."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Start a command on the slow plugin, in a folder of its own; killed at the end of the test."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(PLUGIN, encoding="utf-8")
    running = []

    def start(*words, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        running.append(subprocess.Popen([*AGF, *map(str, words)], preexec_fn=heed, **options))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def await_file(path: str, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not Path(path).exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


# calls of `loss_grad` by which there is a first drop, a first part of the curve, or a whole prediction and such a part
COMMANDS = {
    "predict": ("predict", "slow.py", "--mode", "agf", "-p", "wait=400"),
    "resolved": ("predict", "slow.py", "--mode", "resolved", "-p", "wait=200"),
    "train": ("train", "slow.py", "-p", "wait=100"),
    "descent": ("train", "slow.py", "--alpha", "1e-3", "--lr", "0.1", "--steps", "10000", "-p", "wait=300"),
    "compare": ("compare", "slow.py", "--mode", "agf", "-p", "wait=1200"),
}


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_to_stop_saves_what_there_is_and_is_told_by_the_exit_code(started, command, number):
    process = started(*COMMANDS[command], "-o", "run.npz", "--json")
    await_file("waiting", process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert '"interrupted"' in out
    run = agf.load("run.npz")
    if command == "compare":
        assert (run.stairs.status, run.trajectory.status) == (Status.FITTED, Status.INTERRUPTED)
        assert run.trajectory.losses.size > 3
    elif command in ("predict", "resolved"):
        assert run.status is Status.INTERRUPTED
        assert 1 <= len(run.drops) < 4
    else:
        assert run.status is Status.INTERRUPTED
        assert run.losses.size > 3


def killed(process, ready) -> agf.Staircase | agf.Trajectory | agf.Comparison:
    """What is left in run.npz by a process killed as soon as `ready` says so of it."""
    await_file("run.npz", process)
    while not ready(agf.load("run.npz")):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    return agf.load("run.npz")


@pytest.mark.parametrize("mode", ["agf", "resolved"])
def test_a_killed_prediction_leaves_its_last_drops_readable(started, mode, capsys):
    process = started("predict", "slow.py", "--mode", mode, "-p", "pause=0.01", "-o", "run.npz")
    # on the curve of mode resolved a drop that is still falling is one
    left = killed(process, lambda run: len(run.drops) > (mode == "resolved"))
    assert left.status is Status.INTERRUPTED
    whole = agf.predict(agf.problem("slow.py", **{**left.arguments, "pause": 0.0}), left.init, mode=mode)
    assert left.drops[0].level == pytest.approx(whole.drops[0].level, rel=0.01)
    assert main(["show", "run.npz"]) == 0
    assert "interrupted" in capsys.readouterr().err


def test_killed_training_goes_on_where_its_snapshot_was(started):
    left = killed(started("train", "slow.py", "-p", "pause=0.01", "-o", "run.npz"), lambda run: True)
    assert left.status is Status.INTERRUPTED
    problem = agf.problem("slow.py", **{**left.arguments, "pause": 0.0})
    whole, once = agf.flow(problem, left.init, resume=left), agf.flow(problem, left.init)
    np.testing.assert_array_equal(whole.losses, once.losses)


def test_a_killed_comparison_leaves_the_prediction_with_the_curve_so_far(started):
    process = started("compare", "slow.py", "-p", "pause=0.01", "-o", "run.npz")
    left = killed(process, lambda run: isinstance(run, agf.Comparison))
    assert (left.stairs.status, left.trajectory.status) == (Status.FITTED, Status.INTERRUPTED)
    assert left.trajectory.losses.size > 3


@pytest.mark.parametrize(
    ("number", "jobs"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGTERM, 2), (signal.SIGKILL, 4)]
)
def test_a_sweep_that_was_stopped_goes_on_and_leaves_no_process_behind(started, number, jobs, capsys):
    words = (
        "sweep",
        "slow.py",
        "--mode",
        "agf",
        "--alpha",
        "1e-4,1e-6,1e-8",
        "--seed",
        "0:2",
        "-o",
        "s",
        "-p",
        "pause=0.002",
    )
    with open("err", "w") as err:  # a worker that lives on would hold a pipe open
        process = started(*words, "--jobs", jobs, stdout=subprocess.DEVNULL, stderr=err)
    rows = Path("s/rows")
    deadline = time.monotonic() + 60
    while not (rows.is_dir() and any(path.stat().st_size for path in rows.iterdir())):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = descendants(process.pid)
    process.send_signal(number)
    assert process.wait(timeout=60) == (-number if number == signal.SIGKILL else 128 + number)
    said = Path("err").read_text()
    assert "Traceback" not in said
    if number != signal.SIGKILL:
        kept = re.search(r"(\d) of 6 runs are finished and kept in s; the same command does the rest", said)
        assert kept is not None, said
        assert 1 <= int(kept[1]) <= sum(path.read_bytes().count(b"\n") for path in rows.iterdir())
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in children):
        assert time.monotonic() < deadline, "workers outlive the sweep"
        time.sleep(0.05)
    before = {path: path.read_bytes() for path in rows.iterdir()}
    assert main(list(words)) == 0
    for path, content in before.items():
        assert path.read_bytes().startswith(content[: content.rfind(b"\n") + 1])
    assert "6 runs, 0 failed" in capsys.readouterr().err


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def alive(pid: int) -> bool:
    try:
        return "(Z)" not in Path(f"/proc/{pid}/status").read_text().split("State:")[1].split("\n")[0].upper()
    except OSError:
        return False


# -- the listener -----------------------------------------------------------------------------------------------


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def test_handlers_are_as_before_after_a_command_and_after_an_import():
    code = "import signal as s; f = lambda: [s.getsignal(n) for n in (2, 15, 1)]; before = f(); "
    code += "import agf, agf.shell.main; agf.shell.main.main(['--version']); assert f() == before"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
    before = handlers()
    with signals.heeded():
        assert handlers() != before
    assert handlers() == before


def test_ignored_signals_stay_ignored_and_handlers_of_others_stay_theirs():
    def mine(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN), signal.signal(signal.SIGTERM, mine)
    try:
        with signals.heeded():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGTERM, before[1])


def test_another_thread_can_run_commands():
    codes = []
    thread = threading.Thread(target=lambda: codes.append(main(["--version"])))
    thread.start()
    thread.join()
    assert codes == [0]


def test_a_signal_while_a_result_is_written_waits_for_it(tmp_path):
    done = []

    def write():
        with signals.holding():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("written")
        done.append("never")

    with signals.heeded() as told, pytest.raises(KeyboardInterrupt):
        write()
    assert done == ["written"]
    assert told.code(1) == 143


def test_an_interrupt_that_a_callback_loses_is_asked_again(capfd):
    class Held:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    held = Held()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
    try:
        with signals.heeded() as told:
            del held
            with pytest.raises(KeyboardInterrupt):
                time.sleep(5)
    finally:
        signal.signal(signal.SIGINT, before)
    assert told.number == signal.SIGINT
    assert "Traceback" not in capfd.readouterr().err


def test_signals_sent_together_are_one_request():
    done = []
    with signals.heeded() as told:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            os.kill(os.getpid(), signal.SIGHUP)  # as service managers do
            done.append("saved")
    assert done == ["saved"]
    assert told.number == signal.SIGTERM


def test_a_terminal_that_is_closed_does_not_cost_the_result(started):
    master, slave = pty.openpty()
    process = started("train", "slow.py", "-p", "wait=100", "-o", "run.npz", stdout=slave, stderr=slave, stdin=slave)
    os.close(slave)
    await_file("waiting", process)
    os.close(master)  # what is written from now on fails
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 128 + signal.SIGHUP
    assert agf.load("run.npz").status is Status.INTERRUPTED


def test_a_checkpoint_of_rare_results_is_written_at_once_and_then_not_at_every_one(tmp_path):
    written = []

    class Result:
        def save(self, path):
            written.append(path)

    def make():
        return Result()

    rare, often = Checkpoint(tmp_path / "a", eager=True), Checkpoint(tmp_path / "b")
    for _ in range(20):
        rare.offer(make)
        often.offer(make)
    assert written[0] == str(tmp_path / "a")
    assert written.count(str(tmp_path / "b")) == 0
    assert Checkpoint.of(rare) is rare


def test_a_signal_inside_text_that_is_executed_is_told_by_its_own_number(tmp_path):
    """Python ends by SIGINT where a KeyboardInterrupt has passed through such a text, as data classes are made of."""
    text = "import os, signal; os.kill(os.getpid(), signal.SIGTERM); signal.sigtimedwait([], 0.1)"
    (tmp_path / "mine.py").write_text(f"exec({text!r})\n", encoding="utf-8")
    words = [sys.executable, "-m", "agf.shell", "predict", "mine.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, preexec_fn=heed, timeout=60)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert done.stderr.strip() == "agf: interrupted"
