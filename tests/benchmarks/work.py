"""Work of a run in gradients of the whole network, counted at the problem: a part of the network counts as its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agf


class Work:
    """Counts what is asked of a problem from now on; `take` gives the gradients since the last time.

    A gradient is a residual of H neurons and a utility of H neurons.
    """

    def __init__(self, problem: agf.Problem) -> None:
        self.rows, self.whole, self.inside = 0, 2 * problem.width, False
        for name, parts in (("residual", 1), ("utility", 1), ("pull", 1), ("loss_grad", 2), ("network_pull", 1)):
            setattr(problem, name, self._counted(getattr(problem, name), parts, name == "network_pull"))

    def _counted(self, method: Callable[..., Any], parts: int, fused: bool) -> Callable[..., Any]:
        """fused : the last argument says which rows make the residual, beside the pull of all."""

        def call(theta: Any, *rest: Any) -> Any:
            if self.inside:  # one method that uses another is counted once
                return method(theta, *rest)
            self.rows += parts * len(theta) + (int(rest[-1].sum()) if fused else 0)
            self.inside = True
            try:
                return method(theta, *rest)
            finally:
                self.inside = False

        return call

    def take(self) -> float:
        rows, self.rows = self.rows, 0
        return rows / self.whole
