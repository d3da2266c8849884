"""The dormant phase of a (leaky) ReLU network of one output: what each neuron met, and where it is at any time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.asked import asked
from agf.errors import RequestError, explain
from agf.records import files
from agf.records.table import Table, number, percent
from agf.rectified.dormant_flow import DormantFlow
from agf.rectified.walls import Walls
from agf.results.drawn import Drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Fates by number, and what they mean; as `agf.rectified.events.Fate`.
FATES = ("aligns", "opposed", "dead", "flat", "vanished", "turning")
#: Kinds of events by number, as `agf.rectified.events.Event`; none has number 0.
EVENTS = ("", "gains", "loses", "slides on", "flips", "vanishes", "passes 0")
_ARRAYS = (
    "X", "weights", "start", "start_log_norms", "fates", "arrivals", "charges", "ends", "utilities", "clusters",
    "event_neurons", "event_samples", "event_kinds", "event_times",
)  # fmt: skip
#: Neurons that are followed together. Cost: their arrays stay in cache, and numpy's calls are few.
BLOCK = 4096
#: Clusters that a table prints. Limit: of a page; all are in the result.
_ROWS = 40


@dataclass(frozen=True)
class Cluster:
    """Neurons of one sign that end in one direction, or that share a fate that has none.

    Parameters
    ----------
    fate : str
        "aligns": turn to `direction` and grow for ever; "opposed": stand exactly against their field and shrink for
        ever; "dead": no sample is active; "flat": samples are active but the field is zero; "vanished": input weights
        are 0; "turning": had events to come when the phase was stopped.
    sign : int
        Of the output weights, in the end; 0 where the neurons differ.
    neurons : ndarray
        (k,) indices.
    direction : ndarray or None
        (d,) unit input weights in the end, None where the fate has no direction of its own.
    utility : float
        At unit norm in the end; unit: loss. The log norm changes at twice this rate.
    last : float
        Flow time of the last event of the last of them.
    """

    fate: str
    sign: int
    neurons: IntArray
    direction: FloatArray | None
    utility: float
    last: float


@asked
@dataclass(frozen=True, repr=False)
class DormantPhase(Drawn):
    """The dormant phase of m neurons, alone and exact: on a residual that stays as it is.

    The picture: the neurons over time (`agf.plot.dormant_phase`).

    Times are flow times of the problem's own loss, a mean over samples: n times those of a sum.

    Parameters
    ----------
    problem : str
        Name of the problem.
    X : ndarray
        (n, d) inputs.
    weights : ndarray
        (n,) residual of each sample times its weight in the loss: U(w, a) = a sum_k weights_k sigma(w . x_k).
    leak : float
        Slope of sigma left of 0.
    start : ndarray
        (m, d + 1) unit rows at time 0.
    start_log_norms : ndarray
        (m,) natural logs of the norms at time 0.
    t_max : float
        Flow time at which the phase was stopped; inf where it was followed to the last event.
    fates : ndarray
        (m,) number of the fate in `agf.rectified.dormant_phase.FATES`; `fate` has the words.
    arrivals : ndarray
        (m,) flow time of each neuron's last event, 0 where it met none.
    charges : ndarray
        (m,) accumulated utility at that time: change of the log of the norm.
    ends : ndarray
        (m, d + 1) unit rows to which the neurons tend, or where they stand at `t_max` if still turning.
    utilities : ndarray
        (m,) utility there.
    clusters : ndarray
        (m,) number of each neuron's cluster, by falling size; `cluster(k)` has what is known of it.
    event_neurons : ndarray
        (e,) rows of the neurons of all events, neuron by neuron, each in the order of time.
    event_samples : ndarray
        (e,) samples whose walls they met, -1 for a change of sign and for weights that vanish.
    event_kinds : ndarray
        (e,) numbers of the kinds in `agf.rectified.dormant_phase.EVENTS`.
    event_times : ndarray
        (e,) flow times.
    along : ndarray or None
        (c,) unit vector among several outputs that all residuals are multiples of: a is then the component of the
        output weights along it, the only one that moves. None for one output.
    """

    problem: str
    X: FloatArray
    weights: FloatArray
    leak: float
    start: FloatArray
    start_log_norms: FloatArray
    t_max: float
    fates: IntArray
    arrivals: FloatArray
    charges: FloatArray
    ends: FloatArray
    utilities: FloatArray
    clusters: IntArray
    event_neurons: IntArray
    event_samples: IntArray
    event_kinds: IntArray
    event_times: FloatArray
    along: FloatArray | None = None

    def __len__(self) -> int:
        return self.fates.size

    @property
    def fate(self) -> tuple[str, ...]:
        """(m,) fate of each neuron, in words."""
        return tuple(FATES[k] for k in self.fates)

    @property
    def counts(self) -> IntArray:
        """(m,) number of events of each neuron."""
        return np.bincount(self.event_neurons, minlength=len(self))

    @property
    def last(self) -> float:
        """Flow time of the last event of all: from then on every neuron is in its last cone."""
        return float(np.max(self.arrivals, initial=0.0))

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.clusters.max(initial=-1)) + 1

    def cluster(self, k: int) -> Cluster:
        """One cluster.

        Parameters
        ----------
        k : int
            Its number, from 0, largest first.

        Raises
        ------
        RequestError
            There is no such cluster.
        """
        neurons = np.flatnonzero(self.clusters == k)
        if neurons.size == 0:
            found = f"cluster {k} of {self.n_clusters}"
            raise RequestError(explain("there is no such cluster.", where="DormantPhase.cluster", found=found))
        fate = FATES[self.fates[neurons[0]]]
        signs = np.unique(np.sign(self.ends[neurons, -1]))
        w = self.ends[neurons[0], :-1]
        return Cluster(
            fate,
            int(signs[0]) if signs.size == 1 else 0,
            neurons,
            w / np.linalg.norm(w) if fate in ("aligns", "opposed") else None,
            float(self.utilities[neurons[0]]) if fate != "turning" else np.nan,
            float(self.arrivals[neurons].max()),
        )

    def events(self, neuron: int) -> list[tuple[float, str, int]]:
        """What a neuron met.

        Parameters
        ----------
        neuron : int
            Its row.

        Returns
        -------
        list of tuple
            Flow time, kind and sample of each event, in order.

        Raises
        ------
        RequestError
            There is no such neuron.
        """
        if not 0 <= neuron < len(self):
            found = f"neuron {neuron} of {len(self)}"
            raise RequestError(explain("there is no such neuron.", where="DormantPhase.events", found=found))
        low, high = np.searchsorted(self.event_neurons, [neuron, neuron + 1])
        columns = (self.event_times[low:high], self.event_kinds[low:high], self.event_samples[low:high])
        return [(float(t), EVENTS[kind], int(sample)) for t, kind, sample in zip(*columns, strict=True)]

    def at(self, time: float) -> tuple[FloatArray, FloatArray]:
        """Unit rows (m, d + 1) and log norms (m,) of all neurons at a time, exactly: the phase is followed anew.

        Parameters
        ----------
        time : float
            Flow time.

        Returns
        -------
        tuple of ndarray
            Directions and log norms.

        Raises
        ------
        RequestError
            A time below 0, not finite, or beyond `t_max`.
        """
        if not 0 <= time <= min(self.t_max, np.finfo(float).max):
            expected = "a finite time of at least 0" + (f" and at most {self.t_max:g}" if self.t_max < np.inf else "")
            raise RequestError(
                explain("there is no such time.", where="DormantPhase.at", found=time, expected=expected)
            )
        walls = Walls.of(self.X, self.weights, self.leak)
        directions, log_norms = self.start.copy(), self.start_log_norms.copy()
        for first in range(0, len(self), BLOCK):
            rows = slice(first, min(first + BLOCK, len(self)))
            flow = DormantFlow(walls, directions[rows], log_norms[rows])
            flow.run(time)
            directions[rows], log_norms[rows] = flow.inside(np.arange(flow.a.size), time)
        return directions, log_norms

    def charge(self, time: float) -> FloatArray:
        """(m,) utility accumulated by a flow time: change of the logs of the norms.

        Parameters
        ----------
        time : float
            Flow time.
        """
        return self.at(time)[1] - self.start_log_norms

    # -- for people and files -----------------------------------------------------------------------------------

    def table(self) -> Table:
        """The clusters, the forty largest at most."""
        rows = []
        for k in range(min(self.n_clusters, _ROWS)):
            one = self.cluster(k)
            rows.append([
                {1: "+", -1: "-", 0: "+-"}[one.sign], one.fate, _direction(one.direction), str(one.neurons.size),
                percent(one.neurons.size / len(self)), number(one.utility, 6), number(2 * one.utility, 6),
                number(one.last, 6),
            ])  # fmt: skip
        columns = ["a", "fate", "w ends at", "neurons", "share", "utility", "rate", "last event"]
        notes = [f"{len(self)} neurons, {self.event_times.size} events, the last at flow time {number(self.last, 6)}."]
        if self.along is not None:
            entries = ", ".join(f"{value:.3f}" for value in self.along)
            notes.append(f"a is the component of the output weights along ({entries}), the only one that moves.")
        if self.t_max < np.inf:
            notes.append(f"Stopped at flow time {number(self.t_max, 6)}.")
        if self.n_clusters > _ROWS:
            notes.append(f"{self.n_clusters - _ROWS} smaller clusters are left out here.")
        return Table(f"Dormant phase of {self.problem}, residual frozen", columns, rows, notes)

    def __repr__(self) -> str:
        return f"<DormantPhase of {self.problem}: {len(self)} neurons, {self.event_times.size} events>"

    def _draw(self, ax: Axes | None) -> Axes:
        from agf import plot

        return plot.dormant_phase(self, ax=ax)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        clusters = [self.cluster(k) for k in range(self.n_clusters)]
        return {
            "problem": self.problem,
            "neurons": len(self),
            "t_max": self.t_max if np.isfinite(self.t_max) else None,
            "along": None if self.along is None else self.along.tolist(),
            "last": self.last,
            "clusters": [
                {
                    "fate": one.fate,
                    "sign": one.sign,
                    "neurons": one.neurons.tolist(),
                    "direction": None if one.direction is None else one.direction.tolist(),
                    "utility": one.utility if np.isfinite(one.utility) else None,
                    "last": one.last,
                }
                for one in clusters
            ],
            "fates": list(self.fate),
            "arrivals": self.arrivals.tolist(),
            "charges": self.charges.tolist(),
            "ends": self.ends.tolist(),
            "events": {
                "neuron": self.event_neurons.tolist(),
                "time": self.event_times.tolist(),
                "kind": [EVENTS[kind] for kind in self.event_kinds],
                "sample": self.event_samples.tolist(),
            },
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a run file.

        Parameters
        ----------
        path : str or os.PathLike
            Where; the file appears complete or not at all.

        Raises
        ------
        FileError
            It cannot be written; nothing is then left behind.
        """
        along = None if self.along is None else self.along.tolist()
        header = {"problem": self.problem, "leak": self.leak, "t_max": self.t_max, "along": along}
        files.write(path, "dormant-phase", header, {name: getattr(self, name) for name in _ARRAYS})

    @classmethod
    def from_file(cls, header: dict[str, Any], arrays: dict[str, np.ndarray], path: object) -> DormantPhase:
        """From header and arrays of the run file at `path` (`files.read`). Raises FileError when parts are missing."""
        with files.complete(path):
            parts: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
            parts.update({name: files.from_json_float(header[name]) for name in ("leak", "t_max")})
            along = header.get("along")
            parts["along"] = None if along is None else np.array(along, dtype=np.float64)
            found = cls(problem=files.typed(header["problem"], str), **parts)
        return found


def _direction(w: FloatArray | None) -> str:
    """An angle in the plane, else up to four components."""
    if w is None:
        return "-"
    if w.size == 2:
        return f"{np.degrees(np.arctan2(w[1], w[0])):.4g} deg"
    return "(" + ", ".join(f"{value:.3f}" for value in w[:4]) + (", ...)" if w.size > 4 else ")")
