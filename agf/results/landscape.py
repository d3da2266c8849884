"""What competes: the critical directions of the utility at one network, with what each of them would do."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.asked import asked
from agf.records import files
from agf.records.table import Table, Tabular, counted, number, one_line, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Rows of the printed table. Limit: of a glance; all are in the result, and `--all` prints them.
_ROWS = 12


@dataclass(frozen=True)
class Critical:
    """One critical direction of the utility on the unit sphere of one neuron's parameters.

    Parameters
    ----------
    direction : ndarray
        (P,) unit vector, laid out as a row of theta.
    utility : float
        Its utility, unit: loss. A dormant neuron there grows where it is positive, and shrinks where it is negative.
    kind : str
        "maximum", "minimum", "saddle" or "degenerate". For a ReLU neuron that is said of the function
        G(w) = E[r relu(w . x)]: neurons with a > 0 end at its maxima, those with a < 0 at its minima.
    label : str
        A few words.
    neuron : int or None
        The neuron that it belongs to, where neurons are not interchangeable.
    share : float
        Part of the neurons with this sign of the output weight that end here, from directions drawn uniformly;
        NaN where not known.
    drop : float
        Loss that one neuron takes off by growing in this direction while the others follow, fitted anew to first order
        (of ReLU networks the large ones, along the kinks they are on): U^2 / 4C with its self-interaction C. NaN where
        it shrinks; inf where active ones make it already. `agf.landscape` says it of the network as it is, `agf.escape`
        of the critical point next to it, where neurons that shrink do not follow: at rest, without these, it is one.
    pattern : ndarray or None
        (n,) for ReLU: sign of w . x_k.
    slopes : ndarray or None
        (n,) for ReLU: slope of sigma at each sample, balanced at the kinks.
    """

    direction: FloatArray
    utility: float
    kind: str
    label: str = ""
    neuron: int | None = None
    share: float = np.nan
    drop: float = np.nan
    pattern: IntArray | None = None
    slopes: FloatArray | None = None

    @property
    def grows(self) -> bool:
        """Whether a dormant neuron in this direction grows."""
        return self.utility > 0


@dataclass(frozen=True)
class Region:
    """Directions in which the utility is 0 and flat: a dormant neuron there stays where it is.

    Parameters
    ----------
    label : str
        A few words, such as "no sample active".
    kind : str
        Of G on it: "minimum" where it rises on leaving, "maximum", "saddle".
    dead : bool
        Whether no sample is active, so that it stays for ever, whatever the others do.
    share : float
        Part of the directions that lie in it, NaN where not known.
    pattern : ndarray or None
        (n,) sign of w . x_k.
    """

    label: str
    kind: str
    dead: bool
    share: float = np.nan
    pattern: IntArray | None = None


@asked
@dataclass(frozen=True, repr=False)
class Landscape(Tabular):
    """Critical directions of the utility at one network, in order of falling utility.

    Parameters
    ----------
    problem : str
        Name of the problem.
    degree : int
        kappa, so that `rate` is kappa times the utility.
    at : str
        Which network, in words.
    level : float
        Its loss.
    criticals : tuple of Critical
        The directions.
    flats : tuple of Region
        Regions where the utility is flat and 0.
    complete : bool
        Whether these are all.
    how : str
        How they were found, in words.
    notes : tuple of str
        What the reader should know.
    samples : ndarray or None
        (n, d) inputs of a ReLU problem, for pictures.
    residual : ndarray or None
        (n,) weighted residual of a ReLU problem, for pictures.
    leak : float
        Slope of a ReLU neuron left of 0, for pictures.
    """

    problem: str
    degree: int
    at: str
    level: float
    criticals: tuple[Critical, ...]
    flats: tuple[Region, ...] = ()
    complete: bool = True
    how: str = ""
    notes: tuple[str, ...] = ()
    samples: FloatArray | None = field(default=None)
    residual: FloatArray | None = field(default=None)
    leak: float = 0.0

    def __len__(self) -> int:
        return len(self.criticals)

    @property
    def utilities(self) -> FloatArray:
        """(m,) utility of each direction, falling."""
        return np.array([one.utility for one in self.criticals])

    @property
    def rates(self) -> FloatArray:
        """(m,) kappa U: for kappa 2, the rate at which the log of the norm grows there, per unit of flow time."""
        return self.degree * self.utilities

    @property
    def directions(self) -> FloatArray:
        """(m, P) unit vectors."""
        return np.array([one.direction for one in self.criticals])

    @property
    def kinds(self) -> tuple[str, ...]:
        """(m,) kinds."""
        return tuple(one.kind for one in self.criticals)

    @property
    def shares(self) -> FloatArray:
        """(m,) shares of the neurons of the sign of each direction."""
        return np.array([one.share for one in self.criticals])

    @property
    def best(self) -> Critical | None:
        """The direction that grows fastest, None where nothing grows."""
        return self.criticals[0] if self.criticals and self.criticals[0].grows else None

    @property
    def ends(self) -> tuple[Critical, ...]:
        """Where dormant neurons end: the maxima and minima, and degenerate directions that some of them reach.

        Beside a wall that does not bend a neuron stays: with orthogonal inputs, every set of samples has its own end.
        """
        return tuple(
            one
            for one in self.criticals
            if one.kind in ("maximum", "minimum") or (one.kind == "degenerate" and one.share > 0)
        )

    def count(self, kind: str) -> int:
        """Number of directions of that kind."""
        return self.kinds.count(kind)

    def table(self, whole: bool = False) -> Table:
        """The directions as a table: the twelve of largest utility, or all where it is to be `whole`."""
        shown = self.criticals if whole else self.criticals[:_ROWS]
        rows = [
            [one.label, number(one.utility, 6), number(self.degree * one.utility, 6), one.kind,
             _does(one), _kinks(one), percent(one.share), number(one.drop if np.isfinite(one.drop) else np.nan, 4)]
            for one in shown
        ]  # fmt: skip
        columns = ["direction", "utility", "rate", "kind", "neurons", "slopes at kinks", "share", "drop"]
        if all(one.slopes is None for one in self.criticals):
            columns.remove("slopes at kinks")
            rows = [row[:5] + row[6:] for row in rows]
        counts = [f"{self.count(k)} {k if self.count(k) == 1 else word}" for k, word in _WORDS if self.count(k)]
        notes = [f"{', '.join(counts) or 'No critical direction'}. {self.how}."]
        if self.count("minimum") and self.samples is not None:
            notes.append("Kinds are of G(w) = E[r relu(w . x)]: neurons with a < 0 end at its minima.")
        if not self.complete:
            notes.append("Found, not proven complete: there may be others.")
        notes += [
            f"Flat: {flat.label}, a {flat.kind} of G"
            + (f", {percent(flat.share)} of the directions" if np.isfinite(flat.share) else "")
            + (", for ever." if flat.dead else ".")
            for flat in self.flats
        ]
        if len(self) > len(shown):
            notes.append(f"And {len(self) - len(shown)} more, of smaller utility (agf landscape --all, --json).")
        return Table(
            f"Utility of {self.problem} at {self.at}, loss {number(self.level, 6)}",
            columns,
            rows,
            [*notes, *self.notes],
        )

    def __repr__(self) -> str:
        return one_line(f"<Landscape of {self.problem} at {self.at}: {counted(len(self), 'critical direction')}>")

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Axes | None = None, view: str = "auto") -> Axes:
        """Draw the critical directions (`agf.plot.landscape`).

        Parameters
        ----------
        path : str or os.PathLike or None, optional
            Picture to write.
        ax : matplotlib.axes.Axes or None, optional
            Where to draw; a new figure when None.
        view : str, optional
            "circle", "sphere" or "bars"; "auto" chooses by the number of inputs.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn on.
        """
        from agf import plot

        return plot.save(plot.landscape(self, ax=ax, view=view), path)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        return {
            "problem": self.problem,
            "degree": self.degree,
            "at": self.at,
            "level": self.level,
            "complete": self.complete,
            "how": self.how,
            "criticals": [
                {
                    "direction": one.direction.tolist(),
                    "utility": one.utility,
                    "rate": self.degree * one.utility,
                    "kind": one.kind,
                    "grows": one.grows,
                    "label": one.label,
                    "neuron": one.neuron,
                    "share": one.share,
                    "drop": one.drop,
                    "pattern": None if one.pattern is None else one.pattern.tolist(),
                    "slopes": None if one.slopes is None else one.slopes.tolist(),
                }
                for one in self.criticals
            ],
            "flats": [
                {
                    "label": flat.label,
                    "kind": flat.kind,
                    "dead": flat.dead,
                    "share": flat.share,
                    "pattern": None if flat.pattern is None else flat.pattern.tolist(),
                }
                for flat in self.flats
            ],
            "notes": list(self.notes),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a run file at `path`. Raises FileError when it cannot be written; nothing is then left behind."""
        arrays = {name: getattr(self, name) for name in ("samples", "residual") if getattr(self, name) is not None}
        files.write(path, "landscape", {"result": self.to_dict(), "leak": self.leak}, arrays)

    @classmethod
    def from_file(cls, header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> Landscape:
        """From header and arrays of the run file at `path` (`files.read`). Raises FileError when parts are missing."""
        with files.complete(path):
            found = header["result"]
            criticals = tuple(
                Critical(
                    np.array(one["direction"], dtype=np.float64),
                    files.from_json_float(one["utility"]),
                    files.typed(one["kind"], str),
                    files.typed(one["label"], str),
                    one["neuron"],
                    files.from_json_float(one["share"]),
                    files.from_json_float(one["drop"]),
                    None if one["pattern"] is None else np.array(one["pattern"], dtype=np.int64),
                    None if one["slopes"] is None else np.array(one["slopes"], dtype=np.float64),
                )
                for one in found["criticals"]
            )
            flats = tuple(
                Region(
                    files.typed(flat["label"], str),
                    files.typed(flat["kind"], str),
                    bool(flat["dead"]),
                    files.from_json_float(flat["share"]),
                    None if flat["pattern"] is None else np.array(flat["pattern"], dtype=np.int64),
                )
                for flat in found["flats"]
            )
            return cls(
                found["problem"], found["degree"], found["at"], files.from_json_float(found["level"]), criticals, flats,
                bool(found["complete"]), found["how"], tuple(found["notes"]), arrays.get("samples"),
                arrays.get("residual"), files.from_json_float(header["leak"]),
            )  # fmt: skip


_WORDS = (("maximum", "maxima"), ("minimum", "minima"), ("saddle", "saddles"), ("degenerate", "degenerate"))


def _does(one: Critical) -> str:
    """What its neurons do."""
    return "active" if one.drop == np.inf else "grows" if one.grows else "shrinks"


def _kinks(one: Critical) -> str:
    """ "x3 .57": the samples on a kink with their slopes, four at most."""
    if one.slopes is None or one.pattern is None:
        return "-"
    held = np.flatnonzero(one.pattern == 0)
    words = [f"x{int(k)} {one.slopes[k]:.4f}" for k in held[:4]]
    return ", ".join(words) + (", ..." if held.size > 4 else "") or "-"
