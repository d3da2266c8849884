"""Run files: what is saved comes back, and what is not ours is refused in a sentence."""

from __future__ import annotations

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from tiny import Product, Samples

import agf
from agf import FileError, Init


@pytest.fixture
def trajectory():
    return agf.flow(Product(), Init.scaled(np.ones((1, 2)), 1e-200))


@pytest.fixture
def saved(trajectory, tmp_path):
    path = tmp_path / "run.npz"
    trajectory.save(path)
    return path


def rewrite(path, change):
    """The same file with `change(header, members)` applied to its parts."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members.pop("header.json"))
    change(header, members)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_trajectory_comes_back_to_the_bit(trajectory, saved):
    again = agf.load(saved)
    for name in ("times", "losses", "slopes", "snapshot_times", "log_norms", "directions"):
        assert np.array_equal(getattr(again, name), getattr(trajectory, name)), name
    assert np.array_equal(again.features("output"), trajectory.features("output"))
    assert again.settings == trajectory.settings
    assert again.status is trajectory.status
    assert np.array_equal(again.init.log_norms, trajectory.init.log_norms)
    assert again.clock == trajectory.clock
    assert str(again) == str(trajectory)
    assert again.state.keys() == trajectory.state.keys()


def test_a_staircase_comes_back(tmp_path):
    stairs = agf.predict(Product(), Init.scaled(np.ones((1, 2)), 1e-6), mode="agf")
    stairs.save(tmp_path / "stairs.npz")
    again = agf.load(tmp_path / "stairs.npz")
    assert str(again) == str(stairs)
    assert np.array_equal(again.times, stairs.times)
    assert np.array_equal(again.levels, stairs.levels)


def test_the_data_of_a_problem_come_back(rng, tmp_path):
    X = rng.standard_normal((6, 2))
    problem = Samples(X, X @ np.ones(2))
    agf.flow(problem, problem.init(alpha=1e-2), max_steps=3).save(tmp_path / "run.npz")
    arguments = agf.load(tmp_path / "run.npz").arguments
    assert np.array_equal(arguments["X"], X)


def test_a_foreign_file_is_refused(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a run")
    arrays = tmp_path / "arrays.npz"
    np.savez(arrays, x=np.ones(3))
    for path, why in ((text, "damaged or not a run file"), (arrays, "not an agf run file"), (tmp_path, "folder")):
        with pytest.raises(FileError, match=why):
            agf.load(path)
    with pytest.raises(FileError, match="no such file"):
        agf.load(tmp_path / "none.npz")


def test_a_truncated_file_is_refused(saved):
    content = saved.read_bytes()
    for share in (0.2, 0.6, 0.95):
        saved.write_bytes(content[: int(share * len(content))])
        with pytest.raises(FileError, match="cannot read"):
            agf.load(saved)


def test_a_later_version_is_refused(saved):
    rewrite(saved, lambda header, members: header.update(version=99))
    with pytest.raises(FileError, match=r"version 99.*Upgrade"):
        agf.load(saved)


def test_an_unknown_kind_is_refused(saved):
    rewrite(saved, lambda header, members: header.update(kind="poem"))
    with pytest.raises(FileError, match="it holds 'poem'"):
        agf.load(saved)


@pytest.mark.parametrize("name", ["losses.npy", "init_directions.npy", "feature_output.npy"])
def test_a_missing_array_is_named(saved, name):
    rewrite(saved, lambda header, members: members.pop(name))
    with pytest.raises(FileError, match=f"`{name[:-4]}` is missing"):
        agf.load(saved)


@pytest.mark.parametrize("name", ["status", "settings", "degree"])
def test_a_header_without_its_parts_is_refused(saved, name):
    rewrite(saved, lambda header, members: header.pop(name))
    with pytest.raises(FileError, match="missing or of the wrong kind"):
        agf.load(saved)


def test_pickles_are_never_executed(saved, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    def plant(header, members):
        buffer = io.BytesIO()
        np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
        members["losses.npy"] = buffer.getvalue()
        members["extra.npy"] = pickle.dumps(Bomb())

    rewrite(saved, plant)
    with pytest.raises(FileError, match="cannot read"):
        agf.load(saved)
    assert not (tmp_path / "exploded").exists()
