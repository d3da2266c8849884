"""Masks from scores: which weights go, globally or in layers of equal numbers, and how many."""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.contract.problem import Problem
from agf.errors import RequestError, explain

#: Ways of scoring weights; "random" is balanced over the layers.
SCORES = ("magnitude", "random", "snip", "synflow")
#: Which weights may be pruned.
PRUNABLE = ("all", "inner")


def prunable_of(problem: Problem, which: str) -> BoolArray:
    """(H, P) entries that may be pruned: all but biases, or the input weights of a two-layer network."""
    if which not in PRUNABLE:
        raise RequestError(
            explain(f"unknown part {which!r}.", where="rewind", expected="one of " + ", ".join(PRUNABLE))
        )
    out = np.ones((problem.width, problem.n_params), dtype=bool)
    out[list(problem.permanent)] = False  # biases are not pruned
    if getattr(problem, "bias", "none") in ("hidden", "both"):
        out[:, _inputs(problem, "pruning") - 1] = False
    if which == "inner":
        out[:, _inputs(problem, 'prunable="inner"') :] = False
    return out


def counts(total: int, keep: float, cycles: int) -> list[int]:
    """Weights left after 0, 1, ... cycles: round(total keep^i). RequestError when nothing is left."""
    left = [round(total * keep**i) for i in range(cycles + 1)]
    if left[-1] < 1:
        gone = next(i for i, n in enumerate(left) if n < 1)
        raise RequestError(
            explain(
                f"cycle {gone} leaves no weight: {total} x {keep:g}^{gone} rounds to 0.", where="rewind",
                remedy="Ask for fewer cycles, or a larger keep.",
            )
        )  # fmt: skip
    return left


def pruned(
    problem: Problem, theta: FloatArray, mask: BoolArray, may: BoolArray, left: int, by: str, rng: Any
) -> BoolArray:
    """The mask with `left` of the prunable weights, those of the largest scores among the ones it still has.

    mask, may : (H, P) what is left, and what may be pruned.  rng : numpy generator, for "random".
    """
    if by == "random":
        return _random(problem, mask, may, left, rng)
    score = np.where(mask & may, _score(problem, theta, mask, by), -np.inf).ravel()
    out = (mask & ~may).ravel()
    out[np.argsort(-score, kind="stable")[:left]] = True
    return out.reshape(mask.shape)


def balanced_counts(sizes: list[int], total: int) -> list[int]:
    """The same number of weights in each layer, layers smaller than their share staying whole (water-filling)."""
    out, still, left = [0] * len(sizes), list(range(len(sizes))), total
    while still:
        share = left / len(still)
        full = [layer for layer in still if sizes[layer] <= share]
        if not full:
            for k, layer in enumerate(still):  # whole numbers that add up
                out[layer] = (k + 1) * left // len(still) - k * left // len(still)
            break
        for layer in full:
            out[layer] = sizes[layer]
            left -= sizes[layer]
            still.remove(layer)
    return out


def _random(problem: Problem, mask: BoolArray, may: BoolArray, left: int, rng: Any) -> BoolArray:
    layers = [np.zeros(mask.shape, dtype=bool), np.zeros(mask.shape, dtype=bool)]
    cut = getattr(problem, "n_inputs", problem.n_params)
    layers[0][:, :cut], layers[1][:, cut:] = True, True
    open_to = [np.flatnonzero((layer & mask & may).ravel()) for layer in layers]
    out = (mask & ~may).ravel()
    for rows, number in zip(open_to, balanced_counts([rows.size for rows in open_to], left), strict=True):
        out[rng.permutation(rows)[:number]] = True
    return out.reshape(mask.shape)


def _score(problem: Problem, theta: FloatArray, mask: BoolArray, by: str) -> FloatArray:
    theta = theta * mask
    if by == "magnitude":
        return np.abs(theta)
    if by == "snip":
        return np.abs(theta * problem.loss_grad(theta, np.arange(problem.width))[1])
    if by == "synflow":  # R = sum_i sum_j |w_ij| sum_c |a_ci|, each entry times dR by it
        d = _inputs(problem, 'by="synflow"')
        size = np.abs(theta)
        into, out = size[:, :d].sum(axis=1, keepdims=True), size[:, d:].sum(axis=1, keepdims=True)
        return np.concatenate([size[:, :d] * out, size[:, d:] * into], axis=1)
    raise RequestError(explain(f"unknown score {by!r}.", where="rewind", expected="one of " + ", ".join(SCORES)))


def _inputs(problem: Problem, where: str) -> int:
    inputs = getattr(problem, "n_inputs", None)
    if inputs is None:
        raise RequestError(
            explain(f"rows of {problem.name!r} are not input and output weights.", where=f"rewind {where}")
        )
    return int(inputs)
