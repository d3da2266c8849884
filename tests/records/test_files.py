"""Run files: complete or absent, versioned, and nothing in them is executed."""

from __future__ import annotations

import io
import json
import math
import os
import stat
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf
from agf import datasets
from agf.errors import DataError, FileError
from agf.records import files
from agf.records.provenance import fingerprint


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "run.npz"
    arrays = {"times": np.array([0.0, 1.5]), "names": np.array(["age", "bmi"]), "empty": np.zeros((0, 3))}
    files.write(path, "note", {"problem": "stub", "level": np.float64(0.5)}, arrays)
    kind, header, back = files.read(path)
    assert kind == "note"
    assert (header["problem"], header["level"]) == ("stub", 0.5)
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype


def test_a_run_file_opens_with_numpy_alone(tmp_path):
    files.write(tmp_path / "run.npz", "note", {}, {"times": np.arange(3.0)})
    with np.load(tmp_path / "run.npz") as archive:
        np.testing.assert_array_equal(archive["times"], np.arange(3.0))


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_float_survives_strict_json(value):
    text = json.dumps(files.jsonable({"x": value}), allow_nan=False)
    back = files.from_json_float(json.loads(text)["x"])
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_plain_values_come_out_of_numpy_ones():
    mixed = {"a": np.arange(2), "b": (np.bool_(True), np.int64(3)), 4: np.float32(0.5), "c": {"d": None}}
    assert files.jsonable(mixed) == {"a": [0, 1], "b": [True, 3], "4": 0.5, "c": {"d": None}}


def test_objects_are_not_written(tmp_path):
    with pytest.raises(TypeError, match="'x' holds Python objects"):
        files.write(tmp_path / "run.npz", "note", {}, {"x": np.array([object()])})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "run.npz"
    path.write_bytes(b"old")

    def write_half_of_it():
        with files.atomic(path) as handle:
            handle.write(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(FileError, match=r"cannot write .*No space left on device"):
        write_half_of_it()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_a_result_has_the_permissions_of_an_ordinary_file(tmp_path):
    old = os.umask(0o022)
    try:
        files.write(tmp_path / "run.npz", "note", {}, {})
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "run.npz").stat().st_mode) == 0o644


def test_paths_that_cannot_be_written_are_refused_beforehand(tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    absent = tmp_path / "absent" / "run.npz"
    cases = [
        (tmp_path, "it is a folder"),
        (absent, "its folder does not exist"),
        ("-", "not taken for standard output"),
        (f"{tmp_path}{os.sep}run.npz{os.sep}", "that of a folder"),
    ]
    if os.geteuid() != 0:  # nothing is locked to root
        cases.append((tmp_path / "locked" / "run.npz", "may not be written"))
    for path, why in cases:
        with pytest.raises(FileError, match=why):
            files.check_writable(path)
        with pytest.raises(FileError):
            files.write(path, "note", {}, {})


def test_a_device_is_never_replaced_by_a_result(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for refuse in (lambda: files.check_writable(pipe), lambda: files.write(pipe, "note", {}, {})):
        with pytest.raises(FileError, match="not an ordinary file"):
            refuse()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def archive_of(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


HEADER = {"format": files.FORMAT, "version": files.VERSION, "kind": "note"}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"x.npy": b""}, "not an agf run file"),
        ({"header.json": b"{"}, "header is not JSON"),
        ({"header.json": b"\xff\xfe"}, "header is not JSON"),
        ({"header.json": b"[1]"}, "not an agf run file"),
        ({"header.json": json.dumps({**HEADER, "format": "other"})}, "not an agf run file"),
        ({"header.json": json.dumps({**HEADER, "version": files.VERSION + 1})}, "Upgrade agf"),
        ({"header.json": json.dumps({**HEADER, "version": "new"})}, "version 'new'"),
        ({"header.json": json.dumps(HEADER), "x.npy": b"not an array"}, "damaged or not plain numbers"),
    ],
)
def test_foreign_files_are_refused_with_the_reason(tmp_path, members, message):
    archive_of(tmp_path / "run.npz", members)
    with pytest.raises(FileError, match=message):
        files.read(tmp_path / "run.npz")


def test_every_truncation_is_refused_in_words(tmp_path):
    path = tmp_path / "run.npz"
    files.write(path, "note", {}, {"times": np.arange(50.0)})
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(FileError, match="cannot read"):
            files.read(path)


def test_any_damaged_byte_is_read_as_written_or_refused(tmp_path):
    path = tmp_path / "run.npz"
    files.write(path, "note", {"note": "x"}, {"times": np.arange(50.0)})
    content = path.read_bytes()
    for position in range(0, len(content), 3):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
        try:
            kind, _, arrays = files.read(path)
        except FileError:
            continue
        assert kind == "note"
        assert all(array.tolist() == list(range(50)) for array in arrays.values())


def test_pickles_in_a_run_file_are_not_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    with zipfile.ZipFile(tmp_path / "run.npz", "w") as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        with archive.open("x.npy", "w") as member:
            np.lib.format.write_array(member, np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match="not plain numbers"):
        files.read(tmp_path / "run.npz")
    assert not (tmp_path / "executed").exists()


def test_members_with_paths_outside_are_never_extracted(tmp_path):
    archive_of(tmp_path / "run.npz", {"header.json": json.dumps(HEADER), "../outside.txt": "x"})
    files.read(tmp_path / "run.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_absent_files_and_folders_are_refused(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        files.read(tmp_path / "run.npz")
    with pytest.raises(FileError, match="it is a folder"):
        files.read(tmp_path)
    with pytest.raises(FileError, match="array 'times' is missing"):
        files.array({}, "times", "run.npz")


def npy(shape, content=b""):
    """A member that declares `shape` of float64 and holds `content`."""
    handle = io.BytesIO()
    np.lib.format.write_array_header_1_0(handle, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return handle.getvalue() + content


@pytest.fixture(params=["run", "data"])
def opened(request):
    """Reads an archive as a run file or as data; both refuse with their own error."""
    return (files.read, FileError) if request.param == "run" else (datasets.read, DataError)


def archive(path, kind, **contents):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        if kind is files.read:
            target.writestr("header.json", json.dumps({"format": files.FORMAT, "version": 1, "kind": "note"}))
        for name, content in contents.items():
            with target.open(f"{name}.npy", "w", force_zip64=True) as member:
                for part in content:
                    member.write(part)


def test_a_header_that_declares_more_than_there_is_allocates_nothing(tmp_path, opened):
    read, error = opened
    archive(tmp_path / "a.npz", read, X=[npy((10**12,), b"\0" * 80)])
    tracemalloc.start()
    with pytest.raises(error, match="declares 8000000000000 bytes, and there are 80"):
        read(tmp_path / "a.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_does(tmp_path, opened):
    read, error = opened
    size = 2**30 + 2**20
    archive(tmp_path / "a.npz", read, X=[npy((size // 8,)), *[bytes(2**20)] * (size // 2**20)])
    assert (tmp_path / "a.npz").stat().st_size < 2**21
    tracemalloc.start()
    with pytest.raises(error, match=r"MiB unpack to 1\.0 GiB, as no measured numbers do"):
        read(tmp_path / "a.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_an_archive_larger_than_the_memory_is_refused_with_both_sizes(tmp_path, opened, monkeypatch):
    read, error = opened
    archive(tmp_path / "a.npz", read, X=[npy((2**17,), np.random.default_rng(0).bytes(2**20))])
    monkeypatch.setattr(files, "memory", lambda: 2**19)
    with pytest.raises(error, match=r"unpacks to 0\.0 GiB, and there are 0\.0 GiB of memory"):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize("kind", ["i1", ">f4", ">f8", "f2", "g"])
def test_numbers_are_read_as_those_that_are_computed_with_whatever_wrote_them(tmp_path, kind):
    problem = agf.TwoLayer(np.eye(3), np.ones(3), activation="relu", width=2)
    run = agf.flow(problem, problem.init(1e-2), t_max=5.0)
    run.save(tmp_path / "run.npz")
    name, header, arrays = files.read(tmp_path / "run.npz")
    logs = np.rint(arrays["log_norms"])
    files.write(tmp_path / "run.npz", name, header, {**arrays, "log_norms": logs.astype(kind)})
    found = agf.load(tmp_path / "run.npz").log_norms
    assert found.dtype == np.float64
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, logs)


def test_a_descent_without_its_learning_rate_is_refused(tmp_path):
    problem = agf.TwoLayer(np.eye(3), np.ones(3), activation="relu", width=2)
    agf.descend(problem, problem.init(1e-2), lr=0.1, steps=5).save(tmp_path / "run.npz")
    name, header, arrays = files.read(tmp_path / "run.npz")
    del header["settings"]["lr"]
    files.write(tmp_path / "run.npz", name, header, arrays)
    with pytest.raises(FileError, match=r"settings\.lr.*missing"):
        agf.load(tmp_path / "run.npz")


@pytest.mark.parametrize("header", ["{'descr': '<f8', (", "{'descr': 3", "'" * 3, "\x00"])
def test_a_header_of_an_array_that_is_no_python_is_refused(tmp_path, header):
    """An error of Python's tokenizer is none of its others."""
    files.write(tmp_path / "run.npz", "note", {}, {})
    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with zipfile.ZipFile(tmp_path / "run.npz", "a") as archive:
        archive.writestr("times.npy", body)
    with pytest.raises(FileError, match="cannot read"):
        files.read(tmp_path / "run.npz")


def test_a_name_that_no_file_can_have_is_named_before_anything_is_computed(tmp_path):
    for path in (tmp_path / ("x" * 256), tmp_path / ("\u00e9" * 200)):
        with pytest.raises(FileError, match=r"cannot write .*: a name has up to 255 bytes.*Nothing was computed"):
            files.check_writable(path)


@pytest.mark.parametrize("version", [True, 0, -5, "1", 99, None])
def test_a_version_that_is_none_is_told_as_it_is(tmp_path, version, monkeypatch):
    monkeypatch.setattr(files, "VERSION", version)
    files.write(tmp_path / "run.npz", "note", {}, {})
    monkeypatch.undo()
    with pytest.raises(FileError, match=f"it is version {version!r}, and this agf reads"):
        files.read(tmp_path / "run.npz")


def test_the_fingerprint_of_numbers_beyond_float64_is_no_warning():
    with np.errstate(all="raise"):
        assert fingerprint({"X": np.array([np.longdouble("1e400"), np.longdouble("1e-400")])})


def test_a_name_that_moves_the_cursor_is_refused_of_a_class_and_of_a_file(tmp_path):
    """It reached the terminal by the repr of a result."""
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=np.ones(2))
    stairs = agf.predict(problem, problem.init(1e-4), mode="agf")
    for name in ("a\x1b[31m", "\u202eb", "\n", ""):
        named = type(problem)(X=np.eye(2), y=np.ones(2))
        named.name = name
        with pytest.raises(agf.ProblemError, match="text of printable letters"):
            agf.predict(named, problem.init(1e-4))
        replace(stairs, problem=name).save(tmp_path / "run.npz")
        with pytest.raises(FileError, match="a name of printable letters"):
            agf.load(tmp_path / "run.npz")
