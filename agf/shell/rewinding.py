"""Commands on masks and signs: flips of a saved training run."""

from __future__ import annotations

import click

from agf import registry
from agf.results.runs import trajectory
from agf.rewinding.flips import KINDS
from agf.shell.console import reporter
from agf.shell.main import DONE
from agf.shell.output import print_json


@click.command()
@click.argument("run")
@click.option("--kind", type=click.Choice(KINDS), default="inner", show_default=True, help="Input or output weights.")
@click.option("--problem", metavar="FILE", help="Where the problem of RUN is, when it is in a file (./mine.py:Mine).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def flips(run: str, kind: str, problem: str | None, as_json: bool, quiet: bool) -> int:
    """Which weights changed sign in the training run RUN, when, and how large their neurons were."""
    curve = trajectory(run)
    asked = None if problem is None else registry.build(registry.find(problem), curve.arguments)
    found = curve.flips(kind, asked)
    reporter(quiet).table(found.table())
    if as_json:
        print_json(found.to_dict())
    return DONE
