"""Commands on masks and signs: flips of a saved training run, and pipelines of pruning and restarts."""

from __future__ import annotations

from typing import Any

import click

from agf import registry
from agf.errors import RequestError, explain
from agf.loading.runs import load, trajectory
from agf.records import files
from agf.results.flips import KINDS
from agf.results.rewinding import Rewinding
from agf.rewinding.pruning import PRUNABLE, SCORES
from agf.rewinding.rewind import BUDGETS, METHODS
from agf.rewinding.rewind import rewind as rewound
from agf.shell import arguments
from agf.shell.console import reporter
from agf.shell.main import DONE
from agf.shell.options import data_options, descent_options, given, init_options
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
    found = curve.flips(kind, registry.rebuilt(curve.problem, curve.arguments, problem))
    reporter(quiet).table(found.table())
    if as_json:
        print_json(found.to_dict())
    return DONE


@click.command()
@click.argument("name")
@data_options
@init_options
@click.option("--method", type=click.Choice(METHODS), default="imp", show_default=True, help="Where cycles restart.")
@click.option("--cycles", type=click.IntRange(0), default=8, show_default=True, help="Cycles after the dense one.")
@click.option("--keep", type=float, default=0.8, show_default=True, help="Fraction of the weights kept a cycle.")
@click.option("--rewind", "moment", type=float, default=0.0, help="Flow time that wr goes back to.")
@click.option("--by", type=click.Choice(SCORES), default="magnitude", show_default=True, help="Score of what stays.")
@click.option("--prunable", type=click.Choice(PRUNABLE), default="all", show_default=True, help="What may be pruned.")
@click.option("--masks", metavar="RUN", help="Take the masks of this run of agf rewind.")
@click.option("--signs", metavar="RUN|own", help="Restart with the signs of this run, or with the learnt ones.")
@click.option("--flip", nargs=2, type=float, metavar="CYCLE FRACTION", help="Change signs at the start of a cycle.")
@click.option("--budget", type=click.Choice(BUDGETS), default="cycle", show_default=True, help="Training of a cycle.")
@click.option("--rebalance", is_flag=True, help="Scale output weights to the norm of input weights after masking.")
@descent_options
@click.option("--steps", type=click.IntRange(1), help="Gradient-descent steps a cycle; needs --lr.")
@click.option("--batch-size", type=click.IntRange(1), help="Samples in a minibatch; default all.")
@click.option("--t-max", type=float, help="Flow time of a cycle, without --lr.")
@click.option(
    "-o", "--output", metavar="RUN", help="Run file, written after every cycle; one that is there is resumed."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def rewind(
    name: str,
    method: str,
    cycles: int,
    keep: float,
    moment: float,
    by: str,
    prunable: str,
    masks: str | None,
    signs: str | None,
    flip: tuple[float, float] | None,
    budget: str,
    rebalance: bool,
    output: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Train the problem NAME, prune it, restart, over and over: imp, wr (weight) or lrr (learning-rate rewinding)."""
    files.check_distinct(output, [masks, None if signs == "own" else signs])
    requested = arguments.problem(name, **{key: options[key] for key in arguments.STARTED}).problem
    start = arguments.initialization(
        requested, alpha=options["alpha"], seed=options["seed"], kind=options["kind"], file=options["init_file"]
    )
    training = given(**{key: options[key] for key in ("lr", "momentum", "steps", "batch_size", "t_max")})
    if "t_max" in training and len(training) > 1:
        raise RequestError(explain("--t-max is for gradient flow, and --lr and --steps replace it."))
    if ("lr" in training) != ("steps" in training):
        raise RequestError(explain("gradient descent needs --lr and --steps."))
    found = rewound(
        requested, start, method=method, cycles=cycles, keep=keep, rewind=moment, by=by, prunable=prunable,
        masks=None if masks is None else _cycles(masks),
        signs=signs if signs in (None, "own") else _cycles(str(signs)),
        flip=None if not flip else (int(flip[0]), flip[1]), budget=budget, rebalance=rebalance, train=training,
        seed=0 if options["seed"] is None else options["seed"], path=output,
    )  # fmt: skip
    teller = reporter(quiet)
    teller.table(found.table())
    if output is not None:
        teller.say(f"Wrote {output}.")
    if as_json:
        print_json(found.to_dict())
    return DONE


def _cycles(path: str) -> Rewinding:
    found = load(path)
    if not isinstance(found, Rewinding):
        raise RequestError(explain(f"{path!r} holds no cycles.", expected="a run file of agf rewind"))
    return found
