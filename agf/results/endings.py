"""The last sentence of a result: why it ended, with what was measured of it and advice that this run can follow.

A status alone says what is true of every run that ends so. What differs from run to run (how many neurons are left, how
much of the loss, which options there are) is looked up in the result, so that nothing is advised that was not at fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.init import WIDTHS
from agf.records.status import Status
from agf.records.table import level, number, percent

if TYPE_CHECKING:
    from agf.results.staircase import Staircase
    from agf.results.trajectory import Trajectory

#: A loss below this fraction of that of the zero function is called none. Limit: it is below what is printed of
#: a share.
_NOTHING = 1e-5
#: Largest tolerance that a sentence offers to loosen. Limit: ten times this is none.
_LOOSE = 1e-2


def prediction(stairs: Staircase) -> str:
    """Why a prediction ended."""
    status = stairs.status
    if status in _TOLD:
        return _TOLD[status](stairs)
    if status is Status.INTERRUPTED:
        return f"{status.sentence} A prediction starts anew."
    most = stairs.settings.max_gradients
    raised = f" Raise max_gradients ({most:,.0f}) to see more." if status is Status.MAX_STEPS and most else ""
    return status.sentence + (_loosen(status, stairs.settings.rtol) if stairs.init is not None else "") + raised


def _fitted(stairs: Staircase) -> str:
    if stairs.drops:
        return Status.FITTED.sentence
    return f"The zero function has no loss gradient: nothing is learned, at loss {number(stairs.start_level)}."


def _all_active(stairs: Staircase) -> str:
    wider = " A larger width may take more of it." if _chosen(stairs) is not None and _more_to_learn(stairs) else ""
    return f"{_everybody(stairs)}, at loss {_end(stairs)}.{wider}"


def _no_growth(stairs: Staircase) -> str:
    waiting = _waiting(stairs)
    at = f"utility at loss {_end(stairs)}, so"
    if waiting == 1:
        return f"The one dormant neuron does not gain {at} it will never activate.{_others(stairs)}"
    none = "No dormant neuron" if waiting is None else f"None of the {waiting:,} dormant neurons"
    return f"{none} gains {at} none will ever activate.{_others(stairs)}"


def _max_drops(stairs: Staircase) -> str:
    count = len(stairs.drops)
    return f"Stopped after {count} drop{'' if count == 1 else 's'}, as asked (max_drops)."


def _max_time(stairs: Staircase) -> str:
    most = stairs.settings.t_max
    if most is None:
        return Status.MAX_TIME.sentence
    none = "" if stairs.drops else ", before any drop"
    return f"Reached the time limit, flow time {number(most)} (t_max){none}."


def _no_critical_point(stairs: Staircase) -> str:
    sentence = Status.NO_CRITICAL_POINT.sentence
    if not stairs.drops:
        return sentence
    left = stairs.drops[-1].predicted_decrease
    more = f": it may still fall by {number(left)}" if np.isfinite(left) and left > 0 else ""
    return f"{sentence} The last level, {_end(stairs)}, is where it was followed to{more}."


_TOLD = {
    Status.FITTED: _fitted,
    Status.ALL_ACTIVE: _all_active,
    Status.NO_GROWTH: _no_growth,
    Status.MAX_DROPS: _max_drops,
    Status.MAX_TIME: _max_time,
    Status.NO_CRITICAL_POINT: _no_critical_point,
}


def training(run: Trajectory) -> str:
    """Why a training run ended: its evidence where it has some."""
    status, settings = run.status, run.settings
    if run.evidence:
        return run.evidence + (_loosen(status, settings.get("rtol")) if status.failed else "") + _budget(run)
    if status is Status.STEPS and "steps" in settings:
        return f"All {settings['steps']:,} gradient-descent steps were taken."
    if status is Status.MAX_TIME and settings.get("t_max") is not None:
        none = "" if run.drops else ", before any drop"
        return f"Reached the time limit, flow time {number(settings['t_max'])} (t_max){none}."
    if status is Status.QUIET:
        return f"{status.sentence} To train on, lower settle or give a t_max."
    if status is Status.INTERRUPTED and run.init is not None:
        return f"{status.sentence} It can be resumed (resume=, or --resume where it was saved)."
    if status is Status.NONFINITE and "lr" in settings:
        return f"{status.sentence} The learning rate, {number(settings['lr'])}, may be too large."
    return status.sentence + _loosen(status, settings.get("rtol")) + _budget(run)


def _end(stairs: Staircase) -> str:
    """The last level, and which share of the loss of the zero function it is."""
    last, start = float(stairs.levels[-1]), stairs.start_level
    words = level(last, start)
    return words if not start > 0 else f"{words}, {percent(last / start)} of that of the zero function"


def _everybody(stairs: Staircase) -> str:
    if stairs.init is None or stairs.init.width != _chosen(stairs, stairs.init.width):  # some rows are biases
        return "Every neuron is active"
    alive = int(np.isfinite(stairs.init.log_norms).sum())
    rest = stairs.init.width - alive
    words = f"All {alive:,} neurons are active" if alive != 1 else "The one neuron is active"
    brought = np.unique(np.concatenate([drop.neurons for drop in stairs.drops])) if stairs.drops else ()
    if 0 < len(brought) < alive:
        words += f", {alive - len(brought):,} of which no drop names"
    return words + (f" but for {rest:,} of weights that are exactly 0, which never move" if rest else "")


def _waiting(stairs: Staircase) -> int | None:
    """Neurons that are dormant at the end, None where the result does not say."""
    if stairs.init is None:
        return None
    active = stairs.drops[-1].active if stairs.drops else np.zeros(stairs.init.width, dtype=bool)
    if active is None or active.shape != (stairs.init.width,):
        return None
    return int((~active.astype(bool)).sum())


def _chosen(stairs: Staircase, otherwise: int | None = None) -> int | None:
    """The number of neurons that was chosen; `otherwise` where it follows from the data."""
    return next((stairs.arguments[name] for name in WIDTHS if name in stairs.arguments), otherwise)


def _more_to_learn(stairs: Staircase) -> bool:
    return bool(stairs.levels[-1] > _NOTHING * stairs.start_level)


def _others(stairs: Staircase) -> str:
    """Other neurons that might gain, where neurons are a choice."""
    if _chosen(stairs) is None or not _more_to_learn(stairs):
        return ""
    drawn = stairs.init is not None and stairs.init.seed is not None
    return f" {'Another seed' if drawn else 'Other initial weights'} or a larger width may have one that does."


def _loosen(status: Status, rtol: float | None) -> str:
    """Advice on the tolerance, where there is one that can be loosened and steps were the trouble."""
    if status not in (Status.STALLED, Status.MAX_STEPS) or rtol is None or rtol > _LOOSE:
        return ""
    return f" A looser rtol than {rtol:g} takes longer steps."


def _budget(run: Trajectory) -> str:
    """Which budget ran out, of a flow that took all its steps or gradients."""
    if run.status is not Status.MAX_STEPS:
        return ""
    for option, taken in (("max_steps", "steps"), ("max_gradients", "evaluations")):
        most, found = run.settings.get(option), run.stats.get(taken)
        if most is not None and found is not None and found >= most:
            return f" Raise {option} ({most:,.0f}) to go on."
    return ""
