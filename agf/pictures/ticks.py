"""Ticks that keep apart at any range and size of an axis: round times on a log axis, losses on a scale of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: More words than this on one axis say no more.
_MOST = 9
#: Room between words side by side, and one above the other, in sizes of the font.
_ROOM = {"x": 0.6, "y": 0.3}
#: Times from the first to the second are written out; beyond, with powers of ten.
_PLAIN = (1e-3, 1e6)
#: A multiple this fraction of a step outside the axis is its end, to rounding.
_AT_END = 1e-6
#: Digits of float64, and powers of ten that it holds.
_DIGITS = 15
_MOST_POWER = 307


def log_time(ax: Axes) -> None:
    """Make the time axis logarithmic, with words that keep apart at any range and size, also after zooming."""
    from matplotlib.ticker import NullFormatter

    ax.set_xscale("log")
    locator, formatter = _time_classes()
    ax.xaxis.set_major_locator(locator())
    ax.xaxis.set_major_formatter(formatter())
    ax.xaxis.set_minor_formatter(NullFormatter())


def losses(ax: Axes, sets: Iterable[tuple[list[float], list[str]]]) -> None:
    """Ticks of the loss axis: the first of the sets (losses, words) that fits, from dense to sparse."""
    from matplotlib.ticker import FuncFormatter

    every = [(np.asarray(places), words) for places, words in sets]
    words_at = {place: word for places, words in every for place, word in zip(places.tolist(), words, strict=True)}
    ax.yaxis.set_major_locator(_loss_class()(every))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda loss, _: words_at.get(float(loss), "")))


def _fitting(axis: Any, sets: Iterable[tuple[FloatArray, list[str]]]) -> FloatArray:
    """Places of the first set whose words keep apart, as they are drawn now; a lone place where none do."""
    from matplotlib.textpath import text_to_path

    ax = axis.axes
    figure = ax.get_figure(root=True)
    font = axis.get_major_ticks(1)[0].label1.get_fontproperties()
    size = font.get_size_in_points()
    sideways = axis.axis_name == "x"
    other = ax.get_ylim()[0] if sideways else ax.get_xlim()[0]
    chosen = np.zeros(0)
    for places, words in sets:
        if not places.size:
            continue
        chosen = places
        beside = np.full(places.size, other)
        data = np.column_stack([places, beside] if sideways else [beside, places])
        at = ax.transData.transform(data)[:, 0 if sideways else 1] * 72 / figure.dpi
        long = [text_to_path.get_text_width_height_descent(word, font, "$" in word)[0] if sideways else size
                for word in words]  # fmt: skip
        reach = 0.5 * (np.array(long[1:]) + np.array(long[:-1])) + _ROOM[axis.axis_name] * size
        if (np.abs(np.diff(at)) >= reach).all():
            return places
    return chosen[:1]


def candidates(low: float, high: float) -> Iterator[FloatArray]:
    """Sets of round times in [low, high], 0 < low < high, from dense to sparse.

    Within a decade multiples of 1, 2 or 5 times a power of ten; beyond, a few a decade, then every so many decades.
    """
    if low > 0.1 * high:
        exponent = math.floor(math.log10(high - low)) - 1
        finest = math.floor(math.log10(high)) - _DIGITS + 1
        for power in range(max(exponent, finest, -_MOST_POWER), min(exponent + 3, _MOST_POWER)):
            for unit in (1, 2, 5):
                step = unit * 10.0**power
                multiples = np.arange(math.ceil(low / step - _AT_END), math.floor(high / step + _AT_END) + 1)
                # Divided by a whole power of ten where it is small, so that 0.3 is the float64 that prints as 0.3.
                times = multiples * unit / 10.0**-power if power < 0 else multiples * unit * 10.0**power
                yield times.astype(np.float64)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for parts in ((1, 2, 5), (1, 3), (1,)):
        yield _within(low, high, np.arange(first, last + 1), parts)
    for stride in (2, 3, 5, 10, 20, 50, 100, 200):
        yield _within(low, high, np.arange(stride * (first // stride), last + 1, stride), (1,))


def _within(low: float, high: float, exponents: np.ndarray, parts: tuple[int, ...]) -> FloatArray:
    ticks = np.array([float(f"{part}e{power}") for power in exponents.tolist() for part in parts])
    return ticks[(ticks >= low) & (ticks <= high)]


def words(ticks: FloatArray) -> list[str]:
    """What to write at these times: the shortest numbers that tell them apart, or powers of ten."""
    values = [float(f"{tick:.{_DIGITS}g}") for tick in ticks]
    if not values:
        return []
    if _PLAIN[0] <= min(values) and max(values) < _PLAIN[1]:
        return [np.format_float_positional(value, trim="-") for value in values]
    return [_power_of_ten(value) for value in values]


def _power_of_ten(value: float) -> str:
    """Mathtext such as 10^5 or 2 x 10^5."""
    mantissa, _, exponent = np.format_float_scientific(value, trim="-").partition("e")
    power = f"10^{{{int(exponent)}}}"
    return f"${power}$" if mantissa == "1" else rf"${mantissa}{{\times}}{power}$"


@cache
def _time_classes() -> tuple[Any, Any]:
    """The locator and the formatter of times; made when first used, as matplotlib is loaded only to draw."""
    from matplotlib.ticker import Formatter, LogLocator

    class TimeLocator(LogLocator):
        """The densest candidates whose words fit on the axis."""

        def tick_values(self, vmin: float, vmax: float) -> Any:
            low, high = sorted((float(vmin), float(vmax)))
            if not 0 < low < high < np.inf:
                return super().tick_values(vmin, vmax)
            few = (times for times in candidates(low, high) if times.size <= _MOST)
            return _fitting(self.axis, ((times, words(times)) for times in few))

    class TimeFormatter(Formatter):
        """Words for all ticks together."""

        def format_ticks(self, values: Any) -> list[str]:
            return words(np.asarray(values, dtype=np.float64))

        def __call__(self, x: float, pos: int | None = None) -> str:
            del pos
            return words(np.array([x]))[0]

    return TimeLocator, TimeFormatter


@cache
def _loss_class() -> Callable[[list[tuple[FloatArray, list[str]]]], Any]:
    """The locator of losses."""
    from matplotlib.ticker import Locator

    class LossLocator(Locator):
        """The densest of given sets whose words fit on the axis."""

        def __init__(self, sets: list[tuple[FloatArray, list[str]]]) -> None:
            self.sets = sets

        def __call__(self) -> Any:
            return _fitting(self.axis, self.sets)

        def tick_values(self, vmin: float, vmax: float) -> Any:
            del vmin, vmax
            return self()

    return LossLocator
