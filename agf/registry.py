"""Find problems by name (entry points), or by file (`./mine.py:Mine`); a broken one is kept with its reason."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
import zlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from agf.asked import asked
from agf.contract.blame import guard, staying
from agf.contract.problem import Problem
from agf.contract.raised import told
from agf.errors import DataError, ProblemError, RequestError, explain

GROUP = "agf.problems"
#: Problems that are made from others: found by name, so that their runs can be computed again, and not listed.
_DERIVED = {"masked": "agf.rewinding.masked:Masked"}
#: What a stranger's module may raise, of its own: all but an interrupt.
_ANY = (Exception, SystemExit, GeneratorExit)


@dataclass(frozen=True)
class Listed:
    """One registered problem.

    Parameters
    ----------
    name : str
        Its name.
    cls : type[Problem] or None
        Its class, None where it cannot be loaded.
    reason : str
        Why it cannot be loaded, else empty.
    """

    name: str
    cls: type[Problem] | None
    reason: str = ""


def _points() -> dict[str, EntryPoint]:
    return _registered(tuple((entry, _changed(entry)) for entry in sys.path))


@lru_cache(maxsize=1)
def _registered(places: tuple[tuple[str, int], ...]) -> dict[str, EntryPoint]:
    """What is registered in these places, each with when it last changed: reading all that is installed takes longer
    than a small prediction."""
    del places
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def _changed(entry: str) -> int:
    """When a place on the path of imports last changed, 0 where there is none."""
    try:
        return os.stat(entry or ".").st_mtime_ns
    except OSError:
        return 0


def names() -> list[str]:
    """Registered names, sorted, without importing any of them."""
    return list(_points())


def listing() -> list[Listed]:
    """Every registered problem; one that cannot be imported is listed with its reason and breaks nothing else."""
    out = []
    for name, point in _points().items():
        try:
            out.append(Listed(name, _checked(point.load(), name)))
        except _ANY as error:  # any failure of a stranger's module
            out.append(Listed(name, None, f"{type(error).__name__}: {error}"))
    return out


@asked
def find(name: str) -> type[Problem]:
    """The class registered under `name`, or named by file as `path.py:Class`.

    Raises
    ------
    RequestError
        For an unknown name.
    ProblemError
        For a plugin that cannot be loaded.
    """
    if not isinstance(name, str):
        raise RequestError(
            explain("the name of a problem is text.", found=repr(name)[:80],
                    expected="one of " + ", ".join(names()) + ", or a file such as ./mine.py:Mine")
        )  # fmt: skip
    if ".py" in name:
        return _from_file(name)
    if name in _DERIVED:
        module, attribute = _DERIVED[name].split(":")
        return _checked(getattr(importlib.import_module(module), attribute), name)
    points = _points()
    if name not in points:
        raise RequestError(
            explain(
                f"there is no problem {name!r}.",
                found="a file that is no Python file" if os.path.isfile(name) else None,
                expected="one of " + ", ".join(points) + ", or a file such as ./mine.py:Mine",
            )
        )
    try:
        with staying():
            return _checked(points[name].load(), name)
    except ProblemError:
        raise
    except _ANY as error:
        raise ProblemError(
            explain(
                f"problem {name!r} cannot be loaded ({type(error).__name__}: {error}).",
                where=points[name].value,
                remedy=_remedy(error) if isinstance(error, ImportError) else "Mend it; the other problems work.",
            )
        ) from error


@asked
def problem(name: str, /, **arguments: Any) -> Problem:
    """A problem by name with its constructor arguments.

    Parameters
    ----------
    name : str
        a registered name, or a file as ./mine.py:Mine.
    arguments : Any
        Of its constructor; `agf problems NAME`, or help on the class that `find` gives, lists them.

    Returns
    -------
    Problem
        For `predict`, `flow`, `descend` and `check`.

    Raises
    ------
    RequestError
        For an unknown name or argument.
    ProblemError
        For a plugin that cannot be loaded; what the constructor raises for bad data (DataError).
    """
    return build(find(name), arguments)


@asked
def build(cls: type[Problem], arguments: dict[str, Any]) -> Problem:
    """Construct `cls`; unknown and missing `arguments` are refused in a sentence that lists the valid ones."""
    signature = inspect.signature(cls.__init__)
    parameters = list(signature.parameters.values())[1:]
    known = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    for given in arguments:
        if given not in known and not open_ended:
            raise RequestError(
                explain(
                    f"unknown parameter `{given}`.", where=f"problem {cls.name!r}",
                    expected="one of " + ", ".join(known) if known else "no parameters",
                )
            )  # fmt: skip
    missing = [
        p.name
        for p in parameters
        if p.default is inspect.Parameter.empty
        and p.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        and p.name not in arguments
    ]
    if missing:
        words = f"missing parameter(s) {', '.join(missing)}."
        raise RequestError(explain(words, where=f"problem {cls.name!r}", remedy=_hint(cls)))
    with guard(cls):
        try:
            return cls(**arguments)
        except DataError as error:
            if arguments:
                raise
            raise DataError(f"{error} {_hint(cls)}".strip()) from None


@asked
def rebuilt(name: str, arguments: dict[str, Any], file: str | None = None) -> Problem:
    """The problem of a saved run, built again.

    Parameters
    ----------
    name : str
        Its name, as the run says.
    arguments : dict[str, Any]
        Of its constructor, as the run has them.
    file : str or None, optional
        Where it is when it is in a file, as ./mine.py:Mine; None: registered.

    Raises
    ------
    RequestError
        For a name that is not registered, and a file with another problem.
    ProblemError
        For a plugin that cannot be loaded.
    """
    if file is None and name not in _DERIVED and name not in names():
        raise RequestError(
            explain(
                f"the problem {name!r} of this run is not registered: it is in a file that runs do not hold.",
                remedy="Name the file: --problem ./FILE.py, in Python problem='./FILE.py' (or a problem).",
            )
        )
    cls = find(name if file is None else file)
    if cls.name != name:
        raise RequestError(explain(f"this is a run of {name!r}.", found=f"problem {cls.name!r}"))
    return build(cls, arguments)


def _hint(cls: type[Problem]) -> str:
    """Where somebody who gave nothing finds what to give."""
    if cls.name not in names():
        return ""
    return f"`agf problems {cls.name}` lists the parameters; agf.registry.find({cls.name!r}).example() gives some."


def _remedy(error: BaseException) -> str:
    """What helps against an error at import: another package, or another file."""
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        package = error.name.split(".")[0]
        return "Install it: pip install torch." if package == "torch" else f"Install {package}, or mend the path."
    return "Mend the file."


def _checked(value: Any, name: str) -> type[Problem]:
    if not (inspect.isclass(value) and issubclass(value, Problem)):
        raise ProblemError(
            explain(f"{name!r} is not a problem.", found=repr(value), expected="a subclass of agf.Problem")
        )
    if missing := sorted(getattr(value, "__abstractmethods__", ())):
        raise ProblemError(
            explain(
                f"it does not define {', '.join(missing)}.",
                where=f"class {value.__name__}",
                remedy="Define what is missing, or derive from a class that has it, such as agf.TwoLayer.",
            )
        )
    _check_names(value)
    return value


def _check_names(cls: type[Problem]) -> None:
    """Refuse a class whose attributes that are words are none. Raises ProblemError."""
    for attribute, expected in (("name", str), ("data_arguments", tuple), ("kinds", tuple)):
        found = getattr(cls, attribute)
        words = found if expected is tuple else (found,)
        named = isinstance(words, tuple | list) and all(isinstance(word, str) for word in words)
        if not (named or isinstance(found, property)):
            raise ProblemError(
                explain(
                    f"its attribute `{attribute}` cannot be.", where=f"class {cls.__name__}", found=repr(found)[:80],
                    expected="text" if expected is str else "a tuple of names",
                )
            )  # fmt: skip


def _from_file(name: str) -> type[Problem]:
    path_text, _, class_name = name.rpartition(":") if name.rpartition(":")[0].endswith(".py") else (name, "", "")
    path = Path(path_text)
    if not path.is_file():
        raise RequestError(explain(f"there is no file {str(path)!r}.", expected="a plugin such as ./mine.py:Mine"))
    module_name = f"agf_plugin_{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and torch look their module up
    try:
        with staying():
            spec.loader.exec_module(module)
    except _ANY as error:
        del sys.modules[module_name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == spec.origin]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
        where = f"{path}:{line}" if line else str(path)
        raise ProblemError(
            explain(f"it cannot be imported ({told(error)}).", where=where, remedy=_remedy(error))
        ) from error
    own = {
        key: value
        for key, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Problem) and value.__module__ == module_name
    }
    if class_name:
        if class_name not in vars(module):
            raise RequestError(
                explain(
                    f"{str(path)!r} has no class {class_name!r}.",
                    expected="one of " + ", ".join(own) if own else "a subclass of agf.Problem",
                )
            )
        return _checked(vars(module)[class_name], class_name)
    if len(own) != 1:
        raise RequestError(
            explain(
                f"{str(path)!r} defines {len(own)} problems.", found=", ".join(own) or "none",
                remedy="Name one, as in ./mine.py:Mine.",
            )
        )  # fmt: skip
    return _checked(next(iter(own.values())), name)
