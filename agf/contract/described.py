"""What people read of a problem: its description, names for what is learned, and what it remarks on its data."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.flow_system import joined_features
from agf.contract.instance import Instance
from agf.records import naming
from agf.records.table import Table, one_line


class Described(Instance):
    """A problem as people see it; a plugin may define all of this but `table`.

    Its attributes are those of `Problem`.
    """

    name: ClassVar[str]
    degree: int
    width: int
    n_params: int

    def describe(self) -> str:
        """One line for reports: what the network and the data are."""
        width, each = (
            f"{n} {word}{'s' * (n != 1)}" for n, word in ((self.width, "neuron"), (self.n_params, "parameter"))
        )
        return f"{self.name}, {width} of {each}, degree {self.degree}"

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """A few words for the drop of neurons `chosen` (indices in 0..H-1), e.g. "coordinate 3"; the first of many.

        Parameters
        ----------
        theta : float ndarray, shape (m, P)
            Active neurons after the drop.
        neurons : int ndarray, shape (m,)
            Their indices.
        chosen : int ndarray, shape (k,)
            Indices of the neurons to be named.
        """
        del theta, neurons
        return self.several("neuron", [str(i) for i in chosen.tolist()])

    @staticmethod
    def several(noun: str, names: list[str]) -> str:
        """Label of a `noun` with `names`, "neurons 3, 5"; of more than twenty of them the first eight."""
        return f"{noun}{'s' if len(names) != 1 else ''} {naming.listed(names)}"

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """What the network has learned, by name (coefficients, singular values, power spectrum, ...)."""
        del theta, neurons
        return {}

    def features_along(self, thetas: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """`features` at each of `thetas` (T, m, P), T > 0, along a first axis: what the snapshots of a flow cost.

        Override it where they are had faster together; a class that overrides `features` and not this gets one by one
        back.
        """
        rows = [self.features(theta, neurons) for theta in thetas]
        return joined_features(partial(np.array, dtype=np.float64), rows)

    def acquired(self, before: dict[str, FloatArray], after: dict[str, FloatArray]) -> str:
        """A few words for what grew most between two sets of `features`, e.g. "frequency 3"; "" leaves it to `label`.

        For drops read off a curve (mode "resolved"), over which several neurons may grow, shrink and trade places.

        Parameters
        ----------
        before : dict[str, FloatArray]
            `features` of the network before a drop.
        after : dict[str, FloatArray]
            `features` of the network after it.
        """
        del before, after
        return ""

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """Quantities that gradient flow conserves, by name, (m,) each where they belong to neurons."""
        del theta, neurons
        return {}

    def remarks(self) -> tuple[str, ...]:
        """Sentences that go with every prediction and training run of this problem, on what its data make of it."""
        return ()

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Constructor arguments used when the user gives no data, and for the conformance checks."""
        return {}

    def table(self) -> Table:
        """What was asked for: sizes, and the constructor arguments (arrays by shape)."""
        rows = [["neurons", str(self.width)], ["parameters a neuron", str(self.n_params)], ["degree", str(self.degree)]]
        rows += [[name, _brief(value)] for name, value in self.arguments.items()]
        return Table(self.describe(), ["what", "value"], rows)

    def __repr__(self) -> str:
        return one_line(f"<{type(self).__name__}: {self.describe()}>")

    def _repr_html_(self) -> str:
        return self.table().html()


def _brief(value: Any) -> str:
    """An argument for people: an array as its shape, anything else in at most 60 characters."""
    shape = getattr(value, "shape", None)
    if shape:
        return "array of " + " x ".join(str(size) for size in shape)
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
