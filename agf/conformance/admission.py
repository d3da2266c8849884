"""At the door of a computation: does a stranger's problem keep the part of its contract that results hang on?

A few of the laws of `agf check`, at a few evaluations of at most six neurons each: a wrong gradient or degree is a
sentence before it is a wrong number. What the package brings with it is tested with it, and not asked again.
"""

from __future__ import annotations

import numpy as np

from agf.conformance.laws import LAWS, at_start
from agf.conformance.probe import FEW_STEPS, NotApplicable, Probe, Violation
from agf.contract.blame import guard
from agf.contract.problem import Problem
from agf.errors import ProblemError, explain
from agf.init import Init

#: Laws without which a prediction or a training run means nothing, in the order in which one explains the next.
_ASKED = ("gradient of the loss", "gradient of the utility", "homogeneity", "pull against loss")


def admit(problem: Problem, init: Init, name: str) -> None:
    """Refuse a problem from outside the package that breaks its contract in a way that would spoil the numbers.

    Parameters
    ----------
    problem : Problem
        What is about to be computed.
    init : Init
        From where.
    name : str
        What the user calls it, for `agf check`.

    Raises
    ------
    ProblemError
        It names the method, what was found, what was expected and the likely cause.
    """
    if type(problem).__module__.split(".")[0] in ("agf", "agf_problems"):
        return
    with guard(problem), np.errstate(all="ignore"):
        try:
            at_start(Probe(problem, np.random.default_rng(0)), init)
            for law in _ASKED:
                _hold(law, problem)
        except Violation as v:
            raise ProblemError(
                explain(
                    f"`{v.method}` breaks the contract of a problem.",
                    where=f"problem {problem.name!r}",
                    found=v.found,
                    expected=v.expected,
                    remedy=f"Likely cause: {v.cause}. All that is wrong with it: agf check {name}",
                )
            ) from None


def _hold(law: str, problem: Problem) -> None:
    """Raise the Violation of a law, found with few steps and again with all of them: corners can look like errors."""
    for steps in (FEW_STEPS, None):
        try:
            LAWS[law](Probe(problem, np.random.default_rng(0), steps))
        except NotApplicable:
            return
        except Violation:
            if steps is None:
                raise
        else:
            return
