"""Which neurons will be large at the end, from the initial weights: a coarse race, up to where it is decided.

Shares inside a group are conserved once it has formed, and groups are told apart by their drops, so that the order of
the final norms is known when the loss has fallen: a gradient flow with steps as long as order asks for, in log norms.
It is stopped there, long before norms have settled.
"""

from __future__ import annotations

import os
import time as wall
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, IntArray, positive
from agf.arrays import number as number_of
from agf.asked import asked
from agf.capacity.alignment import Alignment, alignment
from agf.capacity.layers import gates, two_layer
from agf.capacity.race import SAFE, Race, loss_without_neurons
from agf.capacity.race import race as race_of
from agf.capacity.seats import seats
from agf.contract.admission import admit
from agf.contract.blame import guard, guarded
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.init import Init
from agf.records.table import Table, Tabular, counted, number
from agf.results import frames
from agf.results.comparison import Comparison
from agf.results.trajectory import Trajectory
from agf.training.gradient_flow import RTOL as FINEST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Error of one step relative to a neuron at first. Cost: an order asks for far less than a time does. Every
#: step's error is common to a group, so that 3e-2 places neurons to 1e-3 of the ranks.
RTOL = 3e-2
#: The order is decided when the loss has fallen to this fraction of that without neurons. Cost: norms still
#: grow afterwards but hardly pass one another (Spearman .996 there, .9998 at a loss ten times smaller, on digits).
DECIDED = 0.03
#: Largest tolerance that can be asked for. Limit: steps of the coarser run, at .2, are hardly a flow.
_LOOSEST = 0.04
#: Errors are measured by a run at this multiple of the tolerance. Cost: two thirds of the other run; at 10 times the
#: tolerance errors are overstated, and little is decided.
_COARSER = 5.0
#: Neurons on either side, by norm, whose largest change counts. Limit: of one neuron alone both runs may be wrong by
#: the same; of 21 of about one norm they hardly are (measured: bars held in 76 of 77 races), which is no proof.
_NEAR = 10
#: Rank correlation of the two runs below which the race is run again at a finer tolerance. Result: of where the flow
#: itself is ill-conditioned, as at the saddles of noisy regressions; at .8 half of the ranks may be those of the
#: tolerance, at .999 an order that is right pays for a second race.
_AGREE = 0.98
#: A race is run again at a tolerance smaller by this factor. Cost: of one more race.
_FINER = 10.0
#: Gradients of all runs. Limit: the order is then that of what there is, and this is said; those of the examples take a
#: few hundred.
_MOST = 20_000


@dataclass(frozen=True, repr=False)
class Tickets(Tabular):
    """Predicted order of the final norms of H neurons.

    problem : name.  init : where training starts.  time : flow time up to which the race was run.
    log_norms : (H,) predicted natural log of the norms then.
    error : (H,) bound on the error of a log norm under gradient flow: twice the largest change, in a run at five times
        the tolerance, among the neurons nearest to it by norm; holds where that run is half as wrong again. 0 if dead.
    order : (H,) neurons, largest first.  keep : how many are asked about.
    dead : (k,) indices of neurons that nothing drives at the start: they keep their norm, and no correlation has them.
    loss : of the network at `time`.  start_loss : of the zero function, or of the best output bias where there is one.
    evaluations : gradients of the whole loss, all runs.  seconds : likewise.
    agreement : Spearman correlation with the norms of the coarser run, over the living neurons.
    unfinished : "" or why the race was stopped before it was over.
    permanent : rows that are no neurons (an output bias), which never win.
    baselines : name -> (H,) scores of other predictors at the start, larger for larger; see `against`.
    """

    problem: str
    init: Init
    time: float
    log_norms: FloatArray
    error: FloatArray
    keep: int
    dead: IntArray
    loss: float
    start_loss: float
    evaluations: int
    seconds: float
    baselines: dict[str, FloatArray] = field(default_factory=dict)
    permanent: tuple[int, ...] = ()
    agreement: float = 1.0
    unfinished: str = ""

    @property
    def width(self) -> int:
        """Number of neurons."""
        return self.log_norms.size - len(self.permanent)

    @property
    def order(self) -> IntArray:
        """(H,) neurons by predicted norm, largest first."""
        return np.argsort(-self.log_norms, kind="stable")

    @property
    def kept(self) -> IntArray:
        """(keep,) the neurons predicted to be largest, in order."""
        return self.order[: self.keep]

    @property
    def decided(self) -> int:
        """How many of the kept stay so whatever side of its error every log norm is on.

        Where the coarser run finds another order the error is worth little, and where a race was cut: none is decided.
        """
        if self.agreement < _AGREE or self.unfinished:
            return 0
        order = self.order
        if self.keep == order.size:
            return self.keep
        highest = float(np.max((self.log_norms + self.error)[order[self.keep :]]))
        return int(np.sum((self.log_norms - self.error)[self.kept] > highest))

    def against(self, trajectory: Trajectory | Comparison) -> Table:
        """Rank correlation with the final norms of training, beside other predictors (`scores` has the numbers)."""
        found = self.scores(trajectory)
        rows = [
            [name, number(values["spearman"]), number(values["overlap"]), number(values["auc"])]
            for name, values in found.items()
        ]
        run = trajectory.trajectory if isinstance(trajectory, Comparison) else trajectory
        notes = [f"{self.keep} of {self.width} neurons kept; overlap and AUC are about those of training."]
        if run.times[-1] < self.time:
            notes.append(
                f"Training ended at flow time {number(float(run.times[-1]))}, the race at {number(self.time)}: to "
                f"compare norms at one time, run it until then (until={number(float(run.times[-1]))})."
            )
        if self.dead.size:
            notes.append(f"{counted(self.dead.size, 'dead neuron')} left out of the correlations.")
        return Table(f"Tickets of {self.problem}", ["predictor", "Spearman", "overlap", "AUC"], rows, notes)

    def scores(self, trajectory: Trajectory | Comparison) -> dict[str, dict[str, float]]:
        """Predictor -> Spearman correlation with the final log norms, overlap of the `keep` largest, AUC of being one.

        Raises RequestError for a trajectory of another width, or from other initial weights.
        """
        run = trajectory.trajectory if isinstance(trajectory, Comparison) else trajectory
        if not isinstance(run, Trajectory):
            raise RequestError(explain(f"a {type(run).__name__} is no training.", where="Tickets.against"))
        if run.log_norms.size == 0 or run.log_norms.shape[1] != self.log_norms.size:
            raise RequestError(
                explain(
                    "the trajectory holds no norms of these neurons.",
                    where="Tickets.against",
                    found=f"shape {run.log_norms.shape}",
                    expected=f"(T, {self.log_norms.size})",
                )
            )
        if run.init is not None and not np.array_equal(run.init.log_norms, self.init.log_norms):
            raise RequestError(
                explain("the trajectory starts from other weights.", where="Tickets.against", remedy="Train from init.")
            )
        final = run.log_norms[-1].copy()
        final[list(self.permanent)] = -np.inf
        living = np.setdiff1d(np.arange(final.size), [*self.dead, *self.permanent])
        best = np.isin(np.arange(final.size), np.argsort(-final, kind="stable")[: self.keep])
        out = {}
        for name, values in {"tickets": self.log_norms, **self.baselines}.items():
            mine = np.argsort(-values, kind="stable")[: self.keep]
            out[name] = {
                "spearman": _spearman(values[living], final[living]),
                "overlap": float(best[mine].mean()),
                "auc": _auc(values, best),
            }
        return out

    def table(self) -> Table:
        """The kept neurons, at most 20."""
        rows = [
            [str(k), str(int(i)), number(float(self.log_norms[i])), number(float(self.error[i]), 2)]
            for k, i in enumerate(self.kept[:20], 1)
        ]
        notes = [
            f"The race was run to flow time {number(self.time)}, where the loss is {number(self.loss)} of "
            f"{number(self.start_loss)}, with {self.evaluations} gradients in {number(self.seconds, 2)} s.",
            f"{self.decided} of {self.keep} decided beyond the error of their log norms.",
        ]
        if self.agreement < _AGREE:
            notes.append(
                f"The order is ill-conditioned: a run at a coarser tolerance has one of rank correlation "
                f"{self.agreement:.2f} with it."
            )
        if self.unfinished:
            notes.append(f"The race is not over: {self.unfinished}")
        if self.dead.size:
            notes.append(f"{counted(self.dead.size, 'neuron')} dead at the start.")
        return Table(f"Tickets of {self.problem}, largest first", ["rank", "neuron", "log norm", "error"], rows, notes)

    def __repr__(self) -> str:
        return f"<Tickets of {self.problem}: {self.keep} of {self.width} neurons, {self.decided} decided>"

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        ax: Axes | None = None,
        against: Trajectory | Comparison | None = None,
    ) -> Axes:
        """Draw the predicted norms by rank with their errors, or against those at the end of training.

        Parameters
        ----------
        path : str or os.PathLike or None, optional
            Picture to write.
        ax : matplotlib.axes.Axes or None, optional
            Where to draw; a new figure when None.
        against : Trajectory or Comparison or None, optional
            Training from the same start.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn on.
        """
        from agf.capacity import pictures

        return pictures.save(pictures.ranks(self, against, ax=ax), path)

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row a neuron, the largest predicted norm first.

        * `rank`, `neuron`: from 1, and its index (no output bias)
        * `log_norm`, `error`: predicted natural log of its norm, and a bound on its error under gradient flow
        * `kept`, `dead`: whether it is among those asked about; whether nothing drives it at the start
        * a column for each other predictor, larger for larger

        Returns
        -------
        pandas.DataFrame
            The prediction.

        Raises
        ------
        RequestError
            When pandas is not installed.
        """
        order = self.order[: self.width]
        out: dict[str, Any] = {
            "rank": np.arange(1, self.width + 1),
            "neuron": order,
            "log_norm": self.log_norms[order],
            "error": self.error[order],
            "kept": np.arange(self.width) < self.keep,
            "dead": np.isin(order, self.dead),
        }
        return frames.frame({**out, **{name: scores[order] for name, scores in self.baselines.items()}})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        names = ("problem", "time", "keep", "decided", "loss", "start_loss", "evaluations", "seconds", "agreement",
                 "unfinished")  # fmt: skip
        out: dict[str, Any] = {name: getattr(self, name) for name in names}
        arrays = ("order", "log_norms", "error", "dead")
        return {**out, **{name: getattr(self, name).tolist() for name in arrays}}


@asked
@guarded
def tickets(
    problem: Problem, init: Init, *, keep: float = 0.1, until: float | None = None, rtol: float | None = None
) -> Tickets:
    """Predict which neurons will have the largest norms, before training.

    Parameters
    ----------
    problem : Problem
        What would be trained.
    init : Init
        From where.
    keep : int or float
        How many neurons are asked about; below 1, the fraction of them.
    until : float, optional
        Flow time at which to compare norms. By default when the loss has fallen to 3 % of that of the zero function,
        or of the best output bias where there is one, or the race is over.
    rtol : float, optional
        Error of one step, relative to each neuron. By default 3e-2, and ten times less as long as a run at a coarser
        tolerance finds another order (rank correlation below .98), while gradients last (20,000).

    Returns
    -------
    Tickets
        Predicted log norms, their order and conditioning, and other predictors to compare with.

    Raises
    ------
    RequestError
        For a wrong request, a `keep` that asks about more neurons than there are, and where there is no race: nothing
        to learn, or no neuron that anything drives.
    """
    init = admit(problem, init, "tickets")
    width = problem.width - len(problem.permanent)
    asked = seats(keep, width, "tickets", least=1)
    if rtol is not None and not 0.0 < number_of(rtol) <= _LOOSEST:
        raise RequestError(explain(f"`rtol` must be in (0, {_LOOSEST:g}].", where="tickets", found=repr(rtol)))
    until = None if until is None else positive(until, "until", where="tickets")
    began = wall.perf_counter()
    with guard(problem):
        first = alignment(problem, init)
        start_loss = loss_without_neurons(problem)
        always = list(problem.permanent)
        dead = np.setdiff1d(np.flatnonzero(~first.driven[0]), always)
        if start_loss == 0.0:
            raise RequestError(
                explain("without any neuron there is no loss: there is nothing to learn.", where="tickets")
            )
        if dead.size == width:
            raise RequestError(
                explain(
                    f"nothing drives any of the {width} neuron(s) at the start: all are dead, and keep their norms.",
                    where="tickets",
                    remedy="Start from weights that some sample drives.",
                )
            )
        living = np.setdiff1d(np.arange(problem.width), [*dead, *always])
        race, coarse, spent = _ranked(problem, init, rtol, until, start_loss, living)
        return Tickets(
            problem=problem.name,
            init=init,
            time=race.time,
            log_norms=_without(race.log_norms, always),
            error=_error(race.log_norms, coarse.log_norms, living),
            keep=asked,
            dead=dead,
            loss=race.loss,
            start_loss=start_loss,
            evaluations=spent,
            seconds=wall.perf_counter() - began,
            baselines={name: _without(scores, always) for name, scores in _baselines(problem, init, first).items()},
            permanent=problem.permanent,
            agreement=_agreement(race, coarse, living),
            unfinished=race.unfinished,
        )


def _ranked(
    problem: Problem, init: Init, rtol: float | None, until: float | None, start_loss: float, living: IntArray
) -> tuple[Race, Race, int]:
    """A race, one at a coarser tolerance up to the same time, and gradients of all that were run.

    Unless a tolerance was given, it becomes finer until both agree in the order of the living neurons.
    """
    now, finest = (RTOL, FINEST) if rtol is None else (rtol, rtol)
    spent, best = 0, None
    while True:
        race = race_of(problem, init, now, until, (DECIDED, start_loss), (_MOST - spent) // 2)
        spent += race.gradients
        if race.unfinished and best is not None:
            return *best, spent  # an order that is ill-conditioned, but that of the end
        coarse = race_of(problem, init, _COARSER * now, race.time, (DECIDED, start_loss), _MOST // 2)
        spent += coarse.gradients
        best = race, coarse
        if _agreement(race, coarse, living) >= _AGREE or now <= finest or race.unfinished or 2 * spent > _MOST:
            return *best, spent
        now /= _FINER


def _agreement(race: Race, coarse: Race, living: IntArray) -> float:
    """Rank correlation of both over the living neurons; 1 where there is no order to tell."""
    return float(np.nan_to_num(_spearman(race.log_norms[living], coarse.log_norms[living]), nan=1.0))


def _error(log_norms: FloatArray, coarser: FloatArray, living: IntArray) -> FloatArray:
    """(H,) bound on the error of each log norm, from another run; see `Tickets`."""
    from scipy.ndimage import maximum_filter1d

    out = np.zeros(log_norms.size)
    rows = living[np.argsort(-log_norms[living], kind="stable")]
    with np.errstate(invalid="ignore"):  # two norms of 0 are equal
        change = np.nan_to_num(np.abs(coarser - log_norms)[rows])
    out[rows] = SAFE * maximum_filter1d(change, 2 * _NEAR + 1, mode="nearest")
    return out


def _without(scores: FloatArray, rows: list[int]) -> FloatArray:
    """Scores with those of some rows below all others."""
    out = scores.copy()
    out[rows] = -np.inf
    return out


def _baselines(problem: Problem, init: Init, first: Alignment) -> dict[str, FloatArray]:
    """Scores at the start: |u0 + w0| of the frozen law, cos delta, norm, SNIP |theta . grad| and chance."""
    kappa, cosine, rate = problem.degree, first.cos_delta[0], first.rate[0]
    with np.errstate(divide="ignore"):
        snip = np.log(np.abs(rate)) + 2 * init.log_norms  # |theta . grad| = |d log rho / dt| rho^2
    out = {
        "cos delta": np.nan_to_num(cosine, nan=-2.0),
        "norm": init.log_norms,
        "snip": np.nan_to_num(snip, nan=-np.inf),
        "random": np.random.default_rng(0).random(problem.width),
    }
    network = two_layer(problem)
    if network is None or kappa != 2:
        return out
    residual = np.asarray(network.residual(*network.empty))
    d = network.n_inputs
    open_gates = gates(network, init.directions) if not network.activation.smooth else None
    scores = np.empty(problem.width)
    for i, row in enumerate(init.directions):
        weights = np.ones(network.n_samples) if open_gates is None else open_gates[i]
        drive = (residual * weights[:, None]).T @ network.X / network.n_samples  # a' = D w, w' = D^T a
        left, _, right = np.linalg.svd(drive, full_matrices=False)
        scores[i] = np.abs(row[d:] @ left[:, 0] + row[:d] @ right[0])
    with np.errstate(divide="ignore"):
        return {"|u0 + w0|": np.log(scores) + init.log_norms, **out}


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks with ties shared."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values))


def _spearman(one: FloatArray, other: FloatArray) -> float:
    """Rank correlation; NaN where one of them is constant."""
    a, b = _ranks(one), _ranks(other)
    a, b = a - a.mean(), b - b.mean()
    below = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / below if below > 0 else np.nan


def _auc(values: FloatArray, chosen: Any) -> float:
    """Probability that a chosen one scores above another; NaN where all or none are chosen."""
    n = int(np.sum(chosen))
    if n in (0, values.size):
        return np.nan
    return float((_ranks(values)[chosen].sum() - n * (n + 1) / 2) / (n * (values.size - n)))
