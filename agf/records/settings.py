"""The choices a prediction depends on, in one frozen record that goes into every run file."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, fields
from typing import Any

from agf.arrays import count, number, positive
from agf.asked import asked
from agf.errors import RequestError, explain, shown

MODES = ("auto", "agf", "limit", "resolved")
THRESHOLDS = ("natural", "unit")
SETTLES = ("horizon", "converged")
#: Smallest drop reported of any curve, as a fraction of the loss before it. Setting: `depth`; at 2e-2 drops of a
#: percent, which a picture shows, would be left out; at 2e-4 the test of ten sigmas alone would hold off the scatter of
#: minibatches.
DEPTH = 2e-3
#: Smallest drop reported of a computed curve (with slopes). Setting: `depth`; its losses are right to the tolerance of
#: the steps, 1e-4 at kinks and finer elsewhere, so that smaller drops are real; at 2e-5 those at kinks would not be.
FINE_DEPTH = 2e-4
#: Former names of options, which are still taken: of keywords, and in run files.
_FORMER = {"max_time": "t_max"}


#: Options that mean something in some modes only: their default there, and the modes.
_APPLY: dict[str, tuple[Any, tuple[str, ...]]] = {
    "threshold": ("natural", ("auto", "agf", "resolved")),
    "settle": ("horizon", ("auto", "agf")),
    "horizon": (1.0, ("auto", "agf")),
    "joining": (0.03, ("auto", "resolved")),
}


#: Options of Algorithm 1: who gives one, and no mode, means mode "agf".
_PAPER = {"threshold", "settle", "horizon"}


@asked
@dataclass(frozen=True)
class Settings:
    """How to predict. Every tolerance is relative to the scale of the thing it bounds.

    An option that does not apply to the mode is refused; left out (None) it is None there, and the default elsewhere.

    Parameters
    ----------
    mode : str
        "auto" (default) Algorithm 1 where its assumption holds, resolved in time where it does not; "agf" finite alpha
        ([AGF] Algorithm 1); "limit" alpha -> 0 at degree 2 ([AGF] Algorithm 2, [PF23] Algorithm 1); "resolved"
        time-resolved active flow, which predicts the curve as well. Where `threshold`, `settle` or `horizon` is given
        as an option of `predict`, the default is "agf".
    threshold : str, optional
        "natural" (norm R* at which the neuron saturates, default) or "unit" (norm 1, as the paper). Not in mode
        "limit".
    settle : str, optional
        "horizon" (active neurons flow for as long as the next activation takes, default) or "converged". Modes "agf"
        and "auto".
    horizon : float, optional
        Multiple of the time to the next activation that active neurons flow for; default 1. Modes
        "agf" and "auto".
    rtol : float
        Relative error of directions, log norms and losses, of one step.
    tie_rtol : float
        Neurons whose activation times agree to this fraction of the elapsed phase activate together.
    joining : float, optional
        Fraction of R* at which a neuron joins the active flow; default 0.03, or less where activations are linear at
        the origin to first order only (gelu, silu). Modes "resolved" and "auto".
    conditioning : bool, optional
        Whether to measure how much each drop's time moves when the tolerance and the initial weights (mode "resolved":
        the joining fraction) change a little, by a second prediction. None: where active neurons are resolved in time
        and no bound comes with it.
    max_drops : int, optional
        Drops after which to stop; None for no bound.
    t_max : float, optional
        Flow time at which to stop; None for no bound.
    max_gradients : float, optional
        Gradients after which a pass is given up, with what it has so far; None for a million where neurons are resolved
        in time, and for no bound where closed forms or Algorithm 1 do without.
    """

    mode: str = "auto"
    threshold: str | None = None
    settle: str | None = None
    horizon: float | None = None
    rtol: float = 1e-6
    tie_rtol: float = 1e-9
    joining: float | None = None
    conditioning: bool | None = None
    max_drops: int | None = None
    t_max: float | None = None
    max_gradients: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("mode", MODES), ("threshold", THRESHOLDS), ("settle", SETTLES)):
            value = getattr(self, name)
            if not (isinstance(value, str) and value in allowed) and not (value is None and name in _APPLY):
                raise RequestError(
                    explain(
                        f"unknown {name} {shown(value)}.",
                        where="predict",
                        expected="one of " + ", ".join(allowed),
                    )
                )
        for name, (default, modes) in _APPLY.items():
            if self.mode in modes and getattr(self, name) is None:
                object.__setattr__(self, name, default)
            elif self.mode not in modes and getattr(self, name) is not None:
                raise RequestError(
                    explain(
                        f"`{name}` does not apply to mode {self.mode!r}.",
                        where="predict",
                        expected=f"mode {' or '.join(modes)}",
                        remedy=f"Leave `{name}` out, or choose another mode.",
                    )
                )
        ranges = {"horizon": (0.0, math.inf), "rtol": (1e-13, 0.1), "tie_rtol": (0.0, 1.0), "joining": (1e-4, 1.0)}
        for name, (least, most) in ranges.items():
            given = getattr(self, name)
            if given is None and name in _APPLY:
                continue
            value = number(given)
            if not (least <= value <= most and value > 0):
                expected = "positive" if most == math.inf else f"between {least:g} and {most:g}"
                raise RequestError(explain(f"`{name}` must be {expected}.", where="predict", found=shown(given)))
            object.__setattr__(self, name, value)
        if self.conditioning is not None and not isinstance(self.conditioning, bool):
            raise RequestError(
                explain("`conditioning` must be True, False or None.", where="predict", found=shown(self.conditioning))
            )
        if self.max_drops is not None:
            object.__setattr__(self, "max_drops", count(self.max_drops, "max_drops", where="predict", least=0))
        if self.t_max is not None:
            until = number(self.t_max)
            if not until >= 0:
                words = "`t_max` (formerly `max_time`) must not be negative."
                raise RequestError(explain(words, where="predict", found=shown(self.t_max)))
            object.__setattr__(self, "t_max", until)
        if self.max_gradients is not None:
            most = positive(self.max_gradients, "max_gradients", where="predict")
            object.__setattr__(self, "max_gradients", most)

    @classmethod
    def of(cls, options: dict[str, Any]) -> Settings:
        """From keyword options, None for the default; an unknown one is refused with the valid names."""
        known = cls.options()
        found: dict[str, Any] = {}
        for name, value in options.items():
            if name not in known and name not in _FORMER:
                close = difflib.get_close_matches(name, known, n=1)
                raise RequestError(
                    explain(
                        f"unknown option `{name}`.",
                        where="predict",
                        expected="one of " + ", ".join(sorted(known)),
                        remedy=f"Did you mean `{close[0]}`?" if close else "",
                    )
                )
            field = _FORMER.get(name, name)
            if value is not None and found.get(field) is not None:
                raise RequestError(
                    explain("`t_max` and `max_time` are one option.", where="predict", remedy="Give `t_max`.")
                )
            found[field] = value if value is not None else found.get(field)
        given = {name: value for name, value in found.items() if value is not None}
        if given.keys() & _PAPER:
            given.setdefault("mode", "agf")
        return cls(**given)

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Names of the options."""
        return _NAMES

    def within(self, mode: str, **changes: Any) -> Settings:
        """The same settings in another mode, as far as they apply there, with `changes`."""
        kept = {name: value for name, value in vars(self).items() if mode in _APPLY.get(name, (None, MODES))[1]}
        return Settings(**{**kept, "mode": mode, **changes})

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: of what applies to the mode."""
        return {name: value for name, value in vars(self).items() if self.mode in _APPLY.get(name, (None, MODES))[1]}


_NAMES = tuple(field.name for field in fields(Settings))
