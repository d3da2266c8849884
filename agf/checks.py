"""Conformance: does a problem keep its contract? Each failure names the method, what was found, expected, and why."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agf.contract import Problem
from agf.errors import AgfError
from agf.laws import LAWS
from agf.probe import NotApplicable, Probe, Violation
from agf.table import Table

#: Names of the checks, in order.
NAMES = tuple(LAWS)


@dataclass(frozen=True)
class Verdict:
    """One check. outcome : "passed", "failed" or "not applicable"; the rest is empty where there is nothing to say."""

    check: str
    outcome: str
    found: str = ""
    method: str = ""
    expected: str = ""
    cause: str = ""

    @property
    def sentence(self) -> str:
        """What a failure means, in one sentence; else what was measured."""
        if self.outcome != "failed":
            return self.found
        text = f"{self.method}: {self.found}."
        if self.expected:
            text += f" Expected {self.expected}."
        return text + (f" Likely cause: {self.cause}." if self.cause else "")


@dataclass(frozen=True)
class Conformance:
    """All verdicts on one problem."""

    problem: str
    verdicts: tuple[Verdict, ...] = field(default_factory=tuple)

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The checks that failed."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome == "failed")

    def table(self) -> Table:
        """One row a check."""
        rows = [[v.check, v.outcome, v.sentence] for v in self.verdicts]
        done = sum(v.outcome == "passed" for v in self.verdicts)
        note = f"{done} passed, {len(self.failures)} failed, {len(rows) - done - len(self.failures)} not applicable."
        return Table(f"Conformance of problem {self.problem!r}", ["check", "outcome", "what was found"], rows, [note])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"problem": self.problem, "passed": self.passed, "checks": [dict(vars(v)) for v in self.verdicts]}

    def __str__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def check(problem: Problem, seed: int = 0) -> Conformance:
    """Run every conformance check on a problem.

    Parameters
    ----------
    problem : built with small data if it can be; each check costs a few dozen loss gradients of at most six neurons.
    seed : of the random points.

    Returns
    -------
    Conformance: `passed`, `verdicts`, `table()`. A check that raises is a failed check; nothing is raised here.
    """
    verdicts = []
    for name, law in LAWS.items():
        probe = Probe(problem, np.random.default_rng(seed))
        try:
            with np.errstate(all="ignore"):
                verdicts.append(Verdict(name, "passed", law(probe)))
        except NotApplicable as reason:
            verdicts.append(Verdict(name, "not applicable", str(reason)))
        except Violation as v:
            verdicts.append(Verdict(name, "failed", f"found {v.found}", v.method, v.expected, v.cause))
        except AgfError as error:
            verdicts.append(Verdict(name, "failed", str(error).rstrip("."), type(error).__name__))
        except Exception as error:  # a stranger's code
            frame = traceback.extract_tb(error.__traceback__)[-1]
            found = f"raised {type(error).__name__}: {error} (line {frame.lineno} of {frame.filename}, {frame.name})"
            verdicts.append(Verdict(name, "failed", found, probe.last, cause="see the line named"))
    return Conformance(problem.name, tuple(verdicts))
