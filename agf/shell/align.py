"""Command: align."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

import agf
from agf.records.table import Table
from agf.rectified.dormant_phase import DormantPhase
from agf.shell import arguments
from agf.shell.landscape import requested_at, split
from agf.shell.options import data_options, given, init_options, output_options
from agf.shell.output import Output


@click.command()
@click.argument("name", required=False)
@data_options
@init_options
@click.option(
    "--at",
    metavar="RUN[:DROP]",
    help="Beside the large neurons of this run file, after a drop or at its end. No NAME is needed.",
)
@click.option("--t-max", "t_max", type=float, help="Flow time at which to stop; default after the last event.")
@click.option("--neuron", "neurons", type=click.IntRange(0), multiple=True, help="List its events too; repeatable.")
@output_options
def align(
    name: str | None,
    at: str | None,
    t_max: float | None,
    neurons: tuple[int, ...],
    output: str | None,
    picture: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """The dormant phase of the ReLU problem NAME alone, exact and event by event: where each neuron ends, and when."""
    run = None if at is None else split(at)
    out = Output(
        output, picture, as_json, quiet, [options["data"], options["init_file"], None if run is None else run[0]]
    )
    problem, theta, moment = requested_at(name, {key: options[key] for key in arguments.STARTED}, run, out)
    start = {key: options[key] for key in ("alpha", "seed", "kind")}
    init = arguments.initialization(problem, **start, file=options["init_file"])
    if run is not None:
        beside = f"of {init.width} new neurons of {problem.name}, drawn now, beside {moment}"
        out.table = lambda result: replace(result.table(), title=f"Dormant phase {beside}, residual frozen")
    with out.report.progress("dormant phase"):
        result = agf.align(problem, init, theta, **given(t_max=t_max))
    code = out.finish(lambda: result)
    for neuron in neurons:
        out.report.table(_timeline(result, neuron))
    return code


def _timeline(result: DormantPhase, neuron: int) -> Table:
    events = result.events(neuron)
    rows = [[f"{time:.9g}", kind, "-" if sample < 0 else str(sample)] for time, kind, sample in events]
    note = f"It {result.fate[neuron]}." if result.fate[neuron] == "aligns" else f"It is {result.fate[neuron]}."
    return Table(f"Events of neuron {neuron}", ["flow time", "event", "sample"], rows, [note])
