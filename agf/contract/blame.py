"""Errors raised by a problem's own methods: which method, on which line, given what; and what was computed by then.

The program of a stranger may raise anything. What reaches the user is one sentence, with the exception chained to it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import traceback
from abc import ABC
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, TypeVar, cast

import numpy as np

from agf.arrays import USUAL
from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.contract.raised import Blame, told
from agf.errors import AgfError, ComputationError, ProblemError, explain

Function = TypeVar("Function", bound=Callable[..., Any])
#: Whose frames an error may pass through and still be the fault of what the problem returned.
_LIBRARIES = ("agf", "agf_problems", "numpy", "scipy", "torch", "contextlib", "functools")


def blame(owner: type, error: BaseException) -> Blame | None:
    """The method of a problem class (outside the package) in which `error` was raised, or None when it was in none."""
    if _roots(owner) <= {"agf"}:
        return None
    frames = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").split(".")[0] not in ("agf", "abc")
    ]
    while frames and not _is_method(frames[0][0], owner):
        frames.pop(0)
    if not frames:
        return None
    # a class made by type(...) has the module of whoever makes classes: where it is written, its method knows
    modules = {cls.__module__ for cls in owner.__mro__} | {frames[0][0].f_globals.get("__name__")}
    frames = [pair for pair in frames if pair[0].f_globals.get("__name__") in modules]
    (outer, _), (inner, line) = frames[0], frames[-1]
    return Blame.of(outer, inner, line)


def _roots(owner: type) -> set[str]:
    """The programs that classes of a problem are of."""
    return {cls.__module__.split(".")[0] for cls in owner.__mro__ if cls not in (ABC, object)}


def guarded(function: Function) -> Function:
    """A function whose first argument is a problem, and which is asked of it under `guard`."""

    @functools.wraps(function)
    def call(problem: Any, *args: Any, **options: Any) -> Any:
        with guard(problem):
            return function(problem, *args, **options)

    return cast(Function, call)


def stranger(error: BaseException) -> str | None:
    """One sentence on an error that a method of somebody's problem raised, whoever called it; None for any other."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        first = frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None
        found = blame(type(first), error) if isinstance(first, Problem) else None
        if found is not None:
            return found.words(error)
    return None


def _is_method(frame: FrameType, owner: type) -> bool:
    """Whether a frame is of a method of the problem, or of its own coordinates; observers and callers are neither."""
    if not frame.f_code.co_argcount:
        return False
    first = frame.f_locals.get(frame.f_code.co_varnames[0])
    return isinstance(first, (owner, FlowSystem)) or first is owner


def _returned(problem: Problem | type[Problem], owner: type, error: BaseException) -> str | None:
    """The sentence on an error in the package over what a stranger's problem returned; None when it is not that."""
    frames = [
        (frame.f_globals.get("__name__", ""), frame, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    if _roots(owner) <= {"agf", "agf_problems"} or not all(name.split(".")[0] in _LIBRARIES for name, *_ in frames):
        return None
    name, frame, line = [item for item in frames if item[0].split(".")[0] == "agf"][-1]
    return explain(
        f"what a method returned cannot be used ({told(error)}, in {frame.f_code.co_name} of {name}, line {line}).",
        where=f"problem {problem.name!r}",
        remedy="Run `agf check` on it: it names the method.",
    )


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception of Python, numpy or torch says that memory ran out."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "not enough memory" in str(error))
    )


def nothing() -> None:
    """There is no partial result."""


@contextlib.contextmanager
def staying() -> Iterator[None]:
    """Come back to the working folder: paths of the user are meant from there, wherever a stranger's code goes."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:  # removed under our feet
        yield
        return
    try:
        yield
    finally:
        os.chdir(folder)


@contextlib.contextmanager
def guard(problem: Problem | type[Problem], partial: Callable[[], Any] = nothing) -> Iterator[None]:
    """Turn what a problem's methods raise into one sentence that keeps `partial()`, what was computed by then.

    Raises ProblemError when there is nothing yet, else ComputationError, with the exception as its cause; a lack of
    memory is always a ComputationError. Errors that are not the problem's pass as they are.
    """
    try:
        with staying(), np.errstate(**USUAL):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and GeneratorExit of a stranger's own as well
        if isinstance(error, AgfError) and not isinstance(error, ProblemError):
            raise
        owner = problem if isinstance(problem, type) else type(problem)
        found = blame(owner, error)
        if isinstance(error, ProblemError):
            words: str | None = str(error)
        elif out_of_memory(error):
            words = explain(
                f"out of memory ({told(error)}).", remedy="Use less data, a smaller width or another method."
            )
        else:
            words = found.words(error) if found is not None else _returned(problem, owner, error)
        if words is None:
            raise
        if isinstance(error, StopIteration):  # which a context takes for its own end, also as a cause
            error = RuntimeError(told(error))
        kept = None
        with contextlib.suppress(Exception):  # what raised may do so again
            kept = partial()
        if kept is None and not out_of_memory(error):
            if isinstance(error, ProblemError):
                raise
            raise ProblemError(words) from error
        raise ComputationError(words, kept) from error
