"""One ReLU neuron on the target relu(x_1), and its pipelines: data of figures 1 and 2 of [GB24]."""

from __future__ import annotations

from typing import Any

import numpy as np

import agf

METHODS = ("imp", "wr", "lrr")
#: A loss below this fraction of that of the zero function is success.
SUCCEEDED = 0.1
#: Learning rate over d, at which descent is the flow to a percent.
_RATE = 0.25


def teacher(inputs: int) -> Any:
    """The neuron on Gaussian inputs of variance 1/d, in closed form."""
    return agf.problem("gaussian-teacher", teacher=np.eye(1, inputs), covariance=1.0 / inputs)


def start(inputs: int, signs: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Balanced weights (w, a) of given signs of a and w_1, in a random direction, |a| |w| <= 2 as theorem 2.1 asks."""
    w = rng.standard_normal(inputs) / np.sqrt(inputs)
    while w @ w > 2.0:
        w = rng.standard_normal(inputs) / np.sqrt(inputs)
    w[0] = signs[1] * abs(w[0])
    return np.append(w, signs[0] * np.linalg.norm(w))[None]


def learns(problem: Any, theta: np.ndarray, method: str, time: float, rewind: float = 0.0) -> bool:
    """Whether a pipeline that prunes to one input ends at the teacher; IMP and WR re-balanced, as the theory has it."""
    inputs = theta.shape[1] - 1
    how = {"lr": _RATE * inputs, "steps": round(time / (_RATE * inputs))}
    run = agf.rewind(
        problem, agf.Init.from_params(theta), method=method, cycles=1, keep=1.0 / inputs, prunable="inner",
        rebalance=method != "lrr", rewind=rewind, train=how,
    )  # fmt: skip
    empty = float(problem.loss_grad(np.zeros((0, inputs + 1)), np.zeros(0, dtype=np.int64))[0])
    return bool(run.losses[1] < SUCCEEDED * empty)


def many_learn(
    starts: np.ndarray, method: str, time: float, rewind: float = 0.0, after: float | None = None
) -> np.ndarray:
    """`learns` of B starts (B, inputs + 1) at once, all with the same steps, run by run the same.

    Neurons of one network would fit the teacher together; these have one each, and the gradient of [GB24] in closed
    form: C2 = (sin(t) w / |w| + (pi - t) e_1) / (2 pi d) at an angle t to the teacher e_1, C1 = 1 / (2 d).

    after : flow time of the restart, with the right mask whatever training made of it; else `time`, with that which
        training found.
    """
    w, a = starts[:, :-1], starts[:, -1]
    inputs = w.shape[1]
    whole, steps = np.ones_like(w), round(time / (_RATE * inputs))
    dense = _descended(w, a, whole, steps)
    mask = np.zeros_like(w)
    mask[np.arange(a.size), np.abs(dense[0]).argmax(axis=1) if after is None else 0] = 1.0
    early = {"imp": 0, "wr": round(rewind / (_RATE * inputs)), "lrr": steps}[method]
    w, a = _descended(w, a, whole, early) if method != "lrr" else dense
    w = mask * w
    if method != "lrr":
        a = np.sign(a) * np.linalg.norm(w, axis=1)
    w, a = _descended(w, a, mask, steps if after is None else round(after / (_RATE * inputs)))
    angle, rho = _angle(w), a * np.linalg.norm(w, axis=1)
    return np.asarray(1 + rho**2 - 2 * rho * _overlap(angle) < SUCCEEDED)


def _descended(w: np.ndarray, a: np.ndarray, mask: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Gradient descent on the population loss, in units of 1 / d of the variance of the inputs."""
    for _ in range(steps):
        angle, norm = _angle(w), np.linalg.norm(w, axis=1)
        pull = (np.sin(angle) / norm)[:, None] * w
        pull[:, 0] += np.pi - angle
        w, a = (
            w + _RATE * mask * (a[:, None] * pull / (2 * np.pi) - 0.5 * (a**2)[:, None] * w),
            a + _RATE * 0.5 * norm * (_overlap(angle) - a * norm),
        )
    return w, a


def _angle(w: np.ndarray) -> np.ndarray:
    """(B,) to the first axis."""
    return np.asarray(np.arctan2(np.linalg.norm(w[:, 1:], axis=1), w[:, 0]))


def _overlap(angle: np.ndarray) -> np.ndarray:
    return np.asarray((np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi)
