"""The encoding of a finite abelian group by the translates of one template, and its characters.

Convention of the whole plugin: the element a is encoded as the translate (a.x)[j] = x[j - a], `roll(x, a)` for Z/p, and
xh_k = sum_j x_j exp(-2 pi i k j / p). An *amplitude* is |xh_k|, so that a spectrum {k: amplitude} gives
x_j = (2/p) sum_k amplitude_k cos(2 pi k j / p) and |x|^2 = (2/p) sum_k amplitude_k^2 over k = 1 .. (p-1)/2; the Nyquist
frequency p/2 of an even p is its own conjugate and counts once instead of twice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agf.arrays import FloatArray, IntArray, count, in_range, vector
from agf.errors import DataError, explain
from agf.rounding import RANK

ComplexArray = NDArray[np.complex128]


class Characters:
    """Characters of Z/n_1 x ... x Z/n_r, in pairs of conjugates.

    Elements and characters are numbered 0 .. p-1 in C order of their coordinates.

    Attributes
    ----------
    orders : tuple[int, ...]
        The n's.
    order
        Their product p.
    frequencies : int ndarray, shape (K,)
        One character of each pair {chi, conj chi}, the trivial one left out; 1 .. p//2 for Z/p.
    paired : bool ndarray, shape (K,)
        False where a character is real (its own conjugate: Nyquist).
    """

    def __init__(self, orders: tuple[int, ...]):
        self.orders = orders
        self.order = math.prod(orders)
        coordinates = np.array(np.unravel_index(np.arange(self.order), orders))
        conjugate = np.ravel_multi_index(tuple((-coordinates) % np.array(orders)[:, None]), orders)
        index = np.arange(self.order)
        self.frequencies: IntArray = index[1:][index[1:] <= conjugate[1:]]
        self.paired = conjugate[self.frequencies] != self.frequencies
        self._coordinates = coordinates

    def transform(self, values: FloatArray) -> ComplexArray:
        """Fourier coefficients at every character, (..., p), of functions on the group, (..., p)."""
        shape = values.shape[:-1]
        axes = tuple(range(-len(self.orders), 0))
        return np.fft.fftn(values.reshape(*shape, *self.orders), axes=axes).reshape(*shape, self.order)

    def inverse(self, coefficients: ComplexArray) -> FloatArray:
        """Real function on the group, (..., p), from its Fourier coefficients, (..., p)."""
        shape = coefficients.shape[:-1]
        axes = tuple(range(-len(self.orders), 0))
        values = np.fft.ifftn(coefficients.reshape(*shape, *self.orders), axes=axes).real
        return values.reshape(*shape, self.order)

    def fill(self, amplitudes: ComplexArray) -> ComplexArray:
        """Coefficients at every character, (p,), of a real function, from those at `frequencies`, (K,)."""
        full = np.zeros(self.order, dtype=np.complex128)
        minus = np.ravel_multi_index(
            tuple((-self._coordinates[:, self.frequencies]) % np.array(self.orders)[:, None]), self.orders
        )
        full[minus] = amplitudes.conj()
        full[self.frequencies] = np.where(self.paired, amplitudes, amplitudes.real)
        return full

    def differences(self) -> IntArray:
        """(p, p) number of the element j - a."""
        d = self._coordinates[:, :, None] - self._coordinates[:, None, :]
        return np.ravel_multi_index(tuple(d % np.array(self.orders)[:, None, None]), self.orders)

    def sums(self) -> IntArray:
        """(p, p) number of the element a + b."""
        s = self._coordinates[:, :, None] + self._coordinates[:, None, :]
        return np.ravel_multi_index(tuple(s % np.array(self.orders)[:, None, None]), self.orders)

    def name(self, frequency: int) -> str:
        """ "frequency 3" for Z/p, "character (1, 2)" for a product."""
        if len(self.orders) == 1:
            return f"frequency {int(frequency)}"
        return f"character ({', '.join(str(int(c)) for c in self._coordinates[:, frequency])})"


class Template:
    """A centred template on a group.

    Attributes
    ----------
    values : float ndarray, shape (p,)
        x, with mean zero; all zero when the template given was constant.
    spectrum : complex ndarray, shape (K,)
        Xh at `characters.frequencies`.
    learnable : int ndarray, shape (S,)
        Positions in `characters.frequencies` of the non-zero coefficients.
    """

    def __init__(self, characters: Characters, values: FloatArray):
        self.characters = characters
        spread = values - values.mean()
        constant = np.abs(spread).max() <= 8 * np.finfo(np.float64).eps * np.abs(values).max()
        spectrum = characters.transform(np.zeros_like(values) if constant else spread)[characters.frequencies]
        size = np.abs(spectrum)
        spectrum[size <= RANK * size.max(initial=0.0)] = 0.0
        self.spectrum = spectrum
        self.values = characters.inverse(characters.fill(spectrum))
        self.learnable: IntArray = np.flatnonzero(spectrum)

    @property
    def energy(self) -> float:
        """|x|^2, twice the loss of the zero function."""
        return float(self.values @ self.values)

    def gains(self) -> FloatArray:
        """(K,) loss that learning each frequency takes away: |xh|^2 / p, half of it for a real character."""
        size = np.abs(self.spectrum) ** 2 / self.characters.order
        return np.where(self.characters.paired, size, 0.5 * size)

    def translates(self) -> FloatArray:
        """(p, p), x[j - a] in row j and column a: column a encodes the element a."""
        return self.values[self.characters.differences()]


#: Elements of a group. Limit: of memory and time; a neuron holds three numbers for each, and a neuron alone is far from
#: what a network of so many can learn.
_LARGEST = 10_000_000


def characters_of(p: Any, group: Any, length: int | None) -> Characters:
    """The group from `p`, `group` (orders) or the length of a template, whichever is given. Raises DataError."""
    orders = _orders(p, group, length)
    if math.prod(orders) > _LARGEST:
        raise DataError(explain(f"a group of {math.prod(orders):,} elements is too large.", where="modular-addition",
                                expected=f"at most {_LARGEST:,}", remedy="Use a smaller p."))  # fmt: skip
    return Characters(orders)


def _orders(p: Any, group: Any, length: int | None) -> tuple[int, ...]:
    where = "modular-addition"
    if group is not None:
        if isinstance(group, int):
            group = (group,)
        if not isinstance(group, tuple | list) or not group:
            raise DataError(explain("`group` must list the orders of cyclic groups.", where=where, found=repr(group),
                                    remedy="Use group=[3, 5] for Z/3 x Z/5."))  # fmt: skip
        orders = tuple(count(n, "group", where=where, least=2) for n in group)
        if p is not None and math.prod(orders) != count(p, "p", where=where):
            raise DataError(explain(f"`p` is {p} and the group {orders} has {math.prod(orders)} elements.", where=where,
                                    remedy="Leave one of them out."))  # fmt: skip
        return orders
    if p is None:
        if length is None:
            raise DataError(explain("`p`, the number of residues, is missing.", where=where, remedy="Use p=23."))
        p = length
    return (count(p, "p", where=where, least=2),)


def read_template(template: Any, characters: Characters) -> Template:
    """A template from an array (p,), a spectrum {frequency: amplitude}, "one-hot", or "power-law:S".

    "power-law:S" has |xh_k| = k^-S, k = 1 .. p//2; "one-hot" has every |xh_k| = 1. A spectrum may also come as text,
    "1:10,3:5", or with the frequencies as text, as in JSON. Amplitudes are real; a negative one turns the wave over.
    Raises DataError.
    """
    where = "modular-addition"
    p = characters.order
    if isinstance(template, str):
        word, _, rest = template.partition(":")
        if template == "one-hot":
            values = np.zeros(p)
            values[0] = 1.0
            return Template(characters, values)
        if word == "power-law":
            exponent = _number(rest or "1", "the exponent of the power law")
            rank = np.arange(1, characters.frequencies.size + 1, dtype=np.float64)
            return _from_spectrum(characters, rank**-exponent)
        try:
            template = {int(k): float(v) for k, v in (item.split(":") for item in template.strip("{}").split(","))}
        except ValueError:
            raise DataError(explain(f"unknown template {template!r}.", where=where,
                                    expected='"one-hot", "power-law:1.5", a spectrum such as {1: 10, 3: 5}, '
                                    "or an array of length p")) from None  # fmt: skip
    if isinstance(template, dict):
        amplitudes = np.zeros(characters.frequencies.size)
        for key, value in template.items():
            key = int(key) if isinstance(key, str) and key.strip().isdecimal() else key  # JSON has no other keys
            amplitudes[_position(key, characters)] = _number(value, f"the amplitude of frequency {key}")
        return _from_spectrum(characters, amplitudes)
    return Template(characters, in_range(vector(template, "template", where=where, length=p), "template", **_RANGE))


#: Of a template: its products in a loss and what its weights come to leave float64 beyond.
_RANGE: dict[str, Any] = {"where": "modular-addition", "power": 8}


def _from_spectrum(characters: Characters, amplitudes: FloatArray) -> Template:
    in_range(amplitudes, "template", **_RANGE)
    return Template(characters, characters.inverse(characters.fill(amplitudes.astype(np.complex128))))


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise DataError(explain(f"{name} must be a finite real number.", where="modular-addition", found=repr(value),
                                remedy="Give an array as the template to choose phases."))  # fmt: skip
    return number


def _position(key: Any, characters: Characters) -> int:
    """Position in `characters.frequencies` of a frequency (an int, or a tuple for a product of groups)."""
    where = "modular-addition"
    orders = characters.orders
    coordinates = (key,) if isinstance(key, int | np.integer) else tuple(key) if isinstance(key, tuple) else ()
    fits = len(coordinates) == len(orders) and all(
        isinstance(k, int | np.integer) and 0 <= k < n for k, n in zip(coordinates, orders, strict=True)
    )
    expected = f"1 to {orders[0] // 2}" if len(orders) == 1 else f"a tuple of {len(orders)} integers below {orders}"
    if not fits:
        raise DataError(explain(f"there is no frequency {key!r}.", where=where, expected=expected))
    number = int(np.ravel_multi_index(coordinates, orders))
    if number == 0:
        raise DataError(explain("the spectrum has an amplitude at frequency 0, the mean.", where=where,
                                expected=f"frequencies {expected}",
                                remedy="Leave it out: templates are centred."))  # fmt: skip
    found = np.flatnonzero(characters.frequencies == number)
    if found.size == 0:
        raise DataError(explain(f"frequency {key!r} is the conjugate of a lower one.", where=where, expected=expected,
                                remedy="Name the lower of the pair k, -k."))  # fmt: skip
    return int(found[0])
