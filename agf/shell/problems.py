"""Commands about problems themselves: problems, check, new."""

from __future__ import annotations

import inspect
import re
from importlib.util import find_spec
from typing import Any

import click

from agf import registry
from agf.contract.problem import Problem
from agf.init import WIDTHS
from agf.records.table import Table
from agf.shell import arguments
from agf.shell.console import reporter
from agf.shell.main import DONE, FAILED
from agf.shell.options import data_options
from agf.shell.output import print_json


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
def problems(name: str | None, as_json: bool) -> int:
    """List the problems, or the parameters and kinds of initialization of the problem NAME.

    A problem that cannot be loaded is listed with the reason.
    """
    if name is not None:
        return _parameters(registry.find(name), as_json)
    listed = registry.listing()
    if as_json:
        print_json([{"name": one.name, "summary": _summary(one.cls), "broken": one.reason or None} for one in listed])
    rows = [[one.name, _summary(one.cls) if one.cls else f"cannot be loaded: {one.reason}"] for one in listed]
    notes = ["Parameters of one: agf problems NAME. A problem in a file: ./mine.py:Mine."]
    reporter().table(Table("Problems", ["name", "what it is"], rows, notes))
    return DONE


def _summary(cls: type[Problem] | None) -> str:
    """First sentence of the docstring of the class."""
    text = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split()) if cls is not None else ""
    return re.split(r"(?<=\S)\. ", text)[0].rstrip(".")  # " . " is a product: w . x


def _network(cls: type[Problem]) -> str:
    """The paragraph of the docstring that says what is trained: "Network: ... Loss: ..."; "" without one."""
    paragraphs = (inspect.getdoc(cls) or "").split("\n\n")
    return next((" ".join(words.split()) for words in paragraphs if words.startswith("Network: ")), "")


def _parameters(cls: type[Problem], as_json: bool) -> int:
    found = arguments.parameters(cls)
    example = arguments.example_words(cls)
    if as_json:
        print_json(
            {
                "name": cls.name,
                "summary": _summary(cls),
                "network": _network(cls) or None,
                "example": example or None,
                "data": list(cls.data_arguments),
                "kinds": list(cls.kinds),
                "parameters": [
                    {
                        "name": p.name,
                        "kind": p.kind,
                        "default": p.default or None,
                        "required": p.required,
                        "meaning": p.meaning,
                    }
                    for p in found
                ],
            }
        )
    width = next((name for name in WIDTHS if name in {p.name for p in found}), None)
    options = {p.name: " or --data" if p.from_data else " or --width" if p.name == width else "" for p in found}
    rows = [[p.name, p.kind, "required" if p.required else p.default, f"-p{options[p.name]}", p.meaning] for p in found]
    columns = ["parameter", "type", "default", "given by", "meaning"]
    named = [inspect.signature(init).parameters.get("kind") for init in (cls.init, Problem.init)]
    usual = next(parameter.default for parameter in named if parameter is not None)
    kinds = ", ".join(f"{kind} (default)" if kind == usual else kind for kind in cls.kinds)
    notes = [
        _network(cls),
        f"Kinds of initialization (--kind): {kinds}.",
        f"Without data of your own: {example}." if example else "",
    ]
    reporter().table(Table(f"{cls.name}: {_summary(cls)}", columns, rows, [note for note in notes if note]))
    return DONE


@click.command()
@click.argument("name")
@data_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
def check(name: str, as_json: bool, **options: Any) -> int:
    """Check that a problem keeps its contract: NAME, or a file such as ./mine.py:Mine.

    Gradients, homogeneity, utility against loss, the empty network, no changed inputs, closed forms.
    """
    from agf.conformance.checks import check as conformance

    requested = arguments.problem(name, **options)
    result = conformance(requested.problem)
    if as_json:
        print_json(result.to_dict())
    reporter().table(result.table())
    return DONE if result.passed else FAILED


@click.command()
@click.argument("file")
def new(file: str) -> int:
    """Write a commented problem to FILE (a name ending in .py) to start your own from."""
    from agf.conformance import template

    template.write(file)
    first = "" if find_spec("torch") else "pip install torch, in which it is written, then "
    reporter().say(f"Wrote {file}. Next: {first}agf check {file}")
    return DONE
