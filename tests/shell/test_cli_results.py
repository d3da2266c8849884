"""Commands on saved runs: what they write, their exit codes, and files they refuse in a sentence."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import agf
from agf.shell.main import main


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a prediction, a trajectory, their comparison, and a prediction from another scale."""
    folder = tmp_path_factory.mktemp("runs")
    problem = agf.problem("diagonal-linear", X=np.eye(3), y=np.array([3.0, 2.0, 1.0]))
    init = problem.init(1e-6)
    stairs, flow = agf.predict(problem, init, mode="agf"), agf.flow(problem, init)
    stairs.save(folder / "stairs.npz")
    flow.save(folder / "flow.npz")
    agf.compare(stairs, flow).save(folder / "both.npz")
    agf.predict(problem, problem.init(1e-8), mode="agf").save(folder / "other.npz")
    return folder


@pytest.fixture
def run(saved, capsys, monkeypatch, tmp_path):
    """Runs one command line among the saved runs (outputs go to `tmp_path`); exit code, standard output and error."""
    monkeypatch.chdir(saved)

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_rerun_says_that_the_numbers_are_the_same_and_saves_them(run, tmp_path):
    for name in ("stairs.npz", "flow.npz", "both.npz"):
        code, out, err = run("rerun", name, "-o", tmp_path / "again.npz")
        assert (code, out, err) == (0, "", f"Wrote {tmp_path / 'again.npz'}.\nThe same numbers.\n")
        assert run("diff", name, tmp_path / "again.npz")[::2] == (
            0,
            "The runs are the same: same request, same numbers.\n",
        )


def test_rerun_says_that_a_curve_from_elsewhere_is_taken_as_it_is(run, saved, tmp_path):
    run("show", "flow.npz", "--csv", tmp_path / "curve.csv")
    run("compare", "stairs.npz", "--curve", tmp_path / "curve.csv", "-o", tmp_path / "elsewhere.npz")
    code, _, err = run("rerun", tmp_path / "elsewhere.npz")
    assert code == 0
    assert err.startswith("The curve was trained elsewhere and is taken as it is")
    assert err.endswith("The same numbers.\n")


def test_diff_exits_with_1_and_words_where_runs_differ(run):
    code, out, err = run("diff", "stairs.npz", "other.npz")
    assert code == 1
    assert out == ""
    assert "alpha: 1e-06 | 1e-08" in err
    code, out, err = run("diff", "stairs.npz", "other.npz", "--json", "--quiet")
    assert code == 1
    assert err == ""
    found = json.loads(out)
    assert found["requested"] == ["alpha: 1e-06 | 1e-08"]
    assert found["numbers"][0].startswith("times: up to ")


def test_graph_prints_transitions_and_exports_them(run, tmp_path):
    code, out, err = run("graph", "stairs.npz", "other.npz", "both.npz", "--json", "-o", tmp_path / "g.graphml")
    assert code == 0
    document = json.loads(out)
    assert [edge["count"] for edge in document["edges"]] == [3, 3, 3]
    assert "Most likely: nothing > +coordinate 0 > +coordinate 1 > +coordinate 2" in err
    assert err.endswith(f"Wrote {tmp_path / 'g.graphml'}.\n")
    assert nx.read_graphml(tmp_path / "g.graphml").number_of_edges() == 3
    for name in ("g.dot", "g.png", "g.pdf"):
        assert run("graph", "stairs.npz", "-o", tmp_path / name, "--quiet") == (0, "", "")
        assert (tmp_path / name).stat().st_size > 100


def test_report_writes_one_page(run, tmp_path):
    code, _, err = run("report", "both.npz", "-o", tmp_path / "r.html")
    assert code == 0
    assert "opens without a network" in err
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_show_writes_drops_curves_and_snapshots_as_csv(run, tmp_path):
    path = tmp_path / "t.csv"
    for name, options, head in (
        ("stairs.npz", (), "drop,time,half_time,"),
        ("flow.npz", (), "time,loss\n"),
        ("both.npz", (), "k,label,predicted_time,"),
        ("flow.npz", ("--snapshots",), "time,loss,log_norm_0,"),
        ("both.npz", ("--snapshots",), "time,loss,log_norm_0,"),
    ):
        code, out, err = run("show", name, "--csv", path, *options)
        assert (code, out) == (0, "")
        assert err.endswith(f"Wrote {path}.\n")
        assert path.read_text().startswith(head)


@pytest.mark.parametrize("view", ["loss", "band", "norms", "features", "charges", "utilities"])
def test_every_view_of_a_run_can_be_drawn(run, tmp_path, view):
    assert run("plot", "both.npz", "--view", view, "-o", tmp_path / "p.svg")[0] == 0
    assert b"<svg" in (tmp_path / "p.svg").read_bytes()


def rewritten(source: Path, target: Path, change) -> Path:
    """A copy of a run file with `change(header, members)` applied to its parts."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members.pop("header.json"))
    change(header, members)
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for name, content in members.items():
            archive.writestr(name, content)
    return target


def _truncated(source, target):
    target.write_bytes(source.read_bytes()[:400])


def _foreign(source, target):
    np.savez(target, x=np.ones(3))


def _future(source, target):
    rewritten(source, target, lambda header, members: header.update(version=99))


def _lacking(source, target):
    rewritten(source, target, lambda header, members: members.pop("init_log_norms.npy"))


def _unknown(source, target):
    rewritten(source, target, lambda header, members: header.update(kind="poem"))


class _Bomb:
    def __reduce__(self):
        return (Path.touch, (Path("exploded"),))


def _pickled(source, target):
    def plant(header, members):
        buffer = io.BytesIO()
        np.save(buffer, np.array([_Bomb()], dtype=object), allow_pickle=True)
        members["init_log_norms.npy"] = buffer.getvalue()
        members["extra.pkl"] = pickle.dumps(_Bomb())

    rewritten(source, target, plant)


def _escaping(source, target):
    """Members that name paths outside, and a header that asks for one of them."""

    def plant(header, members):
        members["../../exploded.npy"] = members["init_log_norms.npy"]
        header["arguments"]["X"] = {"array": "/etc/passwd"}

    rewritten(source, target, plant)


SPOILED = {
    _truncated: "damaged or not a run file",
    _foreign: "not an agf run file",
    _future: "it is version 99",
    _lacking: "`init_log_norms` is missing",
    _unknown: "it holds 'poem'",
    _pickled: "damaged or not plain numbers",
    _escaping: "`/etc/passwd` is missing",
}
COMMANDS = {
    "show": ("show", "bad.npz"),
    "plot": ("plot", "bad.npz", "-o", "p.png"),
    "graph": ("graph", "bad.npz"),
    "report": ("report", "bad.npz"),
    "diff": ("diff", "bad.npz", "bad.npz"),
    "rerun": ("rerun", "bad.npz", "-o", "again.npz"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__[1:])
def test_spoiled_files_are_refused_in_a_sentence_and_nothing_is_written(
    command, spoil, saved, run, tmp_path, monkeypatch
):
    spoil(saved / "stairs.npz", tmp_path / "bad.npz")
    (tmp_path / "deep").mkdir()
    (tmp_path / "bad.npz").rename(tmp_path / "deep" / "bad.npz")
    monkeypatch.chdir(tmp_path / "deep")
    code, out, err = run(*COMMANDS[command])
    assert code == 2
    assert out == ""
    assert err.startswith("agf: error: ")
    assert err.count("\n") == 1
    assert SPOILED[spoil] in err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["bad.npz", "deep"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("graph", "flow.npz"), "holds no prediction"),
        (("graph", "stairs.npz", "-o", "g.xyz"), "names no picture format"),
        (("diff", "both.npz", "flow.npz"), "'both.npz' is a comparison and 'flow.npz' is a trajectory"),
        (("show", "stairs.npz", "--snapshots"), "Add --csv FILE"),
        (("show", "stairs.npz", "--csv", "t.csv", "--snapshots"), "holds no trajectory"),
        (("show", "stairs.npz", "--csv", "absent/t.csv"), "folder does not exist"),
        (("plot", "stairs.npz", "flow.npz", "--view", "charges", "-o", "p.png"), "draws one run"),
        (("rerun", "stairs.npz", "--problem", "linear"), "is a run of 'diagonal-linear'"),
        (("figure", "fig99"), "fig99"),
    ],
)
def test_wrong_requests_are_refused_and_nothing_is_written(run, saved, words, sentence):
    before = sorted(saved.iterdir())
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert sorted(saved.iterdir()) == before


def test_runs_of_two_problems_share_no_graph(run, saved, tmp_path):
    problem = agf.problem("linear", Sxx=np.eye(2), B=np.diag([2.0, 1.0]))
    agf.predict(problem, problem.init(1e-6), mode="agf").save(tmp_path / "linear.npz")
    code, _, err = run("graph", "stairs.npz", tmp_path / "linear.npz")
    assert code == 2
    assert "merges runs of one problem. Found diagonal-linear, linear" in err
