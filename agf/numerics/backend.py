"""Where the arrays of a computation live: numpy, or torch on a device when one is named. Always float64.

The formulas of `TwoLayer` are written once, for the functions that numpy and torch share by name and meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import FloatArray
from agf.errors import RequestError, explain

#: Numbers in an array that is taken and given back once. Cost: glibc maps every block above a size anew, page by page,
#: and trims its heap to twice that size, which becomes that of the largest block that was mapped and given back, up to
#: 32 MB (mallopt: the mmap threshold is dynamic). Without it work arrays of .4 MB and more take three times as long as
#: the arithmetic in them. Nothing is written, so that it takes no memory.
_KEPT = 2**21
np.empty(_KEPT)


@dataclass(frozen=True)
class Backend:
    """numpy or torch as `xp`, and a device, None for numpy."""

    xp: Any
    device: Any = None

    @classmethod
    def of(cls, device: str | None) -> Backend:
        """numpy when `device` is None, else torch on that device ("cpu", "cuda", "cuda:1", ...).

        Raises RequestError when torch is missing or has no such device.
        """
        if device is None:
            return cls(np)
        torch = import_torch("device=")
        try:
            where = torch.device(device)
            torch.zeros(1, dtype=torch.float64, device=where)
        except (RuntimeError, AssertionError, TypeError) as error:
            raise RequestError(
                explain(
                    f"device {device!r} cannot be used ({str(error).splitlines()[0]}).",
                    remedy='Use device="cpu", or leave it out for numpy.',
                )
            ) from None
        return cls(torch, where)

    @property
    def special(self) -> Any:
        """scipy.special or torch.special."""
        if self.device is not None:
            return self.xp.special
        import scipy.special  # a twentieth of a second that most networks do not need

        return scipy.special

    def array(self, value: Any) -> Any:
        """`value` as a float64 array of this backend."""
        if self.device is None:
            return np.asarray(value, dtype=np.float64)
        if isinstance(value, np.ndarray):
            value = np.ascontiguousarray(value)
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            value = value.copy()  # torch warns of sharing memory that must not be written
        return self.xp.as_tensor(value, dtype=self.xp.float64, device=self.device)

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Zeros of this backend."""
        if self.device is None:
            return np.zeros(shape)
        return self.xp.zeros(shape, dtype=self.xp.float64, device=self.device)

    def eye(self, size: int) -> Any:
        """The identity of this backend."""
        return self.array(np.eye(size))

    def product(self, left: Any, right: Any) -> Any:
        """Matrix product; by `dot`, as numpy's operator is four times slower where the inner dimension is one."""
        return np.dot(left, right) if self.device is None else left @ right

    def clip(self, value: Any, least: float, most: float | None = None) -> Any:
        """`value` within bounds; by two ufuncs, as numpy's own takes three times as long for small arrays."""
        if self.device is not None:
            return self.xp.clip(value, least, most)
        out = np.maximum(value, least)
        return out if most is None else np.minimum(out, most, out=out)

    def numpy(self, value: Any) -> FloatArray:
        """`value` as a numpy array."""
        return np.asarray(value) if self.device is None else value.detach().cpu().numpy()


def import_torch(what: str) -> Any:
    """The torch module. Raises RequestError that says how to get it."""
    try:
        import torch
    except ImportError:
        raise RequestError(
            explain(f"{what} needs torch, which is not installed.", remedy="pip install torch")
        ) from None
    return torch
