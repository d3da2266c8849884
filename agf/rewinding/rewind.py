"""Train, prune, restart: iterative magnitude pruning, weight rewinding, learning-rate rewinding ([GB24]).

Cycle 0 trains the dense network. Each later cycle prunes, starts again and trains what is left: from the initial
weights (IMP), from those of an early moment of the dense training (WR), or from where the cycle before ended (LRR).
Masks and signs may come from another pipeline: what the mask does and what the restart does can then be told apart.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, count
from agf.contract.admission import admit
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.init import Init
from agf.records import files, provenance
from agf.results.rewinding import Rewinding
from agf.results.runs import load
from agf.results.trajectory import Trajectory
from agf.rewinding.masked import masked
from agf.rewinding.pruning import SCORES, counts, prunable_of, pruned
from agf.sphere import lengths
from agf.training.descent import descend
from agf.training.gradient_flow import flow

METHODS = ("imp", "wr", "lrr")
BUDGETS = ("cycle", "equal")
Train = Callable[[Problem, Init], Trajectory] | dict[str, Any]


def rewind(
    problem: Problem,
    init: Init,
    *,
    method: str = "imp",
    cycles: int = 8,
    keep: float = 0.8,
    rewind: float = 0.0,
    by: str = "magnitude",
    prunable: str = "all",
    masks: Rewinding | Sequence[Any] | None = None,
    signs: Rewinding | str | None = None,
    flip: tuple[int, float] | None = None,
    budget: str = "cycle",
    rebalance: bool = False,
    train: Train | None = None,
    score: Callable[[Problem, FloatArray], float] | None = None,
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
) -> Rewinding:
    """Train, prune and restart, over and over.

    Parameters
    ----------
    problem : Problem
        What is trained.
    init : Init
        Where the dense network starts.
    method : str
        "imp" starts every cycle from the initial weights, "wr" from those of flow time `rewind` of the dense training,
        "lrr" from the end of the cycle before.
    cycles : int
        Cycles after the dense one.
    keep : float
        Fraction of the prunable weights that a cycle keeps, in (0, 1]: round(N keep^i) are left after cycle i.
    rewind : float
        Flow time of the dense training that "wr" goes back to.
    by : str
        Score of the weights that stay: "magnitude", "snip" `|theta grad|`, "synflow", over all layers at once; or
        "random", nested and balanced over the layers, the same for every method with the same `seed`.
    prunable : str
        "all" weights, or the "inner" ones, input weights, alone.
    masks : Rewinding or sequence of bool ndarray, optional
        Masks of another pipeline, or one (H, P) mask a cycle from the first on, in place of pruning.
    signs : Rewinding or "own", optional
        Restart with the magnitudes of the method and these signs: those at the end of the same cycle of another
        pipeline, or the ones that this pipeline had at the end of the cycle before.
    flip : tuple of int and float, optional
        (cycle, fraction): at the start of this cycle, this fraction of the weights left in each layer changes sign; IMP
        and WR keep the changes later.
    budget : str
        "cycle": every cycle trains as long as the first. "equal": cycle i of IMP and WR trains i + 1 times as long, so
        that weights have been trained as long as those of LRR.
    rebalance : bool
        After masking, scale each neuron's output weights to the norm of its input weights, as the theory of one neuron
        has it.
    train : dict or callable, optional
        Options of `agf.descend` (with lr and steps) or of `agf.flow` (such as t_max); or a function (problem, init) ->
        Trajectory. Default: gradient flow until it settles.
    score : callable, optional
        (problem, theta) -> float, such as an accuracy on data kept apart; at the end of every cycle.
    seed : int
        Of random masks and of `flip`.
    path : str or os.PathLike[str], optional
        Run file, written after every cycle. Where it holds cycles of the same request, these are not computed again.

    Returns
    -------
    Rewinding
        Masks, weights, losses and signs of every cycle.

    Raises
    ------
    RequestError
        For a wrong request: cycles that leave no weight, masks of another shape, a file of another request.
    """
    run = _Pipeline(
        problem, admit(problem, init, "rewind"), method, cycles, keep, rewind, by, prunable, masks, signs, flip, budget,
        rebalance, train, score, seed, path,
    )  # fmt: skip
    return run.go()


class _Pipeline:
    """One call of `rewind`."""

    def __init__(
        self, problem: Problem, init: Init, method: str, cycles: int, keep: float, moment: float, by: str,
        prunable: str, masks: Any, signs: Any, flip: tuple[int, float] | None, budget: str, rebalance: bool,
        train: Train | None, score: Callable[[Problem, FloatArray], float] | None, seed: int, path: Any,
    ) -> None:  # fmt: skip
        for value, name, valid in ((method, "method", METHODS), (by, "score", SCORES), (budget, "budget", BUDGETS)):
            if value not in valid:
                raise RequestError(
                    explain(f"unknown {name} {value!r}.", where="rewind", expected="one of " + ", ".join(valid))
                )
        if not 0.0 < keep <= 1.0:
            raise RequestError(explain("`keep` must be in (0, 1].", where="rewind", found=keep))
        if moment < 0 or (moment > 0) != (method == "wr"):
            raise RequestError(
                explain(f"method {method!r} with rewind = {moment:g}.", where="rewind",
                        expected='a positive flow time for "wr", and none for the others')
            )  # fmt: skip
        self.problem, self.init, self.path = problem, init, path
        self.train, self.score, self.moment = train, score, float(moment)
        self.may, self.weights = prunable_of(problem, prunable), prunable_of(problem, "all")
        self.cycles = count(cycles, "cycles", where="rewind", least=0)
        self.left = counts(int(self.may.sum()), keep, self.cycles)
        self.given = None if masks is None else self._masks(masks)
        if signs not in (None, "own") and not isinstance(signs, Rewinding):
            raise RequestError(explain('`signs` is neither "own" nor a Rewinding.', where="rewind"))
        if isinstance(signs, Rewinding) and signs.cycles < self.cycles:
            raise RequestError(explain(f"`signs` has {signs.cycles} cycles.", where="rewind", expected=f"{cycles}"))
        if rebalance:
            prunable_of(problem, "inner")  # has rows (w, a), or says that it has not
        self.signs, self.flip, self.rebalance = signs, flip, rebalance
        self.settings: dict[str, Any] = {
            "method": method, "cycles": self.cycles, "keep": float(keep), "rewind": self.moment, "by": by,
            "prunable": prunable, "masks": "own" if self.given is None else _mark(np.array(self.given)),
            "signs": _mark(np.sign(signs.ends)) if isinstance(signs, Rewinding) else (signs or "free"),
            "flip": None if flip is None else [int(flip[0]), float(flip[1])], "budget": budget,
            "rebalance": bool(rebalance), "seed": int(seed),
            "train": "callable" if callable(train) else dict(train or {}),
        }  # fmt: skip

    def go(self) -> Rewinding:
        """All cycles that are not in the file yet."""
        done = self._before()
        dense = np.ones_like(self.may)
        if done is None:
            run = self._trained(self.problem, self.init, 1)
            start = self.init.params()
            rewound = start if self.moment == 0 else self._at(run)
            done = self._recorded(None, dense, start, self._end(run), rewound)
        while not done.done:
            i = done.cycles + 1
            mask = self._mask(done, i)
            start = self._start(done, mask, i)
            if not (start * mask).any():
                raise RequestError(explain(f"cycle {i} would start from weights that are all 0.", where="rewind"))
            budget = i + 1 if self.settings["budget"] == "equal" and self.settings["method"] != "lrr" else 1
            whole = mask.all()
            run = self._trained(
                self.problem if whole else masked(self.problem, mask), Init.from_params(start, alpha=self.init.alpha),
                budget,
            )  # fmt: skip
            done = self._recorded(done, mask, start, self._end(run), done.rewound)
        return done

    # -- cycles -----------------------------------------------------------------------------------------------

    def _mask(self, done: Rewinding, i: int) -> BoolArray:
        if self.given is not None:
            return self.given[i - 1]
        rng = np.random.default_rng([self.settings["seed"], i])
        theta = done.ends[-1]
        return pruned(self.problem, theta, done.masks[-1], self.may, self.left[i], self.settings["by"], rng)

    def _start(self, done: Rewinding, mask: BoolArray, i: int) -> FloatArray:
        """Weights from which cycle i starts: the method's magnitudes and signs, then changes of sign, masked."""
        lrr = self.settings["method"] == "lrr"
        start = done.ends[-1] if lrr else done.rewound
        if isinstance(self.signs, Rewinding):
            start = np.abs(start) * np.sign(self.signs.ends[i])
        elif self.signs == "own":
            start = np.abs(start) * np.sign(done.ends[-1])
        if self.flip is not None and (i == self.flip[0] or (i > self.flip[0] and not lrr)):
            start = start * self._flips(done, i, mask)
        start = start * mask
        if self.rebalance:
            d = int(self.problem.n_inputs)  # type: ignore[attr-defined]
            size, outer = lengths(start[:, :d]), lengths(start[:, d:])
            start = start.copy()
            factor = size / np.where(outer > 0, outer, 1.0)
            factor[list(self.problem.permanent)] = 1.0
            start[:, d:] *= factor[:, None]
        return start

    def _flips(self, done: Rewinding, i: int, mask: BoolArray) -> FloatArray:
        """(H, P) signs: -1 for the weights that `flip` changes, drawn among those left at its cycle."""
        assert self.flip is not None
        cycle, fraction = self.flip
        alive = mask if i == cycle else done.masks[cycle]
        rng = np.random.default_rng([self.settings["seed"], 10**6 + cycle])
        out = np.ones(alive.size)
        cut = getattr(self.problem, "n_inputs", self.problem.n_params)
        layer = np.broadcast_to(np.arange(self.problem.n_params) >= cut, alive.shape)
        for outer in (False, True):
            rows = np.flatnonzero((alive & self.weights & (layer == outer)).ravel())
            out[rng.permutation(rows)[: round(fraction * rows.size)]] = -1.0
        return out.reshape(alive.shape)

    # -- training ---------------------------------------------------------------------------------------------

    def _trained(self, problem: Problem, init: Init, budget: int, until: float | None = None) -> Trajectory:
        if callable(self.train):
            return self.train(problem, init)
        options = dict(self.train or {})
        if "lr" in options or "steps" in options:
            unit = float(options.get("lr", 0.0)) / (1 - float(options.get("momentum", 0.0)))
            options["steps"] = budget * int(options.get("steps", 0))
            if until is not None:
                options["steps"] = max(round(until / unit), 1)
            options.setdefault("snapshots", 2)
            return descend(problem, init, **options)
        if until is not None:
            options["t_max"] = until
        elif options.get("t_max") is not None:
            options["t_max"] = budget * options["t_max"]
        options.setdefault("snapshots", 2)
        return flow(problem, init, **options)

    def _at(self, dense: Trajectory) -> FloatArray:
        """Weights of the dense training at the rewind point: trained again up to there, or the nearest snapshot."""
        if not callable(self.train):
            return self._end(self._trained(self.problem, self.init, 1, until=self.moment))
        if dense.snapshot_times.size == 0:
            raise RequestError(explain("the training function kept no snapshot to rewind to.", where="rewind"))
        return dense.params(int(np.argmin(np.abs(dense.snapshot_times - self.moment))))

    def _end(self, run: Trajectory) -> FloatArray:
        if run.status.failed and run.directions.shape[0] == 0:
            raise RequestError(explain(f"training ended as {run.status.word}.", where="rewind"))
        return run.params(-1)

    # -- records ----------------------------------------------------------------------------------------------

    def _recorded(
        self, done: Rewinding | None, mask: BoolArray, start: FloatArray, end: FloatArray, rewound: FloatArray
    ) -> Rewinding:
        neurons = np.arange(self.problem.width)
        end = end * mask
        accuracy = self.problem.features(end, neurons).get("accuracy", np.array([np.nan]))
        new: dict[str, Any] = {
            "masks": mask[None],
            "starts": (start * mask)[None],
            "ends": end[None],
            "losses": np.array([self.problem.loss_grad(end, neurons)[0]]),
            "accuracies": np.array([float(np.ravel(accuracy)[0])]),
            "scores": np.array([np.nan if self.score is None else float(self.score(self.problem, end))]),
        }
        if done is None:
            out = Rewinding(self.problem.name, self.problem.arguments, self.init, self.settings, rewound=rewound, **new)
        else:
            grown: dict[str, Any] = {n: np.concatenate([getattr(done, n), part]) for n, part in new.items()}
            out = replace(done, **grown)
        if self.path is not None:
            out.save(self.path)
        return out

    def _before(self) -> Rewinding | None:
        """What the file has of this request. Raises RequestError for another request."""
        if self.path is None or not Path(self.path).exists():
            if self.path is not None:
                files.check_writable(self.path)
            return None
        found = load(self.path)
        if not isinstance(found, Rewinding) or not self._same(found):
            raise RequestError(
                explain(
                    f"{str(self.path)!r} holds another request.",
                    where="rewind",
                    remedy="Give another file, or delete it.",
                )
            )
        return replace(found, settings=self.settings)

    def _same(self, found: Rewinding) -> bool:
        """Whether a file is of this request, but for the number of cycles."""
        mine, theirs = ({**files.jsonable(run.settings), "cycles": 0} for run in (self, found))
        return (
            found.problem == self.problem.name
            and mine == theirs
            and provenance.fingerprint(found.arguments) == provenance.fingerprint(self.problem.arguments)
            and np.array_equal(found.init.directions, self.init.directions)
            and np.array_equal(found.init.log_norms, self.init.log_norms)
        )

    def _masks(self, given: Any) -> list[BoolArray]:
        masks = list(given.masks[1:]) if isinstance(given, Rewinding) else [np.asarray(mask) for mask in given]
        if len(masks) < self.cycles:
            raise RequestError(
                explain(f"{len(masks)} masks are given.", where="rewind", expected=f"{self.cycles}, one a cycle")
            )
        return [masked(self.problem, mask).mask for mask in masks[: self.cycles]]


def _mark(array: Any) -> str:
    """What tells one array from another in the settings of a file."""
    return f"given {zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"
