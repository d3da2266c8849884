"""The command `agf tickets`: the order of the final norms, predicted from the initial weights."""

from __future__ import annotations

from typing import Any

import click

from agf import registry
from agf.capacity.tickets import tickets as predicted
from agf.init import Init
from agf.loading.runs import trajectory
from agf.shell import arguments
from agf.shell.console import reporter
from agf.shell.main import DONE
from agf.shell.options import data_options, init_options
from agf.shell.output import print_json


@click.command()
@click.argument("name")
@data_options
@init_options
@click.option("--keep", type=float, default=0.1, show_default=True, help="How many; below 1 the fraction of them.")
@click.option("--until", type=float, metavar="TIME", help="Flow time to compare norms at; default when decided.")
@click.option("--against", metavar="RUN", help="A training run of the same start, to compare predictors with.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def tickets(
    name: str, keep: float, until: float | None, against: str | None, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Predict which neurons of the problem NAME will have the largest norms, before training it.

    With --against, the problem's start is that of RUN, and so are its data where none are given.
    """
    run = None if against is None else trajectory(against)
    sources = {key: options[key] for key in arguments.STARTED}
    cls = registry.find(name)
    if run is not None and run.problem == cls.name and all(value in (None, ()) for value in sources.values()):
        requested = registry.build(cls, run.arguments)
    else:
        requested = arguments.problem(name, **sources).problem
    start: Init | None = run.init if run is not None else None
    if start is None:
        start = arguments.initialization(
            requested, alpha=options["alpha"], seed=options["seed"], kind=options["kind"], file=options["init_file"]
        )
    found = predicted(requested, start, keep=keep, until=until)
    teller = reporter(quiet)
    teller.table(found.table())
    if run is not None:
        teller.table(found.against(run))
    if as_json:
        print_json({**found.to_dict(), "scores": {} if run is None else found.scores(run)})
    return DONE
