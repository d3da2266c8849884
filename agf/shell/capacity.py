"""Commands on capacity: groups of neurons in a saved training run."""

from __future__ import annotations

from typing import Any

import click

from agf.capacity.groups import BY
from agf.capacity.groups import groups as found_groups
from agf.contract.problem import Problem
from agf.results.comparison import Comparison
from agf.results.runs import load, trajectory
from agf.shell.console import reporter
from agf.shell.main import DONE
from agf.shell.output import print_json


def _problem(path: str | None, arguments: dict[str, Any]) -> Problem | None:
    """The problem of a run that lives in a file (./mine.py:Mine), or None where the run says which."""
    from agf import registry

    return None if path is None else registry.build(registry.find(path), arguments)


@click.command()
@click.argument("run")
@click.option("--at", type=int, default=-1, show_default=True, help="Snapshot; -1 for the last.")
@click.option("--cosine", type=float, default=0.999, show_default=True, help="Smallest cosine inside a group.")
@click.option("--by", type=click.Choice(BY), default="direction", show_default=True, help="What makes a group.")
@click.option("--problem", metavar="FILE", help="Where the problem of RUN is, when it is in a file (./mine.py:Mine).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def groups(run: str, at: int, cosine: float, by: str, problem: str | None, as_json: bool, quiet: bool) -> int:
    """Neurons that race as one in the training run RUN: totals, shares, winners and half times."""
    result = load(run)
    source = result if isinstance(result, Comparison) else trajectory(run)
    curve = source.trajectory if isinstance(source, Comparison) else source
    found = found_groups(source, at=at, cosine=cosine, by=by, problem=_problem(problem, curve.arguments))
    reporter(quiet).table(found.table())
    if as_json:
        print_json(found.to_dict())
    return DONE
