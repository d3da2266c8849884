"""Constants and bounds of [Min23]: two classes whose signed inputs y_i x_i are positively correlated.

Times and rates are those of the paper, for losses summed over the samples with residual y at the start; `unit` converts
them. What leaves float64 is a natural log. Where the paper has a misprint, the mended value is meant (docs/errata.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import BoolArray, FloatArray


@dataclass(frozen=True)
class SoftStatistics:
    """Signed correlations of pairs of data that are not separable: parts of the pairs i < k with a positive one.

    every, same, different : of all pairs, of those with equal labels, of those with different ones.  lowest : cosine.
    """

    every: float
    same: float
    different: float
    lowest: float


@dataclass(frozen=True)
class Orthogonal:
    """[Min23] for inputs X (n, d), labels y (n,) of +-1, a start of h neurons of shape W0 at scale eps.

    mu : least cosine of signed inputs; assumption 1 is mu > 0.  X_min, X_max : norms of inputs.
    plus, minus : |x_+|, |x_-|, norms of the class sums.  n_plus, n_minus : class sizes.
    zeta1, zeta2, zeta, xi : geometry (M9); zeta2 = 0 breaks assumption 2.  m0, m1 : min(zeta, xi), min(mu, zeta, xi).
    log_eps : log of the scale.  log_eps_lemma : largest for Lemmas 1 and 3.
    log_eps_A, log_eps_B : the two parts of the theorem's largest log eps.
    T : time up to which the approximation is certified.
    t1, t1_path, t1_log : time by which every neuron has aligned: as printed, by the exact path sum, and ours, which
    holds for the limit flow eps -> 0.
    rate : alpha of the 1/t bound of the loss.
    t2_plus, t2_minus : bounds on the time at which a class has an output 1/4.
    unit : flow time of the problem per unit of time here.  soft : statistics of the pairs.
    log_W_max : log of the largest |W0_j|.  h : neurons.
    """

    mu: float
    X_min: float
    X_max: float
    plus: float
    minus: float
    n_plus: int
    n_minus: int
    zeta1: float
    zeta2: float
    zeta: float
    xi: float
    m0: float
    m1: float
    h: int
    log_W_max: float
    log_eps: float
    log_eps_lemma: float
    log_eps_A: float
    log_eps_B: float
    T: float
    t1: float
    t1_path: float
    t1_log: float
    rate: float
    t2_plus: float
    t2_minus: float
    unit: float
    soft: SoftStatistics

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.n_plus + self.n_minus

    @property
    def log_eps_theorem(self) -> float:
        """Largest log eps of Theorem 1."""
        return min(self.log_eps_A, self.log_eps_B)


def path_sum(own: int, other: int) -> float:
    """Largest sum of 1 / (active samples) over the travel of a neuron that gains `own`, loses `other` samples (M12)."""
    if own == 0:
        return _harmonic(other)
    return _harmonic(own - 1) + (_harmonic(other) + 0.5 if other else 0.0)


def _harmonic(m: int) -> float:
    return float(np.sum(1.0 / np.arange(1, m + 1)))


def orthogonal(
    X: FloatArray,
    y: FloatArray,
    directions: FloatArray,
    log_sizes: FloatArray,
    positive: BoolArray,
    log_eps: float,
    unit: float,
) -> Orthogonal:
    """The constants.

    directions, log_sizes, positive : (h, d) unit rows of W0, (h,) logs of |W0_j|, (h,) sign of the output weights.
    """
    n, h = y.size, log_sizes.size
    norms = np.linalg.norm(X, axis=1)
    signed = y[:, None] * X / norms[:, None]
    cosines = np.clip(signed @ signed.T, -1.0, 1.0)
    mu = float(cosines.min())
    sums = {1: X[y > 0].sum(axis=0), -1: X[y < 0].sum(axis=0)}
    counts = {1: int(np.sum(y > 0)), -1: int(np.sum(y < 0))}
    zeta1 = _caps(X, norms, sums, counts)
    zeta2 = min(_off(directions[positive], sums[-1]), _off(directions[~positive], sums[1]))
    zeta, xi = min(zeta1, zeta2), max(mu, 0.0) ** 2
    m0, m1 = min(zeta, xi), min(max(mu, 0.0), zeta, xi)
    low, high = float(norms.min()), float(norms.max())
    log_max, log_min = float(log_sizes.max()), float(log_sizes.min())
    half = 0.5 * np.log(h)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(max(mu, 0.0)) * low
        step = 4.0 / (m0 * root) if m0 > 0 else np.inf
        t1 = 4.0 * np.log(n) * step if n > 1 else step * path_sum(0, 1)
        t1_path = step * max(path_sum(counts[1], counts[-1]), path_sum(counts[-1], counts[1]))
        eps_A = np.log(m1 * root) - np.log(8.0) - half - np.log(n) - 2 * np.log(high) - 2 * log_max
        eps_B = -half - 4.0 * n * high * t1
        t2 = {
            c: t1
            + (6.0 + 4.0 * (np.log(2.0 / root) - 2 * log_eps - 2 * log_min + 4 * n * high * t1)) / (root * counts[c])
            if counts[c] and root > 0
            else np.inf
            for c in (1, -1)
        }
    return Orthogonal(
        mu=mu,
        X_min=low,
        X_max=high,
        plus=float(np.linalg.norm(sums[1])),
        minus=float(np.linalg.norm(sums[-1])),
        n_plus=counts[1],
        n_minus=counts[-1],
        zeta1=zeta1,
        zeta2=zeta2,
        zeta=zeta,
        xi=xi,
        m0=m0,
        m1=m1,
        h=h,
        log_W_max=log_max,
        log_eps=log_eps,
        log_eps_lemma=-np.log(4.0) - half - np.log(high) - 2 * log_max,
        log_eps_A=float(eps_A),
        log_eps_B=float(eps_B),
        T=(-half - log_eps) / (4.0 * n * high),
        t1=float(t1),
        t1_path=float(t1_path),
        t1_log=_log_time(mu, zeta2, counts, low),
        rate=(mu * low) ** 2 / (32.0 * high) if mu > 0 else 0.0,
        t2_plus=float(t2[1]),
        t2_minus=float(t2[-1]),
        unit=unit,
        soft=_soft(cosines, y),
    )


def _caps(X: FloatArray, norms: FloatArray, sums: dict[int, FloatArray], counts: dict[int, int]) -> float:
    """zeta1: the caps around the class sums that lie in their cones; 0 where no sum has a direction."""
    squares = [
        ((X @ sums[c]) / (norms * np.linalg.norm(sums[c]))) ** 2
        for c in (1, -1)
        if counts[c] and np.linalg.norm(sums[c]) > 0
    ]
    return float(min((np.min(s) for s in squares), default=0.0))


def _off(directions: FloatArray, target: FloatArray) -> float:
    """1 - cos^2 of the closest of some unit rows to a target, as a squared sine; 1 where none leans towards it."""
    size = np.linalg.norm(target)
    if directions.shape[0] == 0 or size == 0:
        return 1.0
    unit = target / size
    along = directions @ unit
    across = directions - along[:, None] * unit
    return float(np.where(along > 0, np.minimum(np.sum(across**2, axis=1), 1.0), 1.0).min())


def _log_time(mu: float, zeta2: float, counts: dict[int, int], low: float) -> float:
    """Ours, for the limit flow: events lie on walls x_i . u = 0, where cos(x_a, y_i x_i) >= mu bounds tan(psi / 2).

    A path from wall to wall turns by at most 2 arcosh(1/mu) in log tan(psi / 2), at a speed of sqrt(mu) X_min times the
    number of active samples; the first piece begins off a wall, at most arcosh(1/sqrt zeta2) away.
    """
    if mu <= 0 or zeta2 <= 0:
        return np.inf
    turn, first = np.arccosh(max(1.0, 1.0 / mu)), np.arccosh(max(1.0, 1.0 / np.sqrt(zeta2)))
    spans = []
    for own, other in ((counts[1], counts[-1]), (counts[-1], counts[1])):
        late = max(first - turn, 0.0) / other if other else 0.0
        spans.append(2.0 * turn * path_sum(own, other) + late)
    return float(max(spans) / (np.sqrt(mu) * low))


def _soft(cosines: FloatArray, y: FloatArray) -> SoftStatistics:
    i, k = np.triu_indices(y.size, 1)
    if i.size == 0:
        return SoftStatistics(1.0, 1.0, 1.0, 1.0)
    positive, same = cosines[i, k] > 0, y[i] == y[k]

    def part(rows: BoolArray) -> float:
        return float(positive[rows].mean()) if rows.any() else np.nan

    return SoftStatistics(part(np.ones(i.size, bool)), part(same), part(~same), float(cosines[i, k].min()))
