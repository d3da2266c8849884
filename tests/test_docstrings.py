"""What help() says: public callables name every parameter, and say what they return and raise; problems likewise."""

from __future__ import annotations

import inspect
import re
from enum import Enum

import pytest

import agf
from agf import registry
from agf.shell import arguments as request

FUNCTIONS = [name for name in agf.__all__ if inspect.isfunction(getattr(agf, name))]
CLASSES = [name for name in agf.__all__ if inspect.isclass(getattr(agf, name))]
MODULES = [name for name in agf._MODULES if name != "figures"]


def parameters(function) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls", "args", "kwargs")]


def unnamed(names: list[str], *docs: str | None) -> list[str]:
    """The names that none of the docstrings has as a word."""
    text = " ".join(doc or "" for doc in docs)
    return [name for name in names if not re.search(rf"(?<!\w){name}(?!\w)", text)]


def sections(doc: str) -> dict[str, str]:
    """The parts of a docstring below underlined headings, by heading."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$", doc, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described(section: str) -> set[str]:
    """Names in front of a colon: "one, two : words", also several in a line, two spaces apart."""
    found = re.findall(r"(?:^|(?<=  ))(\w+(?:, \w+)*) : ", section, flags=re.MULTILINE)
    return {name for names in found for name in names.split(", ")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_has_a_line_for_each_parameter_and_says_what_it_returns_and_raises(name):
    function = getattr(agf, name)
    parts = sections(inspect.getdoc(function))
    assert set(parameters(function)) == described(parts.get("Parameters", ""))
    assert parts["Returns"].strip()
    assert "Raises" in parts or "nothing is raised" in parts["Returns"]


@pytest.mark.parametrize("name", CLASSES)
def test_a_public_class_and_its_methods_name_their_parameters(name):
    cls = getattr(agf, name)
    about = inspect.getdoc(cls)
    assert about
    if issubclass(cls, Enum | Exception):
        return
    assert not unnamed(parameters(cls), about)
    for key, member in vars(cls).items():
        function = getattr(member, "__func__", member)
        if key.startswith("_") or not (inspect.isfunction(function) or isinstance(member, property)):
            continue
        doc = inspect.getdoc(getattr(cls, key))
        assert doc, f"{name}.{key}"
        if inspect.isfunction(function):
            bases = cls.__mro__[:-1]
            same = [inspect.getdoc(getattr(base, key, None)) for base in bases]
            missing = unnamed(parameters(function), *same, *[inspect.getdoc(base) for base in bases])
            assert not missing, f"{name}.{key}: {missing}"


@pytest.mark.parametrize("name", MODULES)
def test_functions_of_documented_modules_name_their_parameters(name):
    module = getattr(agf, name)  # its own docstring has what all of its functions share
    for key, function in vars(module).items():
        if key.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
            continue
        doc = inspect.getdoc(function)
        assert doc, f"{name}.{key}"
        missing = unnamed(parameters(function), doc, module.__doc__)
        assert not missing, f"{name}.{key}: {missing}"


@pytest.mark.parametrize("name", registry.names())
def test_every_parameter_of_a_problem_has_a_sentence_of_its_own(name):
    words = [parameter.words for parameter in request.parameters(registry.find(name))]
    assert all(words)
    assert len(set(words)) == len(words)
    assert not [sentence for sentence in words if sentence.startswith("as for")]
