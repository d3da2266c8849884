"""Groups of neurons that share a direction, a gate pattern or a class, and the race inside and between them.

Neurons of one direction see one utility, so that at degree 2 their norms grow by one factor: shares are conserved, the
winner is the one that was largest when they aligned, and the loss falls when their *total* saturates, which is earlier
than for the largest alone by ln(sum rho^2 / max rho^2) / (4 U).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from agf import registry
from agf.arrays import FloatArray, IntArray, count, fraction, matrix
from agf.asked import asked
from agf.capacity.alignment import Alignment, alignment
from agf.capacity.group import Group, Groups
from agf.capacity.half_times import COARSER, RTOL, SURE, Foresight, falls, foresee, halfway
from agf.capacity.layers import favoured, gates, output_names, require_two_layer, similarity
from agf.capacity.race import SAFE
from agf.contract.admission import admitted
from agf.contract.blame import guard
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.init import Init
from agf.records import naming
from agf.records.status import Status
from agf.results.comparison import Comparison
from agf.results.drop import Drop
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory
from agf.sphere import cartesian, normalize, polar
from agf.training.gradient_flow import RTOL as FINEST

#: Ways of telling groups apart.
BY = ("direction", "cell", "class")
#: Smallest cosine between a member of a group by direction and its largest. Setting: `cosine`; that of [Pinson].
COSINE = 0.999
#: Group totals that grew by less than this factor over a run have no half time to measure. Limit: they made
#: no drop.
_GREW = 10.0
#: Groups, the largest, that may be past their drop. Cost: a residual each.
_MOST_GROWN = 50
#: Statuses of runs after which nothing falls any more.
_OVER = (Status.SETTLED, Status.NO_CRITICAL_POINT, Status.QUIET, Status.SADDLE)


@asked
def groups(
    source: Problem | Trajectory | Comparison | Staircase,
    theta: Any = None,
    *,
    at: int = -1,
    cosine: float = COSINE,
    by: str = "direction",
    problem: Problem | None = None,
) -> Groups:
    """Neurons that race as one: in a training run, in a comparison, or at given weights.

    Parameters
    ----------
    source : Trajectory, Comparison or Problem
        A run, whose problem is built again from its arguments; or a problem, with its weights `theta`.
    theta : array (H, P) or Init, optional
        Weights, with a problem.
    at : int
        Snapshot of the run; -1 for the last.
    cosine : float
        Smallest cosine between a member and the largest of its group, in (0, 1]. Rows of one and the same function,
        such as (w, a) and (-w, -a) for tanh, count as one direction.
    by : str
        "direction"; "cell", the same gates open on every sample; or "class", the same output favoured.
    problem : Problem, optional
        The problem of a run, where it cannot be built from the run alone (problems in files).

    Returns
    -------
    Groups
        Largest total first; a table as text and in notebooks.

    Raises
    ------
    RequestError
        For a prediction alone (it keeps no directions), a cosine or `by` that cannot be, and gates or classes
        asked of a problem without them.
    """
    if by not in BY:
        raise RequestError(
            explain(f"unknown kind of groups {by!r}.", where="groups", expected="one of " + ", ".join(BY))
        )
    cosine = fraction(cosine, "cosine", where="groups")
    if isinstance(source, Problem):
        if theta is None:
            raise RequestError(explain("a problem needs weights `theta`.", where="groups", expected="an (H, P) array"))
        start = theta if isinstance(theta, Init) else Init(*polar(matrix(theta, "theta", where="groups")), alpha=1.0)
        found = found_at(source, np.nan, start, None, by, cosine)
        return _foreseen(source, found, start, _waiting(source, found, start), None)
    run = source.trajectory if isinstance(source, Comparison) else source
    if isinstance(run, Staircase):
        raise RequestError(
            explain(
                "a prediction keeps no directions.", where="groups", remedy="Train (agf train or compare) for groups."
            )
        )
    if not isinstance(run, Trajectory):
        raise RequestError(
            explain("this has no groups.", where="groups", found=type(run).__name__,
                    expected="a Trajectory, a Comparison, or a Problem with weights")
        )  # fmt: skip
    at = count(at, "at", where="groups", least=-run.snapshot_times.size)
    problem = problem or problem_of(run)
    _require_weights(run)
    if at >= run.snapshot_times.size:
        raise RequestError(
            explain(f"there is no snapshot {at}.", where="groups", expected=f"one of {run.snapshot_times.size}")
        )
    k = at % run.snapshot_times.size
    now = Init(run.directions[k], run.log_norms[k], alpha=1.0)
    found = found_at(problem, float(run.snapshot_times[k]), now, run.log_norms[0], by, cosine)
    with guard(problem):
        taken = falls(problem, run, k)
    waiting = _waiting(problem, found, now)
    with guard(problem):
        measured = tuple(
            _past(problem, group, run, k, cosine, taken[:, group.members].sum(axis=1), number not in waiting)
            for number, group in enumerate(found.groups)
        )
    found = replace(found, groups=measured)
    if isinstance(source, Comparison):
        seen = tuple(_predicted(g, source.stairs.drops) for g in measured)
        return replace(found, groups=seen)
    last = k == run.snapshot_times.size - 1
    if last and run.status in _OVER:
        return found
    return _foreseen(problem, found, now, waiting, None if last else float(run.times[-1]))


def by_direction(problem: Problem, theta: FloatArray, cosine: float) -> Groups:
    """The groups of weights (H, P), without their past and future."""
    return found_at(problem, np.nan, Init(*polar(theta), alpha=1.0), None, "direction", cosine)


def at_end(run: Trajectory, problem: Problem | None = None) -> Groups:
    """The groups by direction at the last snapshot of a run, without their past and future; for pictures."""
    _require_weights(run)
    now = Init(run.directions[-1], run.log_norms[-1], alpha=1.0)
    return found_at(problem or problem_of(run), float(run.snapshot_times[-1]), now, None, "direction", COSINE)


def _require_weights(run: Trajectory) -> None:
    if run.directions.shape[0] == 0:
        raise RequestError(explain("this trajectory holds no parameters.", where="groups"))


def problem_of(run: Trajectory | Staircase, file: str | None = None) -> Problem:
    """The problem of a run, built again from its arguments; file : where it is when it is in a file."""
    return registry.rebuilt(run.problem, run.arguments, file)


def cluster(problem: Problem, directions: FloatArray, log_norms: FloatArray, cosine: float) -> list[IntArray]:
    """Living neurons by direction, (members of a group, largest norm first), largest leader first.

    Clusters are grown from the largest norm down: a leader takes all free rows within `cosine` of it.
    """
    order = np.argsort(-log_norms, kind="stable")
    free = np.isfinite(log_norms)
    out = []
    for leader in order:
        if not free[leader]:
            continue
        near = np.arange(free.size) == leader
        if problem.interchangeable:  # else its index means something, and no other neuron is like it
            near |= similarity(problem, directions[leader : leader + 1], directions)[0] >= cosine
        members = order[(near & free)[order]]
        free[members] = False
        out.append(members)
    return out


def _split(problem: Problem, directions: FloatArray, log_norms: FloatArray, by: str, cosine: float) -> list[Any]:
    """(members, label) of every group."""
    if by == "direction":
        known = naming.given(problem.arguments, len(log_norms))
        return [
            (members, "" if known is None else naming.listed([known[i] for i in members]))
            for members in cluster(problem, directions, log_norms, cosine)
        ]
    network = require_two_layer(problem, f'groups by="{by}"')
    order = np.argsort(-log_norms, kind="stable")
    order = order[np.isfinite(log_norms[order])]
    if by == "cell":
        if network.activation.smooth:
            raise RequestError(
                explain(
                    f"{network.activation.name} has no gates.", where='groups by="cell"', expected="relu or leaky-relu"
                )
            )
        keys: FloatArray | IntArray = np.packbits(gates(network, directions[order]), axis=1).astype(np.int64)
    else:
        keys = favoured(directions[order, network.n_inputs :])[:, None]
    _, number = np.unique(keys, axis=0, return_inverse=True)
    out = []
    for key in np.unique(number):
        members = order[number.reshape(-1) == key]
        opened = int(gates(network, directions[members[:1]]).sum())
        names = output_names(network)
        side = names[int(favoured(directions[members[:1], network.n_inputs :])[0])]
        out.append((members, f"{opened} of {network.n_samples} gates open" if by == "cell" else f"class {side}"))
    return out


def found_at(problem: Problem, time: float, now: Init, start: FloatArray | None, by: str, cosine: float) -> Groups:
    """The groups at one moment, without their past and future; start : (H,) log norms at the start, where known."""
    with admitted(problem, "groups"):
        moment = alignment(problem, now)
        always = np.array(problem.permanent, dtype=np.int64)
        dead = np.setdiff1d(np.flatnonzero(~moment.driven[0]), always)
        driven = moment.driven[0] & ~np.isin(np.arange(now.width), always)  # an output bias is of no group
        found = [
            _group(problem, moment, now, start, members, label)
            for members, label in _split(problem, now.directions, np.where(driven, now.log_norms, -np.inf), by, cosine)
        ]
        found.sort(key=lambda group: -group.log_total)
        return Groups(problem.name, problem.degree, time, by, cosine, tuple(found), dead)


def _group(
    problem: Problem,
    moment: Alignment,
    now: Init,
    start: FloatArray | None,
    members: IntArray,
    label: str,
) -> Group:
    """What these neurons are together."""
    directions, log_norms = now.directions, now.log_norms
    kappa, winner = problem.degree, members[0]
    sizes = kappa * (log_norms[members] - log_norms[winner])
    total = float(np.log(np.sum(np.exp(sizes))))
    shares = np.exp(sizes - total)
    signs = np.sign(directions[members] @ directions[winner])  # representatives of one function
    return Group(
        members=members,
        direction=normalize((shares * np.where(signs == 0, 1.0, signs)) @ directions[members]),
        log_total=float(log_norms[winner]) + total / kappa,
        shares=shares,
        rate=float(moment.rate[0, winner]),
        utility=float(moment.utility[0, winner]),
        charge=np.nan if start is None else float(log_norms[winner] - start[winner]),
        log_ratios=log_norms[members] - log_norms[winner],
        label=label,
    )


def _foreseen(problem: Problem, found: Groups, now: Init, waiting: IntArray, until: float | None) -> Groups:
    """The groups, with the half-drop times of those that still are to make their drop.

    They are those of a race from here on, up to flow time `until` or its end, in which every neuron goes its own way;
    of a finer one where that and a coarser one differ, as they do where the flow forks.
    (The law of one neuron of a group's total, at the residual that the others leave, is early by up to half of the time
    that is left: directions still turn, and others fall meanwhile.)
    """
    if not waiting.size:
        return found
    with guard(problem):
        left = None if until is None else until - (0.0 if np.isnan(found.time) else found.time)
        rtol, seen = RTOL, foresee(problem, now, left, RTOL)
        told = _told(problem, found, waiting, seen)
        while rtol > FINEST and not seen.end.unfinished and any(g.predicted_error > SURE for g in told.values()):
            rtol /= COARSER
            seen = foresee(problem, now, left, rtol)
            told |= _told(problem, found, waiting, seen)
    return replace(found, groups=tuple(told.get(k, group) for k, group in enumerate(found.groups)))


def _told(problem: Problem, found: Groups, waiting: IntArray, seen: Foresight) -> dict[int, Group]:
    """By number, the groups of those waiting that fall in a race, with their half-drop times and errors."""
    then = Init(seen.end.directions, seen.end.log_norms, alpha=1.0)
    later = found_at(problem, np.nan, then, None, "direction", found.cosine)
    ahead = [later[k].members for k in _waiting(problem, later, then)]
    # groups that met by then are one, of which none alone is most
    fell = [k for k in waiting if not any(found[k].winner in members for members in ahead)]
    told = [seen.half_time(found[k].members, np.nan_to_num(found[k].took_off)) for k in fell]
    after, changes, late, taken = np.array(told).reshape(-1, 4).T
    times = after + (0.0 if np.isnan(found.time) else found.time)
    # one flow: each feels what the others are off by, as far as they take as much
    felt = np.nan_to_num(changes / times) * np.minimum(taken / taken[:, None], 1.0)
    errors = SAFE * felt.max(axis=1, initial=0.0) + late / times + 0.0 * changes
    return {
        int(k): replace(found[k], predicted_half_time=float(time), predicted_error=float(error))
        for k, time, error in zip(fell, times, errors, strict=True)
        if np.isfinite(error)
    }


def _waiting(problem: Problem, found: Groups, now: Init) -> IntArray:
    """Groups that grow and are not past the middle of their drop; by direction: others are not one neuron.

    With all others held, a group of norm rho costs L - U rho^2 + C rho^4, so that its rate, 2 (U - 2 C rho^2), has
    fallen to 2 U / sqrt 2 when half of what it can take off is gone, and to 0 where it rests. Degree kappa likewise.
    """
    if found.by != "direction":
        return np.zeros(0, dtype=np.int64)
    always = list(problem.permanent)
    rows = np.array([group.parameters for group in found.groups]).reshape(-1, problem.n_params)
    rows = np.concatenate([rows, cartesian(now.directions[always], now.log_norms[always])])
    neurons = np.array([*(group.winner for group in found.groups), *always], dtype=np.int64)
    kappa, out = problem.degree, []
    for k, group in enumerate(found.groups):
        fell = group.rate <= 0
        if not fell and k < _MOST_GROWN:
            residual = problem.residual(np.delete(rows, k, axis=0), np.delete(neurons, k))
            alone = float(problem.utility(group.direction[None], neurons[k : k + 1], residual)[0][0])
            growth = np.exp((kappa - 2) * now.log_norms[group.winner])
            fell = group.rate <= kappa * max(alone, 0.0) * growth / np.sqrt(2.0)
        if not fell:
            out.append(k)
    return np.array(out, dtype=np.int64)


def _past(
    problem: Problem, group: Group, run: Trajectory, k: int, cosine: float, taken: FloatArray, fell: bool
) -> Group:
    """The group with what the snapshots before number k say of it; taken : (k,) off the loss between them.

    fell : whether it is past its drop.
    """
    members, times = group.members, run.snapshot_times[: k + 1]
    interval, share = halfway(taken)
    at = np.nan
    grew = problem.degree * (group.log_total - _log_total(problem, run.log_norms[0, members]))
    if interval >= 0 and grew > np.log(_GREW) and fell:
        between = times[[interval, interval + 1]]
        before, after = run.loss_at(between)
        at = float(np.clip(run.time_at(before + share * (after - before)), *between))
    group = replace(group, half_time=at, took_off=float(np.sum(taken)))
    together = [
        bool((similarity(problem, rows[members[:1]], rows[members]) >= cosine).all())
        for rows in run.directions[: k + 1]
    ]
    apart = [j for j, close in enumerate(together) if not close]
    since = apart[-1] + 1 if apart else 0
    if since > k:
        return group
    ratios = run.log_norms[since : k + 1][:, members] - run.log_norms[since : k + 1, members[:1]]
    drift = float(np.abs(ratios - ratios[0]).max())
    return replace(group, formed=float(times[since]), drift=drift)


def _log_total(problem: Problem, log_norms: FloatArray) -> float:
    """log of (sum rho^kappa)^(1/kappa)."""
    return float(np.logaddexp.reduce(problem.degree * log_norms) / problem.degree)


def _predicted(group: Group, drops: tuple[Drop, ...]) -> Group:
    """The group with the half-drop time of the predicted drop that has its largest share, of several the one next to
    its own, where any has one."""
    shares = [float(np.sum(group.shares[np.isin(group.members, drop.neurons)])) for drop in drops]
    most = max(shares, default=0.0)
    its = [drop for drop, share in zip(drops, shares, strict=True) if share == most > 0]
    if not its:
        return group
    own = group.half_time if np.isfinite(group.half_time) else 0.0
    drop = min(its, key=lambda drop: abs(drop.half_time - own))
    return replace(group, predicted_half_time=drop.half_time, predicted_error=drop.error)
