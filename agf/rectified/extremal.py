"""Extremal vectors: every critical direction of the alignment function of a (leaky) ReLU network, by enumeration.

G(w) = sum_k c_k sigma(w . x_k) is linear in each activation cone, G(w) = w . D, with D = sum_k eta_k c_k x_k and slopes
eta_k: 1 active, `leak` inactive, anything between on a kink. A direction v is critical where a face holds +D or -D, D
being the shortest of its subgradients ([BF24] Definition 1); then v = +-D/|D| and G(v) = +-|D|. The shortest
subgradient that lies in the face is the projection of any of them on the span of the face, so that each candidate is
closed form, and the slopes at the kinks follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.rectified.cones import MAX_FACES, Arrangement, Rays, distinct
from agf.rounding import RANK, TIED

#: Products of one block. Cost: memory.
_BLOCK = 2**22

MAXIMUM, MINIMUM, SADDLE, DEGENERATE = "maximum", "minimum", "saddle", "degenerate"


@dataclass(frozen=True)
class Flat:
    """An open cone in which D = 0: G vanishes there, and a dormant neuron in it stays as it is.

    pattern : (n,) sign of x_k . w.  kind : of G on the whole cone: "minimum" where G rises across every wall,
        "maximum" where it falls, "saddle" else.  dead : whether no sample is active (and there is no leak).
    """

    pattern: IntArray
    kind: str
    dead: bool


@dataclass(frozen=True)
class Extremal:
    """The m critical directions of G, in order of falling G.

    directions : (m, d) unit vectors v.  values : (m,) G(v).  kinds : (m,) of G on the sphere.
    patterns : (m, n) sign of x_k . v.  slopes : (m, n) slope of sigma at each sample, balanced at the kinks.
    flats : open cones where G is 0.  faces : how many faces there are in general position.
    """

    directions: FloatArray
    values: FloatArray
    kinds: tuple[str, ...]
    patterns: IntArray
    slopes: FloatArray
    flats: tuple[Flat, ...]
    faces: int

    @property
    def size(self) -> int:
        """Number m of critical directions."""
        return self.values.size


@dataclass(frozen=True)
class _Bent:
    """G in the coordinates of an arrangement without straight hyperplanes: G is D . w, D = drift + sum of sides.

    drift : (r,) what the straight hyperplanes give everywhere.  arrangement : of the others.
    plus, minus : (N,) height, along the normal, of what each hyperplane gives to D on either side of it.
    """

    drift: FloatArray
    arrangement: Arrangement
    plus: FloatArray
    minus: FloatArray
    scale: float

    @property
    def bend(self) -> FloatArray:
        """(N,) jump of D across each hyperplane: G bends up there where it is positive."""
        return self.plus - self.minus

    def subgradients(self, signs: IntArray) -> FloatArray:
        """D without the hyperplanes of sign 0, for patterns (b, N): (b, r)."""
        weights = np.where(signs > 0, self.plus, 0.0) + np.where(signs < 0, self.minus, 0.0)
        return self.drift + weights @ self.arrangement.normals


def _bent(X: FloatArray, c: FloatArray, leak: float) -> _Bent:
    whole = Arrangement.of(X)
    r, n = whole.rank, whole.size
    alive = whole.owner >= 0
    owner, orient = whole.owner[alive], whole.orient[alive]
    heights = c[alive] * orient * np.linalg.norm(X[alive], axis=1)  # of c_k x_k along the normal
    plus, minus = np.zeros(n), np.zeros(n)
    np.add.at(plus, owner, heights * np.where(orient > 0, 1.0, leak))
    np.add.at(minus, owner, heights * np.where(orient > 0, leak, 1.0))
    scale = float(np.sum(np.abs(heights)))
    straight = np.abs(plus - minus) <= 1e-15 * scale  # no leak to bend it, no residual, or labels that cancel
    drift = plus[straight] @ whole.normals[straight] if straight.any() else np.zeros(r)
    bent = ~straight
    place = np.where(bent, np.cumsum(bent) - 1, -1)
    kept = np.where(whole.owner >= 0, np.append(place, -1)[whole.owner], -1)
    arrangement = Arrangement(whole.basis, whole.normals[bent], kept, whole.orient, whole.dimension)
    return _Bent(drift, arrangement, plus[bent], minus[bent], scale)


def extremal(X: FloatArray, c: FloatArray, leak: float = 0.0, limit: int = MAX_FACES) -> Extremal:
    """All critical directions of G(w) = sum_k c_k sigma(w . x_k) on the unit sphere, sigma(z) = max(z, leak z).

    Parameters
    ----------
    X : ndarray
        (n, d) inputs, of any position: zero, duplicate, collinear, orthogonal.
    c : ndarray
        (n,) weights: the residual times that of a sample in the loss (1/n for a mean).
    leak : float
        Slope left of 0, from 0 to 1.
    limit : int
        Most faces that are looked at.

    Returns
    -------
    Extremal
        Where inputs share a line, both sides of their kink move together, as along the flow ([BF24] eq. 6 takes their
        slopes as free).

    Raises
    ------
    RequestError
        More than `limit` faces, with their number.
    """
    bent = _bent(X, c, leak)
    if bent.scale == 0.0:
        return _none(X)
    local = _spanned(bent)
    if local.size:
        local.refuse_large("landscape", limit)
    found = [_Found.flat(_no_signs(local), bent.arrangement.rank)]
    found += [_at(bent, local, rays) for rays in local.rays()]
    if local.rank < bent.arrangement.rank or local.size == 0:  # directions across all bent hyperplanes
        found.append(_loose(bent, local, np.zeros((1, local.size), dtype=np.int64)))
    return _sorted(X, c, leak, bent, _Found.join(found), local)


def _spanned(bent: _Bent) -> Arrangement:
    """The bent hyperplanes in coordinates of their own span, which is smaller where some inputs are straight."""
    a = bent.arrangement
    if a.size == 0:
        return Arrangement(np.zeros((0, a.rank)), np.zeros((0, 0)), a.owner, a.orient, a.rank)
    _, values, rows = np.linalg.svd(a.normals, full_matrices=False)
    basis = rows[values > 1e-10 * values[0]]
    return Arrangement(basis, a.normals @ basis.T, a.owner, a.orient, a.rank)


def _no_signs(local: Arrangement) -> IntArray:
    return np.zeros((0, local.size), dtype=np.int64)


@dataclass(frozen=True)
class _Found:
    """Candidates that passed: side (m,), D (m, r), signs (m, N), share of the plus side at each kink (m, N); and
    patterns (f, N) of open cones where D is 0."""

    side: IntArray
    D: FloatArray
    signs: IntArray
    shares: FloatArray
    flats: IntArray

    @classmethod
    def flat(cls, signs: IntArray, r: int) -> _Found:
        """Nothing but these open cones where D is 0, (f, N)."""
        n = signs.shape[1]
        return cls(np.zeros(0, dtype=np.int64), np.zeros((0, r)), signs[:0], np.zeros((0, n)), signs)

    @classmethod
    def join(cls, parts: list[_Found]) -> _Found:
        """All of them, in order."""
        names = ("side", "D", "signs", "shares", "flats")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _at(bent: _Bent, local: Arrangement, rays: Rays) -> _Found:
    """What is critical, or flat, on the faces around some rays."""
    if rays.through is None:
        on = np.flatnonzero(rays.signs[0] == 0)
        around = local.around(on)
        signs = np.repeat(rays.signs, around.shape[0], axis=0)
        signs[:, on] = around
        return _loose(bent, local, signs)
    normals = bent.arrangement.normals
    base = bent.subgradients(rays.signs)
    found = []
    for sides in product((-1, 0, 1), repeat=rays.through.shape[1]):
        turn = np.array(sides, dtype=np.int64)
        moved, held = rays.through[:, turn != 0], rays.through[:, turn == 0]
        heights = np.where(turn[turn != 0] > 0, bent.plus[moved], bent.minus[moved])
        D = base + np.einsum("bk,bkr->br", heights, normals[moved])
        shares = np.zeros(held.shape)
        if held.shape[1]:
            H = normals[held]
            pull = np.linalg.solve(H @ H.transpose(0, 2, 1), -(H @ D[:, :, None]))[:, :, 0]
            D = D + np.einsum("bk,bkr->br", pull, H)
            shares = (pull - bent.minus[held]) / bent.bend[held]
        size = np.linalg.norm(D, axis=1)
        flat = (size <= RANK * bent.scale) & (held.shape[1] == 0)
        stands = (size > RANK * bent.scale) & ((shares > -TIED) & (shares < 1 + TIED)).all(axis=1)
        unit = D / np.where(size > 0, size, 1.0)[:, None]
        across = np.einsum("bkr,br->bk", normals[moved], unit) * turn[turn != 0]
        for side in (1, -1):
            kept = np.flatnonzero(stands & (side * across > TIED).all(axis=1))
            found.append(_checked(bent, rays.signs, rays.through, turn, kept, D, unit, side, shares, held))
        if flat.any():
            signs = rays.signs[flat]
            np.put_along_axis(signs, rays.through[flat], turn[None], axis=1)
            found.append(_Found.flat(signs, normals.shape[1]))
    return _Found.join(found)


def _checked(
    bent: _Bent, signs: IntArray, through: IntArray, turn: IntArray, kept: IntArray, D: FloatArray, unit: FloatArray,
    side: int, shares: FloatArray, held: IntArray,
) -> _Found:  # fmt: skip
    """Those of `kept` whose D lies on the face, or opposite, for all hyperplanes; walked in blocks."""
    normals = bent.arrangement.normals
    good = []
    block = max(1, _BLOCK // max(1, normals.shape[0]))
    for start in range(0, kept.size, block):
        some = kept[start : start + block]
        heights = side * (unit[some] @ normals.T) * signs[some]
        good.append(some[((heights > TIED) | (signs[some] == 0)).all(axis=1)])
    kept = np.concatenate([np.zeros(0, dtype=np.int64), *good])
    pattern = signs[kept].copy()
    np.put_along_axis(pattern, through[kept], turn[None], axis=1)
    part = np.zeros((kept.size, normals.shape[0]))
    np.put_along_axis(part, held[kept], shares[kept], axis=1)
    return _Found(np.full(kept.size, side), D[kept], pattern, part, np.zeros((0, normals.shape[0]), dtype=np.int64))


def _loose(bent: _Bent, local: Arrangement, signs: IntArray) -> _Found:
    """The same for any faces (b, N), one by one: the hyperplanes that hold one may depend on each other, so that the
    slopes at the kinks come from bounded least squares."""
    from scipy.optimize import lsq_linear

    normals = bent.arrangement.normals
    found = [_Found.flat(_no_signs(local), normals.shape[1])]
    for row, sides in zip(bent.subgradients(signs), signs, strict=True):
        held = np.flatnonzero(sides == 0)
        H = normals[held]
        basis = np.linalg.svd(H, full_matrices=False)[2][: np.linalg.matrix_rank(H, tol=1e-10)] if held.size else H[:0]
        D = row - basis.T @ (basis @ row)
        size = float(np.linalg.norm(D))
        if size <= RANK * bent.scale:
            if held.size == 0:
                found.append(_Found.flat(sides[None], normals.shape[1]))
            continue
        heights = normals @ D / size
        for side in (1, -1):
            if not ((side * heights * sides > TIED) | (sides == 0)).all():
                continue
            shares = np.zeros(local.size)
            if held.size:
                low, high = np.minimum(bent.plus, bent.minus)[held], np.maximum(bent.plus, bent.minus)[held]
                fit = lsq_linear(H.T, D - row, (low, high), tol=1e-14)
                if np.linalg.norm(H.T @ fit.x - (D - row)) > TIED * bent.scale:
                    continue
                shares[held] = (fit.x - bent.minus[held]) / bent.bend[held]
            found.append(_Found(np.array([side]), D[None], sides[None], shares[None], sides[None][:0]))
    return _Found.join(found)


def _sorted(X: FloatArray, c: FloatArray, leak: float, bent: _Bent, found: _Found, local: Arrangement) -> Extremal:
    """Each direction once, classified, in order of falling G, with patterns and slopes of all samples."""
    a = bent.arrangement
    m = found.side.size
    if m:
        key = np.hstack([found.signs.astype(np.int8), found.side[:, None].astype(np.int8)])
        rows = np.ascontiguousarray(key).view(np.dtype((np.void, key.shape[1]))).reshape(-1)
        _, first = np.unique(rows, return_index=True)
        found = _Found(found.side[first], found.D[first], found.signs[first], found.shares[first], found.flats)
        m = first.size
    size = np.linalg.norm(found.D, axis=1)
    values = found.side * size
    order = np.argsort(-values, kind="stable")
    v = (found.side / np.where(size > 0, size, 1.0))[:, None] * found.D @ a.basis
    kinds = [_kind(bent, found.signs[i], found.shares[i], int(found.side[i]), X.shape[1]) for i in range(m)]
    flats = tuple(_flat(X, c, bent, row, leak) for row in distinct(found.flats).astype(np.int64))
    patterns, slopes = _samples(X, v, leak, bent, found)
    return Extremal(v[order], values[order], tuple(kinds[i] for i in order), patterns[order], slopes[order], flats,
                    local.bound if local.size else 1)  # fmt: skip


def _kind(bent: _Bent, signs: IntArray, shares: FloatArray, side: int, d: int) -> str:
    """[BF24] Lemmas 12 and 14: on its own face G falls from a +D and rises from a -D; across it G bends by `bend`.

    At the edge of being critical, where a share is 0 or 1, G keeps its slope across that wall: towards its other side G
    falls as along the sphere, so that what bends the same way everywhere stays an end of neurons.
    """
    held = np.flatnonzero(signs == 0)
    bend = side * bent.bend[held]
    if (bend < 0).all():
        return MAXIMUM if side > 0 else MINIMUM
    if ((shares[held] < TIED) | (shares[held] > 1 - TIED)).any():
        return DEGENERATE
    normals = bent.arrangement.normals[held]
    alone = d == (np.linalg.matrix_rank(normals, tol=1e-10) if held.size else 0) + 1  # the face is a ray
    if alone and (bend > 0).all():
        return MINIMUM if side > 0 else MAXIMUM
    return SADDLE


def _samples(X: FloatArray, v: FloatArray, leak: float, bent: _Bent, found: _Found) -> tuple[IntArray, FloatArray]:
    """Pattern and slope of every sample at every direction, (m, n) each."""
    a = bent.arrangement
    lengths = np.linalg.norm(X, axis=1)
    heights = (v @ X.T) / np.where(lengths > 0, lengths, 1.0)
    patterns = np.where(np.abs(heights) > TIED, np.sign(heights), 0.0).astype(np.int64)
    slopes = np.where(patterns > 0, 1.0, leak)
    bends = a.owner >= 0
    if bends.any():
        owner = a.owner[bends]
        patterns[:, bends] = found.signs[:, owner] * a.orient[bends].astype(np.int64)
        share = np.where(a.orient[bends] > 0, found.shares[:, owner], 1.0 - found.shares[:, owner])
        kink = leak + (1.0 - leak) * np.clip(share, 0.0, 1.0)
        slopes[:, bends] = np.where(patterns[:, bends] == 0, kink, np.where(patterns[:, bends] > 0, 1.0, leak))
    return patterns, slopes


def _flat(X: FloatArray, c: FloatArray, bent: _Bent, signs: IntArray, leak: float) -> Flat:
    a = bent.arrangement
    pattern = np.zeros(X.shape[0], dtype=np.int64)
    bends = a.owner >= 0
    pattern[bends] = signs[a.owner[bends]] * a.orient[bends].astype(np.int64)
    bend = bent.bend[_walls(a.normals, signs)]
    kind = MINIMUM if (bend > 0).all() else MAXIMUM if (bend < 0).all() else SADDLE
    active = (pattern > 0) & (c != 0)
    return Flat(pattern, kind, leak == 0 and not active.any())


def _walls(normals: FloatArray, signs: IntArray) -> IntArray:
    """Hyperplanes that bound an open cone: those whose normal is no positive sum of the others (Farkas)."""
    from scipy.optimize import nnls

    rows = normals * signs[:, None]
    if rows.shape[0] < 2:
        return np.arange(rows.shape[0])
    alone = [i for i in range(rows.shape[0]) if nnls(np.delete(rows, i, axis=0).T, rows[i])[1] > TIED]
    return np.array(alone, dtype=np.int64)


def _none(X: FloatArray) -> Extremal:
    """Nothing is left to fit: G is 0 everywhere."""
    n, d = X.shape
    return Extremal(np.zeros((0, d)), np.zeros(0), (), np.zeros((0, n), dtype=np.int64), np.zeros((0, n)), (), 0)
