"""What a group of neurons is, and all groups of a network at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.errors import RequestError, explain
from agf.records.table import Table, counted, number
from agf.results import frames
from agf.results.drawn import Drawn
from agf.sphere import cartesian

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Group:
    """Neurons that race as one. Natural logs throughout; kappa is the degree.

    members : (m,) indices, largest norm first; members[0] is the winner.
    direction : (P,) unit, the mean of the members' directions weighted by what they contribute, rho^kappa.
    log_total : log of (sum rho^kappa)^(1/kappa), the norm of the one neuron that would replace them.
    shares : (m,) rho^kappa over their sum.  effective : 1 / sum shares^2, the number of equal members worth as much.
    rate : d log|theta| / dt of the winner under gradient flow.  utility : of `direction`, at unit norm, loss.
    charge : log growth of the winner since the start; NaN where the start is not known.
    log_ratios : (m,) log norm over that of the winner.
    drift : largest change of a log ratio since the members first had one direction; NaN where no past is known.
    formed : flow time from which on they had one direction; NaN likewise.
    half_time : flow time at which the members had taken off half of the loss that they took off up to now; it is the
        half-drop time of a group that makes a drop alone. NaN where no past is known, the total grew less than
        tenfold, or the drop is still to come.
    took_off : that loss. Every neuron takes off the integral of -grad_i L . dtheta_i, and all together what the loss
        fell by. NaN where no past is known.
    predicted_half_time : for a comparison, of the predicted drop with most of the group; else, for groups by direction
        that are still to make their drop, that in a coarse race from here to the end of the run, or to where it is
        over; NaN for all others, and where the race takes too long. It is that of these members, and the past counts.
    predicted_error : its relative error. That of the drop; else twice what a race at ten times the tolerance changes of
        it, of when a quarter or three were gone, or of another group in proportion to the loss that takes off, and what
        a race that was cut leaves open. An estimate, without proof: where both races take one side of a fork and the
        flow the other, it does not see it.
    label : "" or what the group is called: a class, or a number of open gates.
    """

    members: IntArray
    direction: FloatArray
    log_total: float
    shares: FloatArray
    rate: float
    utility: float
    charge: float
    log_ratios: FloatArray
    drift: float = np.nan
    formed: float = np.nan
    half_time: float = np.nan
    took_off: float = np.nan
    predicted_half_time: float = np.nan
    predicted_error: float = np.nan
    label: str = ""

    @property
    def winner(self) -> int:
        """Index of the member of largest norm."""
        return int(self.members[0])

    @property
    def effective(self) -> float:
        """1 / sum shares^2."""
        return float(1.0 / np.sum(self.shares**2))

    @property
    def total(self) -> float:
        """(sum rho^kappa)^(1/kappa)."""
        return float(np.exp(self.log_total))

    @property
    def parameters(self) -> FloatArray:
        """(P,) those of the one neuron of the group's direction and total."""
        return cartesian(self.direction[None], np.array([self.log_total]))[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        names = ("log_total", "effective", "rate", "utility", "charge", "drift", "formed", "half_time", "took_off",
                 "predicted_half_time", "predicted_error", "label")  # fmt: skip
        out: dict[str, Any] = {name: getattr(self, name) for name in names}
        arrays = ("members", "direction", "shares", "log_ratios")
        return {**out, **{name: getattr(self, name).tolist() for name in arrays}, "winner": self.winner}


@dataclass(frozen=True, repr=False)
class Groups(Drawn):
    """All groups of a network at one moment, largest total first.

    The picture: what every group contributes, a bar each, cut into the shares of its members.

    problem : name.  time : flow time of the moment; NaN for weights without one.
    by, cosine : how they were told apart.
    groups : of living neurons.  dead : (k,) indices of neurons that are exactly zero or that nothing drives.
    degree : kappa.
    """

    problem: str
    degree: int
    time: float
    by: str
    cosine: float
    groups: tuple[Group, ...]
    dead: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, k: int) -> Group:
        return self.groups[k]

    def of(self, neuron: int) -> Group:
        """The group that a neuron belongs to. Raises RequestError for a dead neuron or a wrong index."""
        for group in self.groups:
            if neuron in group.members:
                return group
        raise RequestError(explain(f"neuron {neuron} is in no group.", where="Groups", expected="a living neuron"))

    def table(self) -> Table:
        """One row a group; at most 20."""
        rows = [
            [str(k), _counted(g.members), number(g.total), number(g.effective), number(float(g.shares[0])),
             number(g.rate), number(g.charge), number(g.drift, 2), number(g.predicted_half_time, 6),
             number(g.predicted_error, 2), number(g.half_time, 6), number(g.took_off, 3), g.label]
            for k, g in enumerate(self.groups[:20])
        ]  # fmt: skip
        columns = ["group", "members", "total", "effective", "winner's share", "rate", "charge", "ratio drift",
                   "predicted half", "est. error", "measured half", "loss taken off", "what"]  # fmt: skip
        used = [k for k, _ in enumerate(columns) if k < 2 or any(row[k] not in ("-", "") for row in rows)]
        notes = [f"The 20 largest of {len(self)} groups."] if len(self) > 20 else []
        if self.dead.size:
            notes.append(f"{counted(self.dead.size, 'dead neuron')} (zero, or driven by nothing) in no group.")
        how = f"cosine at least {self.cosine:g}, clusters grown from the largest norm down"
        when = "" if np.isnan(self.time) else f" at flow time {number(self.time)}"
        return Table(
            f"Groups of {self.problem}{when}, by {self.by}" + (f" ({how})" if self.by == "direction" else ""),
            [columns[k] for k in used],
            [[row[k] for k in used] for row in rows],
            notes,
        )

    def __repr__(self) -> str:
        return f"<Groups of {self.problem} by {self.by}: {len(self)} groups, {self.dead.size} dead neurons>"

    def _draw(self, ax: Axes | None) -> Axes:
        from agf.capacity import pictures

        return pictures.bars(self, ax=ax)

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row a group, largest first.

        * `group`: its number, from 0; -1 for all dead neurons, in a last row where there are any
        * `members`: indices, largest norm first, joined by blanks
        * `total`, `log_total`: norm of the one neuron that would replace them, and its natural log
        * `effective`: number of equal members worth as much
        * `winner`, `winner_share`: its largest member, and the share of it
        * `rate`, `utility`, `charge`, `drift`, `formed`, `label`: as in `Group`
        * `half_time`, `took_off`, `predicted_half_time`, `predicted_error`: likewise

        Returns
        -------
        pandas.DataFrame
            What is not known is NaN.

        Raises
        ------
        RequestError
            When pandas is not installed.
        """
        rows = [
            {"group": k, "members": _joined(g.members), "total": g.total, "log_total": g.log_total,
             "effective": g.effective, "winner": g.winner, "winner_share": float(g.shares[0]),
             **{name: getattr(g, name) for name in _SAID}}
            for k, g in enumerate(self.groups)
        ]  # fmt: skip
        if self.dead.size:
            none = dict.fromkeys(rows[0] if rows else (), np.nan)
            rows.append({**none, "group": -1, "members": _joined(self.dead), "winner": -1, "label": "dead"})
        return frames.frame(frames.by_column(rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        out: dict[str, Any] = {name: getattr(self, name) for name in ("problem", "degree", "time", "by", "cosine")}
        return {**out, "groups": [group.to_dict() for group in self.groups], "dead": self.dead.tolist()}


#: What a frame says of a group beside its members and their shares.
_SAID = ("rate", "utility", "charge", "drift", "formed", "half_time", "took_off", "predicted_half_time",
         "predicted_error", "label")  # fmt: skip


def _joined(members: IntArray) -> str:
    return " ".join(str(int(i)) for i in members)


def _counted(members: IntArray) -> str:
    few = ", ".join(str(int(i)) for i in members[:3])
    return few if members.size <= 3 else f"{members.size}: {few}, ..."
