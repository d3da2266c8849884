"""How every neuron is driven: utility, drive, angle to it, exact growth rate, gates and the class it is turned to.

Unlocking, in the words of [Pinson], is positive utility at a frozen residual: a neuron grows at the rate
`drive x cos(delta)`, so those that are aligned with their drive grow first. For a two-layer network delta is the angle
between the incoming weights w and their drive gamma = -grad_w L / |a| ([Pinson] eq. 9, D6), which are its coordinates;
elsewhere it is the angle between theta_i and -grad_i L.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray, matrix
from agf.asked import asked
from agf.capacity.layers import favoured, gates, output_names, two_layer
from agf.contract.admission import admitted, refuse_nonfinite
from agf.contract.problem import Problem
from agf.contract.start import check_range
from agf.errors import RequestError, explain
from agf.records.table import Table, counted, number
from agf.results import frames
from agf.results.drawn import Drawn
from agf.results.trajectory import Trajectory
from agf.sphere import cartesian, lengths, polar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Log norms below this are no part of the residual. Derived: squares of their
#: parameters are below 1e-299.
_VANISHED = -345.0
#: What `_driven` finds, in order.
_COLUMNS = ("utility", "drive", "cos_delta", "rate", "gate_share", "side", "target", "driven")


@asked
@dataclass(frozen=True, repr=False)
class Alignment(Drawn):
    """How H neurons are driven at T moments.

    The picture: the cosine of every neuron with its drive, over time, or against its norm where there is one moment.

    problem : name.  times : (T,) flow time; 0 for weights without a time.
    log_norms : (T, H) natural log of |theta_i|.
    utility : (T, H) leading-order utility at unit norm on the residual of the whole network, loss.
    drive : (T, H) |gamma| of a two-layer network (loss / |x|), else |grad_i L| / rho_i^(degree - 1).
    cos_delta : (T, H) cosine between w and gamma, or theta_i and -grad_i L; NaN for a neuron that nothing drives.
    rate : (T, H) d log|theta_i| / dt under gradient flow, exact.
    gate_share : (T, H) fraction of samples with w . x > 0; NaN where there are no gates.
    driven : (T, H) whether anything moves it; a neuron that nothing moves is dead, or zero.
    side, target : (T, H) output that a favours, and that its drive turns it to: index into `classes`; -1 for none.
    classes : names of the outputs.  permanent : rows that are no neurons (an output bias), and driven by no angle.
    """

    problem: str
    times: FloatArray
    log_norms: FloatArray
    utility: FloatArray
    drive: FloatArray
    cos_delta: FloatArray
    rate: FloatArray
    gate_share: FloatArray
    side: IntArray
    target: IntArray
    driven: BoolArray
    classes: tuple[Any, ...] = field(default=())
    permanent: tuple[int, ...] = field(default=())

    def table(self) -> Table:
        """The last moment, one row a neuron, fastest first; at most 20."""
        k, order = -1, np.argsort(-self.rate[-1])
        order = order[~np.isin(order, self.permanent)][:20]

        def called(i: int) -> str:
            return str(self.classes[i]) if 0 <= i < len(self.classes) else "-"

        rows = [
            [str(int(i)), number(float(np.exp(self.log_norms[k, i]))), number(self.utility[k, i]),
             number(self.drive[k, i]), number(self.cos_delta[k, i]), number(self.rate[k, i]),
             number(self.gate_share[k, i]), called(int(self.side[k, i])), called(int(self.target[k, i]))]
            for i in order
        ]  # fmt: skip
        columns = ["neuron", "norm", "utility", "drive", "cos delta", "growth rate", "gates open", "side", "target"]
        width = self.log_norms.shape[1] - len(self.permanent)
        still = int((~np.delete(self.driven[k], self.permanent)).sum())
        notes = [f"The {len(rows)} fastest of {width} neurons."] if len(rows) < width else []
        notes += [f"{counted(still, 'neuron')} not driven at all (dead, or nothing left to fit)."] if still else []
        return Table(f"Alignment of {self.problem} at flow time {number(self.times[k])}", columns, rows, notes)

    def __repr__(self) -> str:
        return f"<Alignment of {self.problem}, {counted(self.times.size, 'moment')}, {self.log_norms.shape[1]} neurons>"

    def _draw(self, ax: Axes | None) -> Axes:
        from agf.capacity import pictures

        return pictures.cosines(self, ax=ax)

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row a moment and neuron.

        * `time`, `neuron`: flow time, and index of the neuron (no output bias)
        * `log_norm`, `utility`, `drive`, `cos_delta`, `rate`, `gate_share`, `driven`: as in `Alignment`
        * `side`, `target`: names of the outputs that it favours and is turned to; empty where there are none

        Returns
        -------
        pandas.DataFrame
            In order of time.

        Raises
        ------
        RequestError
            When pandas is not installed.
        """
        neurons = np.setdiff1d(np.arange(self.log_norms.shape[1]), self.permanent)
        called = [*(str(name) for name in self.classes), ""]  # the last for -1
        out: dict[str, Any] = {
            "time": np.repeat(self.times, neurons.size),
            "neuron": np.tile(neurons, self.times.size),
            "log_norm": self.log_norms[:, neurons].ravel(),
        }
        for name in _COLUMNS:
            values = getattr(self, name)[:, neurons].ravel()
            out[name] = [called[int(i)] for i in values] if name in ("side", "target") else values
        return frames.frame(out)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        names = ("times", "log_norms", *_COLUMNS)
        out: dict[str, Any] = {"problem": self.problem, "classes": list(self.classes)}
        return {**out, **{name: getattr(self, name).tolist() for name in names}}


@asked
def alignment(problem: Problem, theta: Any) -> Alignment:
    """How every neuron is driven at weights, or along a trajectory.

    Parameters
    ----------
    problem : Problem
        Whose loss drives them.
    theta : array_like, shape (H, P), or Init, or Trajectory
        Weights, an initialization (norms may underflow as weights), or training whose snapshots are read.

    Returns
    -------
    Alignment
        One moment for weights, one a snapshot for a trajectory.

    Raises
    ------
    RequestError
        For weights or a trajectory of another shape, and a trajectory without parameters.
    """
    with admitted(problem, "alignment"):
        return _alignment(problem, theta)


def _alignment(problem: Problem, theta: Any) -> Alignment:
    times, directions, log_norms = _moments(problem, theta)
    at = [_driven(problem, *moment) for moment in zip(directions, log_norms, strict=True)]
    network = two_layer(problem)
    columns = {name: np.array(column) for name, column in zip(_COLUMNS, zip(*at, strict=True), strict=True)}
    names = () if network is None else output_names(network)
    return Alignment(problem.name, times, log_norms, **columns, classes=names, permanent=problem.permanent)


def _moments(problem: Problem, theta: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Times (T,), directions (T, H, P) and log norms (T, H) of what was given."""
    if isinstance(theta, Trajectory):
        if theta.directions.shape[0] == 0:
            raise RequestError(explain("this trajectory holds no parameters.", where="alignment"))
        times, directions, log_norms = theta.snapshot_times, theta.directions, theta.log_norms
    elif hasattr(theta, "directions"):  # an Init
        times, directions, log_norms = np.zeros(1), theta.directions[None], theta.log_norms[None]
    else:
        rows, sizes = polar(matrix(theta, "theta", where="alignment"))
        times, directions, log_norms = np.zeros(1), rows[None], sizes[None]
    shape = (problem.width, problem.n_params)
    if directions.shape[1:] != shape:
        raise RequestError(
            explain(
                f"the weights have shape {directions.shape[1:]}.",
                where=f"alignment of problem {problem.name!r}",
                expected=f"{shape}, one row a neuron",
            )
        )
    check_range(problem, log_norms, "alignment")
    return times, directions, log_norms


def _driven(problem: Problem, directions: FloatArray, log_norms: FloatArray) -> tuple[Any, ...]:
    """`_COLUMNS` at one moment, (H,) each."""
    neurons = np.arange(problem.width)
    members = log_norms > _VANISHED
    alive = np.isfinite(log_norms)
    pull = problem.network_pull(directions, np.where(alive, log_norms, 0.0), neurons, members)
    pull = np.where(alive[:, None], pull, 0.0)
    theta = cartesian(directions[members], log_norms[members])
    utility = problem.utility(directions, neurons, problem.residual(theta, neurons[members]))[0]
    refuse_nonfinite(problem, "network_pull", pull)
    refuse_nonfinite(problem, "utility", np.where(alive, utility, 0.0))
    growth = np.exp((problem.degree - 2) * np.where(alive, log_norms, -np.inf)) if problem.degree > 2 else alive
    rate = growth * np.einsum("ij,ij->i", directions, pull)
    driven = alive & pull.any(axis=1)
    network = two_layer(problem)
    nothing = np.full(problem.width, -1)
    if network is None:
        drive = lengths(pull)
        cosine = _quotient(np.einsum("ij,ij->i", directions, pull), drive)
        return utility, drive, cosine, rate, np.full(problem.width, np.nan), nothing, nothing, driven
    d = network.n_inputs
    w, a = directions[:, :d], directions[:, d:]
    on_w, on_a = pull[:, :d], pull[:, d:]
    drive = _quotient(lengths(on_w), lengths(a))
    cosine = _quotient(np.einsum("ij,ij->i", w, on_w), lengths(w) * lengths(on_w))
    share = gates(network, directions).mean(axis=1)
    target = np.where(on_a.any(axis=1), favoured(on_a), -1)
    return utility, np.nan_to_num(drive), cosine, rate, share, np.where(a.any(axis=1), favoured(a), -1), target, driven


def _quotient(above: FloatArray, below: FloatArray) -> FloatArray:
    """above / below, NaN where below is 0."""
    return np.asarray(np.where(below > 0, above, np.nan) / np.where(below > 0, below, 1.0))
