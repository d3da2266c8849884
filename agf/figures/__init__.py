"""Our own renditions of the experiments of [AGF], each from a documented seed, with its data and its numbers beside it.

`make` computes one; `Rendition.save` writes the picture, the data behind each panel (npz) and the numbers (json).
"""

from __future__ import annotations

import importlib
import os

from agf.asked import asked
from agf.errors import RequestError, explain
from agf.figures.figure import Rendition

#: Figure -> module that draws it (and the function, where that is not `draw`), and what it shows.
FIGURES = {
    "fig3": (
        "diagonal",
        "Diagonal linear networks: the staircase sharpens as alpha falls; coefficients enter and leave",
    ),
    "fig4": ("linear", "Linear networks: one singular mode a drop, with commuting and with non-commuting covariances"),
    "fig5": ("attention", "Linear attention: one principal component a drop"),
    "fig6": ("modular", "Modular addition: Fourier features in the order of the template's spectrum"),
    "fig7": ("relu", "ReLU networks on digits (in place of CIFAR-10): the staircase becomes a slide as width grows"),
    "two-edged-three": (
        "two_edged",
        "ReLU networks on three points: all that grows points one way, and the end is the linear fit at any width",
    ),
    "two-edged-teacher": (
        "teacher",
        "Forty points of eight ReLU units: a wide network passes the linear fit and ends with three neurons",
    ),
    "min-digits": (
        "classes:pair",
        "Two digits (in place of MNIST): neurons align with the class sums, then the loss falls",
    ),
    "min-toy": ("orthogonal:toy", "Two classes in the plane: alignment, then one drop a class"),
    "min-separability": ("orthogonal:separability", "How long neurons stand at single samples grows as log(1/s)"),
    "min-phases": ("classes:phases", "Directions change first, then norms; not with a frozen second layer"),
    "landscape": ("utility", "What competes: utilities of ReLU neurons on the circle and on the sphere"),
    "scale": ("scale", "How small is small: the loss at the end against the scale of the weights"),
    "pinson1": (
        "pinson1",
        "Digits (in place of CIFAR-10): silent alignment, norm against angle, and final norms predicted from the start",
    ),
    "pinson2": ("pinson2", "Four blobs at four distances: four groups of neurons, four drops"),
    "pinson4": ("pinson4", "Capacity against the scale of the weights: how many neurons are left after merging"),
    "pinson-race": ("pinson_race", "The race inside a group: shares are kept, and losers take over what leaders leave"),
    "gadhikar1": (
        "gadhikar1",
        "The fate of one neuron: signs and sizes of its weights, and how long it may turn",
    ),
    "gadhikar2": ("gadhikar2", "One neuron: success of restarts by the signs of the start and the number of inputs"),
    "gadhikar5": ("gadhikar5", "Digits (in place of CIFAR-10): which signs flip, and when, by method"),
    "gadhikar-budget": (
        "gadhikar_budget",
        "Digits (in place of CIFAR-10), random masks: what continuing gains is mostly training time",
    ),
    "fig8": ("landscape", "A diagonal network of two coordinates: losses, landscape, path and accumulated utility"),
}


@asked
def make(name: str, fast: bool = False, data: str | os.PathLike[str] | None = None) -> Rendition:
    """Compute one figure.

    Parameters
    ----------
    name : str
        One of `FIGURES`.
    fast : bool, optional
        A smaller version that takes seconds.
    data : str or os.PathLike[str] or None, optional
        A folder with CIFAR-10, for a second row of "fig7".

    Raises
    ------
    RequestError
        For an unknown name, and data that the figure does not take.
    DataError
        When CIFAR-10 is not in that folder.
    """
    if name not in FIGURES:
        raise RequestError(explain(f"there is no figure {name!r}.", expected="one of " + ", ".join(FIGURES)))
    module, title = FIGURES[name]
    place, _, function = module.partition(":")
    draw = getattr(importlib.import_module(f"agf.figures.{place}"), function or "draw")
    if data is None:
        return Rendition(name, title, *draw(fast))
    if name != "fig7":
        raise RequestError(explain(f"the figure {name!r} takes no data.", remedy="Only fig7 does."))
    return Rendition(name, title, *draw(fast, data))
