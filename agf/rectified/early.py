"""Constants of [BF24]: how fast neurons align on any data, and when three or more points end at the linear fit.

As in the paper, the loss is the mean over n samples, D(u) = (1/n) sum_k eta_k g_k x_k with g = -l'(0, y); `unit`
converts its times. Misprints are mended (docs/errata.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.rectified.cones import Arrangement, n_faces
from agf.rectified.extremal import Extremal, extremal
from agf.rectified.least_norm import least_norm
from agf.rectified.walls import Walls
from agf.rounding import RANK, TIED

#: Faces beyond which distances to all of them are not computed. Limit: a small quadratic program each; the margin is
#: then said to be unknown.
MAX_FACES = 20_000
#: Subsets of inputs whose independence is looked at. Limit: beyond it that is said to be unknown.
_SUBSETS = 20_000


def _over(value: float, by: float) -> float:
    """A quotient, inf where data that are not generic make the divisor 0."""
    return value / by if by > 0 else float("inf")


def _log(value: float) -> float:
    return float(np.log(value)) if value > 0 else float("-inf")


@dataclass(frozen=True)
class Spurious:
    """Assumptions 4 to 6 of [BF24] for data that end at the linear fit; each margin is positive where it holds.

    extreme : (e,) the points k on the boundary of the fan of the data.
    correlated, positive, independent : least <x_k, x_j>, least y_k, least singular value of d inputs (A4).
    gap : least y_k |x_k|^2 - |y| (sum_j <x_k, x_j>^2)^(1/2) over extreme k, j other than k (A5).
    under : least residual of least squares over extreme k (A6); wall, mixed : the two margins of A6 on mixed cones.
    level : loss of least squares.
    """

    extreme: IntArray
    correlated: float
    positive: float
    independent: float
    gap: float
    under: float
    wall: float
    mixed: float
    level: float

    @property
    def holds(self) -> bool:
        """Whether Theorem 2 applies: A4, A5 and A6."""
        return min(self.correlated, self.positive, self.independent, self.gap, self.under, self.wall, self.mixed) > 0


@dataclass(frozen=True)
class Early:
    """Theorems 1 and 3 of [BF24] for samples X (n, d), residual g (n,), a leak, and a start of scale lambda.

    D_max, D_min : largest and least |D| of faces whose subgradients do not hold 0.
    alpha_plus, alpha_minus, alpha : sines of the angle that keeps D off the faces it is not on.
    delta_kinks, delta_others, delta : robustness of extremal vectors to outputs h.
    s2 : mean |x_k|^2.  ratio : least |g_k| / |x_k|.
    eps, alpha0 : exponent of the alignment time, and condition on the start.
    log_lambda : of the start.  log_star : largest lambda of Theorem 1.  tau : alignment time.
    turn, turn_any : bounds on the rotation time, Theorems 1 and 3.
    log_constant : hidden constant of their case (ii).
    log_content : largest log lambda at which case (ii) says more than nothing, for the fastest extremal vector.
    log_dominance : least log |a| - log |w|, at least 0 where the start is balanced or dominated.
    found : the extremal vectors.  unit : flow time of the problem per unit of time here.
    """

    D_max: float
    D_min: float
    alpha_plus: float
    alpha_minus: float
    delta_kinks: float
    delta_others: float
    s2: float
    ratio: float
    eps: float
    alpha0: float
    log_lambda: float
    log_dominance: float
    found: Extremal
    unit: float

    @property
    def alpha(self) -> float:
        """The smaller of both sines."""
        return min(self.alpha_plus, self.alpha_minus)

    @property
    def delta(self) -> float:
        """The smaller of both margins."""
        return min(self.delta_kinks, self.delta_others)

    @property
    def log_star(self) -> float:
        """Log of lambda* (22)."""
        inner = min(self.alpha**2 * self.D_min / 8, self.alpha0**2 * self.D_min / 4, self.delta) / self.s2
        return _log(min(inner, self.ratio)) / (2 - 4 * self.eps)

    @property
    def tau(self) -> float:
        """-eps log(lambda) / D_max."""
        return -self.eps * self.log_lambda / self.D_max

    @property
    def turn(self) -> float:
        """Rotation time of Theorem 1."""
        return _over(4 * self.D_max, (self.D_min * min(self.alpha, self.alpha0)) ** 2)

    @property
    def turn_any(self) -> float:
        """Rotation time of Theorem 3."""
        return _over(2 * self.D_max, (self.D_min * self.alpha) ** 2)

    @property
    def log_constant(self) -> float:
        """Log of the constant of Theorem 1 (ii) (37)."""
        q = min(self.alpha, self.alpha0)
        return self._constant(_log(_over(4 * self.D_max, q**2)) + 4 * _over(self.D_max, self.D_min * q) ** 2)

    def _constant(self, first: float) -> float:
        late = np.sqrt(2 * self.s2 / (self.D_max * np.exp(2.0)))
        return float(np.logaddexp(first + late, 0.5 * np.log(2 * self.D_max * self.s2)))

    @property
    def log_content(self) -> float:
        """Log lambda below which the misalignment allowed by Theorem 1 (ii) is less than D itself."""
        return (np.log(self.D_max) - self.log_constant) / self.eps


def early(
    X: FloatArray,
    g: FloatArray,
    leak: float,
    *,
    log_lambda: float,
    log_dominance: float,
    unit: float,
    eps: float,
    alpha0: float,
) -> Early | None:
    """The constants, or None where there are too many faces, or nothing to fit."""
    n = X.shape[0]
    arrangement = Arrangement.of(X)
    if arrangement.size == 0 or n_faces(arrangement.size, arrangement.rank) > MAX_FACES or not g.any():
        return None
    faces = arrangement.faces().astype(np.int64)
    walls = Walls.of(X, g / n, leak)
    D = _fields(walls, faces)
    sizes = np.linalg.norm(D, axis=1)
    moves = sizes > RANK * walls.scale
    if not moves.any():
        return None
    found = extremal(X, g / n, leak)
    plus, minus = _sines(walls.normals, faces[moves], D[moves])
    lengths = np.linalg.norm(X, axis=1)
    alive = lengths > 0
    kinks, others = _margins(X, g, leak, found)
    return Early(
        D_max=float(sizes.max()),
        D_min=float(sizes[moves].min()),
        alpha_plus=plus,
        alpha_minus=minus,
        delta_kinks=kinks,
        delta_others=others,
        s2=float(np.mean(lengths**2)),
        ratio=float(np.min(np.abs(g[alive]) / lengths[alive])),
        eps=eps,
        alpha0=alpha0,
        log_lambda=log_lambda,
        log_dominance=log_dominance,
        found=found,
        unit=unit,
    )


def _fields(walls: Walls, faces: IntArray) -> FloatArray:
    """Shortest subgradient of every face, (F, d)."""
    D = walls.middle + faces @ walls.halves
    held = (faces == 0) & (np.abs(walls.bends) > RANK * walls.scale)  # labels that cancel on one line bend nothing
    counts = held.sum(axis=1)
    for count in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == count)
        which = np.nonzero(held[rows])[1].reshape(rows.size, count)
        bent = walls.halves[which]
        D[rows] += np.einsum("mk,mkd->md", least_norm(D[rows], bent), bent)
    return D


def _sines(normals: FloatArray, faces: IntArray, D: FloatArray) -> tuple[float, float]:
    """Sines of the largest cosine between D and the closure of a face that does not hold it, and the same for -D.

    The largest cosine is that of the projection on the cone, or of one of its rays where that is 0.
    """
    out = []
    units = D / np.linalg.norm(D, axis=1)[:, None]
    heights = units @ normals.T
    signs = np.where(np.abs(heights) > TIED, np.sign(heights), 0.0)
    for side in (1, -1):
        largest = -1.0
        for face, unit, sign in zip(faces, side * units, side * signs, strict=True):
            if not np.array_equal(sign, face):
                largest = max(largest, _closest(normals, face, unit))
        out.append(float(np.sqrt(max(0.0, 1.0 - largest**2))) if largest > -1.0 else 1.0)
    return out[0], out[1]


def _closest(normals: FloatArray, face: IntArray, unit: FloatArray) -> float:
    """Largest cosine between a unit vector and {w : face_k normal_k . w >= 0, = 0 where face_k = 0}, w not 0."""
    from scipy.optimize import nnls

    held = normals[face == 0]
    polar = np.vstack([-face[face != 0, None] * normals[face != 0], held, -held])
    weights, _ = nnls(polar.T, unit)
    rest = unit - polar.T @ weights
    size = float(np.linalg.norm(rest))
    if size > 1e-9:
        return size
    rays = _rays(normals, face)
    return float((rays @ unit).max()) if rays.shape[0] else -1.0


def _rays(normals: FloatArray, face: IntArray) -> FloatArray:
    """Rays of the closure of a face, (q, d) unit rows."""
    arrangement = Arrangement.of(normals)
    out = []
    for found in arrangement.rays():
        w = found.directions @ arrangement.basis
        heights = w @ normals.T
        inside = np.where(np.abs(heights) > TIED, np.sign(heights), 0.0)
        fits = ((inside == face) | ((inside == 0) & (face != 0))).all(axis=1)
        out.append(w[fits])
    return np.concatenate(out) if out else np.zeros((0, normals.shape[1]))


def _margins(X: FloatArray, g: FloatArray, leak: float, found: Extremal) -> tuple[float, float]:
    """delta_0' and delta_0'' (2.14): at the kinks and elsewhere, over the extremal vectors; inf for none."""
    n = X.shape[0]
    kinks, others = np.inf, np.inf
    lengths = np.linalg.norm(X, axis=1)
    for v, value, pattern, slopes in zip(found.directions, found.values, found.patterns, found.slopes, strict=True):
        held = (pattern == 0) & (lengths > 0)
        away = (pattern != 0) & (lengths > 0)
        if held.any():
            least = np.linalg.svd((g[held, None] * X[held]) / n, compute_uv=False)[-1]
            kinks = min(kinks, float(least * np.minimum(slopes[held] - leak, 1 - slopes[held]).min()))
        if away.any():
            others = min(others, float(np.min(abs(value) * np.abs(X[away] @ v) / lengths[away])))
    return kinks, others


def spurious(X: FloatArray, y: FloatArray) -> Spurious | None:
    """Margins of assumptions 4 to 6, for half-squared loss and no leak; None where there are too many faces."""
    n, d = X.shape
    arrangement = Arrangement.of(X)
    few = arrangement.size and n_faces(arrangement.size, arrangement.rank) <= MAX_FACES
    if not few or comb(n, min(n, d)) > _SUBSETS or (arrangement.owner < 0).any():
        return None
    faces = arrangement.faces().astype(np.int64)[:, arrangement.owner] * arrangement.orient.astype(np.int64)
    gram = X @ X.T
    extreme = np.flatnonzero([((faces >= 0).all(axis=1) & (faces[:, k] == 0)).any() for k in range(n)])
    beta = np.linalg.lstsq(X, y, rcond=None)[0]
    rest = y - X @ beta
    rows = [list(subset) for subset in combinations(range(n), min(n, d))]
    independent = min(float(np.linalg.svd(X[subset], compute_uv=False)[-1]) for subset in rows)
    across = np.sqrt(np.maximum(np.sum(gram**2, axis=1) - gram.diagonal() ** 2, 0.0))
    gaps = y * gram.diagonal() - np.linalg.norm(y) * across
    wall, mixed = _mixed(X, rest, faces, extreme)
    return Spurious(
        extreme=extreme,
        correlated=float(gram.min()),
        positive=float(y.min()),
        independent=independent if n >= d else 0.0,
        gap=float(gaps[extreme].min()) if extreme.size else np.inf,
        under=float(rest[extreme].min()) if extreme.size else np.inf,
        wall=wall,
        mixed=mixed,
        level=float(np.mean(rest**2) / 2),
    )


def _mixed(X: FloatArray, rest: FloatArray, faces: IntArray, extreme: IntArray) -> tuple[float, float]:
    """Margins of both parts of assumption 6 on the cones where some samples are active and some are not."""
    n = X.shape[0]
    gram = X @ X.T
    wall, mixed = np.inf, np.inf
    scale = float(np.abs(rest) @ np.linalg.norm(X, axis=1)) / n
    units = X / np.linalg.norm(X, axis=1)[:, None]
    chosen = faces[(faces > 0).any(axis=1) & (faces < 0).any(axis=1)]
    for u in chosen:
        D = ((u > 0) * rest) @ X / n
        held = np.flatnonzero(u == 0)
        for k in extreme:
            if u[k] == 0 or not (((faces == u) | (faces == 0)).all(axis=1) & (faces[:, k] == 0)).any():
                continue
            swing = sum(min(0.0, float(u[k] * rest[j] * gram[j, k])) for j in held) / n
            wall = min(wall, float(u[k] * (D @ X[k])) + swing)
        rays = _rays(units, u)
        if rays.shape[0]:
            low, high = float((rays @ D).min()), float((rays @ D).max())
            mixed = min(mixed, high if low > -TIED * scale else low)
    return wall, mixed
