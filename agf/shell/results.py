"""Commands on saved runs: graph, report, diff, rerun."""

from __future__ import annotations

import os

import click

from agf.loading.runs import prediction, training
from agf.records import files
from agf.results.comparison import Comparison
from agf.shell import signals
from agf.shell.console import reporter
from agf.shell.main import DONE, FAILED
from agf.shell.output import print_json
from agf.shell.progress import Watcher


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="Export: .graphml or .dot, or a picture (pdf, svg, png, ...).")
@click.option("--json", "as_json", is_flag=True, help="Print the graph as one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def graph(runs: tuple[str, ...], output: str | None, as_json: bool, quiet: bool) -> int:
    """The saddles that the predictions RUNS visited, merged into one transition graph."""
    import networkx as nx

    from agf import graph as saddle_graph
    from agf import plot

    if output is not None:
        files.check_writable(output)
        files.check_distinct(output, runs)
    found = saddle_graph.saddles([prediction(path) for path in runs])
    report = reporter(quiet)
    report.table(saddle_graph.table(found))
    if output is not None and output.endswith((".graphml", ".dot")):
        saddle_graph.write(found, output)
    elif output is not None:
        plot.save(saddle_graph.draw(found), output)
    if output is not None:
        report.say(f"Wrote {output}.")
    if as_json:
        print_json(nx.node_link_data(found, edges="edges"))
    return DONE


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option("-o", "--output", default="report.html", metavar="FILE", help="Page to write; default report.html.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def report(runs: tuple[str, ...], output: str, quiet: bool) -> int:
    """One self-contained interactive page about RUNS: curve, staircase, norms, features, drops."""
    from agf.page import report as page

    files.check_distinct(output, runs)
    files.check_writable(output)
    files.check_format(output, ".html")
    size = page.report([training(path) for path in runs], output)
    reporter(quiet).say(f"Wrote {output} ({size / 1e6:.1f} MB, opens without a network).")
    return DONE


@click.command()
@click.argument("first")
@click.argument("second")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def diff(first: str, second: str, as_json: bool, quiet: bool) -> int:
    """Say what differs between two runs, in what was requested and in what came out. Exit code 1 if anything."""
    from agf.shell.rerun import differences

    found = differences(first, second)
    reporter(quiet).say(str(found))
    if as_json:
        print_json({"requested": list(found.requested), "numbers": list(found.numbers)})
    return FAILED if found else DONE


@click.command()
@click.argument("run")
@click.option("-o", "--output", metavar="RUN", help="Run file to write.")
@click.option("--problem", metavar="FILE", help="Where the problem of RUN is, when it is in a file (./mine.py:Mine).")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def rerun(run: str, output: str | None, problem: str | None, quiet: bool) -> int:
    """Compute RUN again from its file alone, and say whether the numbers are the same. Exit code 1 if not."""
    from agf.shell.rerun import from_elsewhere, numbers, rerun

    if output is not None:
        files.check_distinct(output, [run])
        files.check_run(output)
    target = None if output is None else os.path.abspath(output)
    before = training(run)
    teller = reporter(quiet)
    with teller.progress("computing again") as update:
        again = rerun(run, problem=problem, observer=Watcher("computing again", update))
    signals.stop_if_told()
    if target is not None:
        again.save(target)
        teller.say(f"Wrote {output}.")
    if isinstance(again, Comparison) and from_elsewhere(again.trajectory):
        teller.say("The curve was trained elsewhere and is taken as it is; the prediction was computed again.")
    changed = numbers(before, again)
    teller.say("The same numbers." if not changed else "The numbers differ:\n  " + "\n  ".join(changed))
    return FAILED if changed else DONE
