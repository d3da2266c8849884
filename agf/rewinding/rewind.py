"""Train, prune, restart: iterative magnitude pruning, weight rewinding, learning-rate rewinding ([GB24]).

Cycle 0 trains the dense network. Each later cycle prunes, starts again and trains what is left: from the initial
weights (IMP), from those of an early moment of the dense training (WR), or from where the cycle before ended (LRR).
Masks and signs may come from another pipeline: what the mask does and what the restart does can then be told apart.
What is trained, and how, is the `subject`'s: a problem, or a torch module.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, count, fraction, number
from agf.asked import asked
from agf.contract.admission import admit
from agf.contract.blame import guarded
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.init import Init
from agf.loading.runs import load
from agf.records import files, provenance
from agf.records.table import counted
from agf.results.rewinding import Rewinding
from agf.rewinding.modules import ModuleSubject, is_module
from agf.rewinding.pruning import SCORES, counts, pruned
from agf.rewinding.subject import ProblemSubject, Subject, Train

METHODS = ("imp", "wr", "lrr")
BUDGETS = ("cycle", "equal")


@asked
@guarded
def rewind(
    problem: Problem | Any,
    init: Init | None = None,
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
    score: Callable[[Any, FloatArray], float] | None = None,
    loss: Callable[[Any], Any] | None = None,
    inputs: Sequence[int] | None = None,
    hold: str = "prune",
    seed: int = 0,
    path: str | os.PathLike[str] | None = None,
) -> Rewinding:
    """Train, prune and restart, over and over.

    Parameters
    ----------
    problem : Problem or torch.nn.Module
        What is trained. A module is trained in place by `train`, and ends with the weights of the last cycle; theta is
        then one row of all its parameters and buffers, of which those of two dimensions and more are pruned.
    init : Init
        Where the dense network starts; for a module left out, as it starts where it is.
    method : str
        "imp" starts every cycle from the initial weights, "wr" from those of flow time `rewind` of the dense training,
        "lrr" from the end of the cycle before.
    cycles : int
        Cycles after the dense one.
    keep : float
        Fraction of the prunable weights that a cycle keeps, in (0, 1]: round(N keep^i) are left after cycle i.
    rewind : float
        Flow time of the dense training that "wr" goes back to; for a module, in what its training function counts.
    by : str
        Score of the weights that stay: "magnitude", "snip" `|theta grad|`, "synflow", over all layers at once; or
        "random", nested and balanced over the layers, the same for every method with the same `seed`.
    prunable : str
        "all" weights, or the "inner" ones, input weights, alone.
    masks : Rewinding or sequence of bool ndarray, optional
        Masks of another pipeline, or one (H, P) mask a cycle from the first on, in place of pruning.
    signs : Rewinding or "own", optional
        Restart with the magnitudes of the method and these signs: those at the end of the same cycle of another
        pipeline, or the ones that this pipeline had at the end of the cycle before. What is 0 there has none, and
        starts with its own.
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
        Trajectory, or the weights (H, P) at its end, called with budget=k as well for k times a cycle's training where
        budgets are equal. Default: gradient flow until it settles. For a module, a function that trains it,
        train(module), and may return its loss; it is called as train(module, until=rewind) for "wr", to stop there, and
        as train(module, budget=k) where budgets are equal. Masks are in place meanwhile (see `hold`), so that any
        optimizer made inside keeps them.
    score : callable, optional
        (problem or module, theta) -> float, such as an accuracy on data kept apart; at the end of every cycle.
    loss : callable, optional
        For a module and by="snip": loss(module) is a tensor, the loss on the data by whose gradient weights are scored.
    inputs : sequence of int, optional
        For a module and by="synflow": shape of one input, such as (64,). Its score is that of the sum over all paths of
        products of |weights|, where activations are the identity on positive numbers.
    hold : str
        For a module, what keeps masked weights at 0 while `train` runs: "prune" (`torch.nn.utils.prune`), which
        computes them before every forward pass, or "parametrization" (`torch.nn.utils.parametrize`), which computes
        them whenever they are read, as penalties and copies made inside `train` do.
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
        For a wrong request: cycles that leave no weight, a file of another request, a module with shared parameters.
    DataError
        For masks of another shape, or that kill all weights.
    """
    if not (train is None or callable(train) or isinstance(train, dict)):
        raise RequestError(
            explain("`train` is neither options nor a function.", where="rewind", found=type(train).__name__)
        )
    if path is not None and not isinstance(path, str | os.PathLike):
        raise RequestError(explain("`path` is no path.", where="rewind", found=repr(path)))
    if isinstance(problem, type):
        raise RequestError(explain(f"{problem.__name__} is a class.", where="rewind", expected="an instance of it"))
    if is_module(problem):
        if init is not None or prunable != "all":
            words = "a module starts where it is, and all its weights may be pruned."
            raise RequestError(explain(words, where="rewind", remedy="Leave out init and prunable."))
        subject: Subject = ModuleSubject(problem, train, score, loss, inputs, hold)
    else:
        if loss is not None:
            raise RequestError(explain("a problem has its own loss.", where="rewind", remedy="Leave out `loss`."))
        if inputs is not None or hold != "prune":
            raise RequestError(explain("`inputs` and `hold` are for modules.", where="rewind"))
        subject = ProblemSubject(problem, admit(problem, init, "rewind"), prunable, train, score)
    if score is not None and not callable(score):
        raise RequestError(explain("`score` is no function.", where="rewind", found=type(score).__name__))
    run = _Pipeline(subject, method, cycles, keep, rewind, by, masks, signs, flip, budget, rebalance, seed, path)
    run.settings |= {"prunable": prunable, "train": "callable" if callable(train) else dict(train or {})}
    return run.go()


class _Pipeline:
    """One call of `rewind`."""

    def __init__(
        self, subject: Subject, method: str, cycles: int, keep: float, moment: float, by: str, masks: Any, signs: Any,
        flip: tuple[int, float] | None, budget: str, rebalance: bool, seed: int, path: Any,
    ) -> None:  # fmt: skip
        for value, name, valid in ((method, "method", METHODS), (by, "score", SCORES), (budget, "budget", BUDGETS)):
            if value not in valid:
                raise RequestError(
                    explain(f"unknown {name} {value!r}.", where="rewind", expected="one of " + ", ".join(valid))
                )
        keep, moment, asked = fraction(keep, "keep", where="rewind"), number(moment), moment
        if not 0.0 <= moment < np.inf or (moment > 0) != (method == "wr"):
            raise RequestError(
                explain(f"method {method!r} with rewind = {asked!r}.", where="rewind",
                        expected='a positive flow time for "wr", and none for the others')
            )  # fmt: skip
        self.subject, self.path, self.moment = subject, path, float(moment)
        self.cycles = count(cycles, "cycles", where="rewind", least=0)
        self.left = counts(int(subject.may.sum()), keep, self.cycles)
        self.given = None if masks is None else self._masks(masks)
        if signs not in (None, "own") and not isinstance(signs, Rewinding):
            raise RequestError(explain('`signs` is neither "own" nor a Rewinding.', where="rewind"))
        if isinstance(signs, Rewinding) and signs.ends.shape[1:] != subject.may.shape:
            raise RequestError(
                explain(
                    f"`signs` is of weights {signs.ends.shape[1:]}.", where="rewind", expected=f"{subject.may.shape}"
                )
            )
        if isinstance(signs, Rewinding) and signs.cycles < self.cycles:
            raise RequestError(explain(f"`signs` has {signs.cycles} cycles.", where="rewind", expected=f"{cycles}"))
        if flip is not None:
            flip = _flip(flip)
        if by != "random" and self.given is None:
            subject.score(subject.init.params(), by)  # has this score, or says that it has not
        if rebalance:
            subject.balanced(subject.init.params())  # likewise
        self.signs, self.flip, self.rebalance = signs, flip, rebalance
        self.settings: dict[str, Any] = {
            "method": method, "cycles": self.cycles, "keep": float(keep), "rewind": self.moment, "by": by,
            "masks": "own" if self.given is None else _mark(np.array(self.given)),
            "signs": _mark(np.sign(signs.ends)) if isinstance(signs, Rewinding) else (signs or "free"),
            "flip": None if flip is None else list(flip), "budget": budget,
            "rebalance": bool(rebalance), "seed": count(seed, "seed", where="rewind", least=0),
        }  # fmt: skip

    def go(self) -> Rewinding:
        """All cycles that are not in the file yet."""
        done = self._before()
        dense = np.ones_like(self.subject.may)
        if done is None:
            start = self.subject.init.params()
            end = self.subject.trained(start, dense, 1)
            first = self._measured(dense, start, end)  # before the training is taken up again for an early moment
            rewound = start if self.moment == 0 else self.subject.early(self.moment)
            done = self._recorded(None, first, rewound)
        while not done.done:
            i = done.cycles + 1
            mask = self._mask(done, i)
            start = self._start(done, mask, i)
            if not (start * mask).any():
                raise RequestError(explain(f"cycle {i} would start from weights that are all 0.", where="rewind"))
            budget = i + 1 if self.settings["budget"] == "equal" and self.settings["method"] != "lrr" else 1
            end = self.subject.trained(start, mask, budget)
            done = self._recorded(done, self._measured(mask, start, end), done.rewound)
        self.subject.leave(done.ends[-1])
        return done

    # -- cycles -----------------------------------------------------------------------------------------------

    def _mask(self, done: Rewinding, i: int) -> BoolArray:
        if self.given is not None:
            return self.given[i - 1]
        subject, by = self.subject, self.settings["by"]
        rng = np.random.default_rng([self.settings["seed"], i])
        mask = done.masks[-1]
        score = None if by == "random" else subject.score(done.ends[-1] * mask, by)
        return pruned(score, subject.layers, mask, subject.may, self.left[i], rng)

    def _start(self, done: Rewinding, mask: BoolArray, i: int) -> FloatArray:
        """Weights from which cycle i starts: the method's magnitudes and signs, then changes of sign, masked."""
        lrr = self.settings["method"] == "lrr"
        start = done.ends[-1] if lrr else done.rewound
        if self.signs is not None:
            learned = np.sign(self.signs.ends[i] if isinstance(self.signs, Rewinding) else done.ends[-1])
            start = np.where(learned == 0, start, np.abs(start) * learned)
        if self.flip is not None and (i == self.flip[0] or (i > self.flip[0] and not lrr)):
            start = start * self._flips(done, i, mask)
        start = start * mask
        return self.subject.balanced(start) if self.rebalance else start

    def _flips(self, done: Rewinding, i: int, mask: BoolArray) -> FloatArray:
        """(H, P) signs: -1 for the weights that `flip` changes, drawn among those left at its cycle."""
        assert self.flip is not None
        cycle, fraction = self.flip
        alive = (mask if i == cycle else done.masks[cycle]) & self.subject.weights
        rng = np.random.default_rng([self.settings["seed"], 10**6 + cycle])
        out = np.ones(alive.size)
        for layer in np.unique(self.subject.layers[self.subject.weights]):
            rows = np.flatnonzero((alive & (self.subject.layers == layer)).ravel())
            out[rng.permutation(rows)[: round(fraction * rows.size)]] = -1.0
        return out.reshape(alive.shape)

    # -- records ----------------------------------------------------------------------------------------------

    def _measured(self, mask: BoolArray, start: FloatArray, end: FloatArray) -> dict[str, Any]:
        """What is recorded of a cycle."""
        end = end * mask
        loss, accuracy, score = self.subject.measure(end)
        return {
            "masks": mask[None], "starts": (start * mask)[None], "ends": end[None],
            "losses": np.array([loss]), "accuracies": np.array([accuracy]), "scores": np.array([score]),
        }  # fmt: skip

    def _recorded(self, done: Rewinding | None, new: dict[str, Any], rewound: FloatArray) -> Rewinding:
        if done is None:
            subject = self.subject
            out = Rewinding(subject.name, subject.arguments, subject.init, self.settings, rewound=rewound, **new)
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
                files.check_run(self.path)
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
            found.problem == self.subject.name
            and mine == theirs
            and provenance.fingerprint(found.arguments) == provenance.fingerprint(self.subject.arguments)
            and np.array_equal(found.init.directions, self.subject.init.directions)
            and np.array_equal(found.init.log_norms, self.subject.init.log_norms)
        )

    def _masks(self, given: Any) -> list[BoolArray]:
        if not isinstance(given, Rewinding) and (isinstance(given, str) or not hasattr(given, "__len__")):
            raise RequestError(
                explain("`masks` are no sequence.", where="rewind", found=type(given).__name__,
                        expected="a Rewinding, or one mask a cycle")
            )  # fmt: skip
        masks = list(given.masks[1:]) if isinstance(given, Rewinding) else list(given)
        if len(masks) < self.cycles:
            raise RequestError(
                explain(f"{counted(len(masks), 'mask')} given.", where="rewind", expected=f"{self.cycles}, one a cycle")
            )
        return [self.subject.mask(mask) for mask in masks[: self.cycles]]


def _flip(given: Any) -> tuple[int, float]:
    """A pair (cycle, fraction), checked. Raises RequestError."""
    try:
        cycle, fraction = given
        good = cycle == int(cycle) and cycle >= 1 and 0.0 <= float(fraction) <= 1.0
    except (TypeError, ValueError):
        good = False
    if not good:
        raise RequestError(
            explain("`flip` is no (cycle, fraction).", where="rewind", found=repr(given),
                    expected="a cycle, 1 or more, and a fraction from 0 to 1")
        )  # fmt: skip
    return int(cycle), float(fraction)


def _mark(array: Any) -> str:
    """What tells one array from another in the settings of a file."""
    return f"given {zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"
