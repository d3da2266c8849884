"""Activation cones of inputs: the sign patterns of X w, from the faces of the hyperplanes x_k . w = 0.

Every face of a central arrangement of rank r touches a ray, on which r - 1 independent hyperplanes meet; so the faces
are the rays, each with all sides of the hyperplanes through it ([BF24] section 2, Cover 1965 for the number).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agf.arrays import FloatArray, IntArray, matrix
from agf.asked import asked
from agf.errors import RequestError, explain
from agf.records.table import Table, Tabular
from agf.rounding import TIED

#: Sides of hyperplanes, -1, 0 or 1.
SignArray = NDArray[np.int8]
#: Faces beyond which an enumeration is refused. Limit: some tens of seconds and a gigabyte.
MAX_FACES = 2_000_000
#: Entries of one block of sign patterns. Cost: memory.
_BLOCK = 2**23
#: Signs of all patterns, faces times inputs, beyond which they are not listed. Limit: a gigabyte at the peak.
MAX_SIGNS = 2**27
#: Letters of a pattern that are printed. Limit: the rest is three dots.
_LETTERS = 24


def n_cones(n: int, d: int) -> int:
    """Open cones that n hyperplanes through 0 in general position cut R^d into: 2 sum_{i<d} C(n - 1, i) (Cover)."""
    return 2 * sum(comb(n - 1, i) for i in range(d)) if n else 1


def n_faces(n: int, d: int) -> int:
    """Their faces of all dimensions from 1 to d, the open cones among them."""
    return sum(comb(n, d - j) * n_cones(n - d + j, j) for j in range(1, d + 1) if n >= d - j)


@dataclass(frozen=True)
class Rays:
    """Some rays of an arrangement, b of them.

    directions : (b, r) unit vectors.  signs : (b, N) side of each hyperplane, 0 on those that hold the ray.
    through : (b, r - 1) the independent hyperplanes that meet there, all those with sign 0; or None where more meet,
        and b is 1.
    """

    directions: FloatArray
    signs: IntArray
    through: IntArray | None


@dataclass(frozen=True)
class Arrangement:
    """The distinct hyperplanes {w : x_k . w = 0} of the non-zero rows of X (n, d).

    basis : (r, d) orthonormal rows that span those of X; all directions below are in its coordinates.
    normals : (N, r) unit normals.  owner : (n,) the hyperplane of each row, -1 for a zero row.
    orient : (n,) +1 where x_k points to the positive side, -1 where it points away, 0 for a zero row.
    dimension : d.
    """

    basis: FloatArray
    normals: FloatArray
    owner: IntArray
    orient: FloatArray
    dimension: int

    @classmethod
    def of(cls, X: FloatArray) -> Arrangement:
        """Rows that are zero, duplicate or collinear are found, and the rank of the rest."""
        n, d = X.shape
        largest = np.abs(X).max(axis=1)
        alive = np.flatnonzero(largest > 0)
        units = X[alive] / largest[alive, None]
        units /= np.linalg.norm(units, axis=1)[:, None]
        owner, orient = np.full(n, -1), np.zeros(n)
        if alive.size == 0:
            return cls(np.zeros((0, d)), np.zeros((0, 0)), owner, orient, d)
        _, values, rows = np.linalg.svd(units, full_matrices=False)
        basis = rows[values > TIED * values[0]]
        units = units @ basis.T
        units /= np.linalg.norm(units, axis=1)[:, None]
        first, index = _lines(units)
        owner[alive] = index
        orient[alive] = np.where(np.sum(units * units[first][index], axis=1) > 0, 1.0, -1.0)
        return cls(basis, units[first], owner, orient, d)

    @property
    def rank(self) -> int:
        """Dimension of the span of the inputs."""
        return self.basis.shape[0]

    @property
    def size(self) -> int:
        """Number of hyperplanes N."""
        return self.normals.shape[0]

    @property
    def bound(self) -> int:
        """Faces in general position; fewer where more hyperplanes meet than must."""
        return n_faces(self.size, self.rank)

    def refuse_large(self, where: str, limit: float = MAX_FACES) -> None:
        """Raise RequestError, with the number, where there are more than `limit` faces."""
        if self.bound > limit:
            raise RequestError(
                explain(
                    f"{self.size} distinct inputs of rank {self.rank} have up to {self.bound:.3g} activation cones "
                    "and faces.",
                    where=where,
                    expected=f"at most {limit:.3g}",
                    remedy="Take fewer inputs or fewer columns, or the numeric route where there is one.",
                )
            )

    def rays(self) -> Iterator[Rays]:
        """All rays, in blocks; a ray on which more than r - 1 hyperplanes meet comes alone, and once."""
        r, n = self.rank, self.size
        if r == 0:
            return
        subsets = combinations(range(n), r - 1)
        size = max(1, _BLOCK // max(1, 3 ** (r - 1) * n))
        seen: set[bytes] = set()
        while True:
            chunk = [subset for _, subset in zip(range(size), subsets, strict=False)]
            if not chunk:
                return
            through = np.array(chunk, dtype=np.int64).reshape(len(chunk), r - 1)
            directions, sines = _null(self.normals[through])
            through, directions = through[sines > TIED], directions[sines > TIED]
            heights = directions @ self.normals.T
            signs = np.where(np.abs(heights) > TIED, np.sign(heights), 0.0).astype(np.int64)
            np.put_along_axis(signs, through, 0, axis=1)
            simple = np.sum(signs == 0, axis=1) == r - 1
            if simple.any():
                for side in (1, -1):
                    yield Rays(side * directions[simple], side * signs[simple], through[simple])
            for i in np.flatnonzero(~simple):
                if (signs[i] == 0).tobytes() in seen:
                    continue
                seen.add((signs[i] == 0).tobytes())
                for side in (1, -1):
                    yield Rays(side * directions[i : i + 1], side * signs[i : i + 1], None)

    def around(self, on: IntArray) -> SignArray:
        """All sides (m, k) of the hyperplanes `on` (k,) that meet in one ray, seen from it; the ray itself as 0s."""
        local = Arrangement.of(self.normals[on])
        faces = local.faces()  # in terms of the local hyperplanes, which are those of `on` in their order
        faces = faces[:, local.owner] * local.orient.astype(np.int8)
        return np.vstack([faces, np.zeros((1, on.size), dtype=np.int8)])

    def faces(self) -> SignArray:
        """Sign patterns (F, N) of all faces of the arrangement but 0, each once, one byte a sign."""
        r = self.rank
        if r == 0:
            return np.zeros((0, 0), dtype=np.int8)
        sides = np.array(list(product((-1, 0, 1), repeat=r - 1)), dtype=np.int8).reshape(3 ** (r - 1), r - 1)
        found: list[np.ndarray] = []
        for rays in self.rays():
            signs = rays.signs.astype(np.int8)
            if rays.through is None:
                on = np.flatnonzero(signs[0] == 0)
                around = self.around(on)
                block = np.repeat(signs, around.shape[0], axis=0)
                block[:, on] = around
            else:
                block = np.repeat(signs[:, None], sides.shape[0], axis=1)
                at = np.broadcast_to(rays.through[:, None], (signs.shape[0], *sides.shape))
                np.put_along_axis(block, at, np.broadcast_to(sides, at.shape), axis=2)
                block = block.reshape(-1, self.size)
            found.append(distinct(block))
        return distinct(np.concatenate(found))


def distinct(signs: IntArray | SignArray) -> SignArray:
    """The different rows of sign patterns (m, N), int8; a row is compared as one string of bytes."""
    rows = np.ascontiguousarray(signs, dtype=np.int8)
    if rows.shape[1] == 0:
        return rows[:1]
    _, first = np.unique(rows.view(np.dtype((np.void, rows.shape[1]))).reshape(-1), return_index=True)
    return rows[first]


def _lines(units: FloatArray) -> tuple[IntArray, IntArray]:
    """First row of each line through 0, and the line of each row, for unit rows (n, r)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    n = units.shape[0]
    pairs = cKDTree(np.vstack([units, -units])).query_pairs(TIED, output_type="ndarray") % n
    graph = coo_array((np.ones(pairs.shape[0]), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    _, index = connected_components(graph, directed=False)
    first = np.full(index.max() + 1, n)
    np.minimum.at(first, index, np.arange(n))
    order = np.argsort(first)  # lines in the order of their first rows
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return first[order], place[index].astype(np.int64)


def _null(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Unit vector (b, r) across r - 1 unit rows (b, r - 1, r), and the smallest singular value of the rows."""
    b, k, r = rows.shape
    if k == 0:
        return np.ones((b, 1)), np.ones(b)
    if r == 2:
        return np.stack([-rows[:, 0, 1], rows[:, 0, 0]], axis=1), np.ones(b)
    if r == 3:
        across = np.cross(rows[:, 0], rows[:, 1])
        sines = np.linalg.norm(across, axis=1)
        return across / np.where(sines > 0, sines, 1.0)[:, None], sines
    _, values, turn = np.linalg.svd(rows, full_matrices=True)
    return turn[:, -1], values[:, -1]


@asked
@dataclass(frozen=True, repr=False)
class Cones(Tabular):
    """Activation cones of inputs and their faces, none with w = 0.

    X : (n, d) the inputs.
    patterns : (F, n) sign of x_k . w on each face, one byte each: 1 active, -1 inactive, 0 on the kink.
    dimensions : (F,) of each face; d for an open cone.
    general : (open cones, all faces) that as many distinct inputs have in general position (Cover).
    """

    X: FloatArray
    patterns: SignArray
    dimensions: IntArray
    general: tuple[int, int]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The patterns as text (`name`)."""
        return tuple(name(pattern) for pattern in self.patterns)

    @property
    def n_open(self) -> int:
        """Number of open cones."""
        return int(np.sum(self.dimensions == self.X.shape[1]))

    def table(self) -> Table:
        """Faces by dimension, and the open cones by name when there are at most forty."""
        d = self.X.shape[1]
        rows = [
            [str(j), str(int(np.sum(self.dimensions == j))), "open cones" if j == d else "faces"]
            for j in range(d, 0, -1)
            if np.any(self.dimensions == j)
        ]
        notes = [f"General position has {self.general[0]} open cones, {self.general[1]} in all."]
        if self.n_open <= 40:
            notes.append("Open: " + ", ".join(name(pattern) for pattern in self.patterns[self.dimensions == d]))
        return Table(
            f"Activation cones of {self.X.shape[0]} inputs in R^{d}", ["dimension", "number", "kind"], rows, notes
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "n_open": self.n_open,
            "n_faces": int(self.dimensions.size),
            "general": list(self.general),
            "patterns": self.patterns.tolist(),
            "dimensions": self.dimensions.tolist(),
            "names": list(self.names),
        }

    def __repr__(self) -> str:
        return f"<Cones of {self.X.shape[0]} inputs: {self.n_open} open, {self.dimensions.size} in all>"


def name(pattern: IntArray | SignArray) -> str:
    """A pattern as text: "+-0" for one input active, one inactive, one on its kink; "all", "none" where that is so."""
    if pattern.size and (pattern > 0).all():
        return "all"
    if (pattern < 0).all():
        return "none"
    return "".join("-0+"[int(s) + 1] for s in pattern)


def brief(pattern: IntArray) -> str:
    """The same, of many inputs cut."""
    word = name(pattern)
    return word if len(word) <= _LETTERS else word[: _LETTERS - 3] + "..."


def _ranks(arrangement: Arrangement, faces: SignArray) -> IntArray:
    """Rank of the hyperplanes that hold each face; each set of hyperplanes is looked at once."""
    out = np.sum(faces == 0, axis=1)
    for i in np.flatnonzero(out > 1):
        out[i] = _rank(arrangement.normals[faces[i] == 0])
    return out


def _rank(normals: FloatArray) -> int:
    if normals.shape == (2, normals.shape[1]):  # two distinct lines
        return 2
    return int(np.linalg.matrix_rank(normals, tol=TIED))


@asked
def cones(X: Any) -> Cones:
    """Activation cones of inputs: every sign pattern that (x_k . w)_k takes for some w other than 0.

    Parameters
    ----------
    X : array-like
        (n, d) inputs; append a column of ones for a hidden bias. Zero, duplicate and collinear rows are legal.

    Returns
    -------
    Cones
        Patterns, dimensions, names, and the count in general position, 2 sum_{i<d} C(n - 1, i) open ones.

    Raises
    ------
    RequestError
        More than two million cones and faces, or 1.3e8 signs of inputs in them; the message has the number.
    DataError
        Not numbers, or nothing in it.
    """
    X = matrix(X, "X", where="cones")
    arrangement = Arrangement.of(X)
    arrangement.refuse_large("cones", min(MAX_FACES, MAX_SIGNS / X.shape[0]))
    faces = arrangement.faces()
    if arrangement.size == 0:
        patterns = np.zeros((1, X.shape[0]), dtype=np.int8)
        ranks = np.zeros(1, dtype=np.int64)
    else:
        patterns = faces[:, np.maximum(arrangement.owner, 0)] * arrangement.orient.astype(np.int8)
        ranks = _ranks(arrangement, faces)
        if arrangement.rank < X.shape[1]:  # directions across all inputs
            patterns = np.vstack([patterns, np.zeros((1, X.shape[0]), dtype=np.int8)])
            ranks = np.append(ranks, arrangement.rank)
    order = np.lexsort((*(-patterns.T[::-1]), ranks))
    patterns, dimensions = patterns[order], X.shape[1] - ranks[order]
    general = (n_cones(arrangement.size, X.shape[1]), n_faces(arrangement.size, X.shape[1]))
    return Cones(X, patterns, dimensions, general)
