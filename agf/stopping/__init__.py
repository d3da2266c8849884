"""Why a flow stops: one driver, and rules as values that training, prediction and problems compose. Read `driver`
first.

    end = drive(system, Explicit(1e-6), [Certified(Tolerance(1e-6)), Budget(1e6)], system.start())
    end.why, end.at.t, end.left

`drive` is the only loop over the steps of a flow. A problem whose phases follow a flow of their own composes these, and
may add a rule of its own: any value with `init` and `look` (`Stop`).
"""

from agf.stopping.driver import End, Method, Moment, Saved, Stop, Why, drive
from agf.stopping.horizon import LONGEST, Below, Course, Decayed, Horizon, Spent
from agf.stopping.methods import LSODA, Auto, Explicit
from agf.stopping.rules import Budget, Certified, Drifting, Event, Parked, Rounding, Settled, Timeless, Tolerance

__all__ = [
    "LONGEST",
    "LSODA",
    "Auto",
    "Below",
    "Budget",
    "Certified",
    "Course",
    "Decayed",
    "Drifting",
    "End",
    "Event",
    "Explicit",
    "Horizon",
    "Method",
    "Moment",
    "Parked",
    "Rounding",
    "Saved",
    "Settled",
    "Spent",
    "Stop",
    "Timeless",
    "Tolerance",
    "Why",
    "drive",
]
