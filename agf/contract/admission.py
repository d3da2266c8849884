"""The one door to every computation: is this a problem, do its weights fit, does it keep what all numbers hang on?

A few of the laws of `agf check`, at a few evaluations of at most six neurons, once for each problem: a wrong gradient
or degree is a sentence before it is a wrong number. `predict`, `flow`, `descend`, `landscape`, `escape`, what looks at
weights (groups, merging, flips, bounds) and all that is built of them (the commands, sweeps, reruns) come through here.
What the package brings with it is tested with it, and not asked again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.contract import core_laws, offered_laws
from agf.contract.blame import guard, staying
from agf.contract.probe import FEW_STEPS, NotApplicable, Probe, Violation
from agf.contract.problem import Problem
from agf.contract.returns import OWN, BadReturn
from agf.contract.start import check_range, check_sizes
from agf.errors import ProblemError, RequestError, explain
from agf.init import Init
from agf.records.files import near

#: Laws without which a prediction or a training run means nothing, in the order in which one explains the next.
_TESTED: tuple[Callable[[Probe], str], ...] = (
    core_laws.gradient_of_loss,
    core_laws.gradient_of_utility,
    core_laws.homogeneity,
    core_laws.pull_against_loss,
    core_laws.words_and_features,
    offered_laws.layers,
)
#: The methods that say what is trained.
_CORE = ("loss_grad", "residual", "utility", "pull")
#: Method -> its law, tested where a class from outside the package has its own.
_OFFERED: dict[str, Callable[[Probe], str]] = {
    "conserved": offered_laws.conserved,
    "outputs": offered_laws.outputs_against_loss,
    "self_interaction": offered_laws.self_interaction,
    "hessian": offered_laws.hessian,
    "least_loss": offered_laws.least_loss,
    "flow_system": offered_laws.flow_system,
}
#: Tested too where it is inherited by a class that says anew what is trained: the parent's closed forms are about the
#: parent's loss, and one with these second derivatives and coordinates is that loss.
_INHERITED = ("hessian", "flow_system")


def admit(problem: Any, init: Any, where: str) -> Init:
    """Refuse what cannot be computed from, in one sentence; else the initialization as the problem starts from it.

    Parameters
    ----------
    problem : Problem
        What is about to be computed.
    init : Init
        Where it starts.
    where : str
        Who asks, for the message.

    Returns
    -------
    Init
        `problem.start_of(init)`: itself, unless the problem restricts its parameters.

    Raises
    ------
    RequestError
        For what is not a problem or not an initialization, or one of another shape.
    ProblemError
        For a problem from outside the package that breaks its contract in a way that would spoil the numbers: the
        message names the method, what was found, what was expected and the likely cause.
    """
    _check_problem(problem, where)
    if not isinstance(init, Init):
        raise RequestError(
            explain(
                f"a {type(init).__name__} is not an initialization.",
                where=where,
                expected="problem.init(alpha=...) or agf.Init.from_params(theta)",
            )
        )
    with guard(problem):
        init = problem.start_of(init) if init.n_params == problem.n_params else init
    if (init.width, init.n_params) != (problem.width, problem.n_params):
        raise RequestError(
            explain(
                f"the initialization has shape ({init.width}, {init.n_params}).",
                where=f"{where} of problem {problem.name!r}",
                expected=f"({problem.width}, {problem.n_params}), one row a neuron",
            )
        )
    if not np.isfinite(init.log_norms).any():
        raise RequestError(
            explain(
                "all neurons are exactly zero, and such neurons never move.",
                where=f"{where} of problem {problem.name!r}",
                remedy="Start from small, non-zero weights.",
            )
        )
    check_range(problem, init.log_norms, f"{where} of problem {problem.name!r}")
    _keep(problem, init)
    return init


def admit_problem(problem: Any, where: str) -> None:
    """Refuse, as `admit` does, a problem that is asked without weights. Raises RequestError or ProblemError."""
    _check_problem(problem, where)
    _keep(problem, None)


@contextmanager
def admitted(problem: Any, where: str) -> Iterator[None]:
    """Ask a problem for numbers: it is refused as by `admit_problem`, and what its methods raise is one sentence."""
    admit_problem(problem, where)
    with guard(problem):
        yield


def refuse_nonfinite(problem: Problem, method: str, values: FloatArray) -> None:
    """Raise ProblemError where what `method` of a problem returned is not finite."""
    if not np.isfinite(values).all():
        raise ProblemError(
            explain(
                f"`{method}` returned a non-finite value.",
                where=f"problem {problem.name!r}",
                remedy=f"All that is wrong with it: {_check(problem)}",
            )
        )


def _check_problem(problem: Any, where: str) -> None:
    """Raise RequestError for what is not a problem, or one of no size."""
    if not isinstance(problem, Problem):
        raise RequestError(
            explain(f"a {type(problem).__name__} is not a problem.", where=where, expected="agf.problem(name, ...)")
        )
    check_sizes(problem, where)


def _keep(problem: Problem, init: Init | None) -> None:
    """Test a problem from outside the package, at the weights it starts from if there are some. Raises ProblemError.

    What restricts a problem hands its methods on: these are tested where they come from.
    """
    restricted = problem.restriction()
    if restricted is not None:
        _keep(restricted[0], init)
    if type(problem).__module__.split(".")[0] in OWN or problem._admitted:
        return
    with guard(problem), np.errstate(all="ignore"):
        try:
            with staying():
                if init is not None:
                    core_laws.at_start(Probe(problem, np.random.default_rng(0)), init)
                for law in (*_TESTED, *(law for method, law in _OFFERED.items() if _claims(problem, method))):
                    _hold(law, problem)
        except (Violation, BadReturn) as broken:
            raise ProblemError(
                explain(
                    f"`{broken.method}` breaks the contract of a problem.",
                    where=f"problem {problem.name!r}",
                    found=broken.found,
                    expected=broken.expected,
                    remedy=f"Likely cause: {broken.cause}. All that is wrong with it: {_check(problem)}",
                )
            ) from None
    problem._admitted = init is not None


def _claims(problem: Problem, method: str) -> bool:
    """Whether a class from outside the package says this of the problem, by itself or by what it inherits."""
    return _own(problem, method) or (method in _INHERITED and any(_own(problem, core) for core in _CORE))


def _own(problem: Problem, method: str) -> bool:
    """Whether a method is that of a class from outside the package."""
    owner = next(cls for cls in type(problem).__mro__ if method in vars(cls))
    return owner.__module__.split(".")[0] not in OWN


def _check(problem: Problem) -> str:
    """The command, or the call, that runs every check on a problem."""
    cls = type(problem)
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if cls.__module__.startswith("agf_plugin_") and file:
        return f"agf check {near(file)}:{cls.__name__}"
    return "agf.check(problem)"


def _hold(law: Callable[[Probe], str], problem: Problem) -> None:
    """Raise the Violation of a law, found with few steps and again with all of them: corners can look like errors."""
    for steps in (FEW_STEPS, None):
        try:
            law(Probe(problem, np.random.default_rng(0), steps))
        except NotApplicable:
            return
        except Violation:
            if steps is None:
                raise
        else:
            return
