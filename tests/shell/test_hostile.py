"""Odd environments and hostile inputs: people may hear less, the result is saved, and nothing is a traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import agf
from agf.errors import AgfError, FileError, RequestError
from agf.records import files
from agf.records.table import Table, visible
from agf.shell import arguments, entry, main
from agf.shell.listeners import Forgiving

AGF = [sys.executable, "-m", "agf.shell"]


def run(words, folder, **options):
    return subprocess.run([*AGF, *words], cwd=folder, text=True, check=False, timeout=120, **options)


PREDICT = ["predict", "diagonal-linear", "--alpha", "1e-4", "--max-drops", "2", "-o", "run.npz"]


@pytest.mark.parametrize("how", ["2>&-", "2>/dev/full", "2>&1 | true", "2>&1 | head -1"])
def test_the_result_is_saved_whatever_happens_to_standard_error(tmp_path, how):
    line = " ".join([*AGF, *PREDICT]) + " " + how
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=tmp_path, check=False, timeout=120, text=True,
                          stdout=subprocess.PIPE)  # fmt: skip
    assert done.returncode == 0
    assert "agf" not in done.stdout or "head" in how
    assert isinstance(agf.load(tmp_path / "run.npz"), agf.Staircase)


#: The command as it is started: `python -m agf.shell` and the script alike.
ENTRY = [sys.executable, "-c", "'import sys; from agf.shell import entry; sys.exit(entry.main())'"]


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("asked", [[], ["--json"]])
def test_standard_output_that_is_closed_is_missed_only_by_what_is_written_there(tmp_path, closed, asked):
    line = " ".join([*ENTRY, *PREDICT, *asked]) + " " + closed
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, check=False, timeout=120, text=True,
                          stderr=subprocess.PIPE)  # fmt: skip
    assert done.returncode == (main.WRONG if asked else main.DONE)
    assert "Traceback" not in done.stderr
    assert not asked or "2>" in closed or "cannot write the output (Bad file descriptor)" in done.stderr
    assert isinstance(agf.load(tmp_path / "run.npz"), agf.Staircase)


def test_files_are_not_given_the_numbers_of_streams_that_are_closed(tmp_path):
    code = "from agf.shell import listeners; listeners.occupied(); print(open('x').fileno(), file=open('y', 'w'))"
    (tmp_path / "x").touch()
    line = f'{sys.executable} -c "{code}" <&- >&- 2>&-'
    assert subprocess.run(["bash", "-c", line], cwd=tmp_path, check=False, timeout=60).returncode == 0
    assert int((tmp_path / "y").read_text()) > 2


def test_a_forgiving_stream_drops_words_after_the_first_failure():
    class Full:
        calls = 0

        def write(self, words):
            self.calls += 1
            raise OSError(28, "No space left on device")

        def flush(self):
            raise OSError(28, "No space left on device")

        encoding = "utf-8"

    full = Full()
    stream = Forgiving(full)
    print("one", file=stream, flush=True)
    print("two", file=stream, flush=True)
    assert full.calls == 1
    assert stream.encoding == "utf-8"


# -- files --------------------------------------------------------------------------------------------------------


def test_a_link_stays_a_link_and_what_it_points_to_is_written(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "run.npz"
    link.symlink_to(tmp_path / "real" / "kept.npz")
    for number in (1.0, 2.0):
        files.write(link, "note", {"number": number}, {})
        assert link.is_symlink()
        assert files.read(tmp_path / "real" / "kept.npz")[1]["number"] == number


def test_a_link_that_leads_to_itself_is_refused_and_stays(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.npz").symlink_to("other.npz")
    (tmp_path / "other.npz").symlink_to("one.npz")
    assert main.main([*PREDICT[:-1], "one.npz"]) == main.WRONG
    assert "a link that leads back to itself. Nothing was computed." in capsys.readouterr().err
    assert (tmp_path / "one.npz").is_symlink()


@pytest.mark.parametrize("length", [200, 240, 255])
@pytest.mark.parametrize("letter", ["a", "\u00e9"])
def test_any_name_that_the_system_takes_is_written(tmp_path, length, letter):
    name = letter * (length // len(letter.encode()))
    files.write(tmp_path / name, "note", {}, {})
    assert files.read(tmp_path / name)[0] == "note"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_null_character_in_a_path_is_a_sentence(tmp_path):
    for function in (
        lambda: files.check_writable(tmp_path / "a\0b"),
        lambda: agf.load(f"{tmp_path}/a\0b"),
        lambda: agf.datasets.load(f"{tmp_path}/a\0b.csv", "y"),
    ):
        with pytest.raises(AgfError):
            function()
    assert main.main(["show", "a\0b"]) == main.WRONG


def test_unfinished_files_of_killed_processes_are_removed_and_no_others(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    gone = files._part("run.npz").replace(f"-{os.getpid()}-", f"-{dead.pid}-") + "x.part"
    mine = files._part("run.npz") + "x.part"
    for name in (gone, mine, ".other.part"):
        (tmp_path / name).write_bytes(b"")
    files.remove_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine, ".other.part"])


KILLED = """
import os, signal, sys
from agf.records import files

with files.atomic("run.npz") as handle:
    handle.write(b"half")
    handle.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("next_one", [PREDICT, ["predict", "diagonal-linear", "--alpha", "1e-4", "-o", "other.npz"]])
def test_what_a_killed_run_left_is_gone_after_the_next(tmp_path, next_one):
    subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False, timeout=60)
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    assert run(next_one, tmp_path, stderr=subprocess.DEVNULL).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == [next_one[-1]]


WANDERS = """
import os
import agf
import numpy as np

os.chdir("/")


class Mine(agf.TwoLayer):
    name = "mine"

    def __init__(self, X, Y):
        os.chdir("/")
        super().__init__(X, Y, activation="linear", width=4)

    def label(self, *args):
        os.chdir("/")
        return "wanders"

    @classmethod
    def example(cls):
        X = np.random.default_rng(0).standard_normal((20, 2))
        return {"X": X, "Y": X[:, 0]}
"""


def test_a_plugin_that_changes_the_folder_writes_where_the_user_said(tmp_path):
    (tmp_path / "mine.py").write_text(WANDERS, encoding="utf-8")
    np.savez(tmp_path / "data.npz", X=np.random.default_rng(0).standard_normal((20, 2)), Y=np.ones(20))
    words = ["predict", "mine.py", "--data", "data.npz", "--alpha", "1e-4", "-o", "run.npz", "--plot", "run.svg"]
    done = run(words, tmp_path, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert "Wrote run.npz." in done.stderr
    assert (tmp_path / "run.npz").is_file()
    assert (tmp_path / "run.svg").is_file()
    done = run(
        ["sweep", "mine.py", "--data", "data.npz", "--alpha", "1e-4", "-o", "s"], tmp_path, stderr=subprocess.PIPE
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "s" / "table.csv").is_file()


@pytest.mark.parametrize("raised", ["SystemExit(3)", "GeneratorExit()", "KeyboardInterrupt()", "MemoryError('no')"])
def test_what_a_plugin_raises_of_its_own_is_a_sentence_and_the_partial_result(tmp_path, raised):
    text = WANDERS.replace(
        'return "wanders"',
        f"""
        self.seen = getattr(self, "seen", 0) + 1
        if self.seen > 2:
            raise {raised}
        return "fine\"""",
    ).replace('os.chdir("/")', "pass")
    text = text.replace("X[:, 0]", "X * np.array([3.0, 0.3])").replace('"linear"', '"tanh"')  # fmt: skip
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    done = run(
        ["predict", "mine.py", "--mode", "agf", "--alpha", "1e-4", "-o", "run.npz"], tmp_path, stderr=subprocess.PIPE
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (1, 130), done.stderr
    assert len(agf.load(tmp_path / "run.npz").drops) == 1


# -- sweeps -------------------------------------------------------------------------------------------------------

SWEEP = ["sweep", "diagonal-linear", "--alpha", "1e-3", "--seed", "0:4", "-o", "s", "--no-files"]


def test_processes_that_start_one_sweep_together_share_it(tmp_path):
    started = [subprocess.Popen([*AGF, *SWEEP], cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    ends = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], ends
    assert (tmp_path / "s" / "table.csv").is_file()


def test_a_folder_whose_start_was_killed_is_used(tmp_path):
    for name in ("rows", "runs", "locks"):
        (tmp_path / "s" / name).mkdir(parents=True)
    (tmp_path / "s" / ".agf-1-2-3-x.part").write_bytes(b"")
    assert run(SWEEP, tmp_path, stderr=subprocess.PIPE).returncode == 0


@pytest.mark.parametrize("seeds", ["0:100000000000000000000", "0:10:0", "1:2:3:4", "0:1e20", "1e23", "a:b", "-5:5"])
def test_an_odd_range_is_a_sentence(tmp_path, capsys, monkeypatch, seeds):
    monkeypatch.chdir(tmp_path)
    assert main.main([*SWEEP[:4], f"--seed={seeds}", "-o", "s"]) == main.WRONG
    assert "Traceback" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "null",
        "{}",
        '"text"',
        "[" * 100_000,
        '{"format": 3}',
        "\x00",
        '{"problem": [], "axes": {}, "do": 3, "flow": 0}',
    ],
)
def test_a_hostile_sweep_is_a_sentence(tmp_path, capsys, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    assert main.main(SWEEP) == main.DONE
    (tmp_path / "s" / "sweep.json").write_text(content, encoding="utf-8")
    for words in (SWEEP, ["summarize", "s"]):
        assert main.main(words) == main.WRONG
    (tmp_path / "s" / "sweep.json").unlink()
    assert main.main(["summarize", "s"]) == main.WRONG


@pytest.mark.parametrize("change", [{"error": 3}, {"run": []}, {"predict": {}}, {"predict": None}, {"key": None}])
def test_a_hostile_row_is_a_sentence(tmp_path, capsys, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    assert main.main(SWEEP) == main.DONE
    (rows,) = (tmp_path / "s" / "rows").iterdir()
    first, *rest = rows.read_text(encoding="utf-8").splitlines()
    rows.write_text("\n".join([json.dumps({**json.loads(first), **change}), *rest, ""]), encoding="utf-8")
    assert main.main(["summarize", "s"]) == main.WRONG
    assert "is damaged" in capsys.readouterr().err


# -- interrupts ---------------------------------------------------------------------------------------------------


#: The command, which says when it begins to import the rest of itself.
ANNOUNCED = """
import sys
from agf.shell import entry

class Announce:
    def find_spec(self, name, path=None, target=None):
        if name == "agf.shell.main":
            print("go", flush=True)

sys.meta_path.insert(0, Announce())
sys.exit(entry.main())
"""


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.15, 0.3])
def test_an_early_interrupt_is_a_sentence(tmp_path, delay):
    words = [sys.executable, "-c", ANNOUNCED, *PREDICT]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(words, cwd=tmp_path, text=True, **streams)
    assert process.stdout.readline() == "go\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    assert "Traceback" not in process.communicate(timeout=60)[1]


def test_the_command_listens_before_it_imports_anything_that_takes_time():
    code = (
        "import os, signal, sys; before = set(sys.modules); import agf.shell.entry; print(*set(sys.modules) - before)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(out.split()) == {"agf", "agf.shell", "agf.shell.entry", "agf.shell.leaving"}


#: A command that is done at once, and a module that is told to stop while Python ends.
LEAVING = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
from agf.shell import entry

atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
sys.argv = ["agf", "--version"]
sys.exit(entry.main())
"""


def test_an_interrupt_when_all_is_done_is_a_sentence_too():
    process = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True)
    assert process.stdout.startswith("agf ")
    assert process.stderr == "agf: interrupted\n"


@pytest.mark.parametrize(("mine", "used"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, None)])
def test_the_command_computes_in_one_thread_unless_told_otherwise(monkeypatch, mine, used):
    for name in entry.THREADS:
        monkeypatch.delenv(name, raising=False)
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    # put back afterwards whatever the command sets
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(main, "main", lambda: 0)
    assert entry.main() == 0
    assert {name: os.environ.get(name) for name in entry.THREADS} == {
        name: mine.get(name, used) for name in entry.THREADS
    }


def test_a_signal_in_the_middle_of_one_long_operation_is_heeded_within_seconds(tmp_path):
    code = (
        "import hashlib; from agf.shell.signals import heeded\n"
        "with heeded():\n"
        "    print('go', flush=True); hashlib.pbkdf2_hmac('sha256', b'', b'', 10**8)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    time.sleep(0.5)
    process.terminate()
    began = time.monotonic()
    err = process.communicate(timeout=60)[1]
    assert time.monotonic() - began < 5.0
    assert process.returncode == 128 + signal.SIGTERM
    assert err == "agf: interrupted in the middle of one long operation\n"


# -- the process around it ----------------------------------------------------------------------------------------


def test_a_backend_that_does_not_exist_is_not_needed(tmp_path):
    code = (
        "import agf, numpy as np; X = np.eye(2); p = agf.problem('diagonal-linear', X=X, y=np.array([1.0, 0.5]))\n"
        "agf.predict(p, p.init(1e-6)).plot('a.svg')"
    )
    environment = {**os.environ, "MPLBACKEND": "nonsense"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, check=False, stderr=subprocess.PIPE
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.svg").is_file()


@pytest.mark.parametrize("alpha", [1e-8, 1e-200])
def test_the_floating_point_state_of_the_caller_does_not_matter(alpha):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3))
    problem = agf.problem("diagonal-linear", X=X, y=X @ np.array([2.0, 1.0, 0.0]))
    usual = agf.predict(problem, problem.init(alpha), mode="agf").times
    with np.errstate(all="raise"):
        init = problem.init(alpha)
        stairs = agf.predict(problem, init, mode="agf")
        report = agf.compare(stairs, agf.flow(problem, init))
        agf.predict(problem, init, mode="limit")
        agf.Init.from_params(np.full((3, 2), 1e-320))
        str(report), stairs.to_dict()
        assert np.geterr()["under"] == "raise"
    assert np.array_equal(stairs.times, usual)


def test_a_network_that_does_not_fit_is_refused_with_the_memory_it_needs():
    problem = agf.TwoLayer(np.eye(3), np.ones(3), activation="relu", width=10**11)
    with pytest.raises(RequestError, match=r"100,000,000,000 neurons of 4 parameters need about .* GiB"):
        problem.init(1e-8)


# -- names --------------------------------------------------------------------------------------------------------

NAME = "a\x1b[31mred\nline\u202egnol\u200b\x07"


def test_names_are_made_visible():
    assert visible(NAME) == r"a\x1b[31mred\nline\u202egnol\u200b\x07"
    assert visible("Länge 長さ") == "Länge 長さ"
    told = Table(NAME, [NAME], [[NAME]], [NAME]).text()
    assert "\x1b" not in told
    assert len(told.splitlines()) == 5


def test_names_in_files_reach_the_terminal_visible(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = '"' + NAME.replace("\n", " ") + '",y\n'
    (tmp_path / "data.csv").write_text(header + "".join(f"{i - 5},{2 * i - 10}\n" for i in range(11)), encoding="utf-8")
    words = ["predict", "diagonal-linear", "--data", "data.csv", "--target", "y", "--alpha", "1e-6", "-o", "run.npz"]
    assert main.main(words) == main.DONE
    assert main.main(["show", "run.npz"]) == main.DONE
    assert main.main(["graph", "run.npz"]) == main.DONE
    assert main.main(["check", NAME]) == main.WRONG
    assert main.main(["predict", "diagonal-linear", "--data", "data.csv", "--target", NAME]) == main.WRONG
    told = capsys.readouterr().err
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\u200b]", told)


def test_a_label_of_many_neurons_is_cut_where_it_is_shown():
    cell = Table("t", ["c"], [["neurons " + ", ".join(map(str, range(10**5)))]]).text().splitlines()[-1]
    assert len(cell) < 500
    assert cell.endswith("characters)")


def test_many_tied_coordinates_are_answered_in_seconds_with_a_short_label(tmp_path):
    d = 200_000
    problem = agf.problem("diagonal-linear", X=np.ones((2, d)), y=np.ones(2))
    began = time.process_time()
    stairs = agf.predict(problem, problem.init(1e-8), mode="agf")
    assert time.process_time() - began < 10.0  # 1 s where nothing else runs; a loop over columns took 20
    assert stairs.drops[0].neurons.size == d
    began = time.process_time()
    stairs.save(tmp_path / "run.npz")
    assert agf.load(tmp_path / "run.npz").drops[0].neurons.size == d
    assert time.process_time() - began < 3.0  # 0.6 s where nothing else runs; Python's own JSON took 2.5
    assert len(stairs.drops[0].label) < 120
    assert stairs.drops[0].label.endswith(f"and {d - 8:,} more")
    assert stairs.graph().number_of_nodes() == 2
    assert all(len(name) < 150 for name in stairs.graph())


def test_refusals_name_a_missing_folder(tmp_path):
    with pytest.raises(FileError, match="folder does not exist"):
        files.check_writable(tmp_path / "none" / "run.npz")
    with pytest.raises(RequestError):
        agf.sweep("diagonal-linear", folder=tmp_path / "s", alpha=[1e-3], seed=range(10**18))


#: Commands on run files beside what each refuses: a file of another kind, or none, is a sentence and exit code 2.
READERS = [
    ["graph"], ["rerun"], ["groups"], ["merge"], ["prune", "--keep", "1"], ["flips"], ["escape"], ["report"],
    ["landscape", "relu", "--at"], ["bounds", "relu", "--check"], ["tickets", "relu", "--against"],
    ["rewind", "diagonal-linear", "--masks"], ["compare"], ["diff", "none.npz"],
    ["train", "diagonal-linear", "--resume"],
]  # fmt: skip


@pytest.mark.parametrize("command", READERS, ids=lambda words: words[0])
def test_a_run_file_of_another_kind_is_a_sentence(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((8, 2))
    sharp = agf.TwoLayer(X, X[:, 0], activation="relu", width=2)
    agf.landscape(sharp, None).save("other.npz")
    (tmp_path / "torn.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:300])
    for path in ("other.npz", "torn.npz", "none.npz"):
        assert main.main([*command, path]) == main.WRONG
        told = capsys.readouterr().err
        assert "Traceback" not in told
        assert told.startswith("agf: error: ")


@pytest.mark.parametrize(
    "words",
    [["modular-addition", "-p", "p=1000000000"], ["relu", "--width", "1000000"]],
    ids=["group", "one number a sample"],
)
def test_what_does_not_fit_is_refused_at_once(capsys, words):
    assert main.main(["predict", *words, "--alpha", "1e-3"]) == main.WRONG
    assert "smaller" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["align", "bounds", "rewind", "tickets", "landscape"])
def test_every_command_that_takes_a_csv_file_standardizes_it(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("size,age,price\n1,2,300\n2,3,100\n3,1,500\n4,4,250\n", encoding="utf-8")
    asked = []
    original = arguments.problem

    def heard(*args, **words):
        asked.append(words)
        return original(*args, **words)

    monkeypatch.setattr(arguments, "problem", heard)
    source = ["relu", "--data", "s.csv", "--target", "price", "--standardize", "--width", "3", "--quiet"]
    main.main([command, *source, *({"rewind": ["--cycles", "1", "--alpha", "1e-3"]}.get(command, []))])
    assert [words.get("standardize") for words in asked] == [True]


def test_tickets_are_held_against_a_run_of_other_data_than_the_example(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("size,age,price\n1,2,300\n2,3,100\n3,1,500\n4,4,250\n", encoding="utf-8")
    source = ["relu", "--data", "s.csv", "--target", "price", "--standardize", "--width", "6", "--alpha", "1e-3"]
    assert main.main(["train", *source, "--t-max", "3", "-o", "run.npz", "--quiet"]) == 0
    assert main.main(["tickets", "relu", "--against", "run.npz"]) == 0
    assert "Spearman" in capsys.readouterr().err


def test_what_a_run_is_told_to_stop_with_is_written_within_seconds(tmp_path):
    numbers = np.random.default_rng(0).standard_normal(2**21)  # 16 MB; packed as text is, they took 1.5 s
    began = time.process_time()
    files.write(tmp_path / "run.npz", "note", {}, {"numbers": numbers, "zeros": np.zeros(2**21)})
    assert time.process_time() - began < 0.7  # 0.15 s where nothing else runs
    assert (tmp_path / "run.npz").stat().st_size < 1.1 * numbers.nbytes
    found = files.read(tmp_path / "run.npz")[2]
    assert np.array_equal(found["numbers"], numbers)
    assert not found["zeros"].any()


def test_a_run_file_is_written_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = []
    original = files.write
    monkeypatch.setattr(files, "write", lambda path, *rest: (written.append(str(path)), original(path, *rest)))
    words = ["train", "diagonal-linear", "--alpha", "1e-2", "--t-max", "3", "--quiet"]
    assert main.main([*words, "-o", "run.npz"]) == main.DONE
    assert written == [str(tmp_path / "run.npz")]
    assert main.main([*words, "-o", "run.npz", "--checkpoint", "c.npz"]) == main.DONE
    assert sorted(written[1:]) == [str(tmp_path / "c.npz"), str(tmp_path / "run.npz")]


@pytest.mark.parametrize("raised", ["StopIteration()", "type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})()"])
def test_exceptions_that_trip_what_catches_them_are_sentences(tmp_path, capsys, monkeypatch, raised):
    monkeypatch.chdir(tmp_path)
    text = WANDERS.replace('return "wanders"', f"raise {raised}").replace('os.chdir("/")', "pass")
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    for command in (["predict", "mine.py"], ["check", "mine.py"], ["sweep", "mine.py", "-o", "s"]):
        assert main.main([*command, *(["--alpha", "1e-4"] if command[0] != "check" else [])]) in (1, 2)
        assert "Traceback" not in capsys.readouterr().err


def test_features_that_change_their_names_are_a_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (
        WANDERS.replace('os.chdir("/")', "pass")
        + """
    def features(self, theta, neurons):
        self.asked = getattr(self, "asked", 0) + 1
        return {"one" if self.asked < 9 else "two": np.ones(1)}
"""
    )
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    assert main.main(["train", "mine.py", "--alpha", "1e-3", "--t-max", "30"]) in (1, 2)
    assert "`features` has other names" in capsys.readouterr().err


def test_a_list_in_lists_and_a_message_as_long_as_the_request_are_sentences(capsys):
    for value in ("[" * 5000, "9" * 6000, "{" * 5000):
        assert main.main(["predict", "linear", "-p", f"Sxx={value}"]) == main.WRONG
        told = capsys.readouterr().err
        assert "Traceback" not in told
        assert len(told) < 1400
    assert main.main(["predict", "a" * 10**5]) == main.WRONG
    told = capsys.readouterr().err
    assert told.startswith("agf: error: there is no problem 'aaa")
    assert "Expected one of diagonal-linear" in told
    assert len(told) < 1400


def test_without_a_command_the_help_is_printed(capsys):
    assert main.main([]) == main.WRONG
    told = capsys.readouterr().err
    assert told.startswith("Usage: agf")
    assert len(told.splitlines()) > 20


def test_text_by_latex_is_refused_before_anything_is_computed(tmp_path, monkeypatch, capsys):
    import matplotlib as mpl

    monkeypatch.chdir(tmp_path)
    with mpl.rc_context({"text.usetex": True}):
        assert main.main([*PREDICT, "--plot", "a.png"]) == main.WRONG
    assert "text.usetex" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_cycle_is_no_cycle(tmp_path):
    X = np.random.default_rng(0).standard_normal((12, 2))
    problem = agf.TwoLayer(X, X[:, 0], activation="relu", width=3)
    runs = []

    def train(problem, init):
        def observer(progress):
            if len(runs) == 2:
                raise KeyboardInterrupt

        runs.append(agf.flow(problem, init, t_max=5.0, snapshots=2, observer=observer))
        return runs[-1]

    with pytest.raises(KeyboardInterrupt):
        agf.rewind(problem, problem.init(1e-2), cycles=4, train=train, path=tmp_path / "run.npz")
    assert runs[2].status is agf.Status.INTERRUPTED
    assert agf.load(tmp_path / "run.npz").cycles == 1


@pytest.mark.parametrize("there", [True, False])
def test_a_new_problem_says_what_it_needs_first(tmp_path, capsys, monkeypatch, there):
    monkeypatch.setattr("agf.shell.problems.find_spec", lambda name: object() if there else None)
    assert main.main(["new", str(tmp_path / "mine.py")]) == main.DONE
    assert ("pip install torch" in capsys.readouterr().err) is not there


def test_a_working_folder_that_was_removed_is_said_where_it_matters_and_only_there(tmp_path):
    def there(words):
        gone = tmp_path / "gone"
        gone.mkdir()
        line = f"cd {gone}; rmdir {gone}; exec {' '.join([*AGF, *words])}"
        return subprocess.run(["bash", "-c", line], text=True, check=False, timeout=120, capture_output=True)

    wrong = tmp_path / "mine.py"
    wrong.write_text(
        "import agf, numpy as np\n"
        "class Mine(agf.TwoLayer):\n"
        "    def __init__(self): super().__init__(np.eye(2), np.ones(2), width=3)\n"
        "    def loss_grad(self, theta, neurons): return 1.0, 0.0 * theta\n"
        "    example = classmethod(lambda cls: {})\n"
    )
    absolute = [*PREDICT[:-1], str(tmp_path / "run.npz")]
    done = there(absolute)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (main.DONE, f"Wrote {tmp_path / 'run.npz'}.")
    for words, sentence in (
        (PREDICT, "the working folder has been removed"),
        (["predict", str(wrong)], f"agf check {wrong}:Mine"),
    ):
        done = there(words)
        assert done.returncode == main.WRONG
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr


LATE = """
import agf
import numpy as np

X = np.random.default_rng(0).standard_normal((12, 2))


class Mine(agf.TwoLayer):
    data_arguments = ()
    asked = 0

    def __init__(self):
        super().__init__(X, X[:, 0], activation="relu", width=3)

    example = classmethod(lambda cls: {})
"""


@pytest.mark.parametrize(
    ("words", "method"),
    [
        (["bounds", "mine.py"], "def describe(self): self.asked += 1; return 'mine'[:1 // (2 - self.asked)]"),
        (["tickets", "mine.py"], "def flow_system(self, init): raise AttributeError('x')"),
        (["predict", "mine.py", "--plot", "a.svg"], "def label(self, *args): return 'a\\ud800'"),
        (["train", "mine.py", "--t-max", "1"], "def features(self, *args): return {'a\\ud800': np.ones(1)}"),
    ],
)  # fmt: skip
def test_whatever_a_method_raises_wherever_it_is_called_is_a_sentence(tmp_path, monkeypatch, capsys, words, method):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(f"{LATE}\n    {method}\n")
    assert main.main(words) == main.WRONG
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert method.split("(")[0].removeprefix("def ") in told


def test_bytes_that_are_no_text_in_names_of_files_and_columns_are_written_escaped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((20, 2))
    problem = agf.problem("diagonal-linear", X=X, y=X[:, 0], names=["a\udcff", "b"])
    stairs = agf.predict(problem, problem.init(1e-4), mode="agf")
    assert r"coordinate 0 (a\udcff)" in stairs.labels
    stairs.save("run.npz")
    stairs.plot("run.svg")
    np.savez("w\udcff.npz", theta=1e-3 * np.ones((10, 2)))
    assert main.main(["predict", "diagonal-linear", "--init", "w\udcff.npz", "-o", "r\udcff.npz", "--quiet"]) == 0
    assert main.main(["report", "r\udcff.npz", "-o", "r\udcff.html", "--quiet"]) == 0
