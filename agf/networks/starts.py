"""How the two layers of a network are sized when it is drawn at random: the kinds of initialization of `TwoLayer`."""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray

#: "gaussian" and "unbalanced" are the same: entries as they were drawn.
KINDS = ("gaussian", "balanced", "dominated", "ball", "unbalanced")


def drawn(kind: str, w: FloatArray, a: FloatArray, power: int, rng: np.random.Generator) -> None:
    """Give gaussian weights w (m, d) and a (m, c), in place, the sizes of a kind; a keeps its direction.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    w : float ndarray, shape (m, d)
        Input weights.
    a : float ndarray, shape (m, c)
        Output weights.
    power : int
        Power of the activation at the origin.
    rng : np.random.Generator
        The only source of randomness.
    """
    neurons, inputs = w.shape
    if kind in ("gaussian", "unbalanced"):
        return
    if kind == "balanced":
        size = np.linalg.norm(w, axis=1) / np.sqrt(power)
    elif kind == "ball":
        radii = rng.random(neurons) ** (1.0 / inputs)
        w *= (radii / np.linalg.norm(w, axis=1))[:, None]
        size = np.ones(neurons)
    else:
        w[:] = rng.uniform(-1.0, 1.0, w.shape)
        size = np.full(neurons, np.sqrt(inputs))
    a *= (size / np.linalg.norm(a, axis=1))[:, None]
