"""Loss curves of training loops elsewhere: writing them, reading them, and the map from their steps to flow time."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np

from agf.arrays import FloatArray, count, parsed, positive
from agf.asked import asked
from agf.clock import Clock
from agf.errors import DataError, FileError, RequestError, explain
from agf.records import files
from agf.records.status import Status
from agf.results import curve

#: Column names understood when none is given, in order of preference; case does not matter.
LOSSES = ("loss", "train_loss", "training_loss", "train/loss")
TIMES = ("time", "t", "flow_time")
STEPS = ("step", "steps", "iteration", "iter", "update")
_SEPARATORS = ",;\t "
#: Rows of a written curve an e-fold of steps: what a picture on a logarithmic axis can show. Cost: size of the file.
_ROWS = 200


@asked
class CurveWriter:
    """Writes the loss of a training loop of your own, as `Trajectory.from_csv` and `agf compare --curve` read it.

    Rows are kept ever more sparsely, about 200 an e-fold of steps, and each is on its way to the disk at once, so that
    a run that is killed leaves its curve. A loss on a GPU is fetched only for the rows that are kept.

    Parameters
    ----------
    path : str or os.PathLike
        The csv file, written anew.

    Raises
    ------
    FileError
        For a file that cannot be written.

    Examples
    --------
    >>> curve = agf.CurveWriter("sgd.csv")  # doctest: +SKIP
    >>> for inputs, targets in batches:  # doctest: +SKIP
    ...     loss = criterion(model(inputs), targets)
    ...     curve(loss)  # before the step that it leads to
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        files.check_writable(path)
        self.path = Path(path)
        self.step = 0
        try:
            self.path.write_text("step,loss\n", encoding="utf-8")
        except OSError as error:
            raise FileError(explain(f"cannot write {str(path)!r} ({error.strerror}).")) from None

    def __call__(self, loss: Any, step: int | None = None) -> None:
        """One step of the loop.

        Parameters
        ----------
        loss : float or tensor
            The loss before the step is taken.
        step : int, optional
            Number of steps taken before; by default calls are counted, from 0.

        Raises
        ------
        DataError
            For a loss that is no number, or steps that are no count.
        FileError
            When it can no longer be written.
        """
        now = self.step if step is None else count(step, "step", where="CurveWriter", least=0)
        self.step = now + 1
        if now % max(1, now // _ROWS):
            return
        try:  # a loss that is NaN is written as it is: the loop goes on, and who reads the curve is told
            if isinstance(loss, str | bytes | bool):
                raise TypeError
            value = float(loss.detach() if hasattr(loss, "detach") else loss)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            where = f"CurveWriter, step {now}"
            raise DataError(
                explain("the loss is not one number.", where=where, found=f"{type(loss).__name__} {loss!r:.60}")
            ) from None
        try:
            with open(self.path, "a", encoding="utf-8") as handle:
                handle.write(f"{now},{value!r}\n")
        except OSError as error:
            raise FileError(explain(f"cannot write {str(self.path)!r} ({error.strerror}).")) from None


def fields(
    path: str | os.PathLike[str],
    time: str | int | None,
    loss: str | int | None,
    step: str | int | None,
    lr: float | None,
    momentum: float,
    loss_scale: float,
) -> dict[str, Any]:
    """The fields of a `Trajectory` from the file at `path`, with a note that states the time map; see
    `Trajectory.from_csv`."""
    where = str(path)
    header, table = _table(path)
    if time is not None and step is not None:
        raise RequestError(explain("both `time` and `step` are given.", where=where, expected="one of them"))
    losses = table[:, _column(header, table, loss, LOSSES, "loss", where)]
    if step is None and (time is not None or (lr is None and _find(header, TIMES) is not None)):
        times = table[:, _column(header, table, time, TIMES, "time", where)]
        if lr is not None:
            raise RequestError(explain("`lr` is for steps, and a column of times is named.", where=where))
        note = "Times in the file are taken as flow times."
    else:
        if lr is None:
            raise RequestError(
                explain(
                    "there is no column of times, and steps need a learning rate.",
                    where=where,
                    found="columns " + ", ".join(header),
                    expected="a column `time` in flow time, or steps and their learning rate",
                    remedy="Give lr= (on the command line --lr, and --momentum).",
                )
            )
        steps = table[:, _column(header, table, step, STEPS, "step", where)]
        lr = positive(lr, "lr", where=where)
        if not 0 <= momentum < 1:
            raise RequestError(explain("`momentum` must be in [0, 1).", where=where, found=momentum))
        times = Clock.flow_of_steps(steps, lr, momentum)
        note = f"Flow time = step x lr / (1 - momentum) = step x {lr / (1 - momentum):g}, right to first order in lr."
    loss_scale = positive(loss_scale, "loss_scale", where=where)
    if loss_scale != 1:
        times, losses = times * loss_scale, losses / loss_scale
        note += (
            f" The loss in the file is {loss_scale:g} times that of the problem: divided by it, and times multiplied."
        )
    times, losses = curve.check(times, losses, where)
    settings: dict[str, Any] = {"path": where}
    if lr is not None:
        settings |= {"lr": float(lr), "momentum": momentum}
    if loss_scale != 1:
        settings["loss_scale"] = float(loss_scale)
    return {
        "method": "csv",
        "times": times,
        "losses": losses,
        "status": Status.CURVE,
        "settings": settings,
        "notes": (note,),
    }


def _table(path: str | os.PathLike[str]) -> tuple[list[str], FloatArray]:
    """Column names ("0", "1", ... without a header) and numbers (rows, columns)."""
    where = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileError(explain(f"cannot read {where!r}: {error.strerror or error}.")) from None
    except UnicodeDecodeError:
        raise FileError(explain(f"cannot read {where!r}: it is not text.", expected="a csv file")) from None
    except (ValueError, TypeError) as error:  # a null character in it, or no path at all
        raise FileError(explain(f"cannot read {where!r}: {error}.")) from None
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise DataError(explain("the file is empty.", where=where))
    separator = max(_SEPARATORS, key=lambda mark: (lines[0].strip().count(mark), -_SEPARATORS.index(mark)))
    try:
        rows = [
            [cell.strip() for cell in row if cell or separator != " "]
            for row in csv.reader(lines, delimiter=separator, skipinitialspace=True)
        ]
    except csv.Error as error:  # a cell of thousands of letters, say
        raise FileError(explain(f"cannot read {where!r}: {error}.", expected="a csv file")) from None
    if any(parsed(cell) is None for cell in rows[0]):
        header, rows = rows[0], rows[1:]
    else:
        header = [str(i) for i in range(len(rows[0]))]
    if not rows:
        raise DataError(explain("the file has a header and no rows.", where=where))
    out = np.empty((len(rows), len(header)))
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise DataError(
                explain(f"row {i + 1} has {len(row)} cells.", where=where, expected=f"{len(header)}, as in the header")
            )
        # Cells that are not numbers are refused only in the columns that are used.
        out[i] = [np.nan if (value := parsed(cell)) is None else value for cell in row]
    return header, out


def _find(header: list[str], names: tuple[str, ...]) -> int | None:
    lower = [name.strip().lower() for name in header]
    return next((lower.index(name) for name in names if name in lower), None)


def _column(header: list[str], table: FloatArray, wanted: Any, names: tuple[str, ...], what: str, where: str) -> int:
    """Index of a column, by name or index, or by its usual names; a file of two unnamed columns is x, loss."""
    if wanted is None:
        found = _find(header, names)
        if found is None and header == ["0", "1"]:
            found = 1 if what == "loss" else 0
    elif isinstance(wanted, int):
        found = wanted if -len(header) <= wanted < len(header) else None
    else:
        found = header.index(wanted) if wanted in header else _find(header, (str(wanted).lower(),))
    if found is None:
        raise DataError(
            explain(
                f"there is no column {wanted if wanted is not None else what!r}.",
                where=where,
                found="columns " + ", ".join(header),
                remedy=f"Call it {names[0]!r} in the file, or name it with {what}= in Python.",
            )
        )
    bad = np.flatnonzero(~np.isfinite(table[:, found]))
    if bad.size:
        raise DataError(
            explain(
                f"column {header[found]!r} has {bad.size} cell(s) that are not finite numbers, "
                f"the first in row {int(bad[0]) + 1}.",
                where=where,
                remedy="Remove those rows first.",
            )
        )
    return found
