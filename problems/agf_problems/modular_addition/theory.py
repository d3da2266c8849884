"""The staircase of a network on modular addition as alpha -> 0 ([AGF] section 5): a frequency a drop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agf import Clock, Drop, Init, Settings, Staircase, Status
from agf.arrays import FloatArray, IntArray
from agf.errors import DataError, explain
from agf_problems.modular_addition.template import Characters, Template


@dataclass(frozen=True)
class Theory:
    """What is known of it.

    Parameters
    ----------
    name : str
        Of the problem.
    template : Template
        What is encoded, with its characters.
    terms : int
        k summands.
    width : int
        Number of neurons.
    """

    name: str
    template: Template
    terms: int
    width: int

    @property
    def characters(self) -> Characters:
        """Of the group."""
        return self.template.characters

    def max_utilities(self) -> FloatArray:
        """(K,) largest utility on the unit sphere of each frequency, nothing active; unit: loss.

        For two terms sqrt(2/(27 p^3)) |xh|^3 ([AGF] Theorem 5.1), and sqrt(2) times that for a real character.
        """
        k = self.terms
        paired = self.characters.paired
        # k! p^-(k+1) sum_chi |uh .. wh| |xh|^(k+1) with squared norms 1/(k+1) each, |uh|^2 = p/2 |u|^2 (or p |u|^2)
        power = np.abs(self.template.spectrum) * np.sqrt(np.where(paired, 0.5, 1.0) / (self.characters.order * (k + 1)))
        return np.where(paired, 2.0, 1.0) * float(np.prod(np.arange(1, k + 1))) * power ** (k + 1)

    def jump_bound(self, frequency: int, mu: float, radius: float = 1.0) -> float:
        """Least flow time in which neurons of norm at most mu reach norm `radius` on `frequency` alone.

        [AGF] eq. 9 with its misprints mended: sqrt(3) p^{3/2} (1/mu - 1/radius) / (sqrt(2) |xh|^3) for two terms.
        """
        at = np.flatnonzero(self.characters.frequencies == frequency)
        if at.size == 0 or self.template.spectrum[at[0]] == 0:
            raise DataError(explain(f"the template has nothing at frequency {frequency}.", where=self.name))
        power = self.terms - 1
        gap = max(mu**-power - radius**-power, 0.0) / power
        return float(gap / ((self.terms + 1) * self.max_utilities()[at[0]]))

    def staircase(
        self, init: Init | None, log_norms: FloatArray, radius: float, arguments: dict[str, Any]
    ) -> Staircase:
        """The prediction; bounds for initial log norms (H,), where there are any, up to norm `radius`."""
        utilities = self.max_utilities()
        chosen = self.template.learnable
        chosen = chosen[np.argsort(-utilities[chosen], kind="stable")]
        gains = self.template.gains()
        remaining = np.append(np.cumsum(gains[chosen[::-1]])[::-1], 0.0)
        drops = tuple(
            Drop(
                time=np.nan,
                half_time=np.nan,
                accelerated_time=np.nan,
                level=float(remaining[k + 1]),
                label=self.characters.name(self.characters.frequencies[i]),
                utility=utilities[i : i + 1],
                how="closed form",
                features={
                    "frequency": np.array(float(self.characters.frequencies[i])),
                    "amplitude": np.abs(self.template.spectrum[i]),
                    "group_size": np.array(6.0 if self.characters.paired[i] else 2.0),
                },
            )
            for k, i in enumerate(chosen)
        )
        order = self.terms + 1
        clock = Clock.from_norms(order, log_norms) if log_norms.size else Clock(order, 0.0)
        bounds = None
        if log_norms.size:
            largest = float(np.exp(log_norms.max()))
            bounds = np.array([self.jump_bound(int(self.characters.frequencies[i]), largest, radius) for i in chosen])
        return Staircase(
            problem=self.name,
            degree=self.terms + 1,
            clock=clock,
            start_level=float(remaining[0]),
            drops=drops,
            status=Status.THEORY,
            settings=Settings(),
            init=init,
            arguments=arguments,
            bounds=bounds,
            notes=self._notes(chosen, utilities),
        )

    def _notes(self, chosen: IntArray, utilities: FloatArray) -> tuple[str, ...]:
        notes = []
        if chosen.size == 0:
            notes.append("The template is constant: there is nothing to learn.")
        ordered = utilities[chosen]
        if np.any(np.isclose(ordered[1:], ordered[:-1], rtol=1e-9, atol=0.0)):
            notes.append("Frequencies of equal amplitude tie: the initialization decides their order, not the theory.")
        if not self.characters.paired.all():
            notes.append(
                "The order of the group is even: the theorems assume it odd; real characters are included here."
            )
        need = int(np.where(self.characters.paired[chosen], 6, 2).sum())
        if self.width < need:
            notes.append(f"Full levels need {need} neurons; with {self.width}, intermediate levels appear.")
        return tuple(notes)
