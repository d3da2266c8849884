"""Conformance: does a problem keep its contract? Each failure names the method, what was found, expected, and why."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from agf.arrays import count
from agf.asked import asked
from agf.conformance.laws import LAWS, NEEDS
from agf.contract.blame import blame
from agf.contract.probe import NotApplicable, Probe, Violation
from agf.contract.problem import Problem
from agf.contract.raised import told
from agf.contract.returns import BadReturn
from agf.errors import AgfError
from agf.records.table import Table, Tabular

#: Names of the checks, in order.
NAMES = tuple(LAWS)


@dataclass(frozen=True)
class Verdict:
    """One check; what is empty has nothing to say.

    Parameters
    ----------
    outcome : str
        "passed", "failed" or "not applicable".
    follows : str
        The earlier check whose failure explains this one.
    repeats : bool
        Whether the earlier check said the same.
    """

    check: str
    outcome: str
    found: str = ""
    method: str = ""
    expected: str = ""
    cause: str = ""
    follows: str = ""
    repeats: bool = False

    @property
    def sentence(self) -> str:
        """What a failure means, in one sentence; else what was measured."""
        if self.outcome != "failed":
            return self.found
        text = f"{self.method}: {self.found}." if self.method else f"{self.found}."
        if self.expected:
            text += f" Expected {self.expected}."
        if self.follows:
            return f"follows from {self.follows!r}" + ("" if self.repeats else f". {text}")
        return text + (f" Likely cause: {self.cause}." if self.cause else "")


@dataclass(frozen=True)
class Conformance(Tabular):
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
        """One row a check, but for failures that only repeat an earlier one."""
        rows = [[v.check, v.outcome, v.sentence] for v in self.verdicts if not v.repeats]
        done, failed = sum(v.outcome == "passed" for v in self.verdicts), len(self.failures)
        notes = [f"{done} passed, {failed} failed, {len(self.verdicts) - done - failed} not applicable."]
        repeated = [v.check for v in self.verdicts if v.repeats]
        if repeated:
            notes.append(f"Failed for a reason given above: {', '.join(repeated)}.")
        return Table(f"Conformance of problem {self.problem!r}", ["check", "outcome", "what was found"], rows, notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"problem": self.problem, "passed": self.passed, "checks": [dict(vars(v)) for v in self.verdicts]}


@asked
def check(problem: Problem, seed: int = 0) -> Conformance:
    """Run every conformance check on a problem.

    Parameters
    ----------
    problem : Problem
        Built with small data if it can be; each check costs a few dozen loss gradients of at most six neurons.
    seed : int, optional
        Of the random points.

    Returns
    -------
    Conformance
        `passed`, `verdicts`, `table()`. A check that raises is a failed check; nothing is raised here.
    """
    count(seed, "seed", where="check", least=0)
    verdicts = []
    for name, law in LAWS.items():
        probe = None
        try:
            probe = Probe(problem, np.random.default_rng(seed))
            with np.errstate(all="ignore"):
                verdicts.append(Verdict(name, "passed", law(probe)))
        except NotApplicable as reason:
            verdicts.append(Verdict(name, "not applicable", str(reason)))
        except (Violation, BadReturn) as v:
            verdicts.append(Verdict(name, "failed", f"found {v.found}", v.method, v.expected, v.cause))
        except AgfError as error:
            verdicts.append(Verdict(name, "failed", str(error).rstrip(".")))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a stranger's code
            found = blame(type(problem), error)
            if found is not None:
                cause = f"see the line named; it was given {found.given}" if found.given else "see the line named"
                words = Verdict(name, "failed", f"raised {told(error)} ({found.place})", found.method, cause=cause)
            else:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                words = Verdict(
                    name, "failed", f"what it returned cannot be used ({told(error)}, in {frame.name})",
                    probe.last if probe else "", cause="a value of another type or shape",
                )  # fmt: skip
            verdicts.append(words)
        verdicts[-1] = _following(verdicts[-1], verdicts[:-1])
    return Conformance(problem.name, tuple(verdicts))


def _following(verdict: Verdict, earlier: list[Verdict]) -> Verdict:
    """The verdict itself, or saying which earlier failure explains it: one that said the same, or one it builds on."""
    if verdict.outcome != "failed":
        return verdict
    roots = [one for one in earlier if one.outcome == "failed" and not one.follows]
    for one in roots:
        if (one.method, one.found) == (verdict.method, verdict.found):
            return replace(verdict, follows=one.check, repeats=True)
    for one in roots:
        if one.check in NEEDS.get(verdict.check, ()):
            return replace(verdict, follows=one.check)
    return verdict
