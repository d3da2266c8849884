"""Commands that look at saved runs: show, plot."""

from __future__ import annotations

from typing import Any

import click

from agf.errors import RequestError, explain
from agf.loading.runs import load, training, trajectory
from agf.records import files
from agf.rectified.dormant_phase import DormantPhase
from agf.results.landscape import Landscape
from agf.results.rewinding import Rewinding
from agf.results.trajectory import Trajectory
from agf.shell.console import reporter
from agf.shell.main import DONE
from agf.shell.output import print_json


@click.command()
@click.argument("run")
@click.option("--csv", "csv", metavar="FILE", help="Write drops, or a curve, as csv to FILE.")
@click.option("--snapshots", is_flag=True, help="With --csv: norms and features of a trajectory instead of its curve.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
def show(run: str, csv: str | None, snapshots: bool, as_json: bool) -> int:
    """Show the run file RUN as a table."""
    if csv is not None:
        files.check_distinct(csv, [run])
        files.check_writable(csv)
        files.check_format(csv, ".csv")
    elif snapshots:
        raise RequestError(explain("--snapshots says what --csv writes.", remedy="Add --csv FILE."))
    result = load(run)
    if csv is not None and isinstance(result, Landscape | DormantPhase | Rewinding):
        raise RequestError(explain(f"{run!r} holds no drops and no curve.", remedy="Use --json."))
    if as_json:
        print_json(result.to_dict())
    report = reporter()
    report.table(result.table())
    if csv is None or isinstance(result, Landscape | DormantPhase | Rewinding):
        return DONE
    if snapshots:
        trajectory(run).to_csv(csv, snapshots=True)
    else:
        result.to_csv(csv)
    report.say(f"Wrote {csv}.")
    return DONE


VIEWS = ("loss", "band", "norms", "features", "charges", "utilities", "race", "groups", "alignment", "signs")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("-o", "--output", "--plot", "picture", metavar="FILE", required=True, help="Picture; format by suffix.")
@click.option("--view", type=click.Choice(VIEWS), default="loss", show_default=True, help="What to draw over time.")
@click.option("--feature", metavar="NAME", help="Which feature, with --view features; default the first vector.")
def plot(runs: tuple[str, ...], picture: str, view: str, feature: str | None) -> int:
    """Draw the run files RUN... into one picture.

    Several runs share the axes of the loss, and are summed up by median and 5-95 % in a band; the other views, of
    norms, features, charges and utilities over time, and of races (norms by group, what the groups hold, alignment),
    draw one run. A landscape, a dormant phase or the cycles of `agf rewind` are drawn alone, as they are.
    """
    import agf.plot

    agf.plot.check_path(picture)
    files.check_distinct(picture, runs)
    if len(runs) == 1 and view == "loss" and feature is None:
        found = load(runs[0])
        if isinstance(found, Landscape | DormantPhase | Rewinding):
            found.plot(picture)
            reporter().say(f"Wrote {picture}.")
            return DONE
    results = [training(run) for run in runs]
    if feature is not None and view != "features":
        raise RequestError(explain("--feature names what --view features draws.", remedy="Add --view features."))
    if view == "loss":
        axes = agf.plot.overlay(results)
    elif view == "band":
        axes = agf.plot.bands(results)
    elif len(results) > 1:
        raise RequestError(explain(f"--view {view} draws one run.", found=f"{len(results)} runs"))
    else:
        axes = _view(results[0], view, feature, runs[0])
    agf.plot.save(axes, picture)
    reporter().say(f"Wrote {picture}.")
    return DONE


def _view(result: Any, view: str, feature: str | None, run: str) -> Any:
    import agf.plot

    result = getattr(result, "trajectory", result)
    if view == "features":
        return agf.plot.features(result, feature)
    if view == "charges":
        return agf.plot.charges(result)
    if view == "utilities":
        return agf.plot.utilities(result)
    if view in ("race", "groups", "alignment"):
        from agf.capacity.race_pictures import aligned, holdings, race

        return {"race": race, "groups": holdings, "alignment": aligned}[view](result)
    if view == "signs" and isinstance(result, Trajectory):
        from agf.pictures.signs import signs

        return signs(result)
    if not isinstance(result, Trajectory):
        raise RequestError(explain("norms over time are recorded by training.", where=run, expected="a trajectory"))
    return agf.plot.neurons(result)
