"""From the words of a command to a problem and an initialization; what is wrong is refused before any computation."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf import datasets, registry
from agf.arrays import parsed
from agf.contract import weights
from agf.contract.blame import guard
from agf.contract.problem import Problem
from agf.errors import DataError, RequestError, explain
from agf.init import WIDTHS, Init

DEFAULT_ALPHA = 1e-8
DEFAULT_ALPHA_HIGHER = 1e-3  # for degree 3 and more, where plateaus last like alpha**(2 - degree)


@dataclass(frozen=True)
class Parameter:
    """One constructor parameter of a problem, as `agf problems NAME` lists it.

    Parameters
    ----------
    kind : str
        Its annotation.
    default : str
        Its default as text, "" when it is required.
    meaning : str
        From the docstring.
    from_data : bool
        Whether it usually comes from a data file.
    """

    name: str
    kind: str
    default: str
    required: bool
    meaning: str
    from_data: bool


def parameters(cls: type[Problem]) -> list[Parameter]:
    """What the constructor takes, with the words of the docstring of the class or of `__init__`."""
    own = list(inspect.signature(cls.__init__).parameters.values())[1:]
    signature = [p for p in own if p.kind not in _VARIADIC]
    words = _described(cls, [p.name for p in signature])
    return [
        Parameter(
            name=p.name,
            kind="" if p.annotation is p.empty else _annotation(p),
            default="" if p.default is p.empty else repr(p.default),
            required=p.default is p.empty,
            meaning=words.get(p.name, ""),
            from_data=p.name in cls.data_arguments,
        )
        for p in signature
    ]


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _annotation(parameter: inspect.Parameter) -> str:
    kind = parameter.annotation
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def _described(cls: type[Problem], names: list[str]) -> dict[str, str]:
    """Parameter -> its description in the docstrings, numpydoc: "name : type", and what it is indented below.

    A description in the same line is read as well, since that is how one is written in haste.
    """
    text = "\n\n".join(inspect.cleandoc(doc) for doc in (cls.__doc__, cls.__init__.__doc__) if doc)
    out: dict[str, str] = {}
    for match in re.finditer(r"^(\w+(?:, \w+)*) : (.*)\n?((?:(?: {4,}.*)\n?)*)", text, flags=re.MULTILINE):
        body = " ".join((match.group(3) or match.group(2)).split())
        for name in match.group(1).split(", "):
            if name in names:
                out.setdefault(name, body)
    return out


# -- the problem ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """The problem that was asked for, and sentences on what stands behind it (data, preparation, unused arrays)."""

    problem: Problem
    notes: tuple[str, ...]


#: The options of a command that say which problem it is, as `problem` takes them.
SOURCES = ("data", "target", "pairs", "standardize", "width")
#: The same for a command that starts from weights.
STARTED = (*SOURCES, "init_file")


def problem(
    name: str,
    *,
    data: str | None = None,
    target: str | None = None,
    standardize: bool | None = None,
    pairs: Iterable[str] = (),
    width: int | None = None,
    init_file: str | None = None,
) -> Asked:
    """Build the problem `name` from a data file or set, KEY=VALUE pairs and a width.

    Without data, the problem's own example is used, with the pairs on top; without a width, that of the weights in
    `init_file`. Raises RequestError.
    """
    cls = registry.find(name)
    known = {p.name: p for p in parameters(cls)}
    given = parse(cls, pairs)
    if width is not None:
        given[width_name(cls, known)] = width
    notes: list[str] = []
    if data is not None:
        chosen, words = data_arguments(cls, data, target, given, bool(standardize))
        notes += words
        for key in chosen:
            if key in given:
                raise RequestError(explain(f"parameter `{key}` is given by -p and by {data!r}.", remedy="Drop one."))
        given = {**chosen, **given}
    elif target is not None:
        raise RequestError(explain("--target names a column of a csv file.", remedy="Add --data FILE.csv."))
    elif standardize:
        raise RequestError(explain("--standardize is for a csv file.", remedy="Add --data FILE.csv."))
    elif not complete(cls, known, given):
        with guard(cls):
            example = cls.example()
        used = {key: value for key, value in example.items() if key not in given}
        if used:
            held = _example_words(cls, used)
            notes.append(f"Data: the problem's own example, since no --data was given: {held}.")
        given = {**example, **given}
    built = registry.build(cls, given)
    if init_file is not None and width is None:
        named = {pair.partition("=")[0] for pair in pairs}
        free = [key for key in WIDTHS if key in known and key not in named]
        rows = weights.rows(init_file)
        if free and rows != built.width:
            built = registry.build(cls, {**given, free[0]: rows - len(built.permanent)})
    return Asked(built, tuple(notes))


def example_words(cls: type[Problem]) -> str:
    """The arguments of the problem's own example, such as "X (442, 10), width=5"; "" when it cannot be made here."""
    try:
        return _example_words(cls, cls.example())
    except Exception:  # a package that is not installed, or a stranger's module
        return ""


def _example_words(cls: type[Problem], arguments: dict[str, Any]) -> str:
    """The arguments, arrays by their shapes, and the first sentence that the example says of itself."""
    words = ", ".join(
        f"{name} {value.shape}" if isinstance(value, np.ndarray) else f"{name}={value!r}"
        for name, value in arguments.items()
        if name != "names"
    )
    about = " ".join((cls.example.__doc__ or "").split("\n\n")[0].split()).rstrip(".")
    data = any(isinstance(value, np.ndarray) for value in arguments.values())
    return f"{words} ({about[0].lower()}{about[1:]})" if about and data else words


def complete(cls: type[Problem], known: dict[str, Parameter], given: dict[str, Any]) -> bool:
    """Whether what is given makes a problem without any of its example: all that is required, and data."""
    required = {p.name for p in known.values() if p.required}
    has_data = not cls.data_arguments or any(name in given for name in cls.data_arguments)
    return required <= set(given) and has_data


def width_name(cls: type[Problem], known: dict[str, Parameter]) -> str:
    for name in WIDTHS:
        if name in known:
            return name
    raise RequestError(
        explain("the width follows from the data.", where=f"problem {cls.name!r}", remedy="Leave --width out.")
    )


def data_arguments(
    cls: type[Problem], data: str, target: str | None = None, given: Iterable[str] = (), standardize: bool = False
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """The arrays of `data` that the constructor takes by name, and sentences on the data and on unused arrays.

    Parameters
    ----------
    given : Iterable[str], optional
        Arguments that come from elsewhere. A lone `y` stands for `Y` and the reverse.

    Raises
    ------
    RequestError
        For data that cannot be read, hold none of them, or lack one that the constructor needs.
    """
    found = datasets.read(data, target, standardize)
    known = [parameter.name for parameter in parameters(cls)]
    chosen: dict[str, np.ndarray] = {}
    used = set()
    for name in known:
        other = name.swapcase() if name in ("y", "Y") else name
        source = name if name in found.arrays else other if other in found.arrays and other not in known else None
        if source is not None:
            chosen[name] = found.arrays[source]
            used.add(source)
    held = ", ".join(f"{key} {value.shape}" for key, value in found.arrays.items())
    if not set(chosen) & set(cls.data_arguments):
        taken = [name for name in cls.data_arguments if name in known]
        tells = f"If they are {', '.join(chosen)}, its class says so: data_arguments = {tuple(chosen)}."
        raise DataError(
            explain(
                f"{data!r} holds no array that the problem {cls.name!r} takes.",
                found=held,
                expected=", ".join(taken) or "no data at all: this problem is given by -p",
                remedy=tells if chosen else "",
            )
        )
    needed = [p.name for p in parameters(cls) if p.required]
    missing = [name for name in needed if name not in chosen and name not in set(given)]
    if missing:
        words = f"{data!r} holds no {' and no '.join(missing)}, which the problem {cls.name!r} needs."
        raise DataError(explain(words, found=held, remedy="Rename the arrays, or give the rest with -p."))
    notes = [f"Data: {found.description}."]
    unused = sorted(set(found.arrays) - used - {"names"})  # names of columns are for labels, where there are any
    if unused and data not in datasets.NAMED:
        notes.append(f"Not used by {cls.name}: {', '.join(unused)}.")
    return chosen, tuple(notes)


# -- KEY=VALUE --------------------------------------------------------------------------------------------------


def parse(cls: type[Problem], pairs: Iterable[str]) -> dict[str, Any]:
    """Parameters from "KEY=VALUE" words, typed by the constructor's annotations.

    A value is a number, true/false, null, a JSON list or object, or else text. Raises RequestError for a word without
    "=", an unknown key, a key given twice, and a value that the annotation excludes.
    """
    known = {p.name: p for p in parameters(cls)}
    where = f"problem {cls.name!r}"
    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise RequestError(explain(f"cannot read the parameter {pair!r}.", expected="KEY=VALUE"))
        if key not in known:
            raise RequestError(
                explain(f"unknown parameter `{key}`.", where=where, expected="one of " + ", ".join(known))
            )
        if key in out:
            raise RequestError(explain(f"parameter `{key}` is given twice.", where=where))
        try:
            out[key] = typed(text, known[key].kind)
        except ValueError as error:
            raise RequestError(
                explain(f"parameter `{key}` has the wrong type.", where=where, found=repr(text), expected=str(error))
            ) from None
    return out


_PLAIN = {"int": "an integer", "float": "a number", "bool": "true or false", "str": "text", "None": "null"}


def typed(text: str, kind: str) -> Any:
    """The value that `text` stands for under the annotation `kind`; ValueError, saying what it must be, if none."""
    words = {word.strip() for word in kind.split("|")}
    try:
        value = json.loads(_JSON_WORDS.get(text, text))
    except json.JSONDecodeError:
        number = parsed(text) if words & {"int", "float"} else None  # as .1 and 1. are written
        value = text if number is None else number
    except (RecursionError, ValueError):  # lists in lists, or thousands of digits, beyond what Python reads
        raise ValueError("a value that can be read") from None
    if isinstance(value, float) and value.is_integer() and "int" in words and "float" not in words:
        if abs(value) > _WHOLE:
            raise ValueError(f"an integer, in digits above {_WHOLE:,}")
        value = int(value)
    if not words <= set(_PLAIN):
        return value  # arrays and the like: the constructor checks them
    name = "None" if value is None else type(value).__name__
    if name in words:
        return value
    if name == "int" and "float" in words:
        return float(value)
    if "str" in words:
        return text
    raise ValueError(" or ".join(_PLAIN[word] for word in sorted(words)))


#: Largest integer that may be written as 1e15 is. Derived: from 2^53 on, float64 holds not all of them.
_WHOLE = 2**53
_JSON_WORDS = {"True": "true", "False": "false", "None": "null", "yes": "true", "no": "false"}


# -- the initialization -----------------------------------------------------------------------------------------


def initialization(
    problem: Problem,
    *,
    alpha: float | None = None,
    seed: int | None = None,
    kind: str | None = None,
    file: str | None = None,
) -> Init:
    """Random initialization of `problem`, or the weights in a file.

    Raises RequestError or DataError for a bad alpha, an unknown kind, both a file and a random start, or a file that
    does not hold (H, P) parameters.
    """
    if file is None:
        options = {} if kind is None else {"kind": kind}
        with guard(problem):
            if alpha is None:
                alpha = DEFAULT_ALPHA if problem.degree == 2 else DEFAULT_ALPHA_HIGHER
            return problem.init(alpha, 0 if seed is None else seed, **options)
    for option, value in (("--alpha", alpha), ("--seed", seed), ("--kind", kind)):
        if value is not None:
            raise RequestError(
                explain(f"{option} describes a random start, and --init gives the weights.", remedy="Drop one.")
            )
    return weights.read(problem, file)
