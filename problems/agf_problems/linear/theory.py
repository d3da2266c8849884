"""The staircase of a linear network as alpha -> 0: greedy low-rank learning in closed form.

As alpha -> 0 the top singular mode of the residual correlation M = Syx - beta Sxx joins, and gradient flow of that rank
runs to a critical point [GLRL]. The critical points of rank k are beta = P Syx Sxx^+ with P the projection on k
eigenvectors of E = Syx Sxx^+ Syx^T. Within a block that does not decouple all of them but the top k are strict saddles
whose unstable directions the flow has a part in, so it goes on to the top k *of that block*, in a time that does not
grow as alpha -> 0. Independent blocks exchange nothing, and each keeps the modes it has. Hence the rule: blocks race by
the growth of their leading singular value, and inside a block the energies (eigenvalues of E) decide the level.

Charges: between drops the log norms of the remaining modes of a block grow at the singular values of M in order, which
is how the singular values of a product of generic growth operators behave (what leads stays ahead, whatever direction
it points in). An exactly vanishing coupling would break the order, and that is what the blocks are for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agf import Clock, Drop, Staircase, Status
from agf.arrays import FloatArray, IntArray, positive
from agf.errors import RequestError, explain
from agf.rounding import TIED
from agf_problems.linear.moments import Moments

if TYPE_CHECKING:
    from agf_problems.linear.problem import Linear

RULES = ("greedy", "conjecture")


@dataclass(frozen=True)
class Join:
    """Modes that join together.

    Parameters
    ----------
    time : float
        In units of -log alpha.
    modes : int ndarray, shape (k,)
        Indices, in the order of sigma.
    rates : float ndarray, shape (k,)
        Singular values of M at which they grew.
    level : float
        Loss after the drop.
    beta : float ndarray, shape (c, d)
        The map after the drop, in the basis of the moments.
    """

    time: float
    modes: IntArray
    rates: FloatArray
    level: float
    beta: FloatArray


@dataclass(frozen=True)
class Block:
    """What a block of K modes does, whatever the others do.

    Parameters
    ----------
    energies : float ndarray, shape (K,)
        Eigenvalues of E, decreasing.
    rates : float ndarray, shape (K + 1, K)
        Row k the singular values of M after k joined.
    steps : float ndarray, shape (K + 1, c', d')
        The map after k joined.
    """

    rows: IntArray
    columns: IntArray
    energies: FloatArray
    rates: FloatArray
    steps: FloatArray


def joins(moments: Moments, parts: list[Block], width: int) -> Iterator[Join]:
    """The drops in order, at most `width` modes, where `parts` race."""
    charges = [np.zeros(part.rows.size) for part in parts]
    learned = [0 for _ in parts]
    beta = np.zeros(moments.syx.shape)
    time, total, most = 0.0, 0, min(width, moments.rank)
    while total < most:
        waits = [_waits(part, k, charge) for part, k, charge in zip(parts, learned, charges, strict=True)]
        wait = min(float(w.min(initial=np.inf)) for w in waits)
        if not np.isfinite(wait):
            return
        time += wait
        modes: list[int] = []
        rates: list[float] = []
        for b, part in enumerate(parts):
            k = learned[b]
            if k == part.rows.size:
                continue
            growth = part.rates[k, : part.rows.size - k]
            new = min(int(np.count_nonzero(waits[b] - wait <= TIED * time)), width - total - len(modes))
            modes += part.rows[k : k + new].tolist()
            rates += growth[:new].tolist()
            charges[b] = (charges[b] + growth * wait)[new:]
            learned[b] = k + new
            beta[np.ix_(part.rows, part.columns)] = part.steps[learned[b]]
        total += len(modes)
        yield Join(time, np.asarray(modes, dtype=np.int64), np.asarray(rates), moments.loss(beta), beta.copy())


def staircase(problem: Linear, alpha: float | None, rule: str) -> Staircase:
    """The drops of `joins` as a result; `Linear.theory` says what it takes."""
    if rule not in RULES:
        raise RequestError(explain(f"unknown rule {rule!r}.", where="linear.theory", expected="greedy or conjecture"))
    unit = np.nan
    if alpha is not None:
        unit = -np.log(positive(alpha, "alpha", where="linear.theory"))
        if not unit > 0:
            raise RequestError(
                explain("alpha must be below 1: time is in units of -log alpha.", where="linear.theory", found=alpha)
            )
    parts = [_block(problem.moments, *pair) for pair in _racing(problem.moments, rule)]
    path = list(joins(problem.moments, parts, problem.width))
    nothing = np.zeros((1, *problem.syx.shape))
    maps = np.concatenate([nothing, *(join.beta[None] for join in path)])
    strengths = np.linalg.svd(np.diff(maps, axis=0), compute_uv=False)
    features = problem.map_features(problem.moments.natural(maps[1:]))
    drops = tuple(
        Drop(
            time=join.time * unit,
            half_time=join.time * unit,
            accelerated_time=join.time,
            level=join.level,
            neurons=join.modes,
            label=named(join.modes, strengths[k, : join.modes.size].tolist()),
            utility=0.5 * join.rates,
            grad_norm=0.0,
            predicted_decrease=0.0,
            how="closed form",
            features={name: np.asarray(values[k]) for name, values in features.items()},
        )
        for k, join in enumerate(path)
    )
    notes = [f"rule: {rule}"]
    if rule == "greedy" and drops:
        # The published level after k modes is what the k largest energies leave.
        learned = np.cumsum([drop.neurons.size for drop in drops])
        left = 0.5 * np.sort(np.concatenate([part.energies for part in parts]))[::-1]
        published = problem.moments.floor + np.append(np.cumsum(left[::-1])[::-1], 0.0)[learned]
        if max(drop.level - level for drop, level in zip(drops, published, strict=True)) > 1e-9 * left.sum():
            notes.append(
                "Independent modes are learned in another order than that of their energies: here the rule "
                "conjecture differs, and gradient flow follows greedy."
            )
        if drops[-1].level - published[-1] > 1e-9 * left.sum():
            notes.append(
                "The last plateau is a saddle: hidden units are used up while modes of larger energy remain, and "
                "units turn to those later. A larger width learns all modes."
            )
    return Staircase(
        problem=problem.name,
        degree=2,
        clock=Clock(2, 0.0 if alpha is None else float(np.log(unit))),
        start_level=problem.moments.loss(nothing[0]),
        drops=drops,
        status=Status.THEORY,
        arguments=problem.arguments,
        notes=tuple(notes),
    )


def named(modes: IntArray, strengths: list[float]) -> str:
    """Modes and their sizes in A W."""
    return ", ".join(f"mode {int(i)} (sigma {s:.3g})" for i, s in zip(modes, strengths, strict=True))


def energies(moments: Moments) -> list[FloatArray]:
    """Eigenvalues of E of each block, decreasing: half of one is what its mode takes off the loss."""
    return [_spectrum(moments, rows, columns)[0] for rows, columns in moments.blocks]


def _racing(moments: Moments, rule: str) -> Sequence[tuple[IntArray, IntArray]]:
    """Rows and columns of what races: independent blocks by the rule greedy, all modes as one by the conjecture."""
    if rule == "greedy" or not moments.blocks:
        return moments.blocks
    # Conj. 4.1 orders the levels by energy and the rates by singular value over the whole problem.
    rows, columns = (np.sort(np.concatenate(ends)) for ends in zip(*moments.blocks, strict=True))
    return [(rows, columns)]


def _waits(part: Block, learned: int, charges: FloatArray) -> FloatArray:
    """Time until each remaining mode of a block has charge 1, in units of -log alpha."""
    rates = part.rates[learned, : charges.size]
    with np.errstate(divide="ignore"):
        return np.maximum(1.0 - charges, 0.0) / rates


def _spectrum(moments: Moments, rows: IntArray, columns: IntArray) -> tuple[FloatArray, FloatArray]:
    """Energies of a block, decreasing, and their directions among its outputs, in columns."""
    block = np.ix_(rows, columns)
    values, vectors = np.linalg.eigh(moments.target[block] @ moments.syx[block].T)
    return values[::-1], vectors[:, ::-1]


def _block(moments: Moments, rows: IntArray, columns: IntArray) -> Block:
    if rows.size == columns.size == 1:
        sigma, variance = moments.syx[rows[0], columns[0]], moments.sxx[columns[0], columns[0]]
        steps = np.array([0.0, sigma / variance])[:, None, None]
        return Block(rows, columns, np.array([sigma**2 / variance]), np.array([[sigma], [0.0]]), steps)
    energies, vectors = _spectrum(moments, rows, columns)
    best, syx = moments.target[np.ix_(rows, columns)], moments.syx[np.ix_(rows, columns)]
    size = rows.size
    rates = np.zeros((size + 1, size))
    steps = np.zeros((size + 1, size, columns.size))
    for k in range(size + 1):
        learned, left = vectors[:, :k], vectors[:, k:]
        steps[k] = learned @ (learned.T @ best)
        # Singular values of (I - P_k) Syx, from the smaller matrix that has no zero ones.
        rates[k, : size - k] = np.linalg.svd(left.T @ syx, compute_uv=False)[: size - k]
    return Block(rows, columns, energies, rates, steps)
