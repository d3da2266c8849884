"""What the neurons of a (leaky) ReLU network do along a run: cosines to the class sums, cones, ranks, changes.

The statistics of the experiments of [Min23], section 4 and appendix A, for any labels: a sample with a positive
residual at the empty network counts as of the positive class, by as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.asked import asked
from agf.contract.blame import guarded
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.records.table import Table, Tabular, number, percent
from agf.rectified.samples import Samples
from agf.results.trajectory import Trajectory

#: Rows of a printed table, evenly through the snapshots. Limit: all are in the result.
_ROWS = 20
_COLUMNS = ("time", "own_cone", "dead", "stable_rank", "spectral", "norm_change", "direction_change")


@asked
@dataclass(frozen=True, repr=False)
class Course(Tabular):
    """Statistics of m neurons at the T snapshots of a run.

    Parameters
    ----------
    problem : str
        Name of the problem.
    times : ndarray
        (T,) flow times.
    signs : ndarray
        (T, m) sign of the output weight.
    cosines : ndarray
        (T, m) cosine of the input weights to the class sum of their sign: x_+, the sum of the positive samples, for
        a > 0, and x_- for a < 0. NaN where either is 0.
    means : ndarray
        (T, 2) cosine of the summed input weights of either sign, + first, to its class sum.
    own_cone : ndarray
        (T,) fraction of the neurons that see exactly the samples of their own class.
    dead : ndarray
        (T,) fraction that see no sample.
    stable_rank : ndarray
        (T,) |W|_F^2 / |W|_2^2 of all input weights.
    spectral : ndarray
        (T,) |W|_2^2.
    norm_change : ndarray
        (T,) sum over neurons of d|w|^2/dt on the full loss.
    direction_change : ndarray
        (T,) sum over neurons of the speed of w / |w|, radians per unit of flow time.
    """

    problem: str
    times: FloatArray
    signs: FloatArray
    cosines: FloatArray
    means: FloatArray
    own_cone: FloatArray
    dead: FloatArray
    stable_rank: FloatArray
    spectral: FloatArray
    norm_change: FloatArray
    direction_change: FloatArray

    def __len__(self) -> int:
        return self.times.size

    def smallest(self, sign: int) -> FloatArray:
        """(T,) smallest cosine among the neurons of one sign, NaN where there is none.

        Parameters
        ----------
        sign : int
            1 or -1.
        """
        return self._of(sign, np.inf, np.min)

    def largest(self, sign: int) -> FloatArray:
        """(T,) largest cosine among the neurons of one sign, NaN where there is none.

        Parameters
        ----------
        sign : int
            1 or -1.
        """
        return self._of(sign, -np.inf, np.max)

    def _of(self, sign: int, empty: float, choose: Any) -> FloatArray:
        chosen = (self.signs == sign) & np.isfinite(self.cosines)
        found = choose(np.where(chosen, self.cosines, empty), axis=1)
        return np.where(chosen.any(axis=1), found, np.nan)

    def table(self) -> Table:
        """Twenty snapshots, evenly through the run."""
        rows = []
        for k in np.unique(np.linspace(0, len(self) - 1, min(_ROWS, len(self))).astype(int)):
            plus, minus = self.means[k]
            rows.append([
                number(self.times[k], 5), number(plus, 4), number(minus, 4), number(self.smallest(1)[k], 4),
                number(self.smallest(-1)[k], 4), percent(self.own_cone[k]), percent(self.dead[k]),
                number(self.stable_rank[k], 4), number(self.spectral[k], 4), number(self.norm_change[k], 3),
                number(self.direction_change[k], 3),
            ])  # fmt: skip
        columns = ["time", "cos +", "cos -", "least +", "least -", "own cone", "dead", "stable rank", "|W|_2^2",
                   "norms change", "directions"]  # fmt: skip
        notes = [f"{self.signs.shape[1]} neurons, {len(self)} snapshots; cosines to the class sums."]
        return Table(f"Course of {self.problem}", columns, rows, notes)

    def __repr__(self) -> str:
        return f"<Course of {self.problem}: {self.signs.shape[1]} neurons at {len(self)} times>"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return {name: np.asarray(getattr(self, name)).tolist() for name in self.__dataclass_fields__}


@asked
@guarded
def course(problem: Problem, run: Trajectory, frozen: tuple[int, ...] = ()) -> Course:
    """What the neurons of a ReLU network do along a run: alignment with the classes, cones, ranks, speeds.

    Parameters
    ----------
    problem : Problem
        A network of relu or leaky-relu neurons with one output.
    run : Trajectory
        Of `agf.flow` or `agf.descend` on it, with snapshots.
    frozen : tuple of int
        Columns of theta that were not trained: (-1,) for frozen output weights.

    Returns
    -------
    Course
        A row a snapshot.

    Raises
    ------
    RequestError
        Another kind of problem, a run of another problem, or one that kept no snapshots.
    """
    samples = Samples.of(problem) if isinstance(problem, Problem) else None
    if samples is None or samples.problem.permanent:
        found = getattr(problem, "name", type(problem).__name__)
        expected = "relu, or two-layer with activation relu or leaky-relu, with one output"
        raise RequestError(explain("there are no cones to follow.", where="course", found=found, expected=expected))
    if not isinstance(run, Trajectory) or run.directions.ndim != 3 or run.directions.shape[2] != problem.n_params:
        expected = f"a trajectory with snapshots of {problem.n_params} parameters a neuron"
        raise RequestError(explain("the run does not fit.", where="course", expected=expected))
    X, d = samples.X, samples.X.shape[1]
    c = samples.weights(np.zeros((0, d + 1)))
    sums = np.array([np.maximum(c, 0.0) @ X, np.maximum(-c, 0.0) @ X])
    lengths = np.linalg.norm(sums, axis=1)
    sums = sums / np.where(lengths > 0, lengths, np.nan)[:, None]
    w, signs = run.directions[:, :, :d], np.sign(run.directions[:, :, d])
    sizes = np.linalg.norm(w, axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        both = w @ sums.T / sizes[:, :, None]
    cosines = np.where(signs > 0, both[:, :, 0], np.where(signs < 0, both[:, :, 1], np.nan))
    seen = w @ X.T > 0
    own = np.where(signs[:, :, None] > 0, c > 0, c < 0)
    dead: BoolArray = np.logical_not(seen.any(axis=2))
    in_own: BoolArray = ((seen == own) | (c == 0)).all(axis=2) & ~dead
    rows: list[list[float]] = []
    means = np.full((len(run.snapshot_times), 2), np.nan)
    columns = np.delete(np.arange(d + 1), [range(d + 1)[k] for k in frozen])
    for k, time in enumerate(run.snapshot_times):
        top = float(np.max(run.log_norms[k], initial=-np.inf))
        top = top if np.isfinite(top) else 0.0
        weights = w[k] * np.exp(run.log_norms[k] - top)[:, None]  # over the largest norm: none underflows
        for j, sign in enumerate((1, -1)):
            total = weights[signs[k] == sign].sum(axis=0)
            size = float(np.linalg.norm(total))
            means[k, j] = total @ sums[j] / size if size > 0 else np.nan
        spectrum = np.linalg.svd(weights, compute_uv=False) ** 2
        largest = float(spectrum[0]) or np.nan
        theta = run.params(k)
        force = np.zeros_like(theta)
        force[:, columns] = -problem.loss_grad(theta, np.arange(theta.shape[0]))[1][:, columns]
        force, inputs = force[:, :d], theta[:, :d]
        along = np.einsum("ij,ij->i", force, inputs)
        square = np.einsum("ij,ij->i", inputs, inputs)
        alive = np.flatnonzero(square)
        turn = force[alive] - (along[alive] / square[alive])[:, None] * inputs[alive]
        speed = np.linalg.norm(turn, axis=1) / np.sqrt(square[alive])
        rows.append([float(time), float(in_own[k].mean()), float(dead[k].mean()), float(spectrum.sum()) / largest,
                     largest * float(np.exp(2.0 * top)), 2.0 * float(along.sum()), float(speed.sum())])  # fmt: skip
    columned = dict(zip(_COLUMNS, np.array(rows).T.reshape(len(_COLUMNS), -1), strict=True))
    return Course(problem.name, columned.pop("time"), signs, cosines, means, **columned)
