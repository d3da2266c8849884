"""The command bounds."""

from __future__ import annotations

from typing import Any

import click

from agf.shell import arguments
from agf.shell.main import DONE, FAILED
from agf.shell.options import data_options, given, init_options
from agf.shell.output import Output, print_json


@click.command()
@click.argument("name")
@data_options
@init_options
@click.option("--log-eps", type=float, metavar="X", help="Natural log of the scale, in place of that of --alpha.")
@click.option("--eps", type=float, help="Exponent of the alignment time of [BF24], below 1/3; default 0.3.")
@click.option("--alpha0", type=float, help="Condition 1 of [BF24] on the start, up to 1; default 1.")
@click.option("--check", "run", metavar="RUN", help="Check the claims against this run of agf train.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@click.option("--quiet", is_flag=True, help="Print nothing for people but errors.")
def bounds(
    name: str,
    log_eps: float | None,
    eps: float | None,
    alpha0: float | None,
    run: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Constants and bounds of two theories of early alignment for the ReLU problem NAME, and which assumption holds.

    With --check RUN, a run of agf train of this problem, each claim against it; exit code 1 where one is broken.
    """
    from agf.loading.runs import trajectory
    from agf.rectified.separation import separation

    out = Output(None, None, as_json, quiet, [options["data"], options["init_file"], run])
    curve = None if run is None else trajectory(run)
    requested = arguments.problem(name, **{key: options[key] for key in arguments.STARTED})
    for note in requested.notes:
        out.report.say(note)
    if curve is not None and curve.init is not None:
        init = curve.init
    else:
        alpha, seed, kind, file = (options[key] for key in ("alpha", "seed", "kind", "init_file"))
        init = arguments.initialization(requested.problem, alpha=alpha, seed=seed, kind=kind, file=file)
    found = separation(requested.problem, init, **given(log_eps=log_eps, eps=eps, alpha0=alpha0))
    document = found.to_dict()
    out.report.table(found.table())
    code = DONE
    if curve is not None:
        claims = found.check(curve)
        out.report.table(claims.table())
        document["check"] = claims.to_dict()
        code = DONE if claims.hold else FAILED
    if as_json:
        print_json(document)
    return code
