"""The command figure."""

from __future__ import annotations

import time
from pathlib import Path

import click

from agf.errors import FileError, explain
from agf.figures import FIGURES, make
from agf.shell import signals
from agf.shell.console import reporter
from agf.shell.main import DONE
from agf.shell.output import print_json


@click.command()
@click.argument("name", type=click.Choice([*FIGURES, "all"]))
@click.option("-o", "--output", "folder", default="figures", metavar="DIR", help="Folder to write to; default figures.")
@click.option("--data", metavar="DIR", help="For fig7: a folder with CIFAR-10, drawn in a second row.")
@click.option("--fast", is_flag=True, help="Smaller versions, about a minute for all of them.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def figure(name: str, folder: str, data: str | None, fast: bool, as_json: bool, quiet: bool) -> int:
    """Compute and draw an experiment of the paper: picture, data of each panel (npz) and numbers (json)."""
    report = reporter(quiet)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(explain(f"cannot make the folder {folder!r} ({error.strerror}).")) from None
    documents = []
    for each in FIGURES if name == "all" else [name]:
        began = time.perf_counter()
        with report.progress(f"{each}: {FIGURES[each][1]}"):
            drawn = make(each, fast, data if each == "fig7" or name != "all" else None)
        signals.stop_if_told()  # a picture of half a training would be another one
        written = drawn.save(folder)
        report.table(drawn.table())
        report.say(f"{each}: {time.perf_counter() - began:.1f} s. Wrote {', '.join(map(str, written))}.")
        documents.append(drawn.numbers())
    if as_json:
        print_json(documents if name == "all" else documents[0])
    return DONE
