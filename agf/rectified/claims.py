"""The claims of [Min23] and [BF24] against a run: left side, right side, whether it holds, and the slack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.records.table import Table, Tabular, number
from agf.rectified.early import Early, Spurious
from agf.rectified.orthogonal import Orthogonal
from agf.rectified.samples import Samples
from agf.results.trajectory import Trajectory
from agf.rounding import UNIT

#: Relative difference of |a| and |w| up to which weights are balanced. Result: of which theorem applies; a flow keeps
#: a^2 - |w|^2 to its tolerance times a thousand steps, so that at 1e-4 a run at kinks would not be, and at 1e-2 starts
#: that are not would.
_BALANCED = 1e-3
#: Relative rounding of sums over samples: what equality may be off by. Derived: float64.
_ROUNDED = 1e-9
#: Neurons this close to a wall, as a cosine, have no cone of their own. Derived: what a flow at rtol 1e-6 resolves.
_ON = 1e-4
#: Relative excess of a left side that a run may have. Derived: the tolerance of its steps, `RTOL`.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Claim:
    """One claim: left <= right.

    name, source : what, and where it is stated.  left, right : both sides, logs where the name says so; the snapshot of
    least slack.  holds : None where the premise is not met, or the run ends too early.  why : then.
    """

    name: str
    source: str
    left: float
    right: float
    holds: bool | None
    why: str = ""

    @property
    def slack(self) -> float:
        """right - left."""
        return self.right - self.left


@dataclass(frozen=True, repr=False)
class Claims(Tabular):
    """The claims, in the order of the papers."""

    claims: tuple[Claim, ...]

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def __getitem__(self, name: str) -> Claim:
        return next(one for one in self.claims if one.name == name)

    @property
    def hold(self) -> bool:
        """Whether none is broken; one whose premise is not met breaks nothing."""
        return not any(one.holds is False for one in self.claims)

    def table(self) -> Table:
        """A row a claim."""
        rows = [
            [one.source, one.name, number(one.left, 5), number(one.right, 5), number(one.slack, 4),
             "holds" if one.holds else "BROKEN" if one.holds is False else f"not asked: {one.why}"]
            for one in self.claims
        ]  # fmt: skip
        return Table("Claims against the run", ["source", "claim", "left", "right", "slack", "verdict"], rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"hold": self.hold, "claims": [{**vars(one), "slack": one.slack} for one in self.claims]}

    def __repr__(self) -> str:
        return f"<Claims: {len(self)}, {'none broken' if self.hold else 'some broken'}>"


@dataclass(frozen=True)
class _Seen:
    """Snapshots in the units of the papers.

    times (T,) flow time; log_w, log_a (T, H); units (T, H, d); sign (T, H); active (T, H, n); log_f (T, n), of |f|;
    r (T, n), the residual in units of what a label of 1 leaves at the start.
    """

    times: FloatArray
    log_w: FloatArray
    log_a: FloatArray
    units: FloatArray
    sign: FloatArray
    active: BoolArray
    log_f: FloatArray
    r: FloatArray


def claims(
    problem: Problem,
    separable: Orthogonal | None,
    early: Early | None,
    spurious: Spurious | None,
    trajectory: Trajectory,
) -> Claims:
    """Compare; what each side is, is said in the names."""
    samples = Samples.of(problem)
    assert samples is not None
    if trajectory.directions.shape[0] == 0:
        raise RequestError(explain("this trajectory holds no neurons.", where="check"))
    if trajectory.directions.shape[2] != problem.n_params:
        raise RequestError(explain("this trajectory is of another problem.", where="check"))
    run = _run(samples, trajectory, separable)
    out = _balance(run)
    if separable is not None:
        out += _separable(separable, samples, run, trajectory)
    if early is not None:
        out += _early(early, samples, run)
    if spurious is not None:
        end = abs(float(trajectory.losses[-1]) - spurious.level)
        why = "" if spurious.holds else "assumptions 4 to 6 fail"
        out.append(_claim("loss at the end off the linear fit", "[BF24] Theorem 2", end, 1e-3 * spurious.level, why))
    return Claims(tuple(out))


def _run(samples: Samples, trajectory: Trajectory, separable: Orthogonal | None) -> _Seen:
    d = samples.X.shape[1]
    w, a = trajectory.directions[:, :, :d], trajectory.directions[:, :, d]
    size = np.linalg.norm(w, axis=2)
    with np.errstate(divide="ignore"):
        log_w, log_a = np.log(size) + trajectory.log_norms, np.log(np.abs(a)) + trajectory.log_norms
    units = w / np.where(size > 0, size, 1.0)[:, :, None]
    heights = units @ samples.X.T
    sizes = log_w + log_a
    top = np.where(np.isfinite(sizes), sizes, -np.inf).max(axis=1)
    top = np.where(np.isfinite(top), top, 0.0)
    shares = np.sign(a) * np.exp(sizes - top[:, None])
    f = np.einsum("th,thn->tn", shares, np.maximum(heights, samples.leak * heights))
    with np.errstate(divide="ignore"):
        log_f = np.log(np.abs(f)) + top[:, None]
    unit = 1.0 if separable is None else separable.unit
    r = np.array([samples.weights(trajectory.params(k)) for k in range(len(trajectory.log_norms))]) * unit
    return _Seen(trajectory.snapshot_times, log_w, log_a, units, np.sign(a), heights > 0, log_f, r)


def _claim(name: str, source: str, left: float, right: float, why: str = "") -> Claim:
    holds = None if why else bool(left <= right + _ROUNDING * max(abs(left), abs(right), 1e-300))
    return Claim(name, source, float(left), float(right), holds, why)


def _worst(name: str, source: str, left: FloatArray, right: FloatArray, why: str = "") -> Claim:
    """The snapshot of least slack."""
    if left.size == 0:
        return Claim(name, source, np.nan, np.nan, None, why or "no snapshot that early")
    k = int(np.argmin(right - left))
    return _claim(name, source, left[k], right[k], why)


def _balance(run: _Seen) -> list[Claim]:
    balanced = np.abs(run.log_a[0] - run.log_w[0]) < 1e-9
    why = "" if balanced.any() else "no neuron is balanced"
    drift = np.abs(run.log_a - run.log_w)[:, balanced].max(initial=0.0)
    kept = np.abs(run.log_w[0]) < np.inf
    flips = float(np.sum(run.sign[:, balanced & kept] != run.sign[0, balanced & kept]))
    return [
        _claim("balanced neurons: largest |log |a| - log |w||", "[BF24] Lemma 1", float(drift), _BALANCED, why),
        _claim("changes of sign of balanced output weights", "[BF24] Lemma 1", flips, 0.0, why),
    ]  # fmt: skip


def _separable(s: Orthogonal, samples: Samples, run: _Seen, trajectory: Trajectory) -> list[Claim]:
    X, y = samples.X, samples.problem.Y[:, 0]
    n, t = y.size, run.times / s.unit
    half = 0.5 * np.log(s.h)
    early = t <= s.T
    lemma = "" if s.log_eps <= s.log_eps_lemma else "eps above that of Lemmas 1, 3"
    balanced = np.abs(run.log_a[0] - run.log_w[0]).max() < 1e-9
    lemma = lemma if balanced else "the start is not balanced"
    log_f = run.log_f.max(axis=1)
    norms = 2 * run.log_w.max(axis=1)
    flat = np.full(int(early.sum()), np.log(2.0) + s.log_eps + 2 * s.log_W_max)
    source = "[Min23] Lemma 3"
    out = [
        _worst("log of the largest |w|^2 up to T", source, norms[early], flat - half, lemma),
        _worst(
            "log of the largest output up to T", "[Min23] Lemma 3", log_f[early], flat + half + np.log(s.X_max), lemma
        ),
    ]
    small = log_f <= 0
    error = _turning(X, y, samples.leak, run)
    with np.errstate(over="ignore"):
        bound = 2 * n * s.X_max * np.exp(log_f)
    why = "" if balanced else "the start is not balanced"
    floor = 1e-12 * n * s.X_max  # of the difference of two sums of n inputs
    out.append(_worst("error of the direction of motion", "[Min23] Lemma 4", error[small], bound[small] + floor, why))
    if samples.leak:
        return out
    return out + _classes(s, samples, run, trajectory, t, why)


def _turning(X: FloatArray, y: FloatArray, leak: float, run: _Seen) -> FloatArray:
    """(T,) largest |P_u (g_j - x_a(w_j))|: how far the motion of a direction is from the limit flow."""
    slopes = np.where(run.active, 1.0, leak)
    off = (slopes * (run.r - y)[:, None]) @ X
    along = np.einsum("thd,thd->th", off, run.units)
    out: FloatArray = np.linalg.norm(off - along[:, :, None] * run.units, axis=2).max(axis=1)
    return out


def _classes(
    s: Orthogonal, samples: Samples, run: _Seen, trajectory: Trajectory, t: FloatArray, unbalanced: str
) -> list[Claim]:
    y = samples.problem.Y[:, 0]
    plus = run.sign[0] > 0
    own = np.where(plus[:, None], y > 0, y < 0)
    dead = ~run.active.any(axis=2)
    home = (run.active == own).all(axis=2)
    there = dead | home
    away = np.sum(~there, axis=1).astype(float)
    first = int(np.argmax(there.all(axis=1))) if there.all(axis=1).any() else -1
    theorem = "" if s.log_eps <= s.log_eps_theorem else "eps above that of Theorem 1"
    if s.mu <= 0 or s.zeta2 <= 0:
        theorem = "assumption 1 or 2 fails"
    theorem = unbalanced or theorem
    limit = "" if s.mu > 0 and s.zeta2 > 0 else "assumption 1 or 2 fails"
    limit = unbalanced or limit
    arrives = t[first] if first >= 0 else np.inf
    short = f"the run ends before, at {t[-1]:.4g}"
    out = []
    for name, source, time, why in (
        ("all neurons aligned or dead, at the latest", "[Min23] Theorem 1", s.t1, theorem),
        ("all neurons aligned or dead, limit flow", "ours", s.t1_log, limit),
    ):
        why = why or (short if first < 0 and t[-1] < time else "")
        out.append(_claim(name, source, arrives, time, why))
    seeded = (run.active[0] & own).any(axis=1)
    lost = float(np.sum(seeded & ~home[-1])) if first >= 0 else np.nan
    out.append(_claim("seeded neurons not on their class at the end", "[Min23] Theorem 1", lost, 0.0,
                      theorem or ("" if first >= 0 else short)))  # fmt: skip
    leaves = float(np.sum(there[:-1] & ~there[1:]))
    margin = "" if samples.problem.loss.classifies and s.mu > 0 else "for exponential and logistic losses with mu > 0"
    out.append(_claim("neurons that leave their cone again", "[Min23] Lemma 12", leaves, 0.0, unbalanced or margin))
    out += _speeds(s, samples, run, trajectory, margin)
    out.append(_wrong_caps(s, samples, run, t, theorem))
    out.append(_claim("neurons away from their cones at the end", "[Min23] Theorem 1", away[-1], 0.0,
                      theorem or ("" if t[-1] >= s.t1 else short)))  # fmt: skip
    found, reached = _grown(s, y, run, t, theorem, short)
    out += found
    out.append(_decay(s, samples, trajectory, reached, theorem or margin))
    out += _rank(s, run, home, first, theorem or margin)
    return out


def _grown(
    s: Orthogonal, y: FloatArray, run: _Seen, t: FloatArray, theorem: str, short: str
) -> tuple[list[Claim], list[float]]:
    """When the outputs of each class are large, t2, and what is said of it; short : that the run ends before."""
    out, reached = [], []
    for sign, bound, label in ((1, s.t2_plus, "positives"), (-1, s.t2_minus, "negatives")):
        rows = y == sign
        if not rows.any():
            continue
        when = _first(t, run.log_f[:, rows].max(axis=1))
        reached.append(when)
        late = "" if np.isfinite(when) else short
        why = theorem or (late if t[-1] <= bound else "")
        out.append(_claim(f"t2 of the {label} above T", "[Min23] P5", s.T, when, theorem or late))
        out.append(_claim(f"t2 of the {label}", "[Min23] P5", when, bound, why))
    return out, reached


def _speeds(s: Orthogonal, samples: Samples, run: _Seen, trajectory: Trajectory, why: str) -> list[Claim]:
    """Rates of change at every snapshot: how fast neurons move to their side of every wall, and how fast all grows."""
    X, y = samples.X, samples.problem.Y[:, 0]
    lengths = np.linalg.norm(X, axis=1)
    pulls = (run.active * run.r[:, None]) @ X  # g_j, so that dw_j/dt = a_j g_j
    live = run.active.any(axis=2)
    towards = (pulls @ (y[:, None] * X / lengths[:, None]).T).min(axis=2)
    least = s.mu * (run.active * np.abs(run.r)[:, None]) @ lengths
    top = np.maximum(run.log_w, run.log_a)
    top = np.where(np.isfinite(top), top, -np.inf).max(axis=1)
    w, a = np.exp(run.log_w - top[:, None]), np.exp(run.log_a - top[:, None])
    along = w * np.einsum("thd,thd->th", run.units, pulls)
    speed = np.sqrt(np.sum((a**2) * np.sum(pulls**2, axis=2) + along**2, axis=1))
    size = np.sqrt(np.sum(w**2 + a**2, axis=1))
    losses = np.asarray(trajectory.loss_at(run.times)) * s.unit
    return [
        _worst("mu sum |r_k| |x_k| over y_i x_i . dw/dt / |a x_i|, any i, less 1", "[Min23] (46)",
               least[live] / np.where(towards[live] > 0, towards[live], np.finfo(float).tiny) - 1.0,
               np.full(int(live.sum()), _ROUNDED), why),
        _worst("|grad L| over X_max L |theta|", "[Min23] (50)", speed / (s.X_max * losses * size),
               np.full(losses.size, 1.0 + _ROUNDED), why),
    ]  # fmt: skip


def _wrong_caps(s: Orthogonal, samples: Samples, run: _Seen, t: FloatArray, why: str) -> Claim:
    """Neurons of either sign stay off the cap around the other class sum."""
    X, y = samples.X, samples.problem.Y[:, 0]
    early, worst = t <= s.T, np.full(t.size, -1.0)
    for sign in (1, -1):
        other = X[y == -sign].sum(axis=0)
        size = float(np.linalg.norm(other))
        rows = run.sign[0] == sign
        if size > 0 and rows.any():
            worst = np.maximum(worst, (run.units[:, rows] @ (other / size)).max(axis=1))
    bound = np.full(int(early.sum()), np.sqrt(max(1.0 - s.zeta, 0.0)))
    return _worst("largest cosine to the other class sum up to T", "[Min23] Lemma 9", worst[early], bound, why)


def _first(t: FloatArray, logs: FloatArray) -> float:
    """First time at which a value passes 1/4, from its logs, straight between snapshots; inf if it never does."""
    level = np.log(0.25)
    if not (logs > level).any():
        return np.inf
    k = int(np.argmax(logs > level))
    if k == 0 or not np.isfinite(logs[k - 1]):
        return float(t[k])
    return float(t[k - 1] + (t[k] - t[k - 1]) * (level - logs[k - 1]) / (logs[k] - logs[k - 1]))


def _decay(s: Orthogonal, samples: Samples, trajectory: Trajectory, reached: list[float], why: str) -> Claim:
    """The 1/t bound, for the loss summed over the samples as the paper has it."""
    name = "loss over its 1/t bound"
    start = max(reached)
    if why or not np.isfinite(start) or start * s.unit >= trajectory.times[-1]:
        return Claim(name, "[Min23] P4", np.nan, np.nan, None, why or "the run ends before t2")
    # of the paper's losses (residual y at the start): those of the problem times unit
    at = float(trajectory.loss_at(start * s.unit)) * s.unit
    late = trajectory.times >= start * s.unit
    bound = at / (1 + at * s.rate * (trajectory.times[late] / s.unit - start))
    return _worst(name, "[Min23] P4", trajectory.losses[late] * s.unit / bound, np.ones(int(late.sum())))


def _rank(s: Orthogonal, run: _Seen, home: BoolArray, first: int, why: str) -> list[Claim]:
    """Rank one of each class: |W_c|_F^2 - |W_c|_2^2, in logs."""
    out = []
    for sign, label in ((1, "positives"), (-1, "negatives")):
        rows = home[-1] & (run.sign[0] == sign)
        name = f"log of |W|_F^2 - |W|_2^2, {label}"
        if first < 0 or not rows.any():
            out.append(Claim(name, "[Min23] P6", np.nan, np.nan, None, why or "no such neuron, or not aligned"))
            continue
        worst = -np.inf
        for k in range(first, run.times.size):
            top = run.log_w[k, rows].max()
            values = np.linalg.svd(run.units[k, rows] * np.exp(run.log_w[k, rows] - top)[:, None], compute_uv=False)
            rest = float(np.sum(values[1:] ** 2))
            if rest > rows.sum() * UNIT**2:
                worst = max(worst, 2 * top + np.log(rest))
        bound = np.log(4.0) + s.log_eps + 2 * s.log_W_max - 0.5 * np.log(s.h) + np.log(rows.sum())
        out.append(_claim(name, "[Min23] P6", worst, bound, why))
    return out


def _early(e: Early, samples: Samples, run: _Seen) -> list[Claim]:
    t = run.times / e.unit
    before = t <= e.tau
    why = ""
    if e.log_lambda > e.log_star:
        why = "lambda above lambda*"
    if e.log_dominance < -1e-9:
        why = "the start is not dominated"
    if "saddle" in e.found.kinds:
        why = why or "there are saddles"
    alive = np.isfinite(run.log_a[0])
    change = np.abs(run.log_a - run.log_a[0])[:, alive].max(axis=1, initial=0.0)
    lengths = np.linalg.norm(samples.X, axis=1)
    outputs = (run.log_f - np.log(np.where(lengths > 0, lengths, 1.0))).max(axis=1)
    most = np.full(int(before.sum()), -2 * e.eps * e.log_lambda)
    out = [
        _worst("change of log |a| up to tau", "[BF24] Theorem 1 (i)", change[before], most, why),
        _worst("log of |h(x)| / |x| up to tau", "[BF24] Theorem 1 (i)", outputs[before],
               np.full(int(before.sum()), (2 - 4 * e.eps) * e.log_lambda), why),
    ]  # fmt: skip
    shrinks = np.exp(np.minimum(run.log_w - run.log_a, 50.0))[:, alive].max(initial=0.0)
    dominated = "" if e.log_dominance >= -1e-9 else "the start is not dominated"
    out.append(_claim("largest |w| / |a|", "[BF24] Theorem 1 (i)", float(shrinks), 1.0 + _BALANCED, dominated))
    out += _aligned(e, samples, run, t, why)
    dead = ~run.active[0].any(axis=1) & np.isfinite(run.log_w[0])
    moved = np.abs(run.units[:, dead] - run.units[0, dead]).max(initial=0.0)
    leaky = "there is a leak" if samples.leak else "" if dead.any() else "no neuron is dead at the start"
    out.append(_claim("motion of dead neurons", "[BF24] section 5", float(moved), 1e-12, leaky))
    return out


def _aligned(e: Early, samples: Samples, run: _Seen, t: FloatArray, why: str) -> list[Claim]:
    """Case (ii) of the theorem at the first snapshot from tau on, for neurons of Condition 1 that stand on no wall."""
    X = samples.X
    source = "[BF24] Theorem 1 (ii)"
    names = "neurons whose cone at tau is not critical", "log of |D| - D . w / a at tau, over its bound"
    late = np.flatnonzero(t >= e.tau)
    if late.size == 0:
        short = why or f"the run ends before tau = {e.tau:.4g}"
        return [Claim(name, source, np.nan, np.nan, None, short) for name in names]
    k = int(late[0])
    c = samples.weights(np.zeros((0, X.shape[1] + 1))) * e.unit
    lengths = np.linalg.norm(X, axis=1)
    rates = []
    for at in (0, k):
        slopes = np.where(run.active[at], 1.0, samples.leak)
        D = (slopes * c) @ X
        shrink = np.exp(run.log_w[at] - run.log_a[at])
        rates.append((D, np.linalg.norm(D, axis=1), run.sign[at] * shrink * np.einsum("hd,hd->h", D, run.units[at])))
    (_, first, leans), (D, size, along) = rates
    heights = run.units[k] @ X.T / np.where(lengths > 0, lengths, 1.0)
    asked = np.isfinite(run.log_a[0]) & (leans > -np.sqrt(1 - e.alpha0**2) * first)
    asked &= (np.abs(heights) > _ON).all(axis=1)
    same = (np.sign(D @ X.T) == np.sign(heights)).all(axis=1) | (np.sign(D @ X.T) == -np.sign(heights)).all(axis=1)
    zero = size <= _ROUNDED * e.D_max
    turned = asked & ~zero & (along > 0)
    with np.errstate(divide="ignore"):
        left = np.log(np.maximum(size - along, 0.0))[turned]
    right = (e.log_constant + e.eps * size * e.log_lambda / e.D_max)[turned]
    gap = float(np.max(left - right, initial=-np.inf))
    return [
        _claim(names[0], source, float(np.sum(asked & ~zero & ~same)), 0.0,
               why or ("" if e.turn <= e.tau else "tau is before the bound on the rotation time")),
        _claim(names[1], source, gap, 0.0, why or ("" if turned.any() else "no neuron turns to its D")),
    ]  # fmt: skip
