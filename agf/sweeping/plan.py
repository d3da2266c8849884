"""What a sweep is to run: the product of settings, in chunks; each run with a name that every process gives it."""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agf import registry
from agf.contract import weights
from agf.contract.admission import admit
from agf.contract.blame import guarded
from agf.contract.problem import Problem
from agf.errors import AgfError, RequestError, explain
from agf.init import Init, check_alpha
from agf.records import files, provenance
from agf.records.settings import Settings

ACTIONS = ("predict", "train", "compare")
#: Seeds a chunk. Cost: large enough to batch, small enough to share and to show progress.
CHUNK = 32
#: Runs of a sweep at most. Limit: its plan is held in memory, some hundred bytes a run.
MOST = 10**7
_INIT_AXES = ("alpha", "seed", "kind", "init")
_SETTINGS_AXES = Settings.options()


@dataclass(frozen=True)
class Plan:
    """What to run.

    Parameters
    ----------
    problem : str
        Registered name, or path.py:Class.
    axes : dict[str, list[Any]]
        Name -> values, in order: alpha, seed, kind (or init, files as `marked`), any field of `Settings`, any
        constructor argument.
    arguments : dict[str, Any]
        Fixed constructor arguments (data among them).
    do : tuple[str, ...]
        Which of "predict", "train", "compare".
    flow : dict[str, Any]
        Options of `agf.flow`.
    keep_files : bool
        Whether run files are written besides the table.
    """

    problem: str
    axes: dict[str, list[Any]]
    arguments: dict[str, Any] = field(default_factory=dict)
    do: tuple[str, ...] = ("predict",)
    flow: dict[str, Any] = field(default_factory=dict)
    keep_files: bool = True

    def __post_init__(self) -> None:
        where = "sweep"
        for action in self.do:
            if action not in ACTIONS:
                raise RequestError(explain(f"unknown action {action!r}.", where=where, expected=", ".join(ACTIONS)))
        if not self.do:
            raise RequestError(explain("nothing to do.", where=where, expected="one of " + ", ".join(ACTIONS)))
        if ("alpha" in self.axes) == ("init" in self.axes):
            words = "no alpha given." if "init" not in self.axes else "both a random start and weights are given."
            raise RequestError(explain(words, where=where, remedy="Give --alpha, as in 1e-2,1e-4, or --init FILE."))
        for name, values in self.axes.items():
            if not values:
                raise RequestError(explain(f"the range of `{name}` is empty.", where=where))
            if len({_canonical(value) for value in values}) != len(values):
                raise RequestError(explain(f"the range of `{name}` has repeated values.", where=where))
            if name in self.arguments:
                raise RequestError(explain(f"`{name}` is given both as fixed and as an axis.", where=where))

        total = math.prod(len(values) for values in self.axes.values())
        if total > MOST:
            raise RequestError(explain(f"a sweep of {total:,} runs.", where=where, expected=f"at most {MOST:,}"))

    def identity(self) -> dict[str, Any]:
        """What must not change between start and resume. Values of the axes may be added to, their names not."""
        return {
            "problem": self.problem,
            "fingerprint": provenance.fingerprint(self.arguments),
            "axes": sorted(self.axes),
            "do": list(self.do),
            "flow": files.jsonable(self.flow),
        }

    def runs(self) -> list[dict[str, Any]]:
        """Every combination, the last axis fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self.axes.values())]

    def chunks(self) -> dict[str, list[dict[str, Any]]]:
        """Runs grouped by chunk name: same settings but for a block of seeds. Independent of the ranges asked for."""
        out: dict[str, list[dict[str, Any]]] = {}
        for run in self.runs():
            seed = run.get("seed", 0)
            rest = {name: value for name, value in run.items() if name != "seed"}
            out.setdefault(digest({**rest, "block": int(seed) // CHUNK}), []).append(run)
        return out

    def check_axes(self) -> None:
        """Refuse axes that nothing has, and values of settings and seeds that mean nothing. Raises RequestError."""
        parameters = inspect.signature(registry.find(self.problem).__init__).parameters
        known = {*_SETTINGS_AXES, *_INIT_AXES}
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        for name in self.axes:
            if name not in known and name not in parameters and not open_ended:
                expected = ", ".join(sorted([*known, *list(parameters)[1:]]))
                raise RequestError(explain(f"unknown axis `{name}`.", where="sweep", expected=f"one of {expected}"))
        for chosen in itertools.product(*[[(n, v) for v in vs] for n, vs in self.axes.items() if n in _SETTINGS_AXES]):
            Settings.of(dict(chosen))
        for alpha in self.axes.get("alpha", []):
            check_alpha(alpha)
        seeds = self.axes.get("seed", [0])
        if not all(isinstance(s, int | np.integer) and s >= 0 for s in seeds):
            raise RequestError(explain("seeds must be integers >= 0.", where="sweep", found=seeds))

    def check_problem(self) -> None:
        """Refuse a sweep whose first problem breaks its contract, or has none of the kinds of initialization that are
        asked for: the others would as well. Raises ProblemError or RequestError."""
        first = self.runs()[0]
        try:
            problem = self.build(first)
            start = init(problem, {name: value for name, value in first.items() if name != "kind"})
        except Exception:  # the run says what is wrong with its data or settings, and others may have none of it
            return
        for kind in self.axes.get("kind", []):
            start = init(problem, {**first, "kind": kind})
        admit(problem, start, "sweep")

    def build(self, run: Mapping[str, Any]) -> Problem:
        """The problem of a run."""
        own = {name: value for name, value in run.items() if name not in (*_INIT_AXES, *_SETTINGS_AXES)}
        return registry.build(registry.find(self.problem), {**self.arguments, **own})

    def idle_seeds(self) -> str:
        """A sentence when the seed changes nothing, because an initialization is not random; else ""."""
        seeds = self.axes.get("seed", [0])
        if len(seeds) < 2:
            return ""
        first = self.runs()[0]
        try:
            problem = self.build(first)
            for kind in self.axes.get("kind", [None]):
                here = {**first, **({} if kind is None else {"kind": kind})}
                one, two = (init(problem, {**here, "seed": seed}) for seed in seeds[:2])
                if np.array_equal(one.directions, two.directions) and np.array_equal(one.log_norms, two.log_norms):
                    return explain(
                        f"the initialization {one.kind!r} is not random: all {len(seeds)} seeds are the same run.",
                        where="sweep",
                        remedy="Name a random kind, for example gaussian, or one seed.",
                    )
        except (AgfError, ArithmeticError, TypeError, ValueError):
            pass  # the runs say what is wrong, each for itself
        return ""


@guarded
def init(problem: Problem, run: Mapping[str, Any]) -> Init:
    """Where a run starts."""
    if "init" in run:
        return _from_file(problem, run["init"])
    options = {"kind": run["kind"]} if "kind" in run else {}
    return problem.init(run["alpha"], int(run.get("seed", 0)), **options)


def marked(path: str | os.PathLike[str]) -> str:
    """A file of weights as a value of the axis `init`: where it is, and a mark of what is in it, since files change."""
    file = os.path.abspath(path)
    return f"{file} ({provenance.fingerprint({'theta': weights.array(file)})})"


def _from_file(problem: Problem, value: str) -> Init:
    file = value.rpartition(" (")[0]
    if marked(file) != value:
        raise RequestError(explain("the weights are not those that were asked for.", where=file, found=marked(file)))
    return weights.read(problem, file)


def settings(run: Mapping[str, Any]) -> Settings:
    """The settings of a run: what it names of them, else their defaults."""
    return Settings.of({name: value for name, value in run.items() if name in _SETTINGS_AXES})


def key(run: Mapping[str, Any]) -> str:
    """Name of a run: a digest of its settings, the same in every process and every sweep that asks for it."""
    return digest(dict(run))


def _canonical(value: Any) -> str:
    return json.dumps(files.jsonable(value), sort_keys=True)


def digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(values).encode()).hexdigest()[:16]
