"""Mode "auto": Algorithm 1 where its assumption holds, resolved in time where it does not.

[AGF] Algorithm 1 assumes that a drop is over before the next neuron grows. Where a problem has its phases in closed
form, they cost next to nothing: they are run, and kept if the error bars of all drops say that the assumption holds.
Elsewhere, and where it fails, the active neurons are resolved in time, which costs about what the flow does. Where that
cannot be done in float64, Algorithm 1 is what is left, and its bars say what it is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agf.algorithm.deviation import HOLDS
from agf.algorithm.resolved.resolve import resolve
from agf.algorithm.smallness import left_out
from agf.contract.problem import Problem
from agf.errors import ProblemError, RequestError
from agf.init import Init
from agf.records.checkpoint import Checkpoint
from agf.records.settings import Settings
from agf.records.status import Status
from agf.records.table import percent, those
from agf.results.drop import Drop
from agf.results.staircase import Staircase

Observed = list[tuple[object, Drop | None]]
Predict = Callable[[Settings], Staircase]


def auto(
    problem: Problem,
    init: Init,
    settings: Settings,
    begins: float,
    observer: Callable[..., None] | None,
    kept: Checkpoint,
    alternate: Callable[..., Staircase],
) -> Staircase:
    """The prediction, with a note on what was used and why.

    begins : loss of the initial weights.
    alternate : Algorithm 1 with these settings, shown to this observer, by these phases if there are some.
    """
    paper = settings.within("agf", conditioning=False)
    first, off = None, 0.0
    own = problem.phases(init, paper)
    if own is not None:
        seen: Observed = []
        first = alternate(paper, lambda state, drop: seen.append((state, drop)), own)
        if first.status is Status.INTERRUPTED:
            return replace(first, settings=settings)
        whole = not first.status.failed and first.status is not Status.NO_CRITICAL_POINT
        # a closed form that has a remark to make says what it does not follow
        off = max([left_out(first, begins), *(drop.error for drop in first.drops)])
        if whole and not first.notes and off <= HOLDS:
            try:
                for state, drop in seen if observer is not None else ():
                    observer(state, drop)  # type: ignore[misc]
            except KeyboardInterrupt:  # while they are told
                return replace(first, settings=settings, status=Status.INTERRUPTED)
            return replace(first, settings=settings)
    try:
        found = resolve(problem, init, settings.within("resolved"), observer, kept)
    except RequestError as refusal:
        if isinstance(refusal, ProblemError):
            raise
        found = first or alternate(paper, observer)
        note = f"Algorithm 1 alone, and drops may overlap: resolving them in time is refused. {refusal}"
        return replace(found, settings=settings, notes=(*found.notes, note))
    status = found.status
    if status is Status.INTERRUPTED and first is not None and first.drops and not found.drops:
        note = "Interrupted before drops were resolved in time: these are by Algorithm 1 alone, and may overlap."
        return replace(first, settings=settings, status=status, notes=(*first.notes, note))
    if status is Status.ALL_ACTIVE and first is not None and first.status is Status.FITTED:
        # that nothing is left to fit there, Algorithm 1 has shown
        reached = abs(found.levels[-1] - first.levels[-1]) <= settings.rtol * found.start_level
        status = Status.FITTED if reached else status
    nothing = not found.drops and status in (Status.FITTED, Status.NO_GROWTH)  # there is nothing to resolve
    notes = found.notes if nothing else (*found.notes, _reason(found.drops, first, off))
    drops = found.drops if first is None else _known_twice(found.drops, first.drops)
    return replace(found, drops=drops, settings=settings, status=status, notes=notes)


def _known_twice(drops: tuple[Drop, ...], first: Sequence[Drop]) -> tuple[Drop, ...]:
    """The drops, with bars no wider than those that Algorithm 1 has of the same ones (`first`) allow.

    Where it holds, a drop is no farther off than from its time there, and that one from the truth. The curve knows the
    time of a drop that is next to nothing of the loss badly, closed forms do not.
    """
    if len(drops) != len(first):
        return drops
    out = []
    for drop, other in zip(drops, first, strict=True):
        if other.error <= HOLDS < drop.error and abs(drop.half_time - other.half_time) <= drop.error * drop.half_time:
            apart = abs(drop.half_time / other.half_time - 1.0)
            drop = replace(drop, error=min(drop.error, (apart + other.error) / (1.0 - other.error)))
        out.append(drop)
    return tuple(out)


def _reason(drops: Sequence[Drop], first: Staircase | None, off: float) -> str:
    """Why the prediction was resolved in time, in words; `first`: by Algorithm 1, where that was tried, and its largest
    bar, `off`."""
    several = [k for k, drop in enumerate(drops, 1) if drop.overlap and drop.utility.size > 1]
    near = [k for k, drop in enumerate(drops, 1) if drop.overlap and drop.utility.size <= 1]
    words = []
    if several:
        words.append(f"several neurons grow in {those('drop', several)}")
    if near:
        words.append(f"{those('drop', near)} not over when a neighbour begins")
    if first is not None and first.notes:
        words.append(first.notes[0][0].lower() + first.notes[0][1:].rstrip("."))
    elif off > HOLDS:
        more = max((drop.error for drop in drops), default=0.0) >= off
        without = ", which count neither conditioning nor how small a drop is, as these do," if more else ""
        reach = f"reach {percent(off)}" if off <= 1.0 else "be wider than the times themselves"
        words.append(f"its error bars{without} would {reach}")
    elif not words:
        words.append("what has settled moves on between drops, and no closed form follows it")
    return f"Resolved in time, as Algorithm 1 does not hold throughout: {'; '.join(words)}."
