"""Commands on capacity: groups of neurons in a saved training run, and smaller networks made from it."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from agf.capacity.compress import PRUNE_BY, RULES, Compressed
from agf.capacity.compress import merge as merged
from agf.capacity.compress import prune as pruned
from agf.capacity.groups import BY, problem_of
from agf.capacity.groups import groups as found_groups
from agf.loading.runs import load, trajectory
from agf.records import files
from agf.results.comparison import Comparison
from agf.results.trajectory import Trajectory
from agf.shell.console import reporter
from agf.shell.main import DONE
from agf.shell.output import print_json


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
    found = found_groups(source, at=at, cosine=cosine, by=by, problem=problem_of(curve, problem))
    reporter(quiet).table(found.table())
    if as_json:
        print_json(found.to_dict())
    return DONE


_compressing = (
    click.option(
        "--problem", metavar="FILE", help="Where the problem of RUN is, when it is in a file (./mine.py:Mine)."
    ),
    click.option("-o", "--output", metavar="FILE", help="Weights to write (npz, array theta), for --init."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output."),
    click.option("--quiet", is_flag=True, help="Print nothing for people but errors."),
)


def _options(command: Any) -> Any:
    for option in reversed(_compressing):
        command = option(command)
    return command


@click.command()
@click.argument("run")
@click.option("--cosine", type=float, default=0.999, show_default=True, help="Smallest cosine inside a cluster.")
@click.option("--rule", type=click.Choice(RULES), default="total", show_default=True, help="What must be parallel.")
@_options
def merge(
    run: str, cosine: float, rule: str, problem: str | None, output: str | None, as_json: bool, quiet: bool
) -> int:
    """Merge neurons of one direction at the end of the training run RUN: exact where they are duplicates."""
    curve = _open(run, output)
    return _finish(merged(problem_of(curve, problem), curve, cosine=cosine, rule=rule), output, as_json, quiet)


@click.command()
@click.argument("run")
@click.option("--keep", type=float, required=True, help="Number of neurons, or below 1 the fraction of them.")
@click.option("--by", type=click.Choice(PRUNE_BY), default="group", show_default=True, help="Who stays.")
@click.option("--seed", type=int, default=0, help="For --by random.")
@click.option("--train", type=float, metavar="TIME", help="Flow time to train on for.")
@_options
def prune(
    run: str,
    keep: float,
    by: str,
    seed: int,
    train: float | None,
    problem: str | None,
    output: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Keep some neurons at the end of the training run RUN, and say what it costs."""
    curve = _open(run, output)
    return _finish(
        pruned(problem_of(curve, problem), curve, keep, by=by, seed=seed, train=train), output, as_json, quiet
    )


def _open(run: str, output: str | None) -> Trajectory:
    if output is not None:
        files.check_distinct(output, [run])
        files.check_run(output)
    return trajectory(run)


def _finish(found: Compressed, output: str | None, as_json: bool, quiet: bool) -> int:
    teller = reporter(quiet)
    teller.table(found.table())
    if output is not None:
        with files.atomic(output) as handle:
            np.savez(handle, theta=found.theta)
        teller.say(f"Wrote {output}.")
    if as_json:
        print_json(found.to_dict())
    return DONE
