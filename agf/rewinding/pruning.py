"""Masks from scores: which weights go, globally or in layers of equal numbers, and how many."""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
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
        out[:, inputs_of(problem, "pruning") - 1] = False
    if which == "inner":
        out[:, inputs_of(problem, 'prunable="inner"') :] = False
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
    score: FloatArray | None, layers: IntArray, mask: BoolArray, may: BoolArray, left: int, rng: Any
) -> BoolArray:
    """The mask with `left` of the prunable weights.

    Parameters
    ----------
    score : float ndarray, shape (H, P), or None
        Those of the largest scores stay; None for a random choice, balanced over the layers.
    layers : int ndarray, shape (H, P)
        Layer of each weight.
    mask, may : bool ndarray, shape (H, P)
        What is left, and what may be pruned.
    left : int
        How many stay.
    rng : numpy.random.Generator
        For a random choice.
    """
    out = (mask & ~may).ravel()
    if score is not None:
        flat = np.where(mask & may, score, -np.inf).ravel()
        out[np.argsort(-flat, kind="stable")[:left]] = True
        return out.reshape(mask.shape)
    open_to = [np.flatnonzero((mask & may & (layers == k)).ravel()) for k in np.unique(layers[may])]
    for rows, number in zip(open_to, balanced_counts([rows.size for rows in open_to], left), strict=True):
        out[rng.permutation(rows)[:number]] = True
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


def inputs_of(problem: Problem, where: str) -> int:
    """Number of input weights of a row (w, a). Raises RequestError where rows are not such."""
    inputs = getattr(problem, "n_inputs", None)
    if inputs is None:
        raise RequestError(
            explain(f"rows of {problem.name!r} are not input and output weights.", where=f"rewind {where}")
        )
    return int(inputs)
