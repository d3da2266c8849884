"""What was kept of the network along a training: its weights, its features, and which weights changed sign."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from agf import sphere
from agf.arrays import FloatArray
from agf.arrays import number as as_number
from agf.asked import asked
from agf.errors import RequestError, explain, shown
from agf.records import naming

if TYPE_CHECKING:
    from agf.contract.problem import Problem
    from agf.results.flips import Flips
    from agf.results.trajectory import Trajectory


@asked
class Snapshots:
    """The network at T moments; a `Trajectory` says what its arrays are."""

    problem: str
    log_norms: FloatArray
    directions: FloatArray
    features_over_time: dict[str, FloatArray]

    def params(self, k: int) -> FloatArray:
        """Parameters (H, P) of snapshot k (negative k counts from the end), a fresh array. RequestError if not kept."""
        if self.directions.shape[0] == 0:
            raise RequestError(explain("this trajectory holds no parameters.", where=f"trajectory of {self.problem}"))
        count = self.directions.shape[0]
        if as_number(k) not in range(-count, count):
            expected = f"a number from {-count} to {count - 1}"
            raise RequestError(explain(f"there is no snapshot {shown(k)}.", expected=expected))
        return sphere.cartesian(self.directions[int(k)], self.log_norms[int(k)])

    def features(self, name: str) -> FloatArray:
        """(T, ...) the feature `name` over the snapshots. RequestError when there is no such feature."""
        return self.features_over_time[naming.feature(name, self.features_over_time, self.problem)]

    def flips(self, kind: str = "inner", problem: Problem | None = None) -> Flips:
        """Which weight changed sign when, and at what norm.

        Parameters
        ----------
        kind : str
            "inner" for the input weights of a two-layer network, "outer" for its output weights, or "all".
        problem : Problem, optional
            That of the run, where it cannot be built from the run alone (problems in files).

        Returns
        -------
        Flips
            In order of time. Between two snapshots with different signs the flow is integrated again, and the change is
            located on its dense solution; for gradient descent on the line between them. What changes twice between
            snapshots is seen only beside another change: keep more of them (`snapshots=`).

        Raises
        ------
        RequestError
            For a run without parameters, and rows that are not input and output weights.
        """
        from agf.results.flips import flips

        return flips(cast("Trajectory", self), kind, problem)
