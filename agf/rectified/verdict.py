"""The last sentence of a run of a ReLU network: whether it can still learn (`escape`), where that costs little."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from agf.contract.problem import Problem
from agf.errors import RequestError
from agf.records.status import Status
from agf.rectified.samples import Samples
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory

Run = TypeVar("Run", Staircase, Trajectory)


def add_verdict(problem: Problem, run: Run) -> Run:
    """The run with that sentence as its last note; itself where it was interrupted, or nothing is to be said."""
    sentence = None if run.status is Status.INTERRUPTED else _verdict(problem, run)
    return run if sentence is None else replace(run, notes=(*run.notes, sentence))


def _verdict(problem: Problem, run: Staircase | Trajectory) -> str | None:
    """One sentence, or None for other problems, large ones, and networks in motion."""
    samples = Samples.of(problem)
    if samples is None or run.status.failed or run.init is None:
        return None
    from agf.rectified.cones import Arrangement  # a tenth of a second to import, and few runs come here
    from agf.rectified.escape import MOVING, escape
    from agf.rectified.prospects import FACES, PRODUCTS

    if run.init.width * samples.X.shape[0] > PRODUCTS or Arrangement.of(samples.X).bound > FACES:
        return None
    try:
        found = escape(problem, run)
    except RequestError:  # the run holds no directions
        return None
    if found.verdict == MOVING:
        return None
    return f"Can it still learn? {found.sentence[0].upper()}{found.sentence[1:]}."
