"""CIFAR-10 from a folder: both of its file formats, what is no CIFAR-10, and the second row of figure 7."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from agf import datasets, figures
from agf.errors import DataError
from agf.figures import cifar, relu

PIXELS = 3072


@pytest.fixture(scope="module")
def batches():
    """Two batches of 5,000 random images of 10 classes."""
    rng = np.random.default_rng(0)
    return [(rng.integers(0, 256, (5000, PIXELS), dtype=np.uint8), rng.integers(0, 10, 5000)) for _ in range(2)]


def write_binary(folder, batches):
    folder.mkdir()
    for k, (images, classes) in enumerate(batches, 1):
        rows = np.column_stack([classes.astype(np.uint8), images])
        (folder / f"data_batch_{k}.bin").write_bytes(rows.tobytes())


def write_python(folder, batches):
    folder.mkdir()
    for k, (images, classes) in enumerate(batches, 1):
        batch = {b"data": images, b"labels": classes.tolist()}
        (folder / f"data_batch_{k}").write_bytes(pickle.dumps(batch, protocol=2))


def test_both_versions_are_read_alike_and_prepared_as_said(tmp_path, batches):
    write_binary(tmp_path / "cifar-10-batches-bin", batches)
    write_python(tmp_path / "python", batches)
    found = [cifar.load(tmp_path), cifar.load(tmp_path / "python")]
    for name in ("X", "Y"):
        np.testing.assert_array_equal(found[0][name], found[1][name])
    images, classes = (np.concatenate(part) for part in zip(*batches, strict=True))
    grey = (images[:, :1024].astype(float) + images[:, 1024:2048] + images[:, 2048:]) / 3 / 255
    np.testing.assert_allclose(found[0]["X"], (grey - grey.mean(axis=0))[2000:7000], atol=1e-12)
    np.testing.assert_array_equal(found[0]["Y"].argmax(axis=1), classes[2000:7000])
    np.testing.assert_allclose(found[0]["Y"].sum(axis=1), 0.0, atol=1e-12)


def test_what_is_no_cifar_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(DataError, match="no CIFAR-10 in"):
        cifar.load(tmp_path)
    (tmp_path / "data_batch_1.bin").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="is not a batch"):
        cifar.load(tmp_path)
    (tmp_path / "data_batch_1.bin").write_bytes(b"\x0b" + bytes(PIXELS))
    with pytest.raises(DataError, match="is not a batch"):
        cifar.load(tmp_path)


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("made by a file that was only to be read",)


def test_a_file_cannot_have_anything_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Hostile()}))
    with pytest.raises(DataError, match="is not a batch"):
        cifar.load(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data_batch_1"]


def test_figure_7_has_a_second_row_where_there_is_cifar_and_the_line_of_the_best_linear_map(monkeypatch):
    rng = np.random.default_rng(0)
    inputs, classes = rng.standard_normal((200, 3)), rng.integers(0, 2, 200)
    inputs[:, 0] += 3.0 * (classes == 0)
    small = {"X": inputs, "Y": np.eye(2)[classes] - 0.5}
    monkeypatch.setattr(cifar, "load", lambda folder: small)
    monkeypatch.setattr(datasets, "load", lambda name: small)
    monkeypatch.setattr(relu, "_ALPHA", 1e-2)
    rendition = figures.make("fig7", fast=True, data="folder")
    assert {panel.split("-width")[0] for panel in rendition.panels} == {"digits", "CIFAR-10"}
    linear = rendition.settings["best linear predictor"]
    used, targets = inputs[::10], np.eye(2)[classes][::10] - 0.5
    by_hand = 0.5 * np.sum((targets - used @ np.linalg.pinv(used) @ targets) ** 2) / len(used)
    assert linear["CIFAR-10"] == pytest.approx(by_hand, rel=1e-9)
    for ax in rendition.figure.axes:
        assert any(np.ptp(line.get_ydata()) == 0 and len(line.get_ydata()) == 2 for line in ax.lines)
