"""Arguments that are to blame for what went wrong over them: the signature says of what kind each must be.

The checks at the door know ranges and shapes, and say so. What they do not foresee, such as a list for a number or a
curve for a network, ends in an exception from somewhere inside: it is then looked whether an argument is not what its
annotation says, and that argument is named. An error over arguments that are as declared is the package's own and is
raised as it is.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from agf.arrays import number
from agf.errors import AgfError, ProblemError, RequestError, explain

Function = TypeVar("Function", bound=Callable[..., Any])
#: Items of a sequence that are looked at. Cost: a list may hold millions.
_LOOKED_AT = 1000
#: Letters of a value in a message. Limit: the rest is three dots.
_LONGEST = 60


def _listed(value: Any, kind: Any) -> bool:
    """Whether a value is several others in order, as an array is that is no single number, and text is not."""
    several = value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, kind)
    return several and not isinstance(value, str | bytes)


#: What an annotation asks for, in words, and whether a value is it.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", lambda value: isinstance(value, bool | np.bool_)),
    "int": ("an integer", lambda value: number(value) == np.floor(number(value))),
    "float": ("a number", lambda value: not np.isnan(number(value))),
    "str": ("text", lambda value: isinstance(value, str)),
    "os.PathLike": ("a path", lambda value: hasattr(value, "__fspath__")),
    "Callable": ("a function", callable),
    "Observer": ("a function", callable),
    "Mapping": ("a dict", lambda value: isinstance(value, Mapping)),
    "Sequence": ("a list", lambda value: _listed(value, Sequence)),
    "tuple": ("a tuple", lambda value: isinstance(value, tuple | list)),
    "Iterable": ("a list", lambda value: _listed(value, Iterable)),
    "Problem": ("a problem", lambda value: hasattr(value, "loss_grad") and not isinstance(value, type)),
    "Phases": ("phases", lambda value: all(hasattr(value, name) for name in ("clock", "start", "dormant", "active"))),
}
#: Classes of the package that arguments may be, by name: they need not be imported for this.
_CLASSES = ("Init", "Settings", "State", "Staircase", "Trajectory", "Comparison", "Rewinding", "Checkpoint")


def asked(function: Function) -> Function:
    """A public function that names the argument which is not of its kind when an error other than ours leaves it."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            refuse(function, args, options, error)
            raise

    return cast(Function, call)


def refuse(function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any], error: Exception) -> None:
    """Raise RequestError, with `error` as its cause, where an argument of the call is not of the kind declared."""
    if isinstance(error, AgfError) and not isinstance(error, ProblemError):
        return  # it says what is wrong; a problem may be blamed for what it was given
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **options).arguments
    except TypeError:  # too many, or unknown ones: Python has said so
        return
    for name, value in given.items():
        words = _expected(str(signature.parameters[name].annotation).strip("'"), value)
        if words is not None:
            raise RequestError(
                explain(f"`{name}` cannot be used.", where=_name(function), found=_shown(value), expected=words)
            ) from error


def _name(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__")


def _expected(annotation: str, value: Any) -> str | None:
    """In words what an annotation asks for, where the value is none of it; None where it is, or where nobody knows."""
    words = []
    for kind in re.split(r"\s*\|\s*(?![^\[]*\])", annotation):
        head, _, items = kind.rstrip("]").partition("[")
        if head in _CLASSES:
            name, fits = f"an agf.{head}", any(cls.__name__ == head for cls in type(value).__mro__)
        elif head in _KINDS:
            name, fits = _KINDS[head][0], _KINDS[head][1](value)
        else:
            return None
        inside = items.partition(",")[0] if head in ("Sequence", "tuple", "Iterable") else ""
        if fits and inside in _KINDS and isinstance(value, Sequence | np.ndarray):
            fits = all(_KINDS[inside][1](item) for item in value[:_LOOKED_AT])
        if fits:
            return None
        words.append(name + (f" of which each is {_KINDS[inside][0]}" if inside in _KINDS else ""))
    return " or ".join(words)


def _shown(value: Any) -> str:
    """A value in a few words on one line, whatever it does when it is asked for them."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of a stranger
        text = ""
    return f"{text[:_LONGEST]}{'...' * (len(text) > _LONGEST)}, of type {type(value).__name__}".lstrip(", ")
