"""What a comparison says: a row a predicted drop, and sentences on what differs and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.records.status import Status
from agf.records.table import Table, level, number, percent
from agf.results.curve import CurveDrop
from agf.results.match import REPRODUCIBLE, Match, alike, delay, drops, first_ratio, lateness, listed
from agf.results.matching import MARGIN

if TYPE_CHECKING:
    from agf.results.comparison import Comparison

#: Drops and plateaus that were not predicted, of which each has a sentence. Cost: of reading.
_NAMED = 3
_SHOULDER = "and what is just a plateau in the one is just none in the other"


def table(report: Comparison) -> Table:
    """One row a predicted drop."""
    judged = report.repeat is not None
    probed = any(not np.isnan(match.conditioning) for match in report.matches)
    probed &= report.stairs.mode != "auto" or bool(report.stairs.settings.conditioning)  # there it is part of the bars
    barred = any(not np.isnan(match.bar) for match in report.matches)
    unseen = report.unseen
    rows = []
    for match in report.matches:
        row = [
            str(match.k),
            number(match.predicted_time, 5),
            _time(match, unseen),
            percent(match.time_error),
            *[percent(match.bar)] * barred,
            level(match.predicted_level, match.start_level, 5),
            level(match.observed_level, match.start_level, 5),
            percent(match.level_error),
            listed(match.seen) or "-",
        ]
        if judged:
            row += [percent(match.spread)]
        if probed:
            row += [percent(match.conditioning)]
        rows.append([*row, match.label])
    columns = [
        "drop",
        "predicted",
        "observed",
        "error",
        *["bar"] * barred,
        "level",
        "observed",
        "error",
        "visible drop",
    ]
    if judged:
        columns += ["reproduced to"]
    if probed:
        columns += ["conditioning"]
    scale = f", {report.stairs.init.description}" if report.stairs.init is not None else ""
    return Table(
        f"{report.stairs.problem}{scale}: predicted (mode {report.stairs.mode}) against observed "
        f"({report.trajectory.kind}) half-drop times and levels",
        [*columns, "learned"],
        rows,
        _sentences(report),
    )


def _time(match: Match, unseen: list[int]) -> str:
    if np.isinf(match.observed_time):
        return "not seen" if match.k in unseen else "not reached"
    return number(match.observed_time, 5)


def _small(report: Comparison, k: int) -> bool:
    """Whether predicted drop k, from 1, is too small to be looked for in the curve."""
    before, after = report.stairs.levels[k - 1 : k + 1]
    return bool(before - after < report.trajectory.depth * before)


def _end(report: Comparison) -> list[str]:
    """What the curve does at its end: predicted drops that it does not make, and a drop that is not over."""
    curve = report.trajectory
    if curve.times.size == 0:
        return []
    end, last = float(curve.times[-1]), float(curve.losses[-1])
    lines = []
    if unseen := report.unseen:
        times = ", ".join(number(report.matches[k - 1].predicted_time) for k in unseen)
        which = f"drop {unseen[0]} at {times} was" if len(unseen) == 1 else f"drops {listed(unseen)} at {times} were"
        rest = not report.drops or report.drops[-1].end <= report.matches[unseen[0] - 1].predicted_time
        how = "stays at {} until {}" if rest else "comes to {} by {}"
        lines.append(f"Predicted {which} not seen: the curve {how.format(number(last, 5), number(end))}.")
    if curve.complete_until < end:
        line = f"Visible drop {len(report.drops)} is not over where the curve ends, at loss {number(last)}"
        late = _begun(report)
        lines.append(line + ("." if late is None else f": it may be the beginning of predicted drop {late}."))
    return lines


def _begun(report: Comparison) -> int | None:
    """The predicted drop that a visible one without a partner, not over at the end of the curve, may begin."""
    end = report.trajectory.complete_until
    if report.trajectory.times.size == 0 or end == report.trajectory.times[-1]:
        return None
    late = [match.k for match in report.matches if match.visible is None and match.predicted_time > end]
    return late[0] if late and len(report.drops) in report.unmatched_observed else None


def _sentences(report: Comparison) -> list[str]:
    lines = [
        "Times are flow times; observed is when the curve comes to the middle of the predicted levels before and after "
        "a drop. Errors of time are relative to the observed time, of levels to "
        f"L(0) = {number(report.stairs.start_level, 5)}. "
        f"Largest: time {percent(report.max_time_error)}, level {percent(report.max_level_error)}."
    ]
    if not np.isnan(report.curve_error):
        lines.append(f"The predicted curve is within {percent(report.curve_error)} of L(0) throughout.")
    return [
        *lines,
        *report.notes,
        *_pairing(report),
        *_certainty(report),
        f"prediction {report.stairs.status.word}: {report.stairs.ending}",
        f"trajectory {report.trajectory.status.word}: {report.trajectory.ending}",
        *_of_both(report),
    ]


def _pairing(report: Comparison) -> list[str]:
    """Which drops of one side are several or none of the other."""
    lines = []
    for j in sorted({match.visible for match in report.matches if match.visible is not None and match.bundled}):
        members = [match.k for match in report.matches if match.visible == j]
        small = [k for k in members if _small(report, k)]
        why = "the curve shows no plateau between them"
        if small:
            why = f"{listed(small)} too small to look for (below {percent(report.trajectory.depth)} of the loss before)"
        lines.append(f"Predicted drops {listed(members)} are one visible drop: {why}.")
    for match in report.matches:
        lines += _taken_in_several(report, match)
    small = [k for k in report.unmatched_predicted if _small(report, k)]
    if small:
        most = percent(report.trajectory.depth)
        lines.append(f"Predicted, and too small to look for (below {most} of the loss before): {listed(small)}.")
    early = [k for k in report.unmatched_predicted if report.matches[k - 1].observed_time == 0.0]
    if early:
        lines.append(f"Predicted, and over when the curve begins: {listed(early)}.")
    rest = [k for k in report.unmatched_predicted if k not in (*small, *early, *_late(report))]
    if rest:
        lines.append(f"Predicted, without a visible drop: {listed(rest)}.")
    lines += _end(report)
    begun = _begun(report)
    alone = [j for j in report.unmatched_observed if begun is None or j != len(report.drops)]
    asked, beyond = _beyond_what_was_asked(report, alone)
    lines += asked
    alone = [j for j in alone if j not in beyond]
    for j in alone[:_NAMED]:
        drop = report.drops[j - 1]
        lines.append(
            f"Visible, not predicted: drop {j} at time {number(drop.time)}, from {number(drop.before)} "
            f"to {number(drop.after)}."
        )
    if len(alone) > _NAMED:
        until, level_then = number(report.drops[alone[-1] - 1].time), number(report.drops[alone[-1] - 1].after)
        lines.append(f"Nor were drops {listed(alone[_NAMED:])}, until time {until}, to {level_then}.")
    return lines


def _late(report: Comparison) -> list[int]:
    """Predicted drops that come after the end of the curve, which a note of the comparison tells."""
    end = float(report.trajectory.times[-1]) if report.trajectory.times.size else 0.0
    return [match.k for match in report.matches if match.predicted_time > end and np.isinf(match.observed_time)]


def _beyond_what_was_asked(report: Comparison, alone: list[int]) -> tuple[list[str], list[int]]:
    """A sentence on visible drops later than those that were to be predicted, and which they are."""
    stairs = report.stairs
    if stairs.status not in (Status.MAX_DROPS, Status.MAX_TIME):
        return [], []
    last = stairs.drops[-1].half_time if stairs.drops else 0.0
    beyond = [j for j in alone if report.drops[j - 1].time > last]
    if not beyond:
        return [], []
    option = "max_drops" if stairs.status is Status.MAX_DROPS else "t_max"
    return [
        f"Visible {drops(beyond)} come{'s' * (len(beyond) == 1)} after what was to be predicted ({option})."
    ], beyond


def _certainty(report: Comparison) -> list[str]:
    """How sure the times of both sides are."""
    lines = []
    shaky = [match.k for match in report.matches if match.conditioning > REPRODUCIBLE]
    if shaky:
        lines.append(
            f"Conditioning: a small change moves the predicted time of {drops(shaky)} "
            f"by more than {percent(REPRODUCIBLE)}."
        )
    beyond = [match.k for match in report.matches if abs(match.time_error) > match.bar]
    if beyond:
        steps = ""
        known = alike(first_ratio(report.stairs, report.trajectory))
        if known and lateness(report.stairs, report.trajectory):
            steps = f"; it knows no steps, which make {delay(report.stairs, report.trajectory)}"
        lines.append(f"Off by more than the error bar: {drops(beyond)}{steps}.")
    if report.repeat is not None:
        kept = [str(match.k) for match in report.matches if match.reproducible]
        lines.append(f"Reproduced to {percent(REPRODUCIBLE)} by a repeat of the training: {', '.join(kept) or 'none'}.")
    lost = [match.k for match in report.matches if match.reproducible is False]
    if lost:
        lines.append(
            f"Not reproduced to {percent(REPRODUCIBLE)} by a repeat of the training, and left out of the largest "
            f"time error: {listed(lost)}."
        )
    return lines


def _taken_in_several(report: Comparison, match: Match) -> list[str]:
    """The plateaus between the visible drops that a predicted one consists of."""
    drops = [report.drops[j - 1] for j in match.seen]
    what = f"Predicted drop {match.k} is visible drops {listed(match.seen)}:"
    if len(drops) > 1 and _followed(report, drops):
        return [f"{what} the predicted curve goes the same way, {_SHOULDER}."]
    lines = [
        f"{what} the plateau at {number(drop.before)}, which ends at time {number(drop.time)}, was not predicted."
        for drop in drops[1:]
    ]
    more = len(lines) - _NAMED
    if more > 0:
        lines[_NAMED:] = [f"Nor were {more} more plateaus until time {number(drops[-1].time)}."]
    return lines


def _followed(report: Comparison, drops: list[CurveDrop]) -> bool:
    """Whether the predicted curve is that of the training between these drops, to a tenth of the smallest."""
    curve = report.trajectory
    if report.stairs.curve_times.size == 0 or report.stairs.curve_times[-1] < drops[-1].time:
        return False
    between = (curve.times >= drops[0].time) & (curve.times <= drops[-1].time)
    gap = np.abs(report.stairs.curve(curve.times[between]) - curve.losses[between])
    return float(np.max(gap, initial=0.0)) <= MARGIN * min(drop.before - drop.after for drop in drops)


def _of_both(report: Comparison) -> list[str]:
    """Notes of the sides: what holds of both is said once; a question that both answer, training answers."""
    asked = {note.partition("?")[0] for note in report.trajectory.notes if "?" in note}
    ours = [note for note in report.stairs.notes if not ("?" in note and note.partition("?")[0] in asked)]
    return list(dict.fromkeys([*ours, *report.trajectory.notes]))
