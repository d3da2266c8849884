"""Constants that decide numbers, read where they stand: `docs/constants.py` renews the page.

A constant is a number (or several) at the top of a module or of a class, in capitals. The `#:` comment above it says
what it means, in its unit, and then what it decides: one of the words of `KINDS` with a colon, and the reason.
`--measure [MODULE ...]` also doubles and halves each, on the small runs that call a function that reads it, and writes
down how far predictions and flows move (constants.json); a test holds them to that. `--tenfold [MODULE ...]` does the
same at ten times and a tenth, for those that are tuned (tenfold.json).
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import itertools
import json
import math
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import agf

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = HERE / "constants.md"
#: Factor -> what is said of it and its inverse.
TIMES = {2.0: "x2 and /2 move", 10.0: "x10 and /10"}
#: Factor -> what it moves.
MEASURED = {2.0: HERE / "constants.json", 10.0: HERE / "tenfold.json"}
KIND = re.compile(r"\b(Result|Setting|Derived|Cost|Limit|Source): ")
BLOCK = re.compile(r"(?<=<!-- constants -->\n).*?(?=<!-- end of constants -->)", re.DOTALL)
#: Where numbers are sizes on a page or a terminal, and decide no others: in pictures and in commands.
SHOWN = ("pictures", "figures", "page", "plot", "graph", "shell")
#: What a constant may decide.
KINDS = {
    "Result": "tuned: another value can give another answer",
    "Setting": "default of an argument: the user chooses",
    "Derived": "follows from float64, a bound or a definition; the expression or the argument is given",
    "Cost": "time or memory alone: what it may move stays within tolerances",
    "Limit": "a size beyond which something is refused, or left out and said so",
    "Source": "a number of a paper",
}
#: What a doubled or halved constant may move where nothing else was measured: a tenth of what `agf.compare` calls
#: reproducible.
USUAL = 3e-4
#: What a constant that decides cost alone may move: the root of the rtol, 1e-4, of the predictions, to which they
#: follow the active neurons. Measured for the choice of the integrator, which moves most of these: the second drop of
#: modular addition by 4e-3, 8e-5 and 1e-6 at rtol 1e-4, 1e-6 and 1e-8.
ACCURACY = 1e-2
#: Seconds after which a run with a changed constant is given up; the unchanged ones take a tenth of one.
PATIENCE = 10


@dataclass(frozen=True)
class Constant:
    """One number, or several that belong together."""

    module: str
    name: str
    value: Any
    shown: str
    comment: str
    owner: str = ""

    @property
    def key(self) -> str:
        return ".".join(filter(None, (self.module, self.owner, self.name)))

    @property
    def means(self) -> str:
        """What it is."""
        return KIND.split(self.comment)[0].strip()

    @property
    def kind(self) -> str:
        """What it decides, a word of `KINDS`, or "" where the comment does not say."""
        found = KIND.findall(self.comment)
        return found[0] if len(found) == 1 else ""

    @property
    def reason(self) -> str:
        """Why it has this value."""
        return KIND.split(self.comment, maxsplit=1)[-1].strip() if self.kind else ""


def modules() -> dict[str, Path]:
    """All modules, with their files, but for those of pictures and commands."""
    found = {}
    for top, root in (("agf", ROOT), ("problems", ROOT / "problems")):
        for file in sorted((ROOT / top).rglob("*.py")):
            name = file.relative_to(root).with_suffix("").parts
            if name[1] not in SHOWN and name[-1] != "__init__":
                found[".".join(name)] = file
    return found


def _numbers(value: Any) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return bool(parts) and all(_numbers(p) if isinstance(p, tuple) else _number(p) for p in parts)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@cache
def constants() -> tuple[Constant, ...]:
    """All of them, in the order of the files."""
    found: list[Constant] = []
    for module, file in modules().items():
        text = file.read_text(encoding="utf-8")
        body = ast.parse(text).body
        found += _of(module, "", body, text.splitlines())
        for node in body:
            if isinstance(node, ast.ClassDef) and not any("Enum" in ast.unparse(base) for base in node.bases):
                found += _of(module, node.name, node.body, text.splitlines())
    return tuple(found)


def _of(module: str, owner: str, body: list[ast.stmt], lines: list[str]) -> Iterator[Constant]:
    """Those of a module (owner "") or of a class."""
    for node in body:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        if node.value is None or not all(re.fullmatch(r"_?[A-Z][A-Z0-9_]*", name) for name in names):
            continue
        above: list[str] = []
        k = node.lineno - 2
        while k >= 0 and lines[k].lstrip().startswith("#:"):
            above.insert(0, lines[k].lstrip()[2:].strip())
            k -= 1
        home = importlib.import_module(module)
        home = getattr(home, owner) if owner else home
        for name in names:
            value = getattr(home, name, None)
            if _numbers(value):
                shown = _shown(value, ast.unparse(node.value), names)
                yield Constant(module, name, value, shown, " ".join(above), owner)


def _shown(value: Any, source: str, names: list[str]) -> str:
    """As in the source where that is short and has one constant, else the number itself."""
    if len(names) == 1 and len(source) < 24:
        return source
    return ", ".join(map(str, value)) if isinstance(value, tuple) else f"{value:.4g}"


# -- runs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a run gave: words that must stay, and numbers that may move."""

    words: tuple[str, ...]
    numbers: np.ndarray

    def distance(self, other: Outcome) -> float:
        """Largest relative difference of the numbers; inf where drops or status are others."""
        if self.words != other.words or self.numbers.shape != other.numbers.shape:
            return math.inf
        with np.errstate(invalid="ignore"):  # both sides may be infinite
            gap = np.abs(self.numbers - other.numbers) / np.maximum(np.abs(other.numbers), 1e-300)
        return float(np.max(np.where(np.isfinite(gap), gap, 0.0), initial=0.0))


def _outcome(result: Any) -> Outcome:
    """Half-drop times, ends of their bars, conditioning, levels (over the first), and why it ended; or what else it is
    about."""
    if isinstance(result, Outcome):
        return result
    top = float(result.start_level if isinstance(result, agf.Staircase) else result.losses[0])
    if isinstance(result, agf.Staircase):
        times, levels = [d.half_time for d in result.drops], [d.level for d in result.drops]
        times += [d.half_time * (1.0 + d.error) for d in result.drops if d.error is not None]
        times += [1.0 + d.conditioning for d in result.drops]
    else:
        times, levels = [d.time for d in result.drops], [d.after for d in result.drops]
    return Outcome((result.status.word, str(len(times))), np.array([*times, *(1.0 + np.array(levels) / top)]))


def _matched(comparison: agf.Comparison) -> Outcome:
    """Which drop belongs to which."""
    pairs = [f"{match['k']} {match['visible']}" for match in comparison.to_dict()["matches"]]
    return Outcome((*pairs, str(len(comparison.unmatched_predicted))), np.zeros(0))


def _aligned(phase: Any) -> Outcome:
    """When neurons meet walls, and where they end."""
    return Outcome(tuple(map(str, phase.fates)), np.concatenate([phase.event_times, phase.utilities]))


def _raced(found: Any) -> Outcome:
    """The order of the final norms, and of how many it is sure: norms are coarse, and say by how much."""
    return Outcome((*map(str, found.order), str(found.decided)), np.zeros(0))


def _grouped(found: Any) -> Outcome:
    """Which neurons race as one, and when each group will have done half of what it does."""
    members, times = zip(*((str(one.members), one.predicted_half_time) for one in found.groups), strict=True)
    return Outcome(members, np.array(times))


def _listed(found: agf.Landscape) -> Outcome:
    """Kinds and utilities of critical directions."""
    return Outcome(tuple(one.kind for one in found.criticals), np.array([one.utility for one in found.criticals]))


def _claimed(found: Any) -> Outcome:
    """Which statements of the theorems hold of a run, and the left sides of those whose premises are met: others are
    read at the snapshots that there are, and differ with these."""
    met = [1.0 + one.left for one in found if one.holds is not None]  # some are zero up to tolerances
    return Outcome(tuple(f"{one.name} {one.holds}" for one in found), np.array(met))


def _escaping(found: agf.Escape) -> Outcome:
    """The verdict, and its numbers."""
    return Outcome((found.verdict,), np.array([found.level, found.reached, found.gain]))


@cache
def _systems() -> dict[str, tuple[Any, float, dict[str, Any]]]:
    """Small problems, each with a scale of its initialization and options of its flow."""
    X = np.random.default_rng(0).standard_normal((12, 4))
    bent, smooth = X[:, 0] - np.abs(X[:, 1]), np.tanh(X[:, :2] @ [1.5, -1.0])
    return {
        "diagonal": (agf.problem("diagonal-linear", X=X, y=X @ [2.0, -1.0, 0.5, 0.0]), 1e-6, {}),
        "linear": (agf.problem("linear", Sxx=np.diag([1.0, 0.7]), B=np.diag([3.0, 2.0]), width=3), 1e-6, {}),
        "attention": (agf.problem("linear-attention", covariance=[1.0, 0.6], context=16, heads=2), 1e-2, {}),
        "modular": (
            agf.problem("modular-addition", p=5, template={1: 4.0, 2: 2.0}, width=3), 1e-2,
            {"t_max": 45.0, "rtol": 1e-4},
        ),
        "relu": (
            agf.problem("relu", X=X[:, :2], Y=bent, width=3, task="regression"), 1e-5, {"t_max": 30.0, "rtol": 1e-5},
        ),
        "tanh": (agf.TwoLayer(X[:, :2], smooth, activation="tanh", width=3), 1e-5, {"rtol": 1e-4}),
    }  # fmt: skip


@cache
def runs() -> dict[str, Callable[[], Any]]:
    """Name -> a run of a fraction of a second."""
    out: dict[str, Callable[[], Any]] = {}
    for name, (problem, alpha, options) in _systems().items():
        init = problem.init(alpha, seed=1)
        many = {"max_drops": 2, "conditioning": False}
        rtol = {"rtol": 1e-4}
        out[f"{name} agf"] = lambda p=problem, i=init, o={**many, **rtol}: agf.predict(p, i, mode="agf", **o)
        out[f"{name} flow"] = lambda p=problem, i=init, o=options: agf.flow(p, i, **o)
        if name in ("diagonal", "attention", "tanh"):
            out[f"{name} resolved"] = lambda p=problem, i=init, o={**many, **rtol}: agf.predict(
                p, i, mode="resolved", **o
            )
        if name in ("diagonal", "tanh"):
            out[f"{name} limit"] = lambda p=problem, i=init, o=many: agf.predict(p, i, mode="limit", **o)
        if name in ("diagonal", "relu", "tanh"):
            out[f"{name} auto"] = lambda p=problem, i=init: agf.predict(p, i, max_drops=2, rtol=1e-4)
    relu = _systems()["relu"][0]
    small, large = relu.init(1e-5, seed=1), relu.init(0.1, seed=1)
    out["relu align"] = lambda: _aligned(agf.align(relu, small))
    out["relu landscape"] = lambda: _listed(agf.landscape(relu))
    out["tanh landscape"] = lambda: _listed(agf.landscape(_systems()["tanh"][0], starts=20))
    linear = _systems()["linear"][0]
    out["linear tickets"] = lambda: _raced(agf.tickets(linear, linear.init(0.05, seed=1)))
    out["linear groups"] = lambda: _grouped(agf.groups(linear, linear.init(0.05, seed=1)))
    out["relu escape"] = lambda: _escaping(agf.escape(relu, out["relu agf"]()))
    out["relu descent"] = lambda: agf.descend(relu, large, lr=0.05, steps=300, batch_size=4)
    out["diagonal compare"] = lambda: _matched(agf.compare(out["diagonal agf"](), out["diagonal flow"]()))
    return out | _rare()


def _rare() -> dict[str, Callable[[], Any]]:
    """Runs that come to what those do not: repeats, kinks that are sharp or rounded wide, minibatches, theorems."""
    X = np.random.default_rng(0).standard_normal((12, 2))
    cornered = agf.TwoLayer(X, np.tanh(X @ [[1.0, 0.3], [0.2, -1.0]]) + np.abs(X[:, 1:]), "relu", width=3, kink=0.0)
    rounded = agf.problem("relu", X=X, Y=X[:, 0] - np.abs(X[:, 1]), width=3, task="regression", kink=0.1)
    corner = agf.problem("relu", X=np.eye(2), Y=[1.0, -0.5], width=3, task="regression")
    small = {name: (problem, problem.init(alpha, seed=1)) for name, (problem, alpha, _) in _systems().items()}
    # balanced: |w| / |a| of others is as large as a comes near zero
    start = agf.Init.from_params(1e-3 * np.array([[0.6, 0.8, 1.0], [-0.8, 0.6, -1.0], [0.8, -0.6, 1.0]]))
    few = {"max_drops": 2, "rtol": 1e-4}

    def linear() -> agf.Trajectory:
        problem = agf.problem("linear", Sxx=np.diag([1.0, 0.7]), B=np.diag([3.0, 2.0]), width=3)
        return agf.descend(problem, problem.init(0.1, seed=1), lr=0.02, steps=200, batch_size=64)

    return {
        "diagonal repeated": lambda: agf.predict(*small["diagonal"], mode="agf", conditioning=True, **few),
        "modular resolved": lambda: agf.predict(*small["modular"], mode="resolved", max_drops=1, rtol=1e-4),
        "linear descent": linear,
        "rounded agf": lambda: agf.predict(rounded, rounded.init(1e-5, seed=1), mode="agf", **few),
        "cornered flow": lambda: agf.flow(cornered, cornered.init(1e-4, seed=1), rtol=1e-4),
        "corner claims": lambda: _claimed(agf.separation(corner, start).check(agf.flow(corner, start, rtol=1e-4))),
    }


class _TooLong(BaseException):
    pass


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def reference() -> dict[str, tuple[Outcome, frozenset[tuple[str, str]]]]:
    """Of each run, what it gives as things stand, and the names that its functions read: (file, name)."""
    out = {}
    for name, run in runs().items():
        seen: set[Any] = set()

        def note(frame: Any, event: str, argument: Any, seen: set[Any] = seen) -> None:
            seen.add(frame.f_code)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            result = run()
        finally:
            sys.setprofile(before)
        out[name] = _outcome(result), frozenset((code.co_filename, word) for code in seen for word in _names(code))
    return out


def _names(code: Any) -> Iterator[str]:
    """Global names and attributes that a function reads, those inside it included."""
    yield from code.co_names
    for inner in code.co_consts:
        if hasattr(inner, "co_names"):
            yield from _names(inner)


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_scaled(part, factor) for part in value)
    return max(1, int(value * factor)) if isinstance(value, int) else value * factor


def _holders(constant: Constant) -> list[Any]:
    """The module or class where it stands, and modules that took it by name."""
    home = sys.modules[constant.module]
    if constant.owner:
        return [getattr(home, constant.owner)]
    took = [
        module
        for name, module in list(sys.modules.items())
        if name.split(".")[0] in ("agf", "agf_problems")
        and constant.name in _imported(name).get(constant.module, ())
        and module is not home
    ]
    return [home, *took]


@contextlib.contextmanager
def changed(constant: Constant, factor: float) -> Iterator[None]:
    """The constant times a factor, where it stands and wherever it was imported by name."""
    holders = _holders(constant)
    for holder in holders:
        setattr(holder, constant.name, _scaled(constant.value, factor))
    try:
        yield
    finally:
        for holder in holders:
            setattr(holder, constant.name, constant.value)


def concerned(constant: Constant) -> list[str]:
    """Runs that call a function that reads it."""
    homes = [sys.modules[holder.__module__] if constant.owner else holder for holder in _holders(constant)]
    places = {(home.__file__, constant.name) for home in homes}
    return [name for name, (_, read) in reference().items() if places & read]


@cache
def _imported(name: str) -> dict[str, set[str]]:
    """Module -> names that the module `name` takes from it."""
    file = getattr(sys.modules[name], "__file__", None)
    out: dict[str, set[str]] = {}
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body if file else []:
        if isinstance(node, ast.ImportFrom) and node.module:
            out.setdefault(node.module, set()).update(alias.name for alias in node.names if alias.asname is None)
    return out


def moves(constant: Constant, most: int | None = None, factor: float = 2.0) -> float | None:
    """How far this factor and its inverse move any run that reads it (the first `most`); None when none does."""
    names = concerned(constant)[:most]
    if not names:
        return None
    worst = 0.0
    for times in (factor, 1.0 / factor):
        with changed(constant, times):
            for name in names:
                try:
                    with _limited(PATIENCE):
                        worst = max(worst, _outcome(runs()[name]()).distance(reference()[name][0]))
                except (_TooLong, Exception):
                    worst = math.inf
                if worst == math.inf:
                    return worst
    return worst


# -- the page ------------------------------------------------------------------------------------------------------


@cache
def measured(factor: float = 2.0) -> dict[str, float | None]:
    """What was measured: inf where drops or the status change."""
    path = MEASURED[factor]
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {key: math.inf if value == "drops" else value for key, value in found.items()}


def words(key: str, factor: float) -> str:
    """What the factor and its inverse move."""
    if key not in measured(factor):
        return "not measured" if factor == 2.0 else ""
    move = measured(factor)[key]
    if move is None:
        return "no run comes here"
    return "other drops" if move == math.inf else "nothing" if move == 0.0 else f"{move:.0e}"


#: Constants that may be tuned, at most: half of what there were before each had to say what it decides.
MOST_TUNED = 61


def bound(key: str) -> float:
    """What it may move: ten times what was measured, and at least `USUAL`; inf where nothing was measured."""
    move = measured().get(key)
    return math.inf if move is None else max(USUAL, 10.0 * move)


def table() -> str:
    """How many decide what; those that are tuned, in one table; and the others by room."""
    count = Counter(one.kind for one in constants())
    kinds = [f"| {kind} | {count[kind]} | {meaning} |" for kind, meaning in KINDS.items()]
    kinds += [f"| (not said) | {count['']} | |"] * (count[""] > 0)
    rows = ["| decides | constants | |", "|---|---|---|", *kinds]
    tuned = [one for one in constants() if one.kind == "Result"]
    rows += ["", "## What is tuned", "", *_head("constant", "value", "what it is", "why so", *TIMES.values())]
    rows += [_row(one, one.key.removeprefix("agf."), one.means, one.reason, *TIMES) for one in tuned]
    others = sorted((one for one in constants() if one.kind != "Result"), key=_room)
    for room, inside in itertools.groupby(others, _room):
        rows += ["", f"## {room}", "", *_head("constant", "value", "what it is", "decides", "why so", TIMES[2.0])]
        rows += [
            _row(one, one.key.removeprefix(room + "."), one.means or "-", one.kind or "-", one.reason or "-", 2.0)
            for one in inside
        ]
    return f"{len(constants())} constants, {count['Result']} of them tuned.\n\n" + "\n".join(rows) + "\n"


def _room(one: Constant) -> str:
    return one.module.rpartition(".")[0]


def _head(*columns: str) -> list[str]:
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]


def _row(one: Constant, name: str, *cells: str | float) -> str:
    """Its name and value, words, and what these factors move."""
    said = [cell if isinstance(cell, str) else words(one.key, cell) for cell in cells]
    shown = (f"`{name}`", one.shown.replace("|", ""), *said)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in shown) + " |"


def page() -> str:
    """The page with its tables renewed."""
    return BLOCK.sub(lambda match: table(), PAGE.read_text(encoding="utf-8"))


def measure(starts: list[str], factor: float) -> None:
    """Write down what every constant moves, or those whose names start so; tenfold those that are tuned."""
    out = dict(measured(factor))
    for one in constants():
        if (not starts or one.key.startswith(tuple(starts))) and (factor == 2.0 or one.kind == "Result"):
            move = out[one.key] = moves(one, factor=factor)
            print(one.key, "drops" if move == math.inf else move, flush=True)
            write(out, factor)


def write(moved: dict[str, float | None], factor: float) -> None:
    """Keep what was measured of the constants that there are, in their order."""
    kept = {one.key: moved[one.key] for one in constants() if one.key in moved}
    shown = {key: "drops" if move == math.inf else move and float(f"{move:.1e}") for key, move in kept.items()}
    MEASURED[factor].write_text(json.dumps(shown, indent=0) + "\n", encoding="utf-8")
    measured.cache_clear()


if __name__ == "__main__":
    for option, factor in (("--measure", 2.0), ("--tenfold", 10.0)):
        write(measured(factor), factor)
        if option in sys.argv[1:]:
            measure([word for word in sys.argv[1:] if not word.startswith("-")], factor)
    PAGE.write_text(page(), encoding="utf-8")
