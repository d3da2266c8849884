"""Every critical direction of the utility at a network: exact for (leaky) ReLU, a closed form, or found by ascent."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray, matrix, vector
from agf.asked import asked
from agf.contract.admission import admit_problem
from agf.contract.blame import guarded
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.init import Init
from agf.records.table import percent
from agf.rectified.ascent import FOLLOWED, SAME, STARTS, maxima
from agf.rectified.cones import MAX_FACES, Arrangement, brief
from agf.rectified.ends import ends, isotropic
from agf.rectified.extremal import MAXIMUM, MINIMUM, Extremal, extremal
from agf.rectified.pulls import Alone, beyond, large_ones, pulls_of
from agf.rectified.samples import Samples
from agf.rectified.walls import Walls
from agf.results.landscape import Critical, Landscape, Region
from agf.results.trajectory import Trajectory

#: Neurons of either sign whose ends give the shares above two dimensions. Cost: shares are right to 1.6 %, and their
#: number is said.
_DRAWN = 1000
#: Neurons that are followed at least where nothing is enumerated. Cost: as `FOLLOWED`, for many samples.
_FEWEST = 8
#: Seed of their directions. Derived: any, so that a landscape does not change from call to call.
_SEED = 0


@asked
@guarded
def landscape(
    problem: Problem,
    theta: Any = None,
    residual: Any = None,
    *,
    at: str = "",
    starts: int = STARTS,
    max_faces: int = MAX_FACES,
    shares: bool = True,
) -> Landscape:
    """What competes: every critical direction of the utility at the residual of a network.

    Parameters
    ----------
    problem : Problem
        The problem. Networks of relu or leaky-relu neurons with one output are enumerated exactly, cone by cone and
        face by face; problems with a closed form (`Problem.critical`) give theirs; others are climbed from many starts.
    theta : array-like or None
        (m, P) neurons that are there; none, the empty network, by default.
    residual : Any
        In place of theta: what `problem.residual` returns, or (n,) numbers -dl/df for a ReLU problem.
    at : str
        Which network this is, for the title.
    starts : int
        Starts of the ascent, where there is one.
    max_faces : int
        Most faces that are enumerated; above it the directions are found by ascent, and marked as such.
    shares : bool
        Whether to find which fraction of the neurons ends where; the most expensive part above two input columns.

    Returns
    -------
    Landscape
        The directions in order of falling utility; `complete` says whether these are all.

    Raises
    ------
    RequestError
        Not a problem, both theta and residual, or arrays of another shape.
    ProblemError
        For a problem from outside the package that breaks its contract.
    """
    admit_problem(problem, "landscape")
    if theta is not None and residual is not None:
        words = "both a network and a residual are given."
        raise RequestError(explain(words, where="landscape", remedy="Drop one."))
    network = network_of(problem, theta, "landscape")
    at = at or ("the empty network" if network.shape[0] == 0 else f"a network of {network.shape[0]} neurons")
    if residual is not None:
        at = "a given residual"
    everyone, samples = np.arange(network.shape[0]) % problem.width, Samples.of(problem)
    level = float(problem.loss_grad(network, everyone)[0]) if residual is None else np.nan
    closed = None if samples is not None or residual is not None else problem.critical(network, everyone)
    extra: dict[str, Any] = {}
    notes: list[str] = []
    if samples is not None:
        samples, network = samples.beside(network)
        c = samples.weights(network)
        if residual is not None:
            c = samples.weigh(vector(residual, "residual", where="landscape", length=c.size))
        extra = {"samples": samples.X, "residual": c, "leak": samples.leak}
        if samples.problem.kink > 0:
            width = percent(samples.problem.kink)
            notes.append(f"Of sharp kinks: training rounds them, and sees these utilities to about {width} (kink).")
        if Arrangement.of(samples.X).bound <= max_faces:
            found = extremal(samples.X, c, samples.leak, max_faces)
            criticals, flats, words = listed(samples, c, found, shares)
            how, complete = f"All {found.faces} cones and faces were looked at{words}", True
        else:
            few = min(starts, max(_FEWEST, int(FOLLOWED / c.size**2)))
            criticals, flats = followed(samples, c, few)
            how, complete = f"Ends of {few} neurons of either sign, followed exactly; shares are of those", False
    elif closed is not None:
        criticals, flats, how, complete = list(closed), [], "In closed form", True
    else:
        rest = problem.residual(network, everyone) if residual is None else residual
        criticals, flats = maxima(problem, rest, starts)
        how, complete = f"Found by ascent from {starts} starts; shares are of those", False
    criticals = [one if one.label else replace(one, label=f"direction {k}") for k, one in enumerate(criticals)]
    criticals = _ordered(criticals)

    def own(rows: FloatArray, who: IntArray) -> FloatArray:
        return problem.self_interaction(rows, who, network, everyone)

    alone: Alone = own
    if samples is not None:
        large = network[large_ones(samples, network)]
        alone = beyond(samples, large, *pulls_of(samples, large))
    if network.shape[0] > 0:
        notes.append("A drop is that of one neuron that grows there, while the others follow it, to first order.")
    criticals = dropping(criticals, alone, level, problem.quadratic_loss)
    return Landscape(problem.name, problem.degree, at, level, tuple(criticals), tuple(flats), complete, how,
                     tuple(notes), **extra)  # fmt: skip


def _ordered(criticals: list[Critical]) -> list[Critical]:
    """By falling utility; equal ones, to rounding, by their directions, so that the order is the same everywhere."""
    top = max((abs(one.utility) for one in criticals), default=0.0) or 1.0
    return sorted(criticals, key=lambda one: (-round(one.utility / top, 9), tuple(np.round(-one.direction, 9))))


#: What is given in place of a network: type, its name, and what to pass.
_NO_NETWORKS: tuple[tuple[Any, str, str], ...] = (
    (Init, "a start", "its .params()"),
    (Trajectory, "a run", "its .params(-1), the network at its end"),
    ((str, os.PathLike), "the name of a file", "what agf.load reads from it"),
)


def network_of(problem: Problem, theta: Any, where: str) -> FloatArray:
    """Neurons (m, P) from what was given, without those that are exactly 0; none for None. Raises RequestError."""
    if theta is None:
        return np.zeros((0, problem.n_params))
    for kind, said, remedy in _NO_NETWORKS:
        if isinstance(theta, kind):
            remedy = f"Pass {remedy}."
            raise RequestError(
                explain(f"`theta` is {said}.", where=where, expected="the neurons (m, P) of a network", remedy=remedy)
            )
    if getattr(theta, "size", None) == 0 or (isinstance(theta, list | tuple) and len(theta) == 0):
        return np.zeros((0, problem.n_params))
    rows = matrix(theta, "theta", where=where, columns=problem.n_params)
    return rows[np.any(rows != 0, axis=1)] if problem.interchangeable and not problem.permanent else rows


def listed(
    samples: Samples, c: FloatArray, found: Extremal, shared: bool = True
) -> tuple[list[Critical], list[Region], str]:
    """Extremal vectors as directions of balanced neurons, flat regions, and how their shares were found."""
    shares, flat_shares, words = np.full(found.size, np.nan), np.full(len(found.flats), np.nan), ""
    if shared:
        shares, flat_shares, words = _shares(samples, c, found)
    signs = _signs(found)
    criticals = []
    for i in range(found.size):
        v, value, kind, sign = found.directions[i], float(found.values[i]), found.kinds[i], float(signs[i])
        criticals.append(
            Critical(
                np.append(v, sign) / np.sqrt(2),
                sign * value / 2,
                kind,
                _label(v, sign, found.patterns[i]),
                share=shares[i],
                pattern=found.patterns[i],
                slopes=found.slopes[i],
            )
        )
    flats = [_region(flat.pattern, flat.kind, flat.dead, flat_shares[i]) for i, flat in enumerate(found.flats)]
    return criticals, flats, words


def _region(pattern: IntArray, kind: str, dead: bool, share: float) -> Region:
    words = "no sample is active" if dead else f"pattern {brief(pattern)}"
    return Region(words, kind, dead, float(share), pattern)


def _signs(found: Extremal) -> FloatArray:
    """Sign of the output weight of the neurons that end at each direction; elsewhere of those that grow there."""
    up = [k == MAXIMUM or (k != MINIMUM and g > 0) for k, g in zip(found.kinds, found.values, strict=True)]
    return np.where(up, 1.0, -1.0)


def followed(samples: Samples, c: FloatArray, starts: int) -> tuple[list[Critical], list[Region]]:
    """Where balanced neurons of either sign end, from uniform directions: each end once, with its share."""
    walls = Walls.of(samples.X, c, samples.leak)
    criticals: list[Critical] = []
    dead = []
    for sign in (1.0, -1.0):
        rng = np.random.default_rng(_SEED)
        found = ends(walls, isotropic(rng, starts, samples.X.shape[1], sign), np.zeros(starts), samples.leak)
        moves = found.utilities != 0
        dead.append(float(np.mean(~moves)))
        left = np.flatnonzero(moves)
        while left.size:
            i = int(left[0])
            same = np.linalg.norm(found.directions[left] - found.directions[i], axis=1) <= SAME
            turned = float(np.sign(found.directions[i, -1]))
            criticals.append(
                Critical(
                    found.directions[i],
                    float(found.utilities[i]),
                    MAXIMUM if turned > 0 else MINIMUM,
                    _label(found.directions[i, :-1], turned, found.patterns[i]),
                    share=float(same.sum()) / starts,
                    pattern=found.patterns[i],
                    slopes=found.slopes[i],
                )
            )
            left = left[~same]
    share = float(np.mean(dead))
    flats = [Region("no utility to climb", MINIMUM, samples.leak == 0, share)] if share else []
    return criticals, flats


def _label(v: FloatArray, sign: float, pattern: np.ndarray) -> str:
    side = "a > 0" if sign > 0 else "a < 0"
    if v.size == 2:
        angle = float(np.degrees(np.arctan2(v[1], v[0])))
        return f"{side} at {180.0 if angle <= -180 + 1e-9 else angle:.3f} deg"
    return f"{side} in {brief(pattern)}"


def _shares(samples: Samples, c: FloatArray, found: Extremal) -> tuple[FloatArray, FloatArray, str]:
    """Part of balanced neurons, drawn uniformly, that end at each direction (of its sign), and in each flat region.

    Exact for d = 1, and for d = 2, where G is monotone from one critical direction or flat arc to the next. Above, the
    ends of neurons that are followed exactly; and how this was done, in words.
    """
    d = samples.X.shape[1]
    if d == 1:
        return np.full(found.size, 0.5), np.full(len(found.flats), 0.5), ""
    if found.size == 0:
        return np.zeros(0), np.full(len(found.flats), np.nan), ""
    if d == 2:
        return (*_arcs(samples, c, found), "")
    walls, signs = Walls.of(samples.X, c, samples.leak), _signs(found)
    shares, flat_shares = np.zeros(found.size), np.zeros(len(found.flats))
    for sign in (1.0, -1.0):
        rng = np.random.default_rng(_SEED)
        there = ends(walls, isotropic(rng, _DRAWN, d, sign), np.zeros(_DRAWN), samples.leak)
        for k in np.flatnonzero(signs == sign):
            gap = np.linalg.norm(there.directions[:, :-1] * np.sqrt(2) - found.directions[k], axis=1)
            shares[k] = np.mean((gap <= SAME) & (there.utilities != 0))
        for j, flat in enumerate(found.flats):
            seen = flat.pattern != 0
            inside = (there.patterns[:, seen] == flat.pattern[seen]).all(axis=1)
            flat_shares[j] += 0.5 * np.mean(inside & (there.utilities == 0))
    return shares, flat_shares, f"; shares are of {_DRAWN} neurons of either sign, followed exactly"


def _arcs(samples: Samples, c: FloatArray, found: Extremal) -> tuple[FloatArray, FloatArray]:
    turn = 2 * np.pi
    points = np.arctan2(found.directions[:, 1], found.directions[:, 0]) % turn
    owners = [*range(found.size)]
    begins, ends = points.copy(), points.copy()
    flat_shares = np.zeros(len(found.flats))
    for i, flat in enumerate(found.flats):
        begin, width = _arc(samples.X, flat.pattern)
        flat_shares[i] = width / turn
        begins, ends = np.append(begins, begin), np.append(ends, begin + width)
        owners.append(-1)
    order = np.argsort(begins)
    signs = _signs(found)
    shares = np.zeros(found.size)
    for here, there in zip(order, np.roll(order, -1), strict=True):
        gap = (begins[there] - ends[here]) % turn if begins.size > 1 else turn
        heights = [_height(samples, c, ends[here]), _height(samples, c, begins[there])]
        for sign in (1.0, -1.0):
            end = here if sign * heights[0] > sign * heights[1] else there
            if owners[end] >= 0 and signs[owners[end]] == sign:
                shares[owners[end]] += gap / turn
    return shares, flat_shares


def _height(samples: Samples, c: FloatArray, angle: float) -> float:
    z = samples.X @ np.array([np.cos(angle), np.sin(angle)])
    return float(np.maximum(z, samples.leak * z) @ c)


def _arc(X: FloatArray, pattern: np.ndarray) -> tuple[float, float]:
    """Where the arc of directions with this pattern begins, and its width; samples of pattern 0 do not count."""
    kinks = np.arctan2(X[pattern != 0, 1], X[pattern != 0, 0])
    edges = np.sort(np.concatenate([kinks + np.pi / 2, kinks - np.pi / 2]) % (2 * np.pi))
    widths = np.append(np.diff(edges), edges[0] + 2 * np.pi - edges[-1])
    middles = edges + widths / 2
    heights = np.stack([np.cos(middles), np.sin(middles)], axis=1) @ X[pattern != 0].T
    inside = np.flatnonzero((np.sign(heights) == pattern[pattern != 0]).all(axis=1) & (widths > 1e-9))
    return float(edges[inside[0]]), float(widths[inside].sum())


def dropping(criticals: list[Critical], alone: Alone, level: float, quadratic: bool) -> list[Critical]:
    """With U^2 / 4C where they grow; inf where that is more than the loss `level`: active ones make it."""
    growing = [k for k, one in enumerate(criticals) if one.grows]
    if not growing:
        return criticals
    directions = np.array([criticals[k].direction for k in growing])
    own = alone(directions, np.array([criticals[k].neuron or 0 for k in growing], dtype=np.int64))
    out = list(criticals)
    for k, C in zip(growing, own, strict=True):
        square = criticals[k].utility ** 2
        if quadratic and square > 8 * C * level:  # twice the loss; equal where it would fit all, to a kink
            out[k] = replace(criticals[k], drop=np.inf)
        elif C > 0:
            out[k] = replace(criticals[k], drop=square / (4 * float(C)))
    return out
