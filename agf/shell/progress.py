"""Progress of a computation in words: where it is watched decides how it looks, the computation never knows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.contract.problem import Problem
from agf.contract.start import foreseen
from agf.pictures.axes import in_notebook
from agf.records.state import State
from agf.records.table import number, visible
from agf.shell.console import LOGGED

if TYPE_CHECKING:
    from agf.results.drop import Drop
    from agf.training.recorder import Progress

#: Seconds between two updates of a line that is replaced. Cost: of writing; nobody reads faster.
_REPLACED = 0.2
#: Seconds that a computation may take without having been foretold. Limit: of patience; one that takes less says
#: nothing before it begins, and computes the same.
_FORETOLD = 60.0


class Watcher:
    """Observer of predictions and of trainers that passes on how far they are.

    Parameters
    ----------
    what : str
        What is going on, the first words.
    update : callable
        Called with a sentence.
    every : float
        Least seconds between calls; the first news and every drop are passed on at once.
    """

    def __init__(self, what: str, update: Callable[[str], None], every: float = _REPLACED) -> None:
        self.what, self.update, self.every = what, update, every
        self.due, self.drops = 0.0, 0

    def __call__(self, news: State | Progress, drop: Drop | None = None) -> None:
        if drop is not None:
            self.drops += 1
            label = visible(drop.label[:200])
            self.update(
                f"{self.what}: drop {self.drops}, {label}, time {number(drop.time)}, level {number(drop.level)}"
            )
        elif isinstance(news, State) and self.due == 0.0:
            self.due = monotonic() + self.every  # most predictions are over before anybody waits for news
        elif monotonic() >= self.due:
            self.due = monotonic() + self.every
            if isinstance(news, State):
                self.update(f"{self.what}: loss {number(news.level)}")
            else:
                self.update(f"{self.what}: time {number(news.time)}, loss {number(news.loss)}, step {news.step}")


def watch(what: str = "computing") -> Watcher:
    """An observer for `predict`, `flow` and `descend` that shows progress wherever the session is.

    In a notebook one line below the cell is replaced, on a terminal the current line; in a log file there is a line at
    every drop, and every ten seconds.

    Parameters
    ----------
    what : str, optional
        What is going on, the first words of the line.

    Returns
    -------
    Watcher
        To be passed as `observer`. Where there is nowhere to show it, nothing is raised.

    Examples
    --------
    >>> flow = agf.flow(problem, init, observer=agf.watch("gradient flow"))  # doctest: +SKIP
    """
    handle = _notebook_line()
    if handle is not None:
        return Watcher(what, lambda words: handle.update({"text/plain": words}, raw=True))
    if sys.stderr.isatty():
        return Watcher(what, lambda words: print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True))
    return Watcher(what, lambda words: print(words, file=sys.stderr, flush=True), every=LOGGED)


def _notebook_line() -> Any:
    """A line below the notebook's cell that can be replaced, or None outside notebooks."""
    if not in_notebook():
        return None
    from IPython.display import display

    return display({"text/plain": ""}, raw=True, display_id=True)


@contextmanager
def foretold(say: Callable[[str], None]) -> Iterator[None]:
    """Where what is computed inside takes minutes, say so before it begins: one gradient is timed, for the numbers that
    it goes through tell the time to a factor of twenty only."""
    longest = _FORETOLD

    def tell(problem: Problem, gradients: float) -> None:
        nonlocal longest
        one = _gradient(problem)
        if gradients * one <= longest:
            return
        longest = 2.0 * gradients * one  # a second word is worth it where it is another one
        minutes = gradients * one / 60.0
        span = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.0f} hours"
        words = f"A gradient takes {one:.2g} s here, and about {gradients:,.0f} are needed: {span} or more."
        say(f"{words} An interrupt ends it with what there is by then.")

    before = foreseen.set(tell)
    try:
        yield
    finally:
        foreseen.reset(before)


def _gradient(problem: Problem) -> float:
    """Seconds of one gradient of all neurons; the first of several may have things to set up."""
    theta = np.random.default_rng(0).standard_normal((problem.width, problem.n_params))
    theta *= 1e-3 / np.sqrt(problem.n_params)
    spans = []
    for _ in range(2):
        began = monotonic()
        problem.loss_grad(theta, np.arange(problem.width))
        spans.append(monotonic() - began)
    return min(spans)
