"""Commands that compute: predict, train, compare."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import agf
from agf import registry
from agf.algorithm.prediction import predict_with
from agf.contract.blame import guard
from agf.contract.problem import Problem
from agf.errors import ComputationError, FileError, ProblemError, RequestError, explain
from agf.init import Init
from agf.records import files
from agf.records.checkpoint import Checkpoint
from agf.records.settings import Settings
from agf.records.status import Status
from agf.records.table import visible
from agf.results.staircase import Staircase
from agf.shell import arguments
from agf.shell.console import Silent
from agf.shell.options import (
    dashed,
    data_options,
    descent_options,
    flow_options,
    given,
    init_options,
    output_options,
    prediction_options,
)
from agf.shell.output import Output
from agf.shell.progress import Watcher, foretold

if TYPE_CHECKING:
    from agf.results.trajectory import Trajectory

_DATA = ("data", "target", "standardize", "pairs", "width")
_INIT = ("alpha", "seed", "kind", "init_file")
_SETTINGS = (
    "mode",
    "threshold",
    "settle",
    "horizon",
    "joining",
    "tie_rtol",
    "conditioning",
    "max_drops",
    "max_gradients",
)
_FLOW = ("t_max", "method", "rtol", "max_steps", "max_gradients")
_DESCENT = ("lr", "steps", "momentum", "batch_size", "frozen")


@click.command()
@click.argument("name")
@data_options
@init_options
@prediction_options
@click.option("--t-max", "--max-time", "t_max", type=float, help="Flow time at which to stop; default none.")
@click.option("--rtol", type=float, help="Relative error of one step; default 1e-6.")
@click.option("--max-gradients", type=float, help="Gradients after which it is given up; default a million.")
@output_options
def predict(
    name: str,
    output: str | None,
    picture: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Predict the staircase of losses of the problem NAME, or of a problem in a file (./mine.py:Mine)."""
    out = Output(output, picture, as_json, quiet, _read(name, options))
    settings = _settings(options, "t_max", "rtol")
    problem, init = _problem_and_init(name, options, out.report)
    return out.finish(lambda: _predict(problem, init, settings, out))


@click.command()
@click.argument("name")
@data_options
@init_options
@flow_options
@descent_options
@click.option("--steps", type=click.IntRange(1), help="Gradient-descent steps; needs --lr.")
@click.option("--batch-size", type=click.IntRange(1), help="Samples in a minibatch; default all.")
@click.option(
    "--frozen", metavar="LIST", help="Columns of theta that descent does not train, as in 0,1 or -1, the last."
)
@click.option("--settle", type=float, help="A flow is over where this fraction of the loss is left; default 1e-4.")
@click.option("--snapshots", type=click.IntRange(2), help="Snapshots of norms and features kept; default 200.")
@click.option(
    "--resume", metavar="RUN", help="Go on with this run of the same problem: its data, weights and settings."
)
@click.option(
    "--checkpoint",
    metavar="RUN",
    help="Run file written while training, for --resume after a crash; that of -o by default.",
)
@output_options
def train(
    name: str,
    resume: str | None,
    checkpoint: str | None,
    frozen: str | None,
    snapshots: int | None,
    output: str | None,
    picture: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Train the problem NAME: gradient flow by default, gradient descent with --lr and --steps."""
    out = Output(output, picture, as_json, quiet, _read(name, options))
    files.check_distinct(checkpoint, _read(name, options))
    options["frozen"] = None if frozen is None else _columns(frozen)
    descent, flow = _choice(options, _DESCENT), _choice(options, (*_FLOW, "settle"))
    if descent and flow:
        raise RequestError(
            explain(
                "options of gradient flow and of gradient descent are mixed.",
                found=", ".join(dashed(option) for option in (*flow, *descent)),
            )
        )
    if resume is not None:
        problem, init, before = _resumed(name, resume, options)
        if "lr" in before.settings:
            if flow or descent.keys() - {"steps"}:
                raise RequestError(
                    explain(f"{resume!r} has its own settings.", expected="only --steps, their new total")
                )
            descent = {**before.settings, **descent, "resume": before}
        elif descent:
            raise RequestError(explain(f"{resume!r} is a gradient flow.", remedy="Leave the options of descent out."))
        else:
            bounds = ("t_max", "max_steps", "max_gradients")  # what ended it need not end it again
            flow = {**{k: v for k, v in before.settings.items() if k not in bounds}, **flow, "resume": before}
    else:
        if descent and not {"lr", "steps"} <= set(descent):
            raise RequestError(explain("gradient descent needs --lr and --steps."))
        problem, init = _problem_and_init(name, options, out.report)
        if descent and options["seed"] is not None:
            descent["seed"] = options["seed"]
    writer = Checkpoint(out.output if checkpoint is None else os.path.abspath(checkpoint))
    out.checkpoint = writer if checkpoint is None else None
    kept = {"checkpoint": writer, **given(snapshots=snapshots)}
    if descent:
        code = out.finish(lambda: _descent(problem, init, {**descent, **kept}, out.report))
    else:
        code = out.finish(lambda: _flow(problem, init, {**flow, **kept}, out.report))
    if checkpoint is not None:
        out.report.say(f"Wrote {checkpoint}.")
    return code


@click.command()
@click.argument("name", metavar="NAME|RUN")
@click.argument("second", metavar="[CURVE]", required=False)
@data_options
@init_options
@prediction_options
@flow_options
@click.option("--curve", metavar="FILE", help="Compare with this loss curve (csv), or trajectory (run file).")
@click.option(
    "--loss-scale", type=float, help="With --curve: its loss is so many times that of the problem (MSELoss: 2/outputs)."
)
@click.option("--repeat", is_flag=True, help="Train again at ten times the tolerance, to see which drops it repeats.")
@descent_options
@output_options
def compare(
    name: str,
    second: str | None,
    curve: str | None,
    repeat: bool,
    output: str | None,
    picture: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Predict, train from the same weights, and match the drops: times in flow time, errors relative.

    NAME is a problem, which is predicted and trained from the same initialization; or the run file of a prediction,
    with --curve. A csv curve has a column `loss` and a column `time` (flow time) or `step`, with --lr and --momentum.
    CURVE is short for --curve CURVE.
    """
    if second is not None and curve is not None:
        raise RequestError(explain("two curves are given.", found=f"{second} and --curve {curve}", expected="one"))
    curve = curve if second is None else second
    out = Output(output, picture, as_json, quiet, [*_read(name, options), curve])
    scales = _choice(options, ("lr", "momentum", "loss_scale"))
    flow = _choice(options, _FLOW)
    if curve is None and scales:
        raise RequestError(explain("--lr, --momentum and --loss-scale describe a curve.", remedy="Add --curve FILE."))
    flow = {} if curve is not None and flow.keys() == {"max_gradients"} else flow  # those of the prediction
    if curve is not None and flow:
        raise RequestError(
            explain(f"{', '.join(dashed(option) for option in flow)}: options of training, and --curve replaces it.")
        )
    if curve is not None and repeat:
        raise RequestError(explain("--repeat repeats the training, and --curve replaces it."))
    settings = _settings(options)
    if _is_run(name):
        stairs = _prediction(name, curve)
        _refuse_rebuilding(name, options)
        if curve is None:
            if files.read(name)[0] == "comparison":
                remedy = (
                    f"Print it with agf show {name}, or add --curve FILE to compare its prediction with another curve."
                )
                raise RequestError(explain(f"{name!r} holds a comparison already.", remedy=remedy))
            raise RequestError(explain(f"{name!r} holds a prediction.", remedy="Add --curve FILE to compare it with."))
        elsewhere = _curve(curve, stairs.problem, stairs.degree, scales)
        return out.finish(lambda: agf.compare(stairs, elsewhere))
    problem, init = _problem_and_init(name, options, out.report)
    read = None if curve is None else _curve(curve, problem.name, problem.degree, scales)

    def both() -> Any:
        out.kept = stairs = _predict(problem, init, settings, out)
        if stairs.status.failed or stairs.status is Status.INTERRUPTED:
            return stairs
        kept = Checkpoint(output, whole=lambda trajectory: agf.compare(stairs, trajectory))
        try:
            observed = _flow(problem, init, {**flow, "checkpoint": kept}, out.report) if read is None else read
        except (ComputationError, ProblemError) as error:  # the prediction is kept, with the curve up to there if any
            curve = getattr(error, "partial", None)
            raise ComputationError(str(error), stairs if curve is None else agf.compare(stairs, curve)) from error
        out.kept = agf.compare(stairs, observed)
        again = _again(problem, init, observed, out.report) if repeat else None
        if again is None or again.status is Status.INTERRUPTED:
            return out.kept
        return agf.compare(stairs, observed, repeat=again)

    return out.finish(both)


# -- parts of commands ------------------------------------------------------------------------------------------


def _choice(options: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Those of the options `names` that the command has and the user gave."""
    return given(**{name: options[name] for name in names if name in options})


def _read(name: str, options: dict[str, Any]) -> list[str | None]:
    """Files that a command reads: plugin or run, data, weights; `train --resume` may replace the run it continues."""
    return [name.rpartition(":")[0] if ".py:" in name else name, options["data"], options["init_file"]]


def _settings(options: dict[str, Any], *more: str) -> Settings:
    """Settings of the prediction; `more` are options that mean something else to some commands."""
    return Settings.of(_choice(options, (*_SETTINGS, *more)))


def _problem_and_init(name: str, options: dict[str, Any], report: Silent) -> tuple[Problem, Init]:
    requested = arguments.problem(name, **{key: options[key] for key in arguments.STARTED})
    alpha, seed, kind, file = (options[key] for key in _INIT)
    init = arguments.initialization(requested.problem, alpha=alpha, seed=seed, kind=kind, file=file)
    with guard(requested.problem):
        report.say(visible(requested.problem.describe()))
    for note in requested.notes:
        report.say(note)
    return requested.problem, init


def _predict(problem: Problem, init: Init, settings: Settings, out: Output) -> Staircase:
    with foretold(out.report.say), out.report.progress("predicting") as update:
        watcher = Watcher("predicting", update)
        return predict_with(problem, init, settings, watcher, out.output)


def _flow(problem: Problem, init: Init, options: dict[str, Any], report: Silent) -> Trajectory:
    from agf.training.gradient_flow import flow

    with foretold(report.say), report.progress("gradient flow") as update:
        return flow(problem, init, observer=Watcher("gradient flow", update), **options)


def _again(problem: Problem, init: Init, before: Trajectory, report: Silent) -> Trajectory:
    """The same flow to the same time at ten times the tolerance."""
    from agf.results.comparison import loosened
    from agf.training.gradient_flow import flow

    with report.progress("gradient flow again") as update:
        return flow(problem, init, observer=Watcher("gradient flow", update), **loosened(before))


def _descent(problem: Problem, init: Init, options: dict[str, Any], report: Silent) -> Trajectory:
    from agf.training.descent import descend

    with report.progress("gradient descent") as update:
        return descend(problem, init, observer=Watcher("gradient descent", update), **options)


# -- runs and curves --------------------------------------------------------------------------------------------


def _is_run(target: str) -> bool:
    """Whether `target` names a run file, there or not, and no problem; problems are registered names or end in .py."""
    if ".py" in target or target in registry.names():
        return False
    return Path(target).is_file() or target.endswith(".npz") or Path(target).name != target


def _refuse_rebuilding(target: str, options: dict[str, Any]) -> None:
    extra = [
        name
        for name, value in options.items()
        if value not in (None, ()) and name not in ("lr", "momentum", "loss_scale")
    ]
    if extra:
        raise RequestError(
            explain(f"{target!r} is a prediction already.", found=", ".join(dashed(name) for name in extra),
                    remedy="Leave these options out.")
        )  # fmt: skip


def _prediction(path: str, curve: str | None) -> Staircase:
    """The prediction in a run file, of which `curve` is no prediction instead."""
    from agf.loading import runs

    try:
        return runs.prediction(path)
    except (RequestError, FileError):
        if curve is None or not _holds_prediction(curve):
            raise
        remedy = f"agf compare {curve} --curve {path}"
        raise RequestError(explain("the prediction and the curve are exchanged.", remedy=remedy)) from None


def _holds_prediction(path: str) -> bool:
    return zipfile.is_zipfile(path) and files.read(path)[0] == "staircase"


def _columns(text: str) -> list[int]:
    """Columns of theta in a list, as in "0,1". Raises RequestError."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise RequestError(explain(f"cannot read the columns {text!r}.", expected="integers, as in 0,1")) from None


def _resumed(name: str, path: str, options: dict[str, Any]) -> tuple[Problem, Init, Trajectory]:
    """The problem of a saved trajectory, built again, where it started, and the trajectory."""
    from agf.loading.runs import load
    from agf.results.trajectory import Trajectory

    extra = _choice(options, (*_DATA, *_INIT))
    named = [dashed(name) for name, value in extra.items() if value != ()]
    if named:
        raise RequestError(
            explain("--resume takes data and initial weights from the run.", found=", ".join(named),
                    remedy="Leave these options out.")
        )  # fmt: skip
    before = load(path)
    if not isinstance(before, Trajectory) or before.init is None:
        raise RequestError(explain(f"{path!r} holds no training that could go on.", expected="a run of agf train"))
    cls = registry.find(name)
    if cls.name != before.problem:
        raise RequestError(explain(f"{path!r} is a run of {before.problem!r}.", expected=f"a run of {cls.name!r}"))
    return registry.build(cls, before.arguments), before.init, before


def _curve(path: str, problem: str, degree: int, scales: dict[str, Any]) -> Trajectory:
    """The trajectory of a run file, or the loss curve of a text file with its learning rate."""
    from agf.loading import runs
    from agf.results.trajectory import Trajectory

    if not zipfile.is_zipfile(path):
        return Trajectory.from_csv(path, problem=problem, degree=degree, **scales)
    if _holds_prediction(path):
        raise RequestError(
            explain(f"{path!r} holds no trajectory, but a prediction.", expected="a csv file, or a run "
                    "file of agf train or compare", remedy="Two predictions: agf diff RUN RUN.")
        )  # fmt: skip
    if scales:
        raise RequestError(
            explain(f"{path!r} is in flow time already.", remedy="Leave --lr, --momentum and --loss-scale out.")
        )
    return runs.trajectory(path)
