"""The command `agf`: finds the command asked for, imports only its module, and turns errors into exit codes.

Exit codes: 0 done; 1 the computation failed (what was computed is saved); 2 the request was wrong (nothing was
computed or written); 128 + the number of the signal that asked to stop (what was computed is saved): 130 Ctrl-C, 143
SIGTERM, 129 a terminal that hung up. People read standard error; standard output carries one JSON document with
`--json`, and help and version.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from agf import __version__
from agf.errors import ComputationError, RequestError
from agf.records.table import visible
from agf.shell import listeners, signals

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
#: Letters of an error message: some fifteen lines of a terminal.
_LONGEST = 1200
#: Letters of the longest command, so that all groups of the help have one margin.
_COLUMN = 9

#: Heading of the help -> command -> where it is defined, its line there, and an example of its use; nothing is imported
#: to list them.
GROUPS = {
    "Predict and train": {
        "predict": (
            "agf.shell.runs:predict",
            "Predict the staircase of losses of a problem.",
            "diagonal-linear --data sales.csv --target price --standardize --alpha 1e-8 -o run.npz",
        ),
        "train": (
            "agf.shell.runs:train",
            "Train by gradient flow, or by gradient descent with --lr and --steps.",
            "diagonal-linear --data diabetes --alpha 1e-8 -o flow.npz",
        ),
        "compare": (
            "agf.shell.runs:compare",
            "Predict, train from the same initialization, and match the drops.",
            "run.npz --curve curve.csv --lr 0.01 --momentum 0.9",
        ),
        "sweep": (
            "agf.shell.sweep:sweep",
            "Run the product of settings, resumable and shareable.",
            "relu --alpha 1e-2,1e-4,1e-6 --seed 0:20 --jobs 2 -o sweep",
        ),
        "summarize": (
            "agf.shell.sweep:summary",
            "Statistics of a sweep.",
            "sweep --errors errors.pdf",
        ),
    },
    "Saved runs": {
        "show": (
            "agf.shell.show:show",
            "Show a saved run.",
            "run.npz --csv drops.csv",
        ),
        "plot": (
            "agf.shell.show:plot",
            "Draw saved runs.",
            "flow.npz --view norms -o norms.pdf",
        ),
        "report": (
            "agf.shell.results:report",
            "One interactive page about saved runs.",
            "run.npz flow.npz -o report.html",
        ),
        "graph": (
            "agf.shell.results:graph",
            "The saddles visited by saved predictions, as one graph.",
            "run.npz other.npz -o saddles.pdf",
        ),
        "diff": (
            "agf.shell.results:diff",
            "Say what differs between two saved runs.",
            "run.npz other.npz",
        ),
        "rerun": (
            "agf.shell.results:rerun",
            "Compute a saved run again from its file alone.",
            "run.npz",
        ),
    },
    "Problems": {
        "problems": (
            "agf.shell.problems:problems",
            "List the problems, or the parameters of one.",
            "relu",
        ),
        "check": (
            "agf.shell.problems:check",
            "Check a problem, registered or in a file, against its contract.",
            "./mine.py:Mine --data data.npz",
        ),
        "new": (
            "agf.shell.problems:new",
            "Write a commented problem of your own to start from.",
            "mine.py",
        ),
    },
    "ReLU networks": {
        "landscape": (
            "agf.shell.landscape:landscape",
            "What competes: critical directions of the utility.",
            "relu --data data.npz --plot circle.pdf",
        ),
        "align": (
            "agf.shell.align:align",
            "The dormant phase of a ReLU network alone, event by event.",
            "relu --data data.npz --width 50 --neuron 3",
        ),
        "escape": (
            "agf.shell.escape:escape",
            "Whether the network of a run can still learn.",
            "flow.npz --drop 2",
        ),
        "bounds": (
            "agf.shell.bounds:bounds",
            "Bounds of two theories of early alignment, checked against a run.",
            "relu --data data.npz --width 50 --check flow.npz",
        ),
        "cones": (
            "agf.shell.landscape:cones",
            "Activation cones of the inputs of a ReLU problem.",
            "relu --data data.npz",
        ),
    },
    "Capacity and masks": {
        "groups": (
            "agf.shell.capacity:groups",
            "Neurons that race as one in a saved training run.",
            "flow.npz --by cell",
        ),
        "tickets": (
            "agf.shell.tickets:tickets",
            "Predict which neurons will be largest, before training.",
            "relu --data data.npz --width 50 --keep 5",
        ),
        "merge": (
            "agf.shell.capacity:merge",
            "Merge the neurons of one direction of a trained network.",
            "flow.npz -o merged.npz",
        ),
        "prune": (
            "agf.shell.capacity:prune",
            "Keep some neurons of a trained network.",
            "flow.npz --keep 12 -o kept.npz",
        ),
        "rewind": (
            "agf.shell.rewinding:rewind",
            "Train, prune and restart, over and over.",
            "relu --data data.npz --width 20 --method lrr --cycles 5 -o cycles.npz",
        ),
        "flips": (
            "agf.shell.rewinding:flips",
            "Which weights changed sign in a saved training run, and when.",
            "flow.npz",
        ),
    },
    "The papers": {
        "figure": (
            "agf.shell.figure:figure",
            "Compute and draw the experiments of the paper.",
            "fig4 --fast",
        ),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def to_stderr(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    """A command whose problems may print what they like: only `print_json`, by `obj`, reaches standard output."""
    assert callback is not None

    @functools.wraps(callback)
    def run(*args: Any, **options: Any) -> Any:
        click.get_current_context().obj = sys.stdout
        with contextlib.redirect_stdout(sys.stderr):
            return callback(*args, **options)

    return run


class Lazy(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        command = copy.copy(command)
        command.callback = to_stderr(command.callback)
        command.epilog = f"Example: agf {cmd_name} {COMMANDS[cmd_name][2]}"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(_COLUMN), words) for name, (_, words, _) in group.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command {args[0]!r}. Expected one of {', '.join(COMMANDS)}.", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="agf", message="%(prog)s %(version)s")
def agf() -> None:
    """Predict the staircase of losses of a network trained from tiny initialization, and check it.

    Example: agf compare diagonal-linear

    Each command has its own help and example: agf predict --help

    Tables and sentences go to standard error, the document of --json to standard output: agf show RUN 2>&1 | less
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: that of the process); returns the exit code, raises nothing for bad requests."""
    with listeners.forgiving(), signals.heeded() as told:
        code = _run(arguments)
    return told.code(INTERRUPTED) if code == INTERRUPTED or (code == DONE and told.number) else code


def _run(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if any("\0" in word for word in words):
        return _complain("a null character in the arguments.", WRONG)
    try:
        code = agf.main(args=words, prog_name="agf", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return _complain("interrupted", INTERRUPTED)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return WRONG
    except click.UsageError as error:
        return _complain(_usage(error), WRONG)
    except RequestError as error:
        return _complain(str(error), WRONG)
    except ComputationError as error:
        return _complain(str(error), FAILED)
    except BrokenPipeError:  # the reader of our output left early, as `head` does
        _drop_output()
        return FAILED
    except OSError as error:  # every file of ours is written by agf.files, so this is standard output
        _drop_output()
        if isinstance(error, FileNotFoundError) and error.filename is None:  # of getcwd
            return _complain("the working folder has been removed. Change to one that exists.", WRONG)
        return _complain(f"cannot write the output ({error.strerror or error}).", WRONG)
    except BaseException as error:  # SystemExit of a plugin as well
        from agf.contract.blame import stranger

        if (sentence := stranger(error)) is None:
            raise
        return _complain(sentence, WRONG)
    return code if isinstance(code, int) else DONE


def _usage(error: click.UsageError) -> str:
    """What is wrong with the words of a command: with the option that a slip meant, or an example of the command."""
    if isinstance(error, click.NoSuchOption):
        meant = [name for name in error.possibilities or () if name[:3] == error.option_name[:3]]
        error = click.NoSuchOption(error.option_name, possibilities=meant, ctx=error.ctx)
        if meant:
            return error.format_message()
    example = error.ctx.command.epilog if error.ctx is not None else None
    sentence = error.format_message().removesuffix(".") + "."
    return f"{sentence} {example}." if example else sentence


def _complain(message: str, code: int) -> int:
    sentence = visible(" ".join(message.split()))
    if len(sentence) > _LONGEST:  # what was found may be as long as the request: the ends say what it is about
        sentence = f"{sentence[: _LONGEST // 2]} ... {sentence[-_LONGEST // 2 :]}"
    click.echo(f"agf: error: {sentence}" if code != INTERRUPTED else f"agf: {sentence}", err=True)
    return code


def _drop_output() -> None:
    """Point standard output nowhere, so that the interpreter's last flush does not fail again."""
    with contextlib.suppress(OSError):  # it has no number where the process was started without it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
