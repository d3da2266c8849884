"""Whether a network can still learn: utility on the whole sphere against what the neurons that are there can reach.

A network whose utility is nowhere positive is optimal at any width: the loss is convex in the measure of neurons.
Where some direction would help and no neuron ever points there, the end is spurious ([BF24]): in words of [AGF], the
utility that dormant neurons can reach is zero, and the utility on the whole sphere is not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agf import sphere
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.asked import asked
from agf.contract.admission import admit_problem
from agf.contract.blame import guarded
from agf.contract.problem import Problem
from agf.coordinates.balance import Balance
from agf.errors import RequestError, explain
from agf.records.settings import Settings
from agf.records.table import Table, Tabular, number, percent
from agf.rectified.ascent import SAME, climb
from agf.rectified.cones import brief
from agf.rectified.ends import ends
from agf.rectified.landscape import dropping, landscape, network_of
from agf.rectified.pulls import (
    SLIGHT,
    Alone,
    beyond,
    fall_of,
    large_ones,
    least_change,
    patterns_of,
    pulls_of,
    residual_of,
    rows_of,
)
from agf.rectified.samples import Samples
from agf.rectified.walls import Walls
from agf.results.comparison import Comparison
from agf.results.landscape import Critical, Landscape
from agf.results.network import Neurons, neurons
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory
from agf.rounding import TIED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Fraction of the first loss that a direction must take off the loss to count. Derived: a flow that has settled leaves
#: as much at the default tolerance.
WORTH = Settings.rtol
#: Change of the residual, relative to it, that would put the large neurons exactly at rest, above which the network is
#: still moving. Result: of the verdict `moving`; a frozen residual says little then. At 0.5 ends would be told of
#: networks that have made half a drop, at 5e-3 one whose residual still changes by a hundredth would not be judged.
AT_REST = 0.05
#: Size of the neuron that is added to check a direction, over the size at which it would saturate. Cost: the fall it
#: makes is right to the square.
_PROBE = 1e-2

OPTIMAL, SPURIOUS, LEAVING, MOVING = "optimal", "spurious", "leaving", "moving"


@dataclass(frozen=True)
class Group:
    """Neurons of one activation pattern and one sign of the output weight: one neuron in effect.

    pattern : (n,) sign of w . x_k.  sign : of the output weights.  mass : sum of |a| |w|.
    neurons : their rows.  weights : (d,) sum of a w.
    """

    pattern: IntArray
    sign: int
    mass: float
    neurons: IntArray
    weights: FloatArray


@asked
@dataclass(frozen=True, repr=False)
class Escape(Tabular):
    """Whether a network can still learn.

    Parameters
    ----------
    problem : str
        Name of the problem.
    at : str
        Which network, in words.
    level : float
        Its loss.
    verdict : str
        "optimal" at any width; "spurious": some direction would help and no neuron gets there; "leaving": the next drop
        comes; "moving": the network is not at rest.
    landscape : Landscape
        Critical directions of the utility there.
    reached : float
        Largest utility that the neurons there turn to on the frozen residual; 0 where none grows.
    neuron : int or None
        Which neuron that is.
    time : float
        Flow time from now to the next drop, first order; NaN where none comes.
    gain : float
        Loss that a small neuron in the best direction took off, over what its utility says; NaN where not checked.
    groups : tuple of Group
        Effective neurons of a ReLU problem.
    least_squares : bool or None
        Whether the function is the linear least-squares fit of the data; None where that is not asked.
    motion : float
        Change of the residual that would put the large neurons at rest, relative to it; inf where one of them leaves
        its cone on the way.
    width : int
        Neurons that are there.
    now : float
        Flow time of the network; NaN where it has none.
    """

    problem: str
    at: str
    level: float
    verdict: str
    landscape: Landscape
    reached: float
    neuron: int | None
    time: float
    gain: float
    groups: tuple[Group, ...]
    least_squares: bool | None
    motion: float
    width: int
    now: float = np.nan

    @property
    def best(self) -> Critical | None:
        """The direction of largest utility, None where nothing would help. Its `drop` is at the critical point next to
        the network, all that stand there following."""
        return self.landscape.best

    @property
    def utility(self) -> float:
        """Largest utility on the whole sphere, 0 where none is positive."""
        return 0.0 if self.best is None else self.best.utility

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        known = "" if self.landscape.complete else " of those found"
        if self.verdict == OPTIMAL:
            return f"optimal at any width: no direction{known} takes more than {WORTH:g} of the first loss off the loss"
        assert self.best is not None
        words = f"{self.best.label} would help most{known} (utility {number(self.utility, 4)})"
        if self.verdict == MOVING:
            how = (
                "to where a neuron leaves its cone"
                if np.isinf(self.motion)
                else f"by {percent(self.motion)} of its residual"
            )
            return f"still moving, {how}: {words}"
        if self.verdict == SPURIOUS:
            there = "no neuron is there" if self.width == 0 else f"none of the {self.width} neurons ever points there"
            return f"spurious: {words}, and {there} (they reach {number(self.reached, 3)}){self._moves}"
        when = f", the next drop about {number(self.time, 4)} from now" if np.isfinite(self.time) else ""
        if when and np.isfinite(self.now):
            when += f", at t = {number(self.now + self.time, 4)}"
        return f"leaving: neuron {self.neuron} reaches utility {number(self.reached, 4)}{when}{self._moves}"

    @property
    def _moves(self) -> str:
        """How far the verdict hangs on the moment; nothing for a network at rest."""
        return f", while its residual still moves by {percent(self.motion)}" if self.motion > SLIGHT else ""

    def table(self) -> Table:
        """The numbers behind the verdict."""
        rows = [
            ["loss", number(self.level, 8)],
            ["utility on the sphere", number(self.utility, 6)],
            ["utility that neurons reach", number(self.reached, 6)],
            ["best direction", "-" if self.best is None else self.best.label],
            ["its drop, the others following", "-" if self.best is None else number(self.best.drop, 4)],
            ["a small neuron there, measured / predicted", number(self.gain, 6)],
            ["next drop after", number(self.time, 6)],
            ["not at rest by", percent(self.motion)],
        ]
        if self.groups:
            words = [f"{'+' if g.sign > 0 else '-'} ({brief(g.pattern)})" for g in self.groups[:6]]
            rows.append(["effective neurons", f"{len(self.groups)}: {', '.join(words)}"])
        if self.least_squares is not None:
            rows.append(["least-squares fit", "yes" if self.least_squares else "no"])
        return Table(f"{self.problem} at {self.at}: {self.verdict}", ["what", "value"], rows, [f"{self.sentence}."])

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "problem": self.problem,
            "at": self.at,
            "level": self.level,
            "verdict": self.verdict,
            "sentence": self.sentence,
            "utility": self.utility,
            "reached": self.reached,
            "neuron": self.neuron,
            "time": self.time,
            "gain": self.gain,
            "motion": self.motion,
            "width": self.width,
            "now": self.now,
            "least_squares": self.least_squares,
            "groups": [
                {
                    "pattern": g.pattern.tolist(),
                    "sign": g.sign,
                    "mass": g.mass,
                    "neurons": g.neurons.tolist(),
                    "weights": g.weights.tolist(),
                }
                for g in self.groups
            ],
            "landscape": self.landscape.to_dict(),
        }

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Axes | None = None, view: str = "auto") -> Axes:
        """Draw the landscape beside the network (`Landscape.plot`).

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
        return self.landscape.plot(path, ax=ax, view=view)

    def __repr__(self) -> str:
        return f"<Escape of {self.problem} at {self.at}: {self.verdict}>"


@asked
@guarded
def escape(problem: Problem, at: Any, *, drop: int | None = None, starts: int = 100) -> Escape:
    """Can this network still learn? Optimal, spurious, or leaving, and when.

    Parameters
    ----------
    problem : Problem
        The problem.
    at : array-like or Staircase or Trajectory or Comparison
        The network: theta (m, P), all neurons with the small ones; or a result, at its end.
    drop : int or None
        Of a result, the network after this drop; 0 is the start.
    starts : int
        Starts of the ascent, for problems without closed forms.

    Returns
    -------
    Escape
        Its `sentence` has the verdict. For (leaky) ReLU networks of one output both utilities are exact for the
        critical point next to the network; else ascents give them.

    Raises
    ------
    RequestError
        No network, of another problem, or of another shape.
    ProblemError
        For a problem from outside the package that breaks its contract.
    """
    admit_problem(problem, "escape")
    return judge(problem, _neurons(problem, at, drop), starts)


def judge(problem: Problem, there: Neurons, starts: int = 100, worth: float = WORTH) -> Escape:
    """The same for neurons as they are; drops count from a fraction `worth` of the first loss on."""
    samples = Samples.of(problem)
    if samples is not None:
        samples, there = _apart(samples, there)
    network = there.network(problem)
    whole = (network, np.arange(network.shape[0]) % problem.width) if samples is None else samples.whole(network)
    level = float(problem.loss_grad(*whole)[0])
    none = np.zeros((0, problem.n_params)), np.zeros(0, dtype=np.int64)
    first = float(problem.loss_grad(*none)[0])
    large = network if samples is None else network[large_ones(samples, network)]
    motion, rest, alone, stands = 0.0, None, _beside(problem, large), np.zeros(network.shape[0], dtype=bool)
    if samples is not None:
        stands, motion, rest = _resting(samples, network, worth, worth * first)
        alone = beyond(samples, large, *pulls_of(samples, network[stands]))
    found = landscape(
        problem, None if rest is not None else network, rest, at=there.moment, starts=starts, shares=False
    )
    if rest is not None:
        criticals = dropping(list(found.criticals), alone, level, problem.quadratic_loss)
        found = replace(found, at=there.moment, level=level, criticals=tuple(criticals))
    if motion <= AT_REST:  # what active neurons make already is no way out
        found = replace(found, criticals=tuple(one for one in found.criticals if one.drop != np.inf))
    best = found.best
    counts = best is not None and level > worth * first and (not best.drop <= worth * first)
    if counts and best is not None and samples is not None:  # what rounding leaves of a residual that no neuron feels
        counts = best.utility > TIED * _pulls(samples)
    moves = np.isfinite(there.log_norms)  # those that are neither dead nor held at rest
    if samples is not None and rest is not None:
        moves &= _alive(samples, there.directions)
        if motion**2 <= worth:  # else what carries them on may take them off their kinks
            moves[np.flatnonzero(there.active)[stands]] &= _free(samples, network[stands], samples.weigh(rest))
    reached, neuron, time = _reach(problem, samples, rest, large, there, alone, np.flatnonzero(moves), worth * first)
    utility = 0.0 if best is None else best.utility
    if samples is not None and (halfway := _halfway(samples, network, large, worth * first)) > 0.0:
        utility, reached, counts = max(utility, halfway), max(reached, halfway), True
    if not counts:
        verdict = OPTIMAL
    elif motion > AT_REST or SLIGHT * utility <= reached < motion * utility:  # less than what the motion may change
        verdict = MOVING
    else:
        verdict = SPURIOUS if reached < SLIGHT * utility else LEAVING
    return Escape(
        problem=problem.name,
        at=there.moment,
        level=level,
        verdict=verdict,
        landscape=found,
        reached=reached,
        neuron=neuron if verdict == LEAVING else None,
        time=time if verdict == LEAVING else np.nan,
        gain=_checked(problem, whole, level, best) if counts and best is not None else np.nan,
        groups=() if samples is None else tuple(effective(samples, network)),
        least_squares=_linear(problem, samples, network),
        motion=motion,
        width=there.log_norms.size,
        now=there.time,
    )


def _apart(samples: Samples, there: Neurons) -> tuple[Samples, Neurons]:
    """The samples with the output bias that is among these rows, and the other rows, which are neurons."""
    if not samples.problem.permanent:
        return samples, there
    samples, _ = samples.beside(there.directions * np.exp(there.log_norms)[:, None])
    rows = np.flatnonzero(~np.isin(np.arange(there.log_norms.size) % samples.problem.width, samples.problem.permanent))
    origin = there.origin
    if origin is not None:
        origin = replace(origin, directions=origin.directions[rows], log_norms=origin.log_norms[rows])
    directions, log_norms, active = there.directions[rows], there.log_norms[rows], there.active[rows]
    return samples, replace(there, directions=directions, log_norms=log_norms, active=active, origin=origin)


def _neurons(problem: Problem, at: Any, drop: int | None) -> Neurons:
    if not isinstance(at, Staircase | Trajectory | Comparison):
        if drop is not None:
            raise RequestError(explain("`drop` names a drop of a result.", where="escape", found="an array"))
        theta = network_of(problem, at, "escape")
        directions, log_norms = sphere.polar(theta)
        return Neurons(directions, log_norms, np.isfinite(log_norms), f"a network of {theta.shape[0]} neurons")
    side = at.stairs if isinstance(at, Comparison) else at
    if side.problem != problem.name:
        words = f"the result is of problem {side.problem!r}."
        raise RequestError(explain(words, where="escape", expected=f"one of {problem.name!r}"))
    found = neurons(at, drop)
    if found.directions.shape[1] != problem.n_params:
        words = f"the neurons of the result have {found.directions.shape[1]} parameters."
        raise RequestError(explain(words, where="escape", expected=f"{problem.n_params}"))
    if isinstance(at, Trajectory) or (isinstance(at, Comparison) and at.trajectory.directions.size):
        whole = np.isfinite(found.log_norms)  # every neuron makes the function, the small ones as well
        return replace(found, active=whole)
    return found


def _resting(samples: Samples, network: FloatArray, worth: float, least: float) -> tuple[BoolArray, float, FloatArray]:
    """Who stands at the critical point next to the network, (m,), how far off that is, relative to the residual, and
    the residual (n,) there; the present one where the network is on its way, inf off if out of a cone.

    There the field of all that stand is 0, apart from what their kinks hold: the least change of the residual that
    makes it so is taken. Dormant neurons do not stand, and neither do others, the smallest first, that are not near
    what they would be and not missed by the residual: one that shrinks is dormant there, and may come back with the
    other sign, however large it still is. Nobody stands where one leaves its cone on the way there, for one in which
    `least` of the loss can be lost; a residual that is off by less than `worth`, by what steps leave, says nothing of
    that.
    """
    r, zero = residual_of(samples, network), residual_of(samples, network[:0])
    large = large_ones(samples, network)
    if not large.any() and not samples.constant.size:
        return large, 0.0, zero
    unit = max(np.linalg.norm(r), np.sqrt(SLIGHT) * np.linalg.norm(zero))  # a fit is approached for ever
    mass = np.abs(network[:, -1]) * np.linalg.norm(network[:, :-1], axis=1)

    def resting(stands: BoolArray) -> tuple[BoolArray, float, FloatArray, FloatArray]:
        before, (pull, more) = residual_of(samples, network[stands | ~large]), pulls_of(samples, network[stands])
        change = least_change(pull, more, -(pull + more) @ before)
        return stands, float(np.linalg.norm(before + change - r) / unit), before + change, change

    found = resting(large)
    if found[1] > AT_REST:
        return large, found[1], r
    while True:
        stands, motion, rest, change = found
        move = _least_move(samples, network[stands], change)
        far = np.flatnonzero(stands)[_far(network[stands], move)]
        if far.size == 0:
            leaves = motion > worth and _crosses(samples, network[stands], move) > least
            return (stands, np.inf, r) if leaves else (stands, motion, rest)
        found = resting(stands & (np.arange(mass.size) != far[np.argmin(mass[far])]))
        if found[1] > AT_REST:
            return stands, motion, rest


def _least_move(samples: Samples, large: FloatArray, change: FloatArray) -> FloatArray:
    """Least move of the weights of large neurons, (k, d + 1) as they, that makes this `change` (n,) of the residual, as
    their flow, linear from here, does."""
    constant = samples.constant
    rows, more = [constant], [np.zeros(constant.shape)]
    for one in large:
        for out, pull in zip((rows, more), rows_of(samples, one[None]), strict=True):
            out.append(np.vstack([one[-1] * pull, one[:-1] @ pull]))
    move = least_change(np.concatenate(rows).T, np.concatenate(more), -change)
    return move[constant.shape[0] :].reshape(large.shape)


def _far(large: FloatArray, move: FloatArray) -> BoolArray:
    """Which of large neurons (k, d + 1) would have to move by more than all that they are, (k,)."""
    w, a = large[:, :-1], large[:, -1:]
    moved = np.linalg.norm(a * move[:, :-1] + w * move[:, -1:], axis=1)
    return np.asarray(moved > np.abs(a[:, 0]) * np.linalg.norm(w, axis=1))


def _crosses(samples: Samples, large: FloatArray, move: FloatArray) -> float:
    """What the loss can fall in the cones to which large neurons leave theirs on the way there, 0 where none does: the
    critical point is none of this network then."""
    before, after = patterns_of(samples, large), patterns_of(samples, large + move)
    if not ((before != 0) & (before != after)).any():
        return 0.0
    return fall_of(samples, large, *pulls_of(samples, large + 2.0 * move))  # beyond a kink which it only comes to


def _alive(samples: Samples, directions: FloatArray) -> BoolArray:
    """Which of unit rows (m, d + 1) feel any sample, (m,), beside rounded kinks as well: the others stay for ever."""
    layer, b = samples.problem.layer, samples.problem._backend
    w, _ = layer.inner(b.array(directions[:, :-1]))
    return np.asarray((b.numpy(layer.sigma()(samples.problem._x @ w.T)[1]) != 0).any(axis=0))


def _free(samples: Samples, standing: FloatArray, weights: FloatArray) -> BoolArray:
    """Which of neurons (k, d + 1) that stand may move where the samples weigh (n,), (k,): beside a kink that repels.

    Whoever stands has no field along its kinks, and those that attract hold it.
    """
    walls = Walls.of(samples.X, weights, samples.leak)
    # samples on one line pull across one kink; one at 0 has none
    bends = np.where(walls.owner < 0, 0.0, np.append(walls.bends, 0.0)[walls.owner])
    repels = np.sign(standing[:, -1:]) * bends > TIED * walls.scale
    return np.asarray((repels & (patterns_of(samples, standing) == 0)).any(axis=1))


def _beside(problem: Problem, network: FloatArray) -> Alone:
    """Self-interaction beside these neurons, as the problem has it."""
    everyone = np.arange(network.shape[0]) % problem.width
    return lambda directions, rows: problem.self_interaction(directions, rows, network, everyone)


def _halfway(samples: Samples, network: FloatArray, large: FloatArray, least: float) -> float:
    """Largest utility of a group of large neurons that will grow by a factor e at least and take off `least` of the
    loss: it is in the middle of its drop, though the residual is next to one at which it rests. 0 where none is."""
    if large.shape[0] == 0:
        return 0.0
    problem, none = samples.problem, np.zeros(0, dtype=np.int64)
    directions, log_norms = sphere.polar(large)
    rows = np.zeros(large.shape[0], dtype=np.int64)
    utilities = problem.utility(directions, rows, problem.residual(*samples.whole(network)))[0]
    own = problem.self_interaction(directions, rows, network[:0], none)
    keys = np.column_stack([patterns_of(samples, large), np.sign(large[:, -1])])
    most = 0.0
    for key in np.unique(keys, axis=0):
        group = np.flatnonzero((keys == key).all(axis=1))
        i = group[np.argmax(utilities[group])]
        if utilities[i] <= 0 or own[i] <= 0 or utilities[i] ** 2 <= 4 * own[i] * least:
            continue
        size = 0.5 * np.logaddexp.reduce(2 * log_norms[group])
        if 0.5 * np.log(utilities[i] / (2 * own[i])) > size + 1 and size < log_norms.max() - 1:
            most = max(most, float(utilities[i]))
    return most


def _pulls(samples: Samples) -> float:
    """Bound of all utilities at the zero function."""
    return float(np.abs(samples.weights(np.zeros((0, samples.X.shape[1] + 1)))) @ np.linalg.norm(samples.X, axis=1)) / 2


def effective(samples: Samples, network: FloatArray) -> list[Group]:
    """Neurons by activation pattern and sign, largest first; without those that no sample activates."""
    signs = np.sign(network[:, -1]).astype(np.int64)
    keys = np.column_stack([patterns_of(samples, network), signs])
    mass = np.abs(network[:, -1]) * np.linalg.norm(network[:, :-1], axis=1)
    found = []
    for key in np.unique(keys, axis=0) if network.shape[0] else []:
        rows = np.flatnonzero((keys == key).all(axis=1))
        pattern, total = key[:-1], float(mass[rows].sum())
        if total > SLIGHT * mass.sum() and ((pattern > 0).any() or samples.leak > 0):
            weights = (network[rows, -1:] * network[rows, :-1]).sum(axis=0)
            found.append(Group(pattern, int(key[-1]), total, rows, weights))
    return sorted(found, key=lambda group: -group.mass)


def _reach(
    problem: Problem,
    samples: Samples | None,
    rest: FloatArray | None,
    network: FloatArray,
    there: Neurons,
    alone: Alone,
    rows: IntArray,
    least: float,
) -> tuple[float, int | None, float]:
    """Largest utility that neurons `rows` come to on the frozen residual, which neuron, and the time to the next drop;
    beside kinks, of those whose drop is `least` or more."""
    if rows.size == 0:
        return 0.0, None, np.nan
    directions, log_norms = there.directions[rows], there.log_norms[rows]
    if samples is not None and rest is not None:
        directions = _kept(there)[rows]
        walls = Walls.of(samples.X, samples.weigh(rest), samples.leak)
        end = ends(walls, directions, log_norms, samples.leak)
        turned, lines = end.directions, end.log_norms
        utilities = np.where(end.utilities**2 > 4 * alone(turned, rows) * least, end.utilities, 0.0)
    else:
        small = log_norms < log_norms.max() + np.log(SLIGHT) if there.active.any() else np.ones(rows.size, dtype=bool)
        rows, directions, log_norms = rows[small], directions[small], log_norms[small]
        if rows.size == 0:
            return 0.0, None, np.nan
        everyone = np.arange(network.shape[0]) % problem.width
        turned, utilities = climb(problem, problem.residual(network, everyone), directions, rows)
        lines = log_norms
    best = int(np.argmax(utilities))
    if utilities[best] <= 0:
        return 0.0, None, np.nan
    return float(utilities[best]), int(rows[best]), _next(problem, alone, rows, turned, utilities, lines)


def _kept(there: Neurons) -> FloatArray:
    """Unit rows (H, P) that have what their layers conserve: a neuron that shrinks for ever comes back without it, with
    the other sign, by what steps or rounding have added."""
    if there.origin is None:
        return there.directions
    balance = Balance.of(there.origin.directions, there.origin.log_norms, there.directions.shape[1] - 1)
    return balance.restored(there.directions, there.log_norms)


def _next(
    problem: Problem, alone: Alone, rows: IntArray, turned: FloatArray, utilities: FloatArray, lines: FloatArray
) -> float:
    """First time at which a group of neurons of one end reaches the size at which it saturates, for degree 2."""
    if problem.degree != 2:
        return np.nan
    left = np.flatnonzero(utilities > SLIGHT * utilities.max())
    times = []
    while left.size:
        i = int(left[0])
        same = np.linalg.norm(turned[left] - turned[i], axis=1) <= SAME
        if not problem.interchangeable:
            same &= rows[left] == rows[i]
        own = alone(turned[i : i + 1], rows[i : i + 1])
        if own[0] > 0:
            size = 0.5 * np.logaddexp.reduce(2 * lines[left[same]])
            radius = 0.5 * np.log(utilities[i] / (2 * own[0]))
            times.append((radius - size) / (2 * utilities[i]))
        left = left[~same]
    coming = [time for time in times if time > 0]  # the others have grown
    return min(coming, default=0.0) if times else np.nan


def _checked(problem: Problem, whole: tuple[FloatArray, IntArray], level: float, best: Critical) -> float:
    """Fall of the loss by a small neuron in the best direction, over its utility."""
    radius = (2 * best.drop / best.utility) ** (1 / problem.degree) if np.isfinite(best.drop) else 1.0
    size = _PROBE * radius
    neuron = best.neuron or 0
    network, everyone = whole
    if not problem.interchangeable:
        return np.nan  # its place may be taken
    grown = problem.loss_grad(np.vstack([network, size * best.direction]), np.append(everyone, neuron))[0]
    return float((level - grown) / (best.utility * size**problem.degree))


def _linear(problem: Problem, samples: Samples | None, network: FloatArray) -> bool | None:
    if samples is None or not problem.quadratic_loss:
        return None
    r = residual_of(samples, network)
    y = samples.problem.Y[:, 0]
    linear = np.column_stack([samples.X, samples.constant.T])
    best = y - linear @ np.linalg.lstsq(linear, y, rcond=None)[0]
    return bool(np.linalg.norm(r - best) <= SLIGHT * np.linalg.norm(y))
