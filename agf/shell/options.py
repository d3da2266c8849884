"""Options that several commands share, as decorators; each command reads them as keyword arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from agf import datasets
from agf.records.settings import MODES, SETTLES, THRESHOLDS
from agf.shell.arguments import DEFAULT_ALPHA, DEFAULT_ALPHA_HIGHER

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Function], Function]


def _group(*options: Decorator[Any]) -> Decorator[Any]:
    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def dashed(option: str) -> str:
    """An option as people write it."""
    return {"pairs": "-p", "init_file": "--init"}.get(option, "--" + option.replace("_", "-"))


data_options = _group(
    click.option("--data", metavar="FILE", help=f"npz or csv file, or one of {', '.join(datasets.NAMED)}."),
    click.option("--target", metavar="COLUMN", help="The column of a csv file to predict."),
    click.option(
        "--standardize", is_flag=True, default=None, help="Give columns and target of a csv file mean 0, variance 1."
    ),
    click.option(
        "-p", "pairs", metavar="KEY=VALUE", multiple=True, help="A parameter listed by `agf problems NAME`; repeatable."
    ),
    click.option("--width", type=int, metavar="H", help="Number of neurons, where the data do not fix it."),
)

init_options = _group(
    click.option(
        "--alpha",
        type=float,
        help=f"Initialization scale; default {DEFAULT_ALPHA:g}, {DEFAULT_ALPHA_HIGHER:g} for degree 3 and more.",
    ),
    click.option("--seed", type=int, help="Seed of the initialization, and of minibatches; default 0."),
    click.option("--kind", help="Kind of initialization; `agf problems NAME` lists them."),
    click.option("--init", "init_file", metavar="FILE", help="Weights: npz with array `theta`, or .pt of torch."),
)

prediction_options = _group(
    click.option(
        "--mode",
        type=click.Choice(MODES),
        help="Kind of prediction; default auto: agf (Algorithm 1) where it holds, else resolved.",
    ),
    click.option(
        "--threshold",
        type=click.Choice(THRESHOLDS),
        help="Norm at which a neuron activates: natural (default), from the data; or unit, 1.",
    ),
    click.option(
        "--settle",
        type=click.Choice(SETTLES),
        help="How long active neurons move: until the next one joins (horizon, default), or to rest.",
    ),
    click.option("--horizon", type=float, help="Multiple of the time to the next activation; with --settle horizon."),
    click.option("--joining", type=float, help="Fraction of that norm at which a neuron is resolved; default 0.03."),
    click.option("--tie-rtol", type=float, help="Neurons this close in time activate together; default 1e-9."),
    click.option("--max-drops", type=click.IntRange(0), help="Stop after so many drops; default all."),
    click.option(
        "--conditioning/--no-conditioning",
        default=None,
        help="Measure how much each time moves under a small change, by a second prediction; mode resolved does.",
    ),
)

flow_options = _group(
    click.option(
        "--t-max", type=float, help="Flow time (learning rate x steps) at which to stop; default when settled."
    ),
    click.option("--method", help="Integrator: auto (default), rk45 or rkc2."),
    click.option(
        "--rtol",
        type=float,
        help="Relative error of one step of the integrator; default 1e-6, at rounded kinks 1e-4, sharp 1e-8.",
    ),
    click.option("--max-steps", type=click.IntRange(1), help="Integrator steps at most; default 100,000."),
    click.option("--max-gradients", type=float, help="Gradients at most; default 2,000,000, predicting 1,000,000."),
)

descent_options = _group(
    click.option("--lr", type=float, help="Learning rate of gradient descent."),
    click.option("--momentum", type=float, help="Momentum, in [0, 1); default 0."),
)

output_options = _group(
    click.option("-o", "--output", metavar="RUN", help="Run file to write (npz)."),
    click.option("--plot", "picture", metavar="FILE", help="Picture to write; pdf, svg, png, ... by suffix."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output."),
    click.option("--quiet", is_flag=True, help="Print nothing for people but errors."),
)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given, so that defaults live in one place, the function that takes them."""
    return {name: value for name, value in options.items() if value is not None}
