"""What a pipeline of pruning and restarts found: masks, weights and losses of every cycle, and its signs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.asked import asked
from agf.init import Init
from agf.records import files
from agf.records.table import Table, number
from agf.results import origin
from agf.results.drawn import Drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Signs:
    """Signs of the weights over the cycles, those alive in the last mask but for `flips`.

    Parameters
    ----------
    last_change : int ndarray, shape (N,)
        Last cycle at whose end the sign was not that of the end before (for cycle 0, of the start); 0 if never.
    switches : int ndarray, shape (N,)
        How often that was so.
    flips : int ndarray, shape (L + 1,)
        Weights alive at the end of each cycle whose sign is not that of the initial weights.
    """

    last_change: IntArray
    switches: IntArray
    flips: IntArray


@asked
@dataclass(frozen=True, repr=False)
class Rewinding(Drawn):
    """Cycles of training and pruning; cycle 0 is the dense network. L + 1 cycles are done.

    The picture: score, accuracy or loss over the weights pruned, the first that is known, and the signs that flipped.

    Parameters
    ----------
    problem : str
        Name of the problem.
    arguments : dict[str, Any]
        Its constructor arguments.
    init : Init
        Where the dense network started.
    settings : dict[str, Any]
        What was asked for: method, cycles, keep, ...
    masks : bool ndarray, shape (L + 1, H, P)
        Weights that were trained in each cycle.
    starts : float ndarray, shape (L + 1, H, P)
        Weights from which each cycle started.
    ends : float ndarray, shape (L + 1, H, P)
        Weights at its end.
    rewound : float ndarray, shape (H, P)
        Weights that IMP and WR go back to.
    losses : float ndarray, shape (L + 1,)
        Loss at the end of each cycle.
    accuracies : float ndarray, shape (L + 1,)
        Accuracy there, NaN without classes.
    scores : float ndarray, shape (L + 1,)
        What the user's `score` gave there, NaN without one.
    """

    problem: str
    arguments: dict[str, Any]
    init: Init
    settings: dict[str, Any]
    masks: BoolArray
    starts: FloatArray
    ends: FloatArray
    rewound: FloatArray
    losses: FloatArray
    accuracies: FloatArray
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def cycles(self) -> int:
        """Cycles done, beside the dense one."""
        return self.masks.shape[0] - 1

    @property
    def done(self) -> bool:
        """Whether all that were asked for are done."""
        return self.cycles >= int(self.settings["cycles"])

    @property
    def left(self) -> FloatArray:
        """(L + 1,) fraction of the weights that each cycle trained."""
        return self.masks.mean(axis=(1, 2))

    def signs(self) -> Signs:
        """Which signs changed between the ends of cycles, and how often."""
        first = np.sign(self.init.directions)[None]
        ends = np.sign(self.ends)
        changed = np.concatenate([first, ends])[1:] * np.concatenate([first, ends])[:-1] < 0
        alive = self.masks[-1]
        cycles = np.arange(changed.shape[0])[:, None]
        inside = changed[:, alive]
        away = (ends * first < 0) & self.masks
        return Signs(np.max(np.where(inside, cycles, 0), axis=0, initial=0), inside.sum(axis=0), away.sum(axis=(1, 2)))

    def table(self) -> Table:
        """One row a cycle."""
        flips = self.signs().flips
        rows = [
            [str(i), number(float(self.left[i])), number(float(self.losses[i]), 6), number(float(self.accuracies[i])),
             number(float(self.scores[i]) if self.scores.size else np.nan), str(int(flips[i]))]
            for i in range(self.cycles + 1)
        ]  # fmt: skip
        columns = ["cycle", "weights left", "loss", "accuracy", "score", "flips from the start"]
        used = [k for k in range(len(columns)) if any(row[k] != "-" for row in rows)]
        asked = int(self.settings["cycles"])
        notes = [] if self.done else [f"{self.cycles} of {asked} cycles are done."]
        return Table(
            f"{str(self.settings['method']).upper()} on {self.problem}, {self.settings['keep']:g} kept a cycle",
            [columns[k] for k in used],
            [[row[k] for k in used] for row in rows],
            notes,
        )

    def __repr__(self) -> str:
        return f"<Rewinding of {self.problem}: {self.settings['method']}, {self.cycles} cycles>"

    def _draw(self, ax: Axes | None) -> Axes:
        from agf.pictures import signs

        return signs.cycles(self, ax=ax)

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row a cycle.

        * `cycle`: 0 is the dense network
        * `left`: fraction of the weights that it trained
        * `loss`, `accuracy`, `score`: at its end
        * `flips`: weights alive then whose sign is not that of the initial weights

        Returns
        -------
        pandas.DataFrame
            What is not known is NaN.

        Raises
        ------
        RequestError
            When pandas is not installed.
        """
        from agf.results import frames

        scores = self.scores if self.scores.size else np.full(self.losses.size, np.nan)
        return frames.frame({
            "cycle": np.arange(self.cycles + 1), "left": self.left, "loss": self.losses, "accuracy": self.accuracies,
            "score": scores, "flips": self.signs().flips,
        })  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        signs = self.signs()
        return {
            "problem": self.problem,
            "settings": self.settings,
            "left": self.left.tolist(),
            "losses": self.losses.tolist(),
            "accuracies": self.accuracies.tolist(),
            "scores": self.scores.tolist(),
            "flips": signs.flips.tolist(),
            "switches": int(signs.switches.sum()),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a run file at `path`. Raises FileError when it cannot be written; nothing is then left behind."""
        plain, arrays = origin.split(self.arguments, self.init)
        header = {
            "problem": self.problem,
            "settings": self.settings,
            **plain,
        }
        arrays.update({name: getattr(self, name) for name in _ARRAYS})
        files.write(path, "rewinding", header, arrays)

    @classmethod
    def from_file(cls, header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> Rewinding:
        """From header and arrays of the run file at `path`. Raises FileError when parts are missing."""
        with files.complete(path):
            init = origin.init(header, arrays, path)
            if init is None:
                raise KeyError("init")
            return cls(
                problem=header["problem"],
                arguments=origin.arguments(header["arguments"], arrays, path),
                init=init,
                settings=files.typed(header["settings"], dict),
                **{name: files.array(arrays, name, path) for name in _ARRAYS},
            )


_ARRAYS = ("masks", "starts", "ends", "rewound", "losses", "accuracies", "scores")
