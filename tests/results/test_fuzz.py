"""A run file is read or refused in a sentence, whatever is in it: every reader, any member replaced by anything."""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import os
import random
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import agf
from agf import AgfError, FileError, RequestError, plot
from agf.capacity.race_pictures import aligned, holdings, race
from agf.page import report as html_report
from agf.pictures.signs import signs
from agf.shell import main
from agf.shell.rerun import differences, rerun

#: What a member of the header may be replaced by; GONE takes it away.
GONE = object()
ODD = (
    GONE, None, "text", "", -1, 0, 3, 10**400, 1.5, float("nan"), float("inf"), True, [], ["a", "b"], [[1.0]], {},
    {"a": 1}, {"array": "times"}, {"array": "none"}, {"dict": [[1]]}, "\x1b[31m\n",
)  # fmt: skip


def odd_arrays(array: np.ndarray) -> list[np.ndarray | None]:
    """What an array may be replaced by: other kinds, shapes, sizes, and values that are not finite."""
    out: list[np.ndarray | None] = [
        None, np.array(1.0), np.zeros(0), np.zeros((0, 3)), np.zeros((2, 2, 2, 2)), np.array(["a", "b"]),
        np.array([1 + 2j]), np.array([True]), np.array(["2020-01-01"], dtype="datetime64[D]"), np.arange(7),
    ]  # fmt: skip
    if array.size:
        out += [array[:-1], np.concatenate([array, array]), array.astype(str), array[None]]
        if array.dtype.kind == "f":
            out += [np.full_like(array, np.nan), -np.abs(array), array[::-1].copy(), np.full_like(array, np.inf)]
    return out


def _paths(value, path=()):
    """Every place in a JSON document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*path, key))


def _replace(document, path, value):
    for key in path[:-1]:
        document = document[key]
    if value is GONE:
        del document[path[-1]]
    else:
        document[path[-1]] = value


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def mutate(members: dict[str, bytes], rng: random.Random) -> tuple[dict[str, bytes], str]:
    """The members of a run file with one of them changed, and what was."""
    members = dict(members)
    if rng.random() < 0.6:
        header = json.loads(members["header.json"])
        places = [path for path in _paths(header) if path and path[0] not in ("format", "version")]
        path, value = rng.choice(places), rng.choice(ODD)
        _replace(header, path, value)
        members["header.json"] = json.dumps(header).encode()
        return members, f"header {path} = {'gone' if value is GONE else repr(value)[:30]}"
    name = rng.choice([name for name in members if name.endswith(".npy")])
    other = rng.choice(odd_arrays(np.lib.format.read_array(io.BytesIO(members[name]))))
    if other is None:
        del members[name]
        return members, f"{name} gone"
    members[name] = _npy(other)
    return members, f"{name} = {other.dtype} {other.shape}"


def write(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def read_it_all(path: Path, original: Path, problem: agf.Problem, init: agf.Init, pictures: bool = True) -> None:
    """Every reader of a run file; pictures and pages, which take most of the time, where asked."""
    result = agf.load(path)
    str(result), repr(result), result._repr_html_()
    json.dumps(agf.records.files.jsonable(result.to_dict()), allow_nan=False)
    result.save(path.with_suffix(".again"))
    if isinstance(result, agf.Rewinding):
        str((result.signs(), result.left, result.done))
        return
    if pictures:
        draw_it_all(result, path)
    if isinstance(result, agf.DormantPhase):
        result.events(0), result.charge(0.5 * min(result.last, 1.0)), result.counts
        return
    if isinstance(result, agf.Landscape):
        str((result.best, result.ends, result.shares))
        return
    result.to_csv(path.with_suffix(".csv"))
    differences(path, original)
    stairs = getattr(result, "stairs", result)
    curve = getattr(result, "trajectory", result)
    if isinstance(stairs, agf.Staircase):
        stairs.level(1.0), stairs.curve(1.0), stairs.labels, stairs.graph()
    if isinstance(curve, agf.Trajectory):
        str((curve.drops, curve.depth, curve.complete_until))
        curve.to_csv(path.with_suffix(".csv"), snapshots=True)
        if "lr" in curve.settings:
            agf.descend(problem, init, lr=0.02, steps=31, resume=curve)
        else:
            agf.flow(problem, init, max_steps=2, resume=curve)


VIEWS = (plot.neurons, plot.features, plot.charges, plot.utilities, signs, race, holdings, aligned)


def draw_it_all(result, path: Path) -> None:
    """Every picture and page of a result."""
    result.plot()
    if isinstance(result, agf.DormantPhase | agf.Landscape):
        return
    html_report.report([result], path.with_suffix(".html"))
    plot.overlay([result, result]), plot.bands([result, result])
    curve = getattr(result, "trajectory", result)
    if isinstance(curve, agf.Trajectory):
        for draw in VIEWS:
            with contextlib.suppress(AgfError):  # of some curves there is nothing to draw
                draw(curve)


@pytest.fixture(autouse=True)
def _figures_are_not_kept(monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A small run file of every kind, its members, and the problem and weights it is of."""
    folder = tmp_path_factory.mktemp("fuzz")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 3))
    problem = agf.problem("diagonal-linear", X=X, y=X @ np.array([2.0, 1.0, 0.0]), names=np.array(["a", "b", "c"]))
    init = problem.init(1e-4)
    stairs = agf.predict(problem, init, mode="agf")
    flow = agf.flow(problem, init, snapshots=12)
    sharp = agf.TwoLayer(X=X[:, :2], Y=X[:, 0], activation="relu", width=4)
    start = sharp.init(1e-4)
    results = {
        "landscape": agf.landscape(sharp, None),
        "dormant-phase": agf.align(sharp, start),
        "rewinding": agf.rewind(problem, init, cycles=1, keep=0.7, train={"t_max": 3.0}),
        "staircase": stairs,
        "resolved": agf.predict(problem, init, mode="resolved"),
        "trajectory": flow,
        "stopped": agf.flow(problem, init, snapshots=12, max_steps=40),
        "descent": agf.descend(problem, init, lr=0.02, steps=30),
        "comparison": agf.compare(stairs, flow, repeat=flow),
    }
    out = {}
    for name, result in results.items():
        result.save(folder / f"{name}.npz")
        with zipfile.ZipFile(folder / f"{name}.npz") as archive:
            out[name] = folder / f"{name}.npz", {entry: archive.read(entry) for entry in archive.namelist()}
    return out, problem, init


KINDS = (
    "staircase", "resolved", "trajectory", "stopped", "descent", "comparison", "landscape", "dormant-phase",
    "rewinding",
)  # fmt: skip
#: Files tried of each kind; AGF_FUZZ=5000 tries more.
TRIES = int(os.environ.get("AGF_FUZZ", "25"))


@pytest.mark.parametrize("kind", KINDS)
def test_any_member_may_be_anything(runs, tmp_path, kind):
    found, problem, init = runs
    original, members = found[kind]
    rng = random.Random(f"{kind} {TRIES}")
    refused = 0
    for number in range(TRIES):
        changed, words = mutate(members, rng)
        write(tmp_path / "odd.npz", changed)
        try:
            read_it_all(tmp_path / "odd.npz", original, problem, init, pictures=number % 3 == 0)
        except AgfError as error:
            refused += 1
            assert str(error)  # noqa: PT017
        except Exception as error:
            error.add_note(f"{kind}: {words}")
            raise
    assert refused


@pytest.mark.parametrize("kind", ["staircase", "descent", "comparison"])
def test_a_run_of_anything_is_repeated_or_refused(runs, tmp_path, kind):
    found, *_ = runs
    _, members = found[kind]
    rng = random.Random(kind)
    for _ in range(max(TRIES // 3, 5)):
        changed, words = mutate(members, rng)
        write(tmp_path / "odd.npz", changed)
        try:
            rerun(tmp_path / "odd.npz")
        except AgfError:
            pass
        except Exception as error:
            error.add_note(f"{kind}: {words}")
            raise


def test_what_is_right_is_read(runs):
    found, problem, init = runs
    for path, _ in found.values():
        read_it_all(path, path, problem, init)


def test_a_damaged_member_of_any_compression_is_refused(runs, tmp_path):
    found, *_ = runs
    _, members = found["staircase"]
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "run.npz", "w", method) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        content = (tmp_path / "run.npz").read_bytes()
        rng = random.Random(0)
        for _ in range(30):
            at = rng.randrange(len(content) - 40)
            (tmp_path / "odd.npz").write_bytes(content[:at] + rng.randbytes(30) + content[at + 30 :])
            with contextlib.suppress(FileError):
                agf.load(tmp_path / "odd.npz")
    assert lzma.LZMAError in agf.records.files.DAMAGE


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of two runs, and its rows."""
    folder = tmp_path_factory.mktemp("swept") / "s"
    agf.sweep("diagonal-linear", folder=folder, alpha=[1e-3], seed=range(2), mode=["agf"], keep_files=False)
    (rows,) = (folder / "rows").iterdir()
    return folder, rows, [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("seed", range(40))
def test_a_row_of_a_sweep_is_summarized_or_refused_whatever_is_in_it(swept, capsys, seed):
    folder, rows, documents = swept
    rng = random.Random(seed)
    changed = json.loads(json.dumps(documents))
    row = rng.randrange(len(changed))
    path, value = rng.choice([p for p in _paths(changed[row]) if p]), rng.choice(ODD)
    _replace(changed[row], path, value)
    rows.write_text("".join(json.dumps(document) + "\n" for document in changed), encoding="utf-8")
    code = main.main(["summarize", str(folder)])
    assert code in (main.DONE, main.FAILED, main.WRONG), f"row {row} {path} = {value!r}"
    assert "Traceback" not in capsys.readouterr().err


def test_features_of_several_shapes_are_read_and_are_a_sentence_where_they_must_be_one(runs, tmp_path):
    """A plugin that gives one number an active neuron wrote a run file that nothing could read."""
    found, *_ = runs
    _, members = found["staircase"]
    write(tmp_path / "odd.npz", {**members, "drop1_feature_coefficients.npy": _npy(np.zeros(7))})
    read = agf.load(tmp_path / "odd.npz")
    assert read.drops[1].features["coefficients"].shape == (7,)
    for ask in (lambda: read.features("coefficients"), lambda: agf.plot.features(read)):
        with pytest.raises(agf.RequestError, match="another shape after one drop than after another"):
            ask()
    read.plot()
    agf.graph.saddles([read])


@pytest.mark.parametrize("name", ["log_norms", "active", "directions"])
def test_states_of_drops_are_refused_where_they_are_not_arrays_of_neurons(runs, tmp_path, name):
    """`agf escape` read directions that were text."""
    members = runs[0]["staircase"][1]
    for odd in (np.array(b"text"), np.zeros((2, 3, 4)), np.zeros(0)):
        write(tmp_path / "odd.npz", {**members, f"drop0_{name}.npy": _npy(odd)})
        with pytest.raises(FileError, match="drop0_"):
            agf.load(tmp_path / "odd.npz")


def test_a_feature_that_one_drop_lacks_is_a_sentence(runs, tmp_path):
    members = dict(runs[0]["staircase"][1])
    del members["drop1_feature_coefficients.npy"]
    write(tmp_path / "odd.npz", members)
    with pytest.raises(RequestError, match="no feature 'coefficients'"):
        agf.load(tmp_path / "odd.npz").features("coefficients")


def test_counts_beyond_any_run_are_not_taken_over(runs, tmp_path):
    found, problem, init = runs
    members = found["descent"][1]
    state = np.lib.format.read_array(io.BytesIO(members["state_descent.npy"]))
    write(tmp_path / "odd.npz", {**members, "state_descent.npy": _npy(np.array([3e301, *state[1:]]))})
    with pytest.raises(RequestError, match="no counts"):
        agf.descend(problem, init, lr=0.02, steps=40, resume=agf.load(tmp_path / "odd.npz"))


def test_what_spans_more_than_float64_is_not_drawn(runs, tmp_path):
    members = runs[0]["trajectory"][1]
    values = np.lib.format.read_array(io.BytesIO(members["feature_coefficients.npy"]))
    values = np.where(np.arange(values.size).reshape(values.shape) % 2, 1e308, -1e308)
    write(tmp_path / "odd.npz", {**members, "feature_coefficients.npy": _npy(values)})
    with np.errstate(over="ignore"), pytest.raises(FileError, match="cannot draw"):
        plot.save(plot.features(agf.load(tmp_path / "odd.npz")), tmp_path / "odd.svg")
    assert not (tmp_path / "odd.svg").exists()
