"""What a problem knows in closed form, in place of what the package integrates; a plugin may define any of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agf.arrays import FloatArray, IntArray
from agf.contract.described import Described
from agf.contract.flow_system import FlowSystem
from agf.contract.phases import Phases
from agf.contract.ties import Ties
from agf.errors import NoTheory, explain
from agf.init import Init

if TYPE_CHECKING:
    from agf.records.settings import Settings
    from agf.results.landscape import Critical
    from agf.results.staircase import Staircase


class ClosedForms(Described):
    """A problem as far as it is solved: nothing of it, by default."""

    def phases(self, init: Init, settings: Settings) -> Phases | None:
        """The problem's own two phases from `init` under these settings where it has closed forms, or None for the
        generic ones."""
        del init, settings
        return None

    def many_phases(self, inits: Sequence[Init], settings: Settings) -> Sequence[Phases | None] | None:
        """Phases under these settings for each of many inits that share work (`batch.Script`), or None to use a loop.

        An entry may be None, for an initialization that is better predicted alone. What an initialization gets must
        not depend on the others: a sweep that was cut off asks again for those that are missing.
        """
        del inits, settings
        return None

    def flow_system(self, init: Init) -> FlowSystem | None:
        """The problem's own coordinates for gradient flow, or None for the generic polar ones."""
        del init
        return None

    def ties(self, init: Init) -> Ties | None:
        """The smaller problem in which neurons that follow one another exactly from `init` are one; None for none.

        Flows, descents and predictions resolved in time are then those of the smaller one, and told of the neurons of
        this: they are faster by as many copies as there are, and predictions closer, since copies act together. Equal
        smooth neurons that are interchangeable are found without it (`agf.coordinates.stand_ins`).
        """
        del init
        return None

    def critical(self, theta: FloatArray, neurons: IntArray) -> Sequence[Critical] | None:
        """Critical directions of the utility beside this network, in closed form, or None, the default.

        For `agf.landscape`, which climbs the utility from many starts where there is none.
        """
        del theta, neurons
        return None

    def theory(self, alpha: float | None = None, **options: Any) -> Staircase:
        """The sequence in closed form as alpha -> 0; flow times only when alpha is given; options: the problem's own.

        Raises
        ------
        NoTheory
            Where there is none, the default.
        """
        del alpha, options
        raise NoTheory(
            explain(
                "has no closed form.",
                where=f"problem {self.name!r}",
                remedy='Use agf.predict(problem, init), or mode="limit" where degree is 2.',
            )
        )
