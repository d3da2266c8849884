"""What happens to dormant (leaky) ReLU neurons on a frozen residual, and what they do in the end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from agf.arrays import FloatArray, IntArray

_COLUMNS = ("neuron", "sample", "kind", "time")


class Event(IntEnum):
    """What happened to a neuron."""

    GAIN = 1  #: a sample became active
    LOSS = 2  #: a sample became inactive
    SLIDE = 3  #: the neuron began to slide along the wall of a sample
    FLIP = 4  #: its output weight changed sign
    VANISH = 5  #: its input weights reached 0, or what no sample sees, and stay there
    PASS = 6  #: they passed through it


class Fate(IntEnum):
    """What a neuron does after its last event."""

    ALIGNS = 0  #: turns to the field of its cone and grows for ever
    OPPOSED = 1  #: stands exactly against the field and shrinks for ever
    DEAD = 2  #: no sample is active: stays as it is
    FLAT = 3  #: samples are active, but the field is zero: stays as it is
    VANISHED = 4  #: input weights 0: stays as it is
    TURNING = 5  #: had events still to come when it was stopped


@dataclass(frozen=True)
class Events:
    """Columns of a list of events; those of one neuron are in the order of time.

    Attributes
    ----------
    neuron, sample, kind : numpy.ndarray, shape (e,)
        Row of the neuron; sample whose wall it met, -1 for FLIP and VANISH; an `Event`.
    time : numpy.ndarray, shape (e,)
        Flow time since the start of the phase.
    """

    neuron: IntArray
    sample: IntArray
    kind: IntArray
    time: FloatArray

    @classmethod
    def join(cls, parts: list[Events]) -> Events:
        """All of them, one list after the other."""
        empty = np.zeros(0, dtype=np.int64)
        parts = [cls(empty, empty, empty, np.zeros(0)), *parts]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS))

    def by_neuron(self) -> Events:
        """The same, neuron by neuron."""
        narrow = self.neuron.astype(np.int16) if self.neuron.max(initial=0) < 2**15 else self.neuron  # a radix sort
        order = np.argsort(narrow, kind="stable")
        return Events(*(getattr(self, name)[order] for name in _COLUMNS))
