"""The staircase of a diagonal network as alpha -> 0, by following it from stage to stage ([PF23] Algorithm 1).

In units of -log alpha, s_i = z_i / -log alpha moves at the rate v_i = x_i . r / n. When |s_i| reaches 1 coordinate i
may be non-zero, with the sign of s_i, and the coefficients jump to the least-squares solution under these signs.
"""

from __future__ import annotations

import time as wall
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

import agf
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.errors import explain
from agf.init import check_alpha
from agf.rounding import EPS, SUM, TIED
from agf_problems.diagonal_linear.signed_fit import SignedFit

#: Largest violation of the optimality conditions of a level, relative. Limit: beyond it the status is `stalled`, as a
#: fit has lost more than half its digits.
_KKT_LIMIT = 8.0 * EPS**0.5
#: Products of stages, samples and coordinates from which on they are certified by normal equations. Cost: these are
#: made of the data anew and are as right as products with them, but what rounding leaves of zeros looks different.
_LARGE = 1e8
#: Level, relative to rounding of the terms it is a difference of, below which it is taken from its residual. Derived:
#: above it normal equations give it to ten digits.
_DIGITS = 1e10
#: Stages certified in one matrix product. Cost: memory of (stages, d) arrays against calls.
_BATCH = 256
#: With d > _WIDE n only the columns that are next to activate are followed, _WIDE n of them. Cost: all columns are
#: checked after every round, and a round in which another one would have activated is repeated with it.
_WIDE = 6
#: Stages after which the others are checked. Cost: a round in which another one would have activated is repeated.
_ROUND = 48


@dataclass(frozen=True)
class Stage:
    """One plateau.

    Parameters
    ----------
    time : float
        Accelerated.
    columns : int ndarray, shape (m,)
        Those with |s| = 1, sorted.
    signs : float ndarray, shape (m,)
        Their s.
    coefficients : float ndarray, shape (m,)
        Theirs; the others are zero.
    entered : int ndarray
        Columns that became non-zero.
    left : int ndarray
        Columns that became zero.
    speeds : float ndarray, shape (k,)
        |v| of those that entered, before the drop.
    runner_up : tuple[int, float] or None
        Column that would have been next and the time it lacked, or None.
    """

    time: float
    columns: IntArray
    signs: FloatArray
    coefficients: FloatArray
    entered: IntArray
    left: IntArray
    speeds: FloatArray
    runner_up: tuple[int, float] | None


@dataclass
class _Follower:
    """Where the columns that are followed stand: all of them, or for d >> n those near +-1.

    Parameters
    ----------
    columns : int ndarray, shape (w,)
        Sorted.
    s : float ndarray, shape (w,)
        As in [PF23].
    inside : bool ndarray, shape (w,)
        Non-zero coefficient.
    idle : bool ndarray, shape (w,)
        Reached +-1 as combinations of active columns, and can add nothing.
    """

    fit: SignedFit
    columns: IntArray
    s: FloatArray
    inside: BoolArray
    idle: BoolArray
    time: float = 0.0

    def stages(self, n: int) -> Iterator[Stage]:
        """Plateau after plateau, until nothing but rounding error moves these columns."""
        while True:
            v = np.where(self.idle, 0.0, self.fit.pull / n)
            speeds = np.abs(v)
            outward = np.sign(v) * self.s
            lacking = _quotient(1.0 - outward, speeds)
            step = max(float(lacking.min(initial=np.inf)), 0.0)
            if step == np.inf:
                return
            moved = v * step
            there = (outward + (1.0 + TIED) * np.abs(moved) >= 1.0 - SUM).nonzero()[0]
            self.s += moved
            self.s[there] = np.sign(v[there])
            self.time += step
            edge = (np.abs(self.s) == 1.0).nonzero()[0]
            columns, signs = self.columns[edge], self.s[edge]
            self.fit.minimize(columns, signs)
            coefficients = self.fit.shared(columns, signs)
            inside = np.zeros_like(self.inside)
            inside[edge] = coefficients != 0.0
            changed = (inside != self.inside).nonzero()[0]
            entered, left = changed[inside[changed]], changed[~inside[changed]]
            if entered.size == 0:  # what reached +-1 lies in the span of the others, up to rounding
                self.idle[there] = True
                continue
            if left.size:
                self.idle[:] = False
            self.inside = inside
            lacking[there] = np.inf
            second = int(lacking.argmin())
            gap = float(lacking[second] - step)
            yield Stage(
                self.time, columns, signs, coefficients, self.columns[entered], self.columns[left],
                speeds[entered], None if np.isinf(gap) else (int(self.columns[second]), gap),
            )  # fmt: skip


def _quotient(gaps: FloatArray, speeds: FloatArray) -> FloatArray:
    """gaps / speeds, inf where the speed is 0 (and the gap then 1)."""
    with np.errstate(divide="ignore"):
        return gaps / speeds


def stages(x: FloatArray, y: FloatArray) -> Iterator[Stage]:
    """The plateaus in order, until nothing but rounding error is left to fit. x : (n, d), y : (n,)."""
    n, d = x.shape
    every = _Follower(SignedFit(x, y), np.arange(d), np.zeros(d), np.zeros(d, dtype=bool), np.zeros(d, dtype=bool))
    return _wide_stages(every, n) if d > _WIDE * n else every.stages(n)


def _wide_stages(every: _Follower, n: int) -> Iterator[Stage]:
    """The same for d >> n, following only columns that are near +-1.

    Between activations the others move on straight lines, s_i + x_i . w / n with w the integral of the residual. One
    matrix product per round tells whether one of them reached +-1, and from which stage on the round must be redone.
    """
    fit, d = every.fit, every.s.size
    overlooked = np.zeros(0, dtype=np.int64)
    buffer = np.empty((_ROUND, d))
    while True:
        fit.watch(None)
        v = np.where(every.idle, 0.0, fit.pull / n)
        lacking = _quotient(1.0 - np.sign(v) * every.s, np.abs(v))
        if not np.isfinite(lacking.min()):
            return
        # those that arrive first if nothing changes, and those that need little to arrive if something does
        size = min(_WIDE * n, d)
        chosen = np.zeros(d, dtype=bool)
        chosen[np.argpartition(lacking, size - 1)[:size]] = True
        chosen[np.argpartition(-np.abs(every.s), size - 1)[:size]] = True
        chosen[overlooked] = True
        chosen |= np.abs(every.s) == 1.0
        columns = np.flatnonzero(chosen)
        fit.watch(columns)
        some = _Follower(fit, columns, every.s[columns], every.inside[columns], every.idle[columns], every.time)
        time, residual, integral = every.time, fit.residual(), np.zeros(n)
        path: list[Stage] = []
        marks = [(some.s.copy(), some.inside, some.idle.copy(), fit.coefficients[columns], time)]
        integrals = []
        for stage in islice(some.stages(n), _ROUND):
            integral = integral + residual * (stage.time - time)
            time, residual = stage.time, fit.residual()
            path.append(stage)
            marks.append((some.s.copy(), some.inside, some.idle.copy(), fit.coefficients[columns], time))
            integrals.append(integral)
        if not path:  # only idle columns were moving
            every.idle[columns] = some.idle
            continue
        reached = fit.products(np.stack(integrals), out=buffer[: len(path)])
        reached /= n
        reached += every.s
        np.abs(reached, out=reached)
        reached[:, columns] = 0.0
        bad = reached.max(axis=1) >= 1.0 - 10.0 * TIED
        good = int(bad.argmax()) if bad.any() else len(path)
        yield from path[:good]
        s, inside, idle, coefficients, every.time = marks[good]
        if good < len(path):
            overlooked = np.union1d(overlooked, np.flatnonzero(reached[good] >= 1.0 - 10.0 * TIED))
            fit.restore(columns, coefficients)
        if good:
            every.s += fit.products(integrals[good - 1]) / n
            every.s[columns] = s
        every.inside[columns], every.idle[columns] = inside, idle


@dataclass(frozen=True)
class _Certificates:
    """Per stage, recomputed from the data: level, |dL/dtheta|, duality gap, relative violation of optimality."""

    levels: FloatArray
    grad_norms: FloatArray
    gaps: FloatArray
    kkt: FloatArray


def _certify(x: FloatArray, y: FloatArray, path: list[Stage]) -> _Certificates:
    n, d = x.shape
    norms, size = np.sqrt(np.einsum("ij,ij->j", x, x)), float(np.linalg.norm(y))
    normal = (x.T @ x, x.T @ y) if n > d and len(path) * x.size > _LARGE else None
    parts: list[tuple[FloatArray, ...]] = [(np.zeros(0),) * 4]
    for start in range(0, len(path), _BATCH):
        some = path[start : start + _BATCH]
        used = np.flatnonzero(np.bincount(np.concatenate([stage.columns for stage in some])))
        beta, edge = np.zeros((len(some), used.size)), np.zeros((len(some), used.size))
        for row, stage in enumerate(some):
            places = np.searchsorted(used, stage.columns)
            beta[row, places] = stage.coefficients
            edge[row, places] = stage.signs
        terms = size + np.abs(beta) @ norms[used]
        if normal is None:
            r = y - beta @ x[:, used].T
            v = r @ x[:, used] / n
            levels = 0.5 * np.sum(r**2, axis=1) / n
        else:
            xy = normal[1][used]
            v = (xy - beta @ normal[0][np.ix_(used, used)]) / n
            levels = 0.5 * (size**2 / n - np.sum(beta * (xy / n + v), axis=1))
            low = np.flatnonzero(levels < _DIGITS * EPS * terms**2 / n)
            if low.size:
                levels[low] = _low(x, y, norms, used, beta[low], v[low], terms[low])
        # v_i must vanish where beta_i does not, and push no coordinate at 0 to the side that is open to it; it is
        # relative to |x_i| (|y| + sum_j |x_j| |beta_j|) / n, so that rounding beta alone would give about 1e-16
        violation = np.where(beta != 0.0, np.abs(v), np.maximum(edge * v, 0.0)) / norms[used]
        parts.append(
            (
                levels,
                np.sqrt(np.sum(2.0 * np.abs(beta) * v**2, axis=1)),
                np.abs(np.sum(beta * v, axis=1)),
                n * np.max(violation, axis=1) / terms,
            )
        )
    return _Certificates(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _low(
    x: FloatArray,
    y: FloatArray,
    norms: FloatArray,
    used: IntArray,
    beta: FloatArray,
    v: FloatArray,
    terms: FloatArray,
) -> FloatArray:
    """Levels (k,) too low for normal equations: by what they differ from one of them, which is taken from its residual.

    L(b + c) = L(b) - c . (v(b) + v(b + c)) / 2, of which rounding leaves as many digits as `_DIGITS` says while c and
    the residual are small beside the terms of the level; from its own residual where they are not.
    """
    n, middle = y.size, len(beta) // 2
    whole = np.zeros(x.shape[1])
    whole[used] = beta[middle]
    r = y - x @ whole
    changes, there = beta - beta[middle], (r @ x / n)[used]
    levels: FloatArray = 0.5 * (float(r @ r) / n - np.sum(changes * (there + v), axis=1))
    size = float(np.linalg.norm(r)) + np.abs(changes) @ norms[used]
    rest = np.flatnonzero(~(levels >= _DIGITS * EPS * terms * size / n))
    if rest.size:
        levels[rest] = 0.5 * np.sum((y - beta[rest] @ x[:, used].T) ** 2, axis=1) / n
    return levels


def _dense(stage: Stage, d: int) -> FloatArray:
    beta = np.zeros(d)
    beta[stage.columns] = stage.coefficients
    return beta


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
            features={"coefficients": _dense(stage, problem.width)},
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
        arguments=problem.arguments,
        stats={"kkt": worst, "stages": float(len(path)), "seconds": wall.perf_counter() - began},
    )
