"""How a flow is stepped, as values: explicit steps, explicit ones that turn implicit where that is cheaper, LSODA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agf import integrators
from agf.arrays import FloatArray
from agf.integrators import ABSURD, METHODS, Accepted, ErrorNorm, Memory, NonFinite, one_by_one
from agf.numerics import collocation, ndf
from agf.stopping.driver import Counted

#: Methods by the number that stands for them in a file.
_NAMES = (*METHODS, collocation.NAME)
#: A step of which stability takes more evaluations than this, and than this fraction of the number of entries, makes
#: way for implicit ones. Cost: these take a few evaluations, and a Hessian with its factorization a dozen times a run
#: (measured: at twice of both flows of twenty networks take 1.07 of the time and up to 1.47 of the gradients, their
#: predictions .96; at 50 and a quarter the flow of modular addition takes 1.6 times as long).
EXPENSIVE, EXPENSIVE_ENTRY = 8, 0.03
#: What a Hessian with its factorization counts, in gradients, a fraction of the number of entries. Cost: of budgets.
PER_ENTRY = 0.25
#: Largest system that is solved with, in entries. Cost: memory (46 MB) and time of a dense factorization.
LARGEST = 2400
#: Largest system whose steps are solved for all stages at once, in entries. Cost: a solution costs as (7 N)^3.
COLLOCATED = 24
#: Change of error scales at which LSODA is told of them. Cost: of restarts; errors are right to this factor.
_RESCALED = 2.0


@dataclass(frozen=True)
class Explicit:
    """`agf.integrators.march`: nothing can damp a growing mode, and no long step may raise the loss of a smooth flow.

    Attributes
    ----------
    rtol : float
        Error of one step in the scale of the system.
    name : str
        "rk45", "rkc2", "auto" or "rough".
    """

    rtol: float
    name: str = "auto"

    def march(
        self, system: Counted, y: FloatArray, *, s0: float, s_end: float, memory: Memory | None = None
    ) -> Iterator[Accepted]:
        """Accepted steps."""
        flow = system.system

        def rises(y0: FloatArray, y1: FloatArray) -> bool:
            before = system.loss_and_rate(y0)[0]
            return system.loss_and_rate(y1)[0] > before + self.rtol * abs(before)

        return integrators.march(
            system.velocity,
            y,
            method=self.name if flow.smooth else "rk45",
            rtol=self.rtol,
            scale=flow.scale,
            groups=flow.groups,
            retract=None if flow.projects else flow.retract,
            s0=s0,
            s_end=s_end,
            memory=memory,
            rises=rises if flow.smooth else None,
            project=flow.retract if flow.projects else None,
        )


@dataclass(frozen=True)
class Auto:
    """Explicit steps, and implicit ones from where stability costs more evaluations than solving with the Hessian does.

    Implicit steps are never longer than growing modes allow (`agf.numerics.ndf`). Systems without a Hessian, or larger
    than `LARGEST`, stay explicit. Small ones in which nothing grows take long implicit steps of high order from the
    start (`agf.numerics.collocation`).

    Attributes
    ----------
    rtol : float
        Error of one explicit step in the scale of the system.
    implicit : float
        That of an implicit step relative to it: their cost hardly depends on it over some decades.
    """

    rtol: float
    implicit: float = 0.1

    def march(
        self, system: Counted, y: FloatArray, *, s0: float, s_end: float, memory: Memory | None = None
    ) -> Iterator[Accepted]:
        """Accepted steps."""
        flow = system.system
        if flow.contracts and y.size <= COLLOCATED:
            yield from collocation.march(
                system.linearized, y, rtol=self.rtol, scale=flow.scale, s0=s0, s_end=s_end, memory=memory
            )
            return
        if not isinstance(memory, ndf.History):
            many = max(EXPENSIVE, EXPENSIVE_ENTRY * y.size)
            for step in Explicit(self.rtol).march(system, y, s0=s0, s_end=s_end, memory=memory):
                if step.stages > many and y.size <= LARGEST and step.s1 < s_end and system.hessian(step.y1) is not None:
                    y, s0, memory = step.y1, step.s1, ndf.History(step.s1 - step.s0)
                    yield replace(step, memory=memory)
                    break
                yield step
            else:
                return
        norm = ErrorNorm(self.rtol * self.implicit, flow.scale, flow.groups, y.size)
        with np.errstate(**ABSURD):
            yield from ndf.march(
                system.velocity,
                system.hessian,
                y,
                norm=lambda error, at: norm(error, at, at),
                s0=s0,
                s_end=s_end,
                metric=None if flow.metric(y) is None else flow.metric,
                memory=memory,
            )


@dataclass(frozen=True)
class LSODA:
    """ODEPACK's LSODA as scipy has it: shares no code with the other methods, and checks them in tests.

    Its error test knows no groups and damps growing modes if steps are long, so it wants a small tolerance.

    Attributes
    ----------
    rtol : float
        Error of one step in the scale of the system.
    """

    rtol: float = 1e-10

    def march(
        self, system: Counted, y: FloatArray, *, s0: float, s_end: float, memory: Any = None
    ) -> Iterator[Accepted]:
        """Accepted steps; the memory is not resumable."""
        from scipy import integrate

        del memory
        flow, s, f = system.system, s0, system.velocity(y)
        while s < s_end:
            scale = flow.scale(y)
            solver = integrate.LSODA(lambda _, at: system.velocity(at), s, y, s_end, rtol=1e-13, atol=self.rtol * scale)
            while solver.status == "running":
                if (message := solver.step()) is not None or not np.isfinite(solver.y).all():
                    raise NonFinite(message or "the state is not finite.", s, y)
                ahead, slope = solver.y.copy(), system.velocity(solver.y)
                yield Interpolated(
                    s,
                    float(solver.t),
                    y,
                    ahead,
                    f,
                    slope,
                    None,
                    self.rtol * scale,
                    0,
                    Memory(solver.t - s),
                    solver.dense_output(),
                )
                s, y, f = float(solver.t), ahead, slope
                change = flow.scale(y) / scale
                if np.max(change) > _RESCALED or np.min(change) < 1 / _RESCALED:
                    break


@dataclass(frozen=True)
class Interpolated(Accepted):
    """An accepted step with its solver's own dense output."""

    output: Any

    def dense(self, s: float) -> FloatArray:
        """State at s."""
        return np.asarray(self.output(s))

    many = staticmethod(one_by_one)


def pack(memory: Memory | None) -> dict[str, FloatArray]:
    """Arrays that hold what a method carries from step to step, for a file."""
    if memory is None:
        return {}
    numbers = [memory.step, memory.error, _NAMES.index(memory.method), memory.stiff, memory.radius, memory.age]
    arrays = {"memory": np.array(numbers, dtype=np.float64)}
    if memory.vector is not None:
        arrays["vector"] = memory.vector
    if isinstance(memory, ndf.History):
        more = [memory.order, memory.equal, memory.longest, memory.own, memory.mark, memory.counted]
        arrays["implicit"] = np.array(more, dtype=np.float64)
        for name in ("past", "at", "there"):
            if (value := getattr(memory, name)) is not None:
                arrays[f"implicit_{name}"] = value
    return arrays


def unpack(arrays: dict[str, FloatArray]) -> Memory | None:
    """The memory that `pack` put into these arrays, or None where there is none."""
    if "memory" not in arrays:
        return None
    step, error, method, stiff, radius, age = (float(v) for v in arrays["memory"])
    plain = (step, error, _NAMES[int(method)], int(stiff), radius, arrays.get("vector"), int(age))
    if "implicit" not in arrays:
        return Memory(*plain)
    order, equal, longest, own, mark, counted = (float(v) for v in arrays["implicit"])
    past, at, there = (arrays.get(f"implicit_{name}") for name in ("past", "at", "there"))
    return ndf.History(*plain, past, int(order), int(equal), longest, at, own, mark, there, int(counted))
