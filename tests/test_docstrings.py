"""What help() says: docstrings of public names are numpydoc, and describe the parameters that the signatures have."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest

import agf
from agf import registry
from agf.shell import arguments

docscrape = pytest.importorskip("numpydoc.docscrape")

MODULES = [name for name in agf._MODULES if name != "figures"]
PROBLEMS = registry.names()
EXPORTED = frozenset(agf.__all__)


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "args", "kwargs")]


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods that a class defines, or one of its bases that is not public; they may have the docstring of what
    they override."""
    own = [
        cls,
        *(base for base in cls.__mro__[1:] if base.__module__.startswith("agf") and base.__name__ not in EXPORTED),
    ]
    for key, member in {key: member for base in reversed(own) for key, member in vars(base).items()}.items():
        if not key.startswith("_") and inspect.isfunction(getattr(member, "__func__", member)):
            yield key, getattr(cls, key)


def public() -> dict[str, Any]:
    """Every public callable by its name: exported, of public modules, the problems, and methods of all these."""
    found: dict[str, Any] = {f"agf.{name}": getattr(agf, name) for name in agf.__all__ if name != "__version__"}
    for name in MODULES:
        module = importlib.import_module(f"agf.{name}")
        for key, value in vars(module).items():
            own = callable(value) and getattr(value, "__module__", "") == module.__name__
            offered = inspect.isfunction(value) and key in getattr(module, "__all__", ())
            if not key.startswith("_") and (own or offered):
                found.setdefault(f"agf.{name}.{key}", value)
    found |= {name: registry.find(name) for name in PROBLEMS}
    classes = {name: value for name, value in found.items() if inspect.isclass(value)}
    for name, cls in classes.items():
        found |= {f"{name}.{key}": member for key, member in members(cls)}
    return found


PUBLIC = public()


def parsed(value: Any) -> Any:
    """The docstring as numpydoc reads it; a warning of numpydoc (an unknown heading, say) is an error."""
    return docscrape.NumpyDocString(inspect.getdoc(value) or "")


def described(doc: Any, section: str) -> list[str]:
    return [name.lstrip("*") for entry in doc[section] for name in entry.name.split(", ")]


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("name", PUBLIC)
def test_numpydoc_reads_one_parameter_a_line_with_a_type_and_a_description(name):
    value = PUBLIC[name]
    doc = parsed(value)
    assert doc["Summary"], name
    for section in ("Parameters", "Attributes"):
        for entry in doc[section]:
            assert "," not in entry.name, f"{name}: several in a line: {entry.name}"
            assert entry.type, f"{name}: {entry.name} has no type"
            assert " : " not in entry.type, f"{name}: two parameters in a line: {entry.type!r}"
            assert entry.desc, f"{name}: {entry.name} has no description"
    names = described(doc, "Parameters")
    known = parameters(value) if not (inspect.isclass(value) and issubclass(value, Enum | Exception)) else names
    assert [one for one in known if one in names] == names, f"{name}: {names} are not, or not in order, {known}"


@pytest.mark.parametrize("name", [name for name in agf.__all__ if inspect.isfunction(getattr(agf, name))])
def test_an_exported_function_describes_each_parameter_and_what_it_returns_and_raises(name):
    doc = parsed(getattr(agf, name))
    assert described(doc, "Parameters") == parameters(getattr(agf, name))
    assert doc["Returns"]
    assert all(entry.desc for entry in doc["Returns"])
    assert doc["Raises"] or "nothing is raised" in " ".join(doc["Returns"][0].desc)


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if inspect.isclass(value)])
def test_a_public_class_describes_what_its_constructor_takes(name):
    cls = PUBLIC[name]
    if issubclass(cls, Enum | Exception) or inspect.isabstract(cls) or not parameters(cls):
        return
    assert described(parsed(cls), "Parameters") == parameters(cls)


def unnamed(names: list[str], *docs: str | None) -> list[str]:
    """The names that none of the docstrings has as a word."""
    text = " ".join(doc or "" for doc in docs)
    return [name for name in names if not re.search(rf"(?<!\w){name}(?!\w)", text)]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_names_every_parameter_where_it_does_not_describe_it(name):
    value: Callable[..., Any] = PUBLIC[name]
    if inspect.isclass(value):
        return
    # A method may rely on its class and on what it overrides, a function on its module.
    owner = PUBLIC.get(name.rpartition(".")[0])
    bases = owner.__mro__[:-1] if inspect.isclass(owner) else []
    shared = [inspect.getdoc(base) for base in bases] + [
        inspect.getdoc(getattr(base, value.__name__, None)) for base in bases
    ]
    module = inspect.getmodule(value)
    missing = unnamed(parameters(value), inspect.getdoc(value), *shared, module.__doc__ if module else "")
    assert not missing, f"{name}: {missing}"


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_parameter_of_a_problem_has_a_sentence_of_its_own(name):
    sentences = [parameter.meaning for parameter in arguments.parameters(registry.find(name))]
    assert all(sentences)
    assert len(set(sentences)) == len(sentences)
    assert not [sentence for sentence in sentences if sentence.startswith("as for")]
