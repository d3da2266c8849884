"""Commands on many runs: sweep, summarize."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from agf import datasets, plot, registry
from agf import graph as saddle_graph
from agf.arrays import parsed
from agf.errors import RequestError, explain
from agf.records import files
from agf.records.table import counted
from agf.shell.arguments import complete, data_arguments, parameters, parse, typed, width_name
from agf.shell.console import Silent, reporter
from agf.shell.main import DONE, FAILED
from agf.shell.output import print_json
from agf.summary import Summary, summarize
from agf.sweeping.plan import MOST, marked
from agf.sweeping.sweep import Observer, Plan, Sweep, reopen, run


def values(text: str, kind: str = "") -> list[Any]:
    """The values of an axis: "1e-2,1e-4", "natural,unit", or a range of integers "0:50" or "0:50:5" (end excluded).

    Raises RequestError for an empty or unreadable range.
    """
    bounds = text.split(":")
    if 2 <= len(bounds) <= 3:
        try:
            span = range(*(typed(bound, "int") for bound in bounds))
        except ValueError:
            raise RequestError(
                explain(f"cannot read the range {text!r}.", expected="START:STOP or START:STOP:STEP")
            ) from None
        if not span:
            raise RequestError(explain(f"the range {text!r} is empty.", expected="START:STOP, STOP excluded"))
        if (span[-1] - span[0]) // span.step >= MOST:
            raise RequestError(explain(f"the range {text!r} is too long.", expected=f"at most {MOST:,} values"))
        return list(span)
    if not text.strip(","):
        raise RequestError(explain("a range is empty.", found=repr(text)))
    try:
        return [typed(word.strip(), kind) for word in text.split(",")]
    except ValueError as error:
        remedy = "List them, as in 0,1,2,3, or give a range, as in 0:4." if kind == "int" else ""
        raise RequestError(explain(f"cannot read {text!r}.", expected=str(error), remedy=remedy)) from None


@click.command()
@click.argument("name")
@click.option("-o", "--output", "folder", required=True, metavar="DIR", help="Folder of the sweep; made when absent.")
@click.option("--alpha", metavar="LIST", help="Scales, as in 1e-2,1e-4,1e-8.")
@click.option("--seed", metavar="RANGE", help="Seeds, as in 0:50 (50 excluded) or 1,2,5; default 0.")
@click.option("-p", "pairs", metavar="KEY=LIST", multiple=True, help="A problem parameter, as in width=10,20.")
@click.option("--mode", metavar="LIST", help="Kinds of prediction.")
@click.option("--threshold", metavar="LIST", help="Threshold rules, as in natural,unit.")
@click.option("--settle", metavar="LIST", help="Rules for where active neurons stop.")
@click.option("--horizon", metavar="LIST", help="Multiples of the time to the next activation.")
@click.option("--joining", metavar="LIST", help="Fractions of that norm at which a neuron is resolved.")
@click.option("--rtol", metavar="LIST", help="Relative errors of one step of the prediction.")
@click.option("--tie-rtol", metavar="LIST", help="How close in time neurons are that activate together.")
@click.option("--max-drops", metavar="LIST", help="Numbers of drops after which to stop.")
@click.option(
    "--conditioning/--no-conditioning",
    default=None,
    help="Measure how much each time moves under a small change, by a second prediction; mode resolved does.",
)
@click.option("--max-gradients", metavar="LIST", help="Gradients after which a prediction is given up.")
@click.option("--kind", metavar="LIST", help="Kinds of initialization; `agf problems NAME` lists them.")
@click.option("--do", "actions", default="predict", metavar="LIST", help="Any of predict,train,compare.")
@click.option("--data", metavar="FILE", help=f"npz or csv file, or one of {', '.join(datasets.NAMED)}.")
@click.option("--target", metavar="COLUMN", help="The column of a csv file to predict.")
@click.option("--standardize", is_flag=True, help="Give columns and target of a csv file mean 0, variance 1.")
@click.option("--width", metavar="LIST", help="Numbers of neurons, where the data do not fix it.")
@click.option("--init", metavar="LIST", help="Files of weights, as `agf predict --init` takes them, for --alpha.")
@click.option(
    "--t-max",
    "--max-time",
    "t_max",
    metavar="LIST",
    help="Flow time at which training stops, or where none is done, predictions.",
)
@click.option("--jobs", type=click.IntRange(1), default=1, help="Processes; default 1.")
@click.option("--dask", metavar="ADDRESS", help="Run on the Dask cluster with this scheduler.")
@click.option("--table", "table", metavar="FILE", help="Table to write; .csv or .parquet; default DIR/table.csv.")
@click.option("--no-files", is_flag=True, help="Write only the table, no run files.")
@click.option("--plot", "picture", metavar="FILE", help="Picture of the median staircases; pdf, svg, png, ...")
@click.option("--json", "as_json", is_flag=True, help="Print the table as one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def sweep(
    name: str,
    folder: str,
    alpha: str | None,
    seed: str | None,
    pairs: tuple[str, ...],
    actions: str,
    data: str | None,
    target: str | None,
    standardize: bool,
    width: str | None,
    init: str | None,
    t_max: str | None,
    conditioning: bool | None,
    jobs: int,
    dask: str | None,
    table: str | None,
    no_files: bool,
    picture: str | None,
    as_json: bool,
    quiet: bool,
    **rules: str | None,
) -> int:
    """Run the product of settings of the problem NAME, resuming what DIR already has.

    Any number of processes may work in DIR at once; a killed sweep goes on where it stopped.
    """
    cls = registry.find(name)
    if width is not None:
        known = {parameter.name: parameter for parameter in parameters(cls)}
        pairs = (*pairs, f"{width_name(cls, known)}={width}")
    arguments, axes = _parameters(cls, pairs)
    axes.update({rule: values(text) for rule, text in rules.items() if text is not None})
    axes.update({} if conditioning is None else {"conditioning": [conditioning]})
    arguments.update(_data(cls, data, target, standardize, {**arguments, **axes}))
    do = tuple(actions.split(","))
    plan = _plan(name, arguments, axes, _starts(alpha, seed, init), do, t_max, keep_files=not no_files)
    report = reporter(quiet)
    named = Path(table or Path(folder) / "table.csv")
    path, root = named.absolute(), Path(folder).absolute()  # whoever changes the folder later
    if picture is not None:
        if not {"predict", "compare"} & set(do):
            raise RequestError(explain("the picture shows predictions.", where="--plot", expected="--do predict"))
        plot.check_path(picture)
        files.check_distinct(picture, [str(path), data])
    drawn = None if picture is None else Path(picture).absolute()
    if path.suffix not in (".csv", ".parquet"):
        raise RequestError(explain(f"unknown table format {path.name!r}.", expected="a .csv or .parquet name"))
    if idle := plan.idle_seeds():
        report.say(f"note: {idle}")
    try:
        with _progress(quiet) as observer:
            result = run(plan, root, jobs=jobs, dask=dask, observer=observer)
    except KeyboardInterrupt:
        total = len(plan.runs())
        left = Sweep(root, plan).missing()
        report.say(f"{total - left} of {total} runs are finished and kept in {folder}; the same command does the rest.")
        raise
    result.write_table(path)
    failures = result.failures()
    report.say(f"{counted(len(plan.runs()), 'run')}, {len(failures)} failed. Wrote {named}.")
    _tell(failures, report)
    if as_json:
        print_json({"problem": plan.problem, "failed": len(failures), "rows": list(result.table())})
    if drawn is not None:
        plot.save(summarize(result).draw(), drawn)
        report.say(f"Wrote {picture}.")
    return FAILED if failures else DONE


def _plan(
    name: str,
    arguments: dict[str, Any],
    axes: dict[str, list[Any]],
    starts: tuple[dict[str, list[Any]], ...],
    do: tuple[str, ...],
    t_max: str | None,
    keep_files: bool,
) -> Plan:
    """What is run: the axes of the start first and those of seeds last; training stops at one time."""
    times = [] if t_max is None else _numbers(t_max, "--t-max")
    trained = {"train", "compare"} & set(do)
    if trained and len(times) > 1:
        raise RequestError(explain("training stops at one time.", where="--t-max", found=t_max))
    first, seeds = starts
    return Plan(
        problem=name,
        axes={**first, **axes, **({"t_max": times} if times and not trained else {}), **seeds},
        arguments=arguments,
        do=do,
        flow={"t_max": times[0]} if times and trained else {},
        keep_files=keep_files,
    )


def _tell(failures: list[tuple[dict[str, Any], str]], report: Silent) -> None:
    """The first runs that failed, and why."""
    for settings, message in failures[:5]:
        report.say(f"  failed: {', '.join(f'{k}={v}' for k, v in settings.items())}: {message}")
    if len(failures) > 5:
        report.say(f"  and {len(failures) - 5} more, in the column `error` of the table.")


def _starts(alpha: str | None, seed: str | None, init: str | None) -> tuple[dict[str, list[Any]], ...]:
    """The axes of the start, scales or files of weights, and of the seeds, which vary fastest."""
    if init is not None:
        if alpha is not None or seed is not None:
            option = "--alpha" if alpha is not None else "--seed"
            words = f"{option} describes a random start, and --init gives the weights."
            raise RequestError(explain(words, remedy="Drop one."))
        return {"init": [marked(str(path)) for path in values(init)]}, {}
    if alpha is None:
        raise RequestError(explain("no alpha given.", where="sweep", remedy="For example --alpha 1e-2,1e-4."))
    seeds = values("0" if seed is None else seed, "int")
    return {"alpha": _numbers(alpha, "--alpha")}, {"seed": seeds}


def _numbers(text: str, where: str) -> list[float]:
    """Numbers one by one: a range has no step that would be meant."""
    found = [parsed(word) for word in text.split(",")]
    if None in found:
        expected = "numbers one by one, as in 1e-2,1e-4,1e-8"
        raise RequestError(explain(f"cannot read {text!r}.", where=where, expected=expected))
    return [number for number in found if number is not None]


def _parameters(cls: Any, pairs: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Fixed arguments (one value) and axes (several) from KEY=LIST words."""
    known = {parameter.name: parameter for parameter in parameters(cls)}
    fixed: dict[str, Any] = {}
    axes: dict[str, list[Any]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key not in known:
            raise RequestError(
                explain(f"unknown parameter {pair!r}.", where=f"problem {cls.name!r}",
                        expected="KEY=LIST with KEY one of " + ", ".join(known))
            )  # fmt: skip
        if key in fixed or key in axes:
            raise RequestError(explain(f"parameter `{key}` is given twice.", where=f"problem {cls.name!r}"))
        if text[:1] in "[{":  # one JSON value
            fixed.update(parse(cls, [pair]))
            continue
        found = values(text, known[key].kind)
        if len(found) > 1:
            axes[key] = found
        else:
            fixed[key] = found[0]
    return fixed, axes


def _data(cls: Any, data: str | None, target: str | None, standardize: bool, given: dict[str, Any]) -> dict[str, Any]:
    """The data arguments: from the file or set, or the problem's own example for what was not given."""
    if data is not None:
        return data_arguments(cls, data, target, given, standardize)[0]
    if complete(cls, {parameter.name: parameter for parameter in parameters(cls)}, given):
        return {}
    return {key: value for key, value in cls.example().items() if key not in given}


class _progress:
    """Progress with rate and time left on a terminal, nothing elsewhere."""

    def __init__(self, quiet: bool) -> None:
        self.shown = sys.stderr.isatty() and not quiet

    def __enter__(self) -> Observer | None:
        if not self.shown:
            return None
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("sweep"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(), TextColumn("{task.fields[failed]}"), console=Console(stderr=True),
        )  # fmt: skip
        self.bar.start()
        task = self.bar.add_task("sweep", total=None, rate="", failed="")

        def observe(finished: int, total: int, failed: int) -> None:
            speed = self.bar.tasks[0].speed
            rate = "" if not speed else f"{speed:.2g} runs/s"
            words = f"{failed} failed" if failed else ""
            self.bar.update(task, completed=finished, total=total, rate=rate, failed=words)

        return observe

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self.bar.stop()


@click.command(name="summarize")
@click.argument("folder")
@click.option("--plot", "picture", metavar="FILE", help="Picture of the median staircases; pdf, svg, png, ...")
@click.option("--errors", metavar="FILE", help="Picture of the errors of the jump times against alpha.")
@click.option("--graph", "graph", metavar="FILE", help="Merged saddle graph: .graphml or .dot, or a picture.")
@click.option("--json", "as_json", is_flag=True, help="Print the tables as one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def summary(folder: str, picture: str | None, errors: str | None, graph: str | None, as_json: bool, quiet: bool) -> int:
    """Statistics of the sweep in FOLDER: times, levels, orders, agreement with the flow, convergence in alpha."""
    found = summarize(reopen(folder))
    for path in (picture, errors, graph):
        if path is not None:
            files.check_writable(path)
    report = reporter(quiet)
    for table in found.tables():
        report.table(table)
    for path, draw in ((picture, found.draw), (errors, found.draw_errors)):
        if path is not None:
            plot.save(draw(), path)
            report.say(f"Wrote {path}.")
    if graph is not None:
        _write_graph(found, graph)
        report.say(f"Wrote {graph}.")
    if as_json:
        print_json(found.to_dict())
    return DONE


def _write_graph(found: Summary, path: str) -> None:
    merged = found.graph()
    if path.endswith((".graphml", ".dot")):
        saddle_graph.write(merged, path)
    else:
        plot.save(saddle_graph.draw(merged), path)
