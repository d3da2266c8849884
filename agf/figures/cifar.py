"""CIFAR-10 from a folder that somebody already has, prepared as in [AGF] figure 7. Nothing is fetched."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from agf.errors import DataError, explain

#: Source: images are 32 x 32 in three colours, one after the other; [AGF] centres 10,000 and trains on half of them.
_PIXELS, _COLOURS = 1024, 3
_CENTRED, _ROWS = 10_000, slice(2_000, 7_000)
_FOLDERS = ("", "cifar-10-batches-bin", "cifar-10-batches-py")


def load(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Grey images and classes of CIFAR-10, from the files of its binary or its python version.

    Parameters
    ----------
    folder : str or os.PathLike[str]
        The folder that holds data_batch_1 and data_batch_2 (with or without .bin), or the one above it.

    Returns
    -------
    dict[str, np.ndarray]
        X (5000, 1024), training images 2,000 to 6,999, the mean of their colours over 255, minus the mean image of the
        first 10,000; Y (5000, 10), one-hot rows minus 1/10.

    Raises
    ------
    DataError
        Where the files are missing or are not those.
    """
    images, classes = zip(*(_batch(_path(Path(folder), k)) for k in (1, 2)), strict=True)
    grey = np.concatenate(images).reshape(-1, _COLOURS, _PIXELS).mean(axis=1) / 255.0
    grey -= grey[:_CENTRED].mean(axis=0)
    return {"X": grey[_ROWS], "Y": np.eye(10)[np.concatenate(classes)][_ROWS] - 0.1}


def _path(folder: Path, k: int) -> Path:
    for each in _FOLDERS:
        for suffix in (".bin", ""):
            path = folder / each / f"data_batch_{k}{suffix}"
            if path.is_file():
                return path
    raise DataError(
        explain(
            f"there is no CIFAR-10 in {str(folder)!r}: data_batch_{k} is missing.",
            expected="a folder with the files of its binary or python version",
        )
    )


def _batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Bytes (n, 3072) and classes (n,) of one file."""
    size = _COLOURS * _PIXELS
    raw = path.read_bytes()
    try:
        if path.suffix == ".bin":
            rows = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 1 + size)
            images, classes = rows[:, 1:], rows[:, 0]
        else:
            batch = _Plain(io.BytesIO(raw), encoding="bytes").load()
            images, classes = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
        whole = images.shape == (classes.size, size) and images.dtype == np.uint8 and classes.max() < 10
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(explain(f"{str(path)!r} is not a batch of CIFAR-10 ({error}).")) from None
    if not whole:
        raise DataError(
            explain(f"{str(path)!r} is not a batch of CIFAR-10.", expected=f"rows of {size} bytes, 10 classes")
        )
    return images, classes


class _Plain(pickle.Unpickler):
    """Reads arrays, numbers and text, and runs nothing else that a file may name."""

    def find_class(self, module: str, name: str) -> Any:
        array = module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype")
        if array or (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")
