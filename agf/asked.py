"""Arguments that are to blame for what went wrong over them: the signature says of what kind each must be.

The checks at the door know ranges and shapes, and say so. What they do not foresee, such as a list for a number or a
curve for a network, ends in an exception from somewhere inside: it is then looked whether an argument is not what its
annotation says, and that argument is named. An error over arguments that are as declared is the package's own and is
raised as it is.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar, cast

import numpy as np

from agf.arrays import number
from agf.errors import AgfError, ProblemError, RequestError, explain, shown

Public = TypeVar("Public", bound=Callable[..., Any])
#: Items of a sequence that are looked at. Cost: a list may hold millions.
_LOOKED_AT = 1000


def _numeric(value: Any) -> bool:
    """Whether numpy reads real numbers in a value."""
    try:
        return np.asarray(value).dtype.kind in "iuf"
    except Exception:  # also of a stranger's __array__
        return False


def _listed(value: Any, kind: Any) -> bool:
    """Whether a value is several others in order, as an array is that is no single number, and text is not."""
    several = value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, kind)
    return several and not isinstance(value, str | bytes)


#: What an annotation asks for, in words, and whether a value is it.
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda value: value is None),
    "bool": ("True or False", lambda value: isinstance(value, bool | np.bool_)),
    "int": ("an integer", lambda value: number(value).is_integer()),
    "float": ("a number", lambda value: not np.isnan(number(value))),
    "FloatArray": ("an array of real numbers", _numeric),
    "str": ("text", lambda value: isinstance(value, str)),
    "os.PathLike": ("a path", lambda value: hasattr(value, "__fspath__")),
    "Callable": ("a function", callable),
    "Observer": ("a function", callable),
    "Mapping": ("a dict", lambda value: isinstance(value, Mapping)),
    "Sequence": ("a list", lambda value: _listed(value, Sequence)),
    "tuple": ("a tuple", lambda value: isinstance(value, tuple | list)),
    "Iterable": ("a list", lambda value: _listed(value, Iterable)),
    "Problem": ("a problem", lambda value: hasattr(value, "loss_grad") and not isinstance(value, type)),
    "Axes": ("matplotlib axes", lambda value: hasattr(value, "plot") and hasattr(value, "figure")),
    "nx.DiGraph": ("a directed graph of networkx", lambda value: hasattr(value, "successors")),
    "Phases": ("phases", lambda value: all(hasattr(value, name) for name in ("clock", "start", "dormant", "active"))),
}
#: Classes of the package that arguments may be, by name: they need not be imported for this.
_CLASSES = (
    "Init", "Settings", "State", "Drop", "Staircase", "Trajectory", "Comparison", "Rewinding", "Checkpoint", "Sweep",
)  # fmt: skip


def asked(public: Public) -> Public:
    """A public function that names the argument which is not of its kind when an error other than ours leaves it; of a
    class, its constructor and all its public methods."""
    if not isinstance(public, type):
        return _naming(public)
    for name, member in list(vars(public).items()):
        if name != "__init__" and name.startswith("_"):
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(public, name, type(member)(_naming(member.__func__)))
        elif inspect.isfunction(member):
            setattr(public, name, _naming(member))
    return public


def _naming(function: Public) -> Public:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            refuse(function, args, options, error)
            raise

    return cast(Public, call)


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
            found = f"{shown(value)}, of type {type(value).__name__}"
            raise RequestError(
                explain(f"`{name}` cannot be used.", where=_name(function), found=found, expected=words)
            ) from error


def _name(function: Callable[..., Any]) -> str:
    return function.__qualname__.removesuffix(".__init__")


def _expected(annotation: str, value: Any) -> str | None:
    """In words what an annotation asks for, where the value is none of it; None where it is, or where nobody knows."""
    words = []
    for kind in _alternatives(annotation):
        head, _, items = kind.partition("[")
        known = _known(head)
        if known is None:
            return None
        name, fits = known
        inside = items.removesuffix("]").removesuffix(", ...") if head in ("Sequence", "tuple", "Iterable") else ""
        if fits(value):
            looked_at = value if inside and isinstance(value, Sequence | Set | np.ndarray) else ()
            if all(_expected(inside, item) is None for item in itertools.islice(looked_at, _LOOKED_AT)):
                return None
        item = [_known(one) for one in _alternatives(inside)]
        if None not in item:
            name += " of which each is " + " or ".join(one[0] for one in item if one is not None)
        words.append(name)
    return " or ".join(words)


def _alternatives(annotation: str) -> list[str]:
    return re.split(r"\s*\|\s*(?![^\[]*\])", annotation)


def _known(head: str) -> tuple[str, Callable[[Any], bool]] | None:
    """What the head of an annotation asks for, in words, and whether a value is it."""
    if head in _CLASSES:
        return f"an agf.{head}", lambda value: any(cls.__name__ == head for cls in type(value).__mro__)
    return _KINDS.get(head)
