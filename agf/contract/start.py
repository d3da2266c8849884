"""Where training starts: weights drawn for a network of sizes that can be and that the memory holds; their clock."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, count, number
from agf.clock import Clock
from agf.contract.returns import METHODS
from agf.errors import DataError, ProblemError, RequestError, explain
from agf.init import Init, check_alpha
from agf.records import files

if TYPE_CHECKING:
    from agf.contract.problem import Problem

#: Largest log of a loss, which is of degree 2 kappa in the weights. Limit: float64 ends at 709; what is left is room
#: for the data and for sums over neurons.
_LOG_MOST = 640.0
#: Largest count. Derived: numpy holds counts in 64 bits.
_COUNTED = int(np.iinfo(np.int64).max)
#: Gradients that two phases, and a flow in the modes or coordinates of a problem, take, about. Cost: times of what is
#: refused; from 140 to 700 where they are a problem's own.
PHASES = 1e3
#: Gradients that a flow takes, about, in the polar coordinates that serve any problem. Cost: times of what is refused;
#: from 4,000 to 30,000 on attention, tanh and Gaussian teachers of 10 to 3,000 neurons.
POLAR = 1e4
#: Gradients of the shortest run, for whose sake weights are drawn at all. Cost: time; of what takes longer the drawing
#: alone takes a minute.
_FEW = 100.0
#: Numbers that all gradients of a run may go through. Limit: of patience, minutes of one core at the least.
_MOST_NUMBERS = 1e11
#: Told what is about to be computed and how many gradients it takes, about, where that is counted: who waits for it
#: may want to know.
foreseen: ContextVar[Callable[[Problem, float], None]] = ContextVar("foreseen", default=lambda problem, gradients: None)


def drawn(problem: Problem, alpha: float, seed: int | None, kind: str) -> Init:
    """Random initialization at scale alpha (`Problem.init`). Raises DataError for a bad alpha, seed or kind."""
    where = f"{_read(problem, 'name')}.init"
    check_sizes(problem, where)
    check_memory(problem, where)
    refuse_long(problem, where, _FEW)
    alpha = check_alpha(alpha)
    seed = None if seed is None else count(seed, "seed", where=where, least=0)
    if kind not in problem.kinds:
        raise DataError(
            explain(
                f"unknown kind of initialization {kind!r}.",
                where=where,
                expected="one of " + ", ".join(problem.kinds),
            )
        )
    theta = problem.initial(alpha, np.random.default_rng(seed), kind)
    return problem.start_of(Init.scaled(theta, alpha, seed, kind))


def clock(problem: Problem, init: Init) -> Clock:
    """The clock of initial weights: time is counted by the neurons that start dormant."""
    return Clock.from_norms(problem.degree, np.delete(init.log_norms, problem.permanent))


def check_sizes(problem: Problem, where: str) -> None:
    """Refuse a problem whose degree, width or other plain attributes cannot be. Raises ProblemError."""
    batches = (("n_samples", 1),) if hasattr(problem, "n_samples") else ()
    for name, least in (("degree", 2), ("width", 1), ("n_params", 1), *batches):
        value = _read(problem, name)
        if not _whole(value, least):
            _refuse(problem, name, value, f"an integer, at least {least}, that numpy can count to", where)
    for name in METHODS:
        if not callable(value := _read(problem, name)):
            _refuse(problem, name, value, "a method", where)
    for name in ("interchangeable", "smooth", "quadratic_loss"):
        if not isinstance(value := _read(problem, name), bool | np.bool_ | int):
            _refuse(problem, name, value, "True or False", where)
    if not isinstance(name := _read(problem, "name"), str) or not (name.strip() and name.isprintable()):
        _refuse(problem, "name", name, "text of printable letters", where)
    kinds = _read(problem, "kinds")
    if not (isinstance(kinds, tuple | list) and kinds and all(isinstance(kind, str) for kind in kinds)):
        _refuse(problem, "kinds", kinds, "names of kinds of initialization, as in ('gaussian',)", where)
    kink, layers, permanent = (_read(problem, name) for name in ("kink", "layers", "permanent"))
    if not isinstance(kink, float | int) or isinstance(kink, bool) or not 0.0 <= number(kink) < np.inf:
        _refuse(problem, "kink", kink, "a number of at least 0", where)
    if layers is not None and not (
        isinstance(layers, tuple) and len(layers) == 2 and all(_whole(size, 1) for size in layers)
        and layers[0] < problem.n_params
    ):  # fmt: skip
        _refuse(
            problem, "layers", layers, f"two integers (d, p), 0 < d < {problem.n_params} = n_params, or None", where
        )
    if not isinstance(permanent, tuple) or not all(_whole(row, 0) and row < problem.width for row in permanent):
        _refuse(problem, "permanent", permanent, f"a tuple of rows from 0 to {problem.width - 1}", where)


def _read(problem: Problem, name: str) -> Any:
    """An attribute, which may be a stranger's property. Raises ProblemError with what that raised."""
    try:
        return getattr(problem, name)
    except ProblemError:
        raise
    except Exception as error:
        words = f"`{name}` raised {type(error).__name__}: {error}."
        raise ProblemError(explain(words, where=f"class {type(problem).__name__}")) from error


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(least <= value <= _COUNTED)


def _refuse(problem: Problem, name: str, value: object, expected: str, where: str) -> None:
    raise ProblemError(
        explain(
            f"problem {problem.name!r} has {name} = {value!r}.",
            where=where,
            expected=expected,
            remedy=f"Its class or its __init__ sets {name}.",
        )
    )


def check_range(problem: Problem, log_norms: FloatArray, where: str) -> None:
    """Refuse weights at which the loss, or what it is made of, leaves the range of float64. Raises RequestError."""
    largest, bound = float(np.max(log_norms, initial=-np.inf)), _LOG_MOST / (2 * problem.degree)
    if largest > bound:
        raise RequestError(
            explain(
                f"weights of norm 1e{largest / np.log(10):.0f} have a loss outside the range of float64.",
                where=where,
                expected=f"norms up to 1e{bound / np.log(10):.0f}",
                remedy="Start from smaller weights, or train with a smaller learning rate.",
            )
        )


def check_memory(problem: Problem, where: str) -> None:
    """Refuse a network whose weights leave no room for a computation. Raises RequestError with the memory needed."""
    needed, there = 8.0 * problem.width * _positive(problem, "footprint", where), float(files.memory())
    if needed > there:
        raise RequestError(
            explain(
                f"{problem.width:,} neurons of {problem.n_params:,} parameters need about {needed / 2**30:,.0f} GiB of "
                f"memory, and there are {there / 2**30:,.0f} GiB.",
                where=where,
                remedy="Use a smaller width.",
            )
        )


def refuse_long(problem: Problem, where: str, gradients: float) -> None:
    """Refuse what would take for ever, by counting: the same on any machine and at any load. What is not is `foreseen`.

    Parameters
    ----------
    problem : Problem
        What is computed.
    where : str
        Who asks, for the message.
    gradients : float
        Gradients that it takes, about, or that are allowed, where these are fewer.

    Raises
    ------
    RequestError
        With the numbers that one gradient goes through, and how many gradients there are.
    """
    numbers = float(problem.width) * _positive(problem, "operations", where)
    if numbers * gradients > _MOST_NUMBERS:
        width = getattr(problem, "whole", problem).width  # of those that start equal one is followed
        raise RequestError(
            explain(
                f"{width:,} neurons of {problem.n_params:,} parameters would take many minutes or hours.",
                where=f"{where} of problem {problem.name!r}",
                found=f"{numbers:.1e} numbers in each gradient, of which this takes about {gradients:,.0f}",
                expected=f"up to {_MOST_NUMBERS / gradients:.0e}",
                remedy="Use a smaller width, a smaller problem, or, for a flow, a smaller max_gradients.",
            )
        )
    if gradients > _FEW:
        foreseen.get()(problem, gradients)


def _positive(problem: Problem, name: str, where: str) -> float:
    value = _read(problem, name)
    if not number(value) > 0:
        _refuse(problem, name, value, "a positive number", where)
    return number(value)
