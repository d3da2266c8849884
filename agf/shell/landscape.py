"""Commands about the utility: landscape, cones."""

from __future__ import annotations

from typing import Any

import click

import agf
from agf import registry
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.rectified.ascent import STARTS
from agf.shell import arguments
from agf.shell.main import DONE
from agf.shell.options import dashed, data_options, output_options
from agf.shell.output import Output, print_json

VIEWS = ("auto", "circle", "sphere", "bars")


@click.command()
@click.argument("name", required=False)
@data_options
@click.option(
    "--at", metavar="RUN[:DROP]", help="The network after a drop of this run file; default its end. No NAME is needed."
)
@click.option("--view", type=click.Choice(VIEWS), default="auto", show_default=True, help="What --plot draws.")
@click.option("--starts", type=click.IntRange(1), default=STARTS, show_default=True, help="Ascents, where needed.")
@click.option("--all", "whole", is_flag=True, help="Print every direction, not the first twelve.")
@output_options
def landscape(
    name: str | None,
    at: str | None,
    view: str,
    starts: int,
    whole: bool,
    output: str | None,
    picture: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Every critical direction of the utility of the problem NAME: where dormant neurons can end, and how fast.

    (Leaky) ReLU networks of one output are enumerated exactly; other problems have closed forms, or are climbed from
    many starts.
    """
    run = None if at is None else split(at)
    out = Output(output, picture, as_json, quiet, [options["data"], None if run is None else run[0]])
    problem, theta, moment = requested_at(name, options, run, out)
    with out.report.progress("landscape"):
        result = agf.landscape(problem, theta, at=moment, starts=starts)
    if picture is not None:
        result.plot(picture, view=view)
    out.picture = None  # drawn, with its view
    out.table = lambda result: result.table(whole)
    return out.finish(lambda: result)


def split(at: str) -> tuple[str, int | None]:
    path, colon, drop = at.rpartition(":")
    if not colon:
        return at, None
    if not drop.isdigit():
        raise RequestError(explain(f"cannot read the drop {drop!r}.", where="--at", expected="RUN or RUN:DROP"))
    return path, int(drop)


def requested_at(
    name: str | None, options: dict[str, Any], run: tuple[str, int | None] | None, out: Output
) -> tuple[Problem, Any, str]:
    """The problem, the network and what it is called; problem and data come from the run where there is one."""
    from agf.loading.runs import training
    from agf.results.comparison import Comparison
    from agf.results.network import neurons

    if run is None:
        if name is None:
            raise click.UsageError("Missing argument 'NAME', or --at RUN, which says of what problem it is.")
        requested = arguments.problem(name, **options)
        for note in requested.notes:
            out.report.say(note)
        return requested.problem, None, ""
    result = training(run[0])
    side = result.stairs if isinstance(result, Comparison) else result
    cls = registry.find(side.problem if name is None else name)
    if cls.name != side.problem:
        raise RequestError(explain(f"{run[0]!r} is a run of {side.problem!r}.", expected=f"a run of {cls.name!r}"))
    extra = [dashed(key) for key in arguments.SOURCES if options[key] not in (None, ())]
    if extra:
        raise RequestError(
            explain("--at takes the data from the run.", found=", ".join(extra), remedy="Leave these options out.")
        )
    at = neurons(result, run[1])
    problem = registry.build(cls, side.arguments)
    return problem, at.network(problem), f"{at.moment} of {run[0]}"


@click.command()
@click.argument("name")
@data_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def cones(name: str, as_json: bool, quiet: bool, **options: Any) -> int:
    """Activation cones of the inputs of the problem NAME: how many there are, of which dimension, and their names."""
    out = Output(None, None, as_json, quiet, [options["data"]])
    requested = arguments.problem(name, **options)
    X = getattr(requested.problem, "X", None)
    if X is None or not hasattr(requested.problem, "activation"):
        words_ = f"problem {requested.problem.name!r} has no activation cones."
        raise RequestError(explain(words_, expected="relu or two-layer"))
    result = agf.cones(X)
    if as_json:
        print_json(result.to_dict())
    out.report.table(result.table())
    return DONE
