"""One ReLU neuron on the target relu(x_1), and its pipelines: data of figures 1 and 2 of [GB24]."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf

#: A loss below this fraction of that of the zero function is success.
SUCCEEDED = 0.1
#: Learning rate over d, at which descent is the flow to a percent.
_RATE = 0.3


def teacher(inputs: int) -> Any:
    """The neuron on Gaussian inputs of variance 1/d, in closed form."""
    return agf.problem("gaussian-teacher", teacher=np.eye(1, inputs), covariance=1.0 / inputs)


def start(inputs: int, signs: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Balanced weights (w, a) of given signs of a and w_1, in a random direction."""
    w = rng.standard_normal(inputs) / np.sqrt(inputs)
    w[0] = signs[1] * abs(w[0])
    return np.append(w, signs[0] * np.linalg.norm(w))[None]


def learns(problem: Any, theta: np.ndarray, method: str, time: float, rewind: float = 0.0,
           masked: bool = False) -> bool:  # fmt: skip
    """Whether a pipeline that prunes to one input ends at the teacher; IMP and WR re-balanced, as the theory has it.

    masked : with the right mask, whatever training makes of it.
    """
    inputs = theta.shape[1] - 1
    right = np.eye(1, inputs + 1) + np.eye(1, inputs + 1, inputs)
    how = {"lr": _RATE * inputs, "steps": round(time / (_RATE * inputs))}
    run = agf.rewind(
        problem, agf.Init.from_params(theta), method=method, cycles=1, keep=1.0 / inputs, prunable="inner",
        masks=[right] if masked else None, rebalance=method != "lrr", rewind=rewind, train=how,
    )  # fmt: skip
    empty = float(problem.loss_grad(np.zeros((0, inputs + 1)), np.zeros(0, dtype=np.int64))[0])
    return bool(run.losses[1] < SUCCEEDED * empty)
