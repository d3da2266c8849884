"""Names of neurons by the output, or the class, that their output weights favour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray

#: A label names the neurons of a drop one by one up to this many. Limit: more are counted.
_MOST_NAMED = 8


def of_neurons(outputs: FloatArray, neurons: IntArray, chosen: IntArray, classes: Sequence[Any]) -> str:
    """ "neuron 3 (class 7)", or "neurons of class 7 (34), of class 2 (1)" where there are more than eight.

    Parameters
    ----------
    outputs : float ndarray, shape (m, c)
        Output weights of the neurons that there are.
    neurons : int ndarray, shape (m,)
        Their indices.
    chosen : int ndarray, shape (k,)
        Indices of those to be named.
    classes : sequence
        Names of classes, empty for a regression.
    """
    favours = {int(i): favoured(row, classes) for i, row in zip(neurons, outputs, strict=True)}
    if chosen.size > _MOST_NAMED:
        count = Counter(favours.get(int(i), "no output") for i in chosen).most_common()
        return "neurons " + ", ".join(f"of {'sign ' * (name in '+-')}{name} ({number})" for name, number in count)
    names = [f"{int(i)} ({favours[int(i)]})" if int(i) in favours else str(int(i)) for i in chosen]
    return ("neuron " if len(names) == 1 else "neurons ") + ", ".join(names) if names else ""


def favoured(a: FloatArray, classes: Sequence[Any]) -> str:
    """ "class 7", or "not class 7" where output weights a (c,) lower it most; without classes "+", or "output 2 -"."""
    if classes:
        if a.size == 1:
            return f"class {classes[int(a[0] > 0)]}"
        a = a - a.mean()  # what all outputs share tells no class from another
        k = int(np.argmax(a if a.size == 2 else np.abs(a)))  # of two classes, "not" one is the other
        return f"class {classes[k]}" if a[k] > 0 else f"not class {classes[k]}"
    k = int(np.argmax(np.abs(a)))
    sign = "+" if a[k] > 0 else "-"
    return sign if a.size == 1 else f"output {k} {sign}"
