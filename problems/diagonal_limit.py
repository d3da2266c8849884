"""The staircase of a diagonal network as alpha -> 0, by following it from stage to stage ([PF23] Algorithm 1).

In units of -log alpha, s_i = z_i / -log alpha moves at the rate v_i = x_i . r / n. When |s_i| reaches 1 coordinate i
may be non-zero, with the sign of s_i, and the coefficients jump to the least-squares solution under these signs.
"""

from __future__ import annotations

import time as wall
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from agf_problems.signed_fit import SignedFit

import agf
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.errors import explain
from agf.init import check_alpha

#: Coordinates whose s would reach +-1 within this fraction of the elapsed phase activate together.
_TIE = 1e-9
#: Rounding error of s, a sum of a few thousand terms of size at most 1.
_ROUNDING = 1e-13
#: A level whose optimality conditions are violated by more than this, relative, is no level.
_KKT_LIMIT = 1e-7
#: Stages certified in one matrix product.
_BATCH = 256


@dataclass(frozen=True)
class Stage:
    """One plateau. time : accelerated. signs : (d,) s where |s| = 1, else 0. coefficients : (d,).

    entered, left : columns that became non-zero and zero. speeds : (k,) |v| of those that entered, before the drop.
    runner_up : column that would have been next and the time it lacked, or None.
    """

    time: float
    signs: FloatArray
    coefficients: FloatArray
    entered: IntArray
    left: IntArray
    speeds: FloatArray
    runner_up: tuple[int, float] | None


def stages(x: FloatArray, y: FloatArray) -> Iterator[Stage]:
    """The plateaus in order, until nothing but rounding error is left to fit. x : (n, d), y : (n,)."""
    n, d = x.shape
    fit = SignedFit(x, y)
    s = np.zeros(d)
    time = 0.0
    idle = np.zeros(d, dtype=bool)  # reached +-1 as combinations of active columns: they can add nothing
    before: BoolArray = np.zeros(d, dtype=bool)
    while True:
        v = fit.pull / n
        moving = np.flatnonzero((v != 0.0) & ~idle)
        if moving.size == 0:
            return
        signs, speeds = np.sign(v[moving]), np.abs(v[moving])
        lacking = np.maximum(1.0 - signs * s[moving], 0.0) / speeds
        step = float(lacking.min())
        there = signs * (s[moving] + v[moving] * step) >= 1.0 - _ROUNDING - _TIE * speeds * step
        s[moving] += v[moving] * step
        s[moving[there]] = signs[there]
        time += step
        edge = np.where(np.abs(s) == 1.0, s, 0.0)
        fit.minimize(edge)
        coefficients = fit.shared(edge)
        active = coefficients != 0.0
        entered, left = np.flatnonzero(active & ~before), np.flatnonzero(before & ~active)
        if entered.size == 0:  # what reached +-1 lies in the span of the others, up to rounding
            idle[moving[there]] = True
            continue
        if left.size:
            idle[:] = False
        later = np.where(there, np.inf, lacking)
        next_one = int(later.argmin())
        yield Stage(
            time, edge, coefficients, entered, left, np.abs(v[entered]),
            None if np.isinf(later[next_one]) else (int(moving[next_one]), float(later[next_one] - step)),
        )  # fmt: skip
        before = active


@dataclass(frozen=True)
class _Certificates:
    """Per stage, recomputed from the data: level, |dL/dtheta|, duality gap, relative violation of optimality."""

    levels: FloatArray
    grad_norms: FloatArray
    gaps: FloatArray
    kkt: FloatArray


def _certify(x: FloatArray, y: FloatArray, path: list[Stage]) -> _Certificates:
    n = y.size
    norms, size = np.linalg.norm(x, axis=0), np.linalg.norm(y)
    parts: list[tuple[FloatArray, ...]] = [(np.zeros(0),) * 4]
    for start in range(0, len(path), _BATCH):
        some = path[start : start + _BATCH]
        beta = np.stack([stage.coefficients for stage in some])
        used = np.flatnonzero(beta.any(axis=0))
        r = y - beta[:, used] @ x[:, used].T
        v = r @ x / n
        edge = np.stack([stage.signs for stage in some])
        # v_i must vanish where beta_i does not, and push no coordinate at 0 to the side that is open to it; it is
        # relative to |x_i| (|y| + sum_j |x_j| |beta_j|) / n, so that rounding beta alone would give about 1e-16
        violation = np.where(beta != 0.0, np.abs(v), np.maximum(edge * v, 0.0))
        parts.append(
            (
                0.5 * np.sum(r**2, axis=1) / n,
                np.sqrt(np.sum(2.0 * np.abs(beta) * v**2, axis=1)),
                np.abs(np.sum(beta * v, axis=1)),
                np.max(n * violation / np.where(norms > 0, norms, 1.0), axis=1) / (size + np.abs(beta) @ norms),
            )
        )
    return _Certificates(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def staircase(problem: agf.Problem, x: FloatArray, y: FloatArray, alpha: float | None) -> agf.Staircase:
    """The sequence as a Staircase, with flow times where alpha is given."""
    began = wall.perf_counter()
    unit = np.nan
    if alpha is not None:
        unit = -np.log(check_alpha(alpha))
        if not unit > 0:
            raise agf.RequestError(
                explain(
                    "alpha is too large for the theory, which is about alpha -> 0.",
                    where=f"{problem.name}.theory",
                    found=alpha,
                    expected="alpha < 1",
                )
            )
    path = list(stages(x, y))
    proof = _certify(x, y, path)
    worst = float(proof.kkt.max(initial=0.0))
    drops = tuple(
        agf.Drop(
            time=unit * stage.time,
            half_time=unit * stage.time,
            accelerated_time=stage.time,
            level=float(proof.levels[k]),
            neurons=stage.entered,
            collapsed=stage.left,
            label=problem.label(np.zeros((0, 2)), stage.entered[:0], stage.entered),
            utility=0.5 * stage.speeds,
            runner_up=stage.runner_up,
            grad_norm=float(proof.grad_norms[k]),
            predicted_decrease=float(proof.gaps[k]),
            how="closed form",
            features={"coefficients": stage.coefficients},
            active=stage.coefficients != 0.0,
        )
        for k, stage in enumerate(path)
    )
    return agf.Staircase(
        problem=problem.name,
        degree=problem.degree,
        clock=agf.Clock(2, float(np.log(unit))),
        start_level=0.5 * float(y @ y) / y.size,
        drops=drops,
        status=agf.Status.THEORY if worst <= _KKT_LIMIT else agf.Status.STALLED,
        init=None if alpha is None else problem.init(alpha),
        arguments=problem.arguments,
        stats={"kkt": worst, "stages": float(len(path)), "seconds": wall.perf_counter() - began},
    )
