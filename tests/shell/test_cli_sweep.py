"""The commands sweep and summarize: ranges, files, exit codes."""

import json

import numpy as np
import pytest
from sweep_plugin import PLUGIN

import agf
from agf import summary
from agf.errors import RequestError
from agf.shell.main import FAILED, WRONG, main
from agf.shell.sweep import values
from agf.sweeping import sweep as sweeps


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "toy.py"
    path.write_text(PLUGIN)
    return f"{path}:Toy"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:4", [0, 1, 2, 3]),
        ("0:10:5", [0, 5]),
        ("0:4e0", [0, 1, 2, 3]),
        ("1e-2,1e-4", [1e-2, 1e-4]),
        ("natural,unit", ["natural", "unit"]),
        ("7", [7]),
    ],
)
def test_ranges_are_read_as_documented(text, expected):
    assert values(text) == expected


@pytest.mark.parametrize("text", ["", ",", "5:5", "a:b"])
def test_bad_ranges_are_refused(text):
    with pytest.raises(RequestError):
        values(text)


def test_sweep_writes_its_table_and_summarize_reads_it(toy, tmp_path, capsys):
    folder = str(tmp_path / "s")
    code = main(
        [
            "sweep",
            toy,
            "--mode",
            "agf",
            "--alpha",
            "1e-3,1e-6",
            "--seed",
            "0:4",
            "-p",
            "width=1,2",
            "-o",
            folder,
            "--no-files",
            "--json",
            "--plot",
            str(tmp_path / "swept.svg"),
        ]
    )
    assert code == 0
    told = capsys.readouterr()
    assert "16 runs, 0 failed" in told.err
    document = json.loads(told.out)
    assert (document["failed"], len(document["rows"])) == (0, 8 * 2 + 8 * 3)
    assert (tmp_path / "swept.svg").stat().st_size > 1000
    assert (tmp_path / "s" / "table.csv").read_text().count("\n") == 1 + 8 * 2 + 8 * 3
    picture, graph = str(tmp_path / "p.svg"), str(tmp_path / "g.graphml")
    assert main(["summarize", folder, "--json", "--plot", picture, "--graph", graph]) == 0
    out = capsys.readouterr()
    summed, rows = json.loads(out.out), document["rows"]
    first = summed["times"][0]  # of the seeds of one alpha: numbers, with all their digits
    own = [row for row in rows if row["k"] == 1 and all(row[k] == v for k, v in first["settings"].items())]
    assert (first["drop"], first["runs"]) == (1, len(own))
    assert first["time_median"] == pytest.approx(np.median([row["half_time"] for row in own]), rel=1e-14)
    assert first["level_95"] == pytest.approx(np.quantile([row["level"] for row in own], 0.95), rel=1e-14)
    assert sum(order["share"] for order in summed["orders"]) == pytest.approx(
        len({repr(order["settings"]) for order in summed["orders"]})
    )
    assert (tmp_path / "p.svg").stat().st_size > 1000
    assert (tmp_path / "g.graphml").stat().st_size > 100


def test_seeds_that_change_nothing_are_noted(tmp_path, capsys):
    words = [
        "sweep",
        "diagonal-linear",
        "--mode",
        "agf",
        "--alpha",
        "1e-3",
        "--no-files",
        "-o",
        str(tmp_path / "s"),
        "--seed",
        "0:3",
    ]
    assert main(words) == 0
    assert "note: " in (err := capsys.readouterr().err)
    assert "all 3 seeds are the same run" in err


def test_a_failed_run_gives_exit_code_1_and_is_named(toy, tmp_path, capsys):
    arguments = [
        "sweep",
        toy,
        "--mode",
        "agf",
        "--alpha",
        "1e-3",
        "--seed",
        "0:3",
        "-p",
        "fail_seed=1",
        "-o",
        str(tmp_path / "s"),
    ]
    assert main(arguments) == 1
    assert "seed=1: ZeroDivisionError: on purpose" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alpha", "small"], "cannot read 'small'. Expected numbers one by one"),
        (["--alpha", "0:3"], "cannot read '0:3'. Expected numbers one by one, as in 1e-2,1e-4"),
        (["--alpha", "1_0"], "cannot read '1_0'"),
        (["--alpha", "1e-3", "--t-max", "1:3"], "--t-max: cannot read '1:3'"),
        (["--alpha", "1e-3", "--seed", "0-3"], "List them, as in 0,1,2,3, or give a range, as in 0:4"),
        ([], "no alpha given"),
        (["--alpha", "1e-3", "--init", "w.npz"], "--alpha describes a random start"),
        (["--init", "none.npz"], "there is no data file"),
        (["--alpha", "1e-3", "--max-drops", "few"], "`max_drops` must be an integer"),
        (["--alpha", "1e-3", "--t-max", "1,2", "--do", "train"], "training stops at one time"),
        (["--alpha", "1e-3", "-p", "depth=3"], "unknown parameter"),
        (["--alpha", "1e-3", "--seed", "3:3"], "is empty"),
        (["--alpha", "1e-3", "--do", "fly"], "unknown action"),
        (["--alpha", "1e-3", "--table", "t.xls"], "unknown table format"),
        (["--alpha", "1e-3", "--plot", "p.xls"], "names no picture format"),
        (["--alpha", "1e-3", "--plot", "p.png", "--do", "train"], "the picture shows predictions"),
    ],
)
def test_wrong_requests_exit_with_2_and_one_sentence(toy, tmp_path, capsys, words, message):
    assert main(["sweep", toy, "--mode", "agf", "-o", str(tmp_path / "s"), *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_summarize_refuses_a_folder_that_is_no_sweep(tmp_path, capsys):
    assert main(["summarize", str(tmp_path)]) == 2
    assert "is no sweep" in capsys.readouterr().err


def test_runs_that_end_in_a_failed_status_are_counted_and_the_code_is_one(tmp_path, capsys):
    path = tmp_path / "toy.py"
    path.write_text(PLUGIN.replace("agf.Status.ALL_ACTIVE", "agf.Status.NONFINITE"))
    code = main(
        ["sweep", f"{path}:Toy", "--mode", "agf", "-o", str(tmp_path / "s"), "--alpha", "1e-4", "--seed", "0:2"]
    )
    told = capsys.readouterr().err
    assert code == FAILED, told
    assert "2 runs, 2 failed" in told
    assert "nonfinite: A non-finite value appeared" in told


def test_a_sweep_takes_what_predict_takes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["sweep", "linear", "--width", "3,4", "--mode", "agf", "--max-drops", "1,2", "--conditioning"]
    assert main([*words, "--alpha", "1e-4", "--max-time", "50", "-o", "s"]) == 0
    assert "4 runs, 0 failed" in capsys.readouterr().err
    found = sweeps.reopen("s")
    assert {row["max_drops"] for row in found.table()} == {1, 2}
    assert {entry["predict"]["status"] for entry in found.entries()} == {"max_drops"}
    assert next(iter(found.table()))["conditioning"] is True


def test_a_sweep_starts_from_weights_in_files_and_tells_changed_ones(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    theta = 1e-4 * np.random.default_rng(0).standard_normal((4, 10))
    np.savez("w.npz", theta=theta)
    words = ["sweep", "linear", "--init", "w.npz", "--mode", "agf", "--max-drops", "1", "-o", "s"]
    assert main([*words, "--width", "4"]) == 0
    assert main(["predict", "linear", "--init", "w.npz", "--mode", "agf", "--max-drops", "1", "--width", "4",
                 "-o", "one.npz"]) == 0  # fmt: skip
    (entry,) = sweeps.reopen("s").entries()
    assert entry["predict"]["drops"][0]["time"] == agf.load("one.npz").drops[0].time
    np.savez("w.npz", theta=2 * theta)
    assert main([*words, "--width", "4"]) == 0
    assert len(list(sweeps.reopen("s").entries())) == 2  # other weights are another run
    capsys.readouterr()
    assert main(["predict", "linear", "--init", "w.npz", "--width", "3"]) == WRONG
    assert "add --width 4" in capsys.readouterr().err


@pytest.mark.parametrize("bias", ["none", "both"])
def test_weights_say_their_own_width(tmp_path, capsys, monkeypatch, bias):
    """Also where a last row is an output bias and no neuron."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((20, 3))
    problem = agf.TwoLayer(X, X[:, 0], width=7, bias=bias)
    np.savez("w.npz", theta=problem.init(1e-4).params())
    np.savez("d.npz", X=X, Y=X[:, 0])
    words = ["two-layer", "--data", "d.npz", "-p", f"bias={bias}", "--init", "w.npz"]
    for command in (["predict", *words, "--max-drops", "1"], ["train", *words, "--t-max", "1"]):
        assert main(command) == 0, command
        assert "7 relu neurons" in capsys.readouterr().err
    assert main(["predict", *words, "-p", "width=3"]) == WRONG
    assert "add --width 7" in capsys.readouterr().err


def test_errors_are_drawn_against_alpha(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["sweep", "diagonal-linear", "--mode", "agf", "--max-drops", "1", "--do", "compare", "--t-max", "60"]
    assert main([*words, "--alpha", "1e-3,1e-4", "-o", "s"]) == 0
    assert main(["summarize", "s", "--errors", "errors.svg"]) == 0
    told = capsys.readouterr().err
    assert "Wrote errors.svg." in told
    ax = summary.summarize(sweeps.reopen("s")).draw_errors()
    assert [line.get_label() for line in ax.lines] == ["drop 1"]
    assert ax.lines[0].get_xdata().tolist() == [1e-4, 1e-3]
    ax.figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1  # it hides no point
    assert main([*words[:-4], "--alpha", "1e-3,1e-4", "-o", "t"]) == 0
    assert main(["summarize", "t", "--errors", "errors.svg"]) == WRONG
    assert "--do compare" in capsys.readouterr().err
