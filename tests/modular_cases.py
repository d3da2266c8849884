"""Neurons of modular addition whose utility and meaning are known."""

from __future__ import annotations

import numpy as np

NOBODY = np.zeros(0, dtype=np.int64)


def cosine(problem, position, phases, amplitude=1.0):
    """One neuron (1, 3p) with waves of one frequency in u, v, w, at these phases."""
    p = problem.p
    angle = 2 * np.pi * problem.characters.frequencies[position] * np.arange(p) / p
    return amplitude * np.concatenate([np.cos(angle + s) for s in phases])[None]


def best_neuron(problem, position, s_u=0.3, s_v=0.5):
    """Unit neuron of the largest utility of a frequency: cosines with s_u + s_v = s_w + s_x."""
    phase = np.angle(problem.template.spectrum[position])
    return cosine(problem, position, (s_u, s_v, s_u + s_v - phase), np.sqrt(2 / (3 * problem.p)))


def six_neurons(problem, position, fraction=1.0):
    """Six aligned neurons whose unwanted waves cancel; `fraction` of the frequency is learned.

    Pairs (v, w) -> (-v, -w) cancel A^2 + B^2; phases m pi/3 cancel the waves of a - b and the reflected ones.
    """
    phase = np.angle(problem.template.spectrum[position])
    rows = []
    for m in range(3):
        s = np.pi * m / 3
        rows += [
            cosine(problem, position, (s, s, 2 * s - phase)),
            cosine(problem, position, (s, s + np.pi, 2 * s + np.pi - phase)),
        ]
    theta = np.concatenate(rows)
    return theta * (fraction / problem.learned(theta, np.arange(6))[position]) ** (1 / 3)
