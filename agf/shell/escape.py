"""The command escape."""

from __future__ import annotations

import click

import agf
from agf import registry
from agf.shell.main import DONE
from agf.shell.output import Output, print_json


@click.command()
@click.argument("run")
@click.option("--drop", type=click.IntRange(0), help="The network after this drop; default the end of the run.")
@click.option("--problem", metavar="FILE", help="Where the problem of RUN is, when it is in a file (./mine.py:Mine).")
@click.option("--plot", "picture", metavar="FILE", help="Picture of the utility there; format by suffix.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def escape(run: str, drop: int | None, problem: str | None, picture: str | None, as_json: bool, quiet: bool) -> int:
    """Whether the network of the run file RUN can still learn: optimal at any width, spurious, or leaving, and when."""
    from agf.loading.runs import training
    from agf.results.comparison import Comparison

    out = Output(None, picture, as_json, quiet, [run])
    result = training(run)
    side = result.stairs if isinstance(result, Comparison) else result
    found = registry.rebuilt(side.problem, side.arguments, problem)
    answer = agf.escape(found, result, drop=drop)
    if picture is not None:
        answer.plot(picture)
    if as_json:
        print_json(answer.to_dict())
    out.report.table(answer.table())
    if picture is not None:
        out.report.say(f"Wrote {picture}.")
    return DONE
