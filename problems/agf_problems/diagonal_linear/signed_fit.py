"""Least squares with a sign prescribed for some coefficients and zero for the rest, warm-started and updated.

The active phase of a diagonal network is this problem, and its whole staircase is a sequence of such problems that
differ by a few columns. As in LARS, the triangular factor of the active columns is updated, never rebuilt: d stages
cost about one factorization. The active-set method is that of Lawson and Hanson, from the previous solution, with exact
zeros and with several coefficients leaving at once.

Two factors do the linear algebra. `_Gram` works on normal equations, which makes a stage cheap when n >= d; as soon as
a column is too close to the span of the others for that, or when n < d, `_Orthogonal` (Gram-Schmidt, twice) takes over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg import qr, qr_delete
from scipy.linalg.lapack import dtrtrs

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.rounding import EPS, RANK, SUM

#: Squared distance of a column to the span of the others, relative to its own square, below which `_Orthogonal` takes
#: over. Cost: above it normal equations, which are faster, lose four digits of sixteen at most.
_GRAM_LIMIT = 1e-4
#: Rows rotated together where a column leaves. Cost: of calls, against that of the rotation, which grows with it.
_PANEL = 32


class _Factor(ABC):
    """R and q with X_P^T X_P = R^T R and q = R^-T X_P^T y, for the columns P in `order`, updated column by column."""

    def __init__(self) -> None:
        self._order: IntArray = np.empty(16, dtype=np.int64)
        self._r: FloatArray = np.empty((16, 16), order="F")
        self._q: FloatArray = np.empty(16)
        self.size = 0

    @property
    def order(self) -> IntArray:
        """(k,) columns in the order of the factor."""
        return self._order[: self.size]

    def coefficients(self) -> FloatArray:
        """(k,) least-squares coefficients of the columns in `order`."""
        if self.size == 0:
            return np.zeros(0)
        return self._solve(self._q[: self.size])

    def enter(self, j: int) -> bool:
        """Append column j. False, and nothing changed, when it is too close to the span of the others."""
        projection = self._project(j)
        if projection is None:
            return False
        column, height, q = projection
        k = self.size
        if k == self._q.size:
            self._grow()
        self._order[k] = j
        self._r[:k, k] = column
        self._r[k, k] = height
        self._q[k] = q
        self.size = k + 1
        return True

    def leave(self, at: int) -> None:
        """Remove the column at position `at` of `order`."""
        k = self.size - 1
        if at < k:
            self._rotate(at)
        self._order[at:k] = self._order[at + 1 : k + 1]
        self.size = k

    def _solve(self, b: FloatArray, transposed: bool = False) -> FloatArray:
        # dtrtrs takes the first k columns of the larger array as they are; solve_triangular would copy them
        x: FloatArray = dtrtrs(self._r[:, : self.size], b, trans=int(transposed))[0]
        return x

    def _grow(self) -> None:
        k = self.size
        self._order = np.concatenate([self._order, np.empty(k, dtype=np.int64)])
        self._q = np.concatenate([self._q, np.empty(k)])
        r = np.empty((2 * k, 2 * k), order="F")
        r[:k, :k] = self._r
        self._r = r

    @abstractmethod
    def coordinates(self, columns: IntArray) -> FloatArray:
        """(k, m) coordinates of columns of X along an orthonormal basis of the span of X_P: R^-T X_P^T X_columns."""

    @abstractmethod
    def inner(self, columns: IntArray) -> FloatArray:
        """(m, m) inner products of columns of X."""

    @abstractmethod
    def _project(self, j: int) -> tuple[FloatArray, float, float] | None:
        """New column of R (k,), its diagonal entry, and the new entry of q; None when j is too close to the others."""

    @abstractmethod
    def _rotate(self, at: int) -> None:
        """Make R and q those without column `at`, which is not the last."""

    @abstractmethod
    def pull(self, coefficients: FloatArray) -> FloatArray:
        """(d,) products x_i . (y - X_P b); meaningless on P."""


class _Gram(_Factor):
    """Normal equations. The Gram matrix is kept permuted, active columns first, so that only blocks of it are read."""

    def __init__(self, x: FloatArray, y: FloatArray) -> None:
        super().__init__()
        self._gram = x.T @ x
        self._xy = x.T @ y
        self._column = np.arange(x.shape[1])  # column at each place
        self._place = np.arange(x.shape[1])  # place of each column

    def enter(self, j: int) -> bool:
        entered = super().enter(j)
        if entered:
            self._swap(int(self._place[j]), self.size - 1)
        return entered

    def leave(self, at: int) -> None:
        j = int(self._order[at])
        super().leave(at)
        self._swap(int(self._place[j]), self.size)

    def _swap(self, a: int, b: int) -> None:
        if a == b:
            return
        pair = np.array([a, b])
        riap = pair[::-1]
        self._gram[pair] = self._gram[riap]
        self._gram[:, pair] = self._gram[:, riap]
        self._xy[pair] = self._xy[riap]
        self._column[pair] = self._column[riap]
        self._place[self._column[pair]] = pair

    def coordinates(self, columns: IntArray) -> FloatArray:
        products = self._gram[self._place[columns][:, None], self._place[self.order]].T
        return self._solve(products, transposed=True) if self.size else products

    def inner(self, columns: IntArray) -> FloatArray:
        places = self._place[columns]
        out: FloatArray = self._gram[places[:, None], places]
        return out

    def _project(self, j: int) -> tuple[FloatArray, float, float] | None:
        row, k = int(self._place[j]), self.size
        column = self._gram[row, self._place[self.order]]
        if k:
            column = self._solve(column, transposed=True)
        square = self._gram[row, row] - column @ column
        if not square > _GRAM_LIMIT * self._gram[row, row]:
            return None
        height = float(np.sqrt(square))
        return column, height, float((self._xy[row] - column @ self._q[:k]) / height)

    def _rotate(self, at: int) -> None:
        """R^T R without a column is that of the rows below, plus the square of the row of this one: rotated into them
        by panels, so that most of the work is products of matrices."""
        k, r, q = self.size, self._r, self._q
        row = np.append(r[at, at + 1 : k], q[at])  # what is to be rotated in
        r[:at, at : k - 1] = r[:at, at + 1 : k].copy()
        for start in range(at + 1, k, _PANEL):
            end = min(start + _PANEL, k)
            width, rows = end - start, np.empty((end - start + 1, k - start + 1))
            rows[:-1, :-1], rows[:-1, -1], rows[-1] = r[start:end, start:k], q[start:end], row[start - at - 1 :]
            rows[:-1, :width] = np.triu(rows[:-1, :width])  # below the diagonal nothing is kept
            turn, rows[:, :width] = np.linalg.qr(rows[:, :width], mode="complete")
            rows[:, width:] = turn.T @ rows[:, width:]
            r[start - 1 : end - 1, start - 1 : k - 1], q[start - 1 : end - 1] = rows[:-1, :-1], rows[:-1, -1]
            row[end - at - 1 :] = rows[-1, width:]

    def pull(self, coefficients: FloatArray) -> FloatArray:
        k = self.size
        placed = np.empty(k)
        placed[self._place[self.order]] = coefficients
        out = np.empty(self._xy.size)
        out[self._column[k:]] = self._xy[k:] - self._gram[k:, :k] @ placed
        return out


class _Orthogonal(_Factor):
    """Orthonormal basis of the active columns by Gram-Schmidt, twice: right as long as the columns are independent."""

    def __init__(self, x: FloatArray, y: FloatArray) -> None:
        super().__init__()
        if x.shape[0] > x.shape[1]:  # only what lies in the span of the columns matters
            basis, triangle = qr(x, mode="economic", check_finite=False)
            x, y = np.asarray(triangle, dtype=np.float64), basis.T @ y
        self.rows = np.ascontiguousarray(x.T)
        self._y = y
        self._norms = np.sqrt(np.einsum("ij,ij->i", self.rows, self.rows))
        self._watched = self.rows
        self.residual = y  # y - X_P b at the last `pull`; its part in the span of the columns when n > d
        self._basis = np.empty((x.shape[0], 16), order="F")

    def coordinates(self, columns: IntArray) -> FloatArray:
        out: FloatArray = self._basis[:, : self.size].T @ self.rows[columns].T
        return out

    def inner(self, columns: IntArray) -> FloatArray:
        rows = self.rows[columns]
        return rows @ rows.T

    def _project(self, j: int) -> tuple[FloatArray, float, float] | None:
        k = self.size
        if k == self.rows.shape[1]:
            return None  # the columns already span everything
        basis = self._basis[:, :k]
        rest = self.rows[j]
        column = np.zeros(k)
        for _ in range(2):
            part = rest @ basis
            rest = rest - basis @ part
            column += part
        height = float(np.linalg.norm(rest))
        if not height > RANK * self._norms[j]:
            return None
        if k == self._basis.shape[1]:
            self._basis = np.concatenate([self._basis, np.empty_like(self._basis)], axis=1)
            self._basis = np.asfortranarray(self._basis)
        self._basis[:, k] = rest / height
        return column, height, float(self._basis[:, k] @ self._y)

    def _rotate(self, at: int) -> None:
        k = self.size
        basis, r = qr_delete(self._basis[:, :k], self._r[:k, :k], at, which="col", check_finite=False)
        self._basis[:, : k - 1] = basis[:, : k - 1]
        self._r[: k - 1, : k - 1] = r[: k - 1]
        self._q[: k - 1] = self._y @ self._basis[:, : k - 1]

    def watch(self, columns: IntArray | slice) -> None:
        """Let `pull` be (m,), for these columns only."""
        self._watched = self.rows[columns]

    def pull(self, coefficients: FloatArray) -> FloatArray:
        self.residual = self._y - coefficients @ self.rows[self.order]
        return self._watched @ self.residual


class SignedFit:
    """argmin |y - X b|^2 over b with b_i of a given sign for some columns and b_i = 0 for the others, step by step.

    Parameters
    ----------
    x : float ndarray, shape (n, d)
        Used as given.
    y : float ndarray, shape (n,)
        Used as given.

    Attributes
    ----------
    coefficients : float ndarray, shape (d,)
        The present solution, exact zeros off the active columns; of equal columns one has all.
    active : bool ndarray, shape (d,)
        The columns with non-zero coefficient.
    norms : float ndarray, shape (d,)
        Euclidean norms of the columns.
    """

    def __init__(self, x: FloatArray, y: FloatArray) -> None:
        self._x, self._y = x, y
        n, d = x.shape
        self.norms: FloatArray = np.sqrt(np.einsum("ij,ij->j", x, x))
        self.coefficients: FloatArray = np.zeros(d)
        self.active: BoolArray = np.zeros(d, dtype=bool)
        self._size_y = float(np.linalg.norm(y))
        self._rounding = 8.0 * EPS * float(np.sqrt(n + d)) * self.norms
        self._noise = self._rounding  # of the watched columns
        self._factor: _Factor = _Gram(x, y) if n >= d else _Orthogonal(x, y)
        self._signs: FloatArray = np.zeros(d)  # those of the minimization under way
        self._first = _first_of_equals(x)
        self._watched: IntArray | None = None  # all
        self._pull: FloatArray | None = None

    @property
    def pull(self) -> FloatArray:
        """(d,) products x_i . (y - X b), which are -n times the gradient: zero on active columns, and where rounding
        errors are all that is left. (w,) when only some columns are watched."""
        if self._pull is None:
            order = self._factor.order
            coefficients = self.coefficients[order]
            pull = self._factor.pull(coefficients)
            # |error| <= c eps |x_i| (|y| + sum_j |x_j| |b_j|), whichever factor computed it
            size = self._size_y + float(self.norms[order] @ np.abs(coefficients))
            pull[np.abs(pull) <= size * self._noise] = 0.0
            pull[self._places(order)] = 0.0
            self._pull = pull
        return self._pull

    def watch(self, columns: IntArray | None) -> None:
        """Let only these columns (sorted; None: all) pull and enter; active ones must be among them. For n < d."""
        assert isinstance(self._factor, _Orthogonal)
        self._watched = columns
        self._factor.watch(slice(None) if columns is None else columns)
        self._noise = self._rounding if columns is None else self._rounding[columns]
        self._pull = None

    def _places(self, columns: IntArray) -> IntArray:
        """Where these columns stand among the watched ones."""
        return columns if self._watched is None else np.searchsorted(self._watched, columns)

    def residual(self) -> FloatArray:
        """y - X b, (n,). For n < d."""
        assert isinstance(self._factor, _Orthogonal)
        _ = self.pull  # makes the factor compute it at the present solution
        return self._factor.residual

    def products(self, vectors: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Products of all columns with vectors (..., n), (..., d). For n < d."""
        assert isinstance(self._factor, _Orthogonal)
        return np.matmul(vectors, self._factor.rows.T, out=out)

    def restore(self, columns: IntArray, coefficients: FloatArray) -> None:
        """Go back to a solution that was there before."""
        for at in range(self._factor.size - 1, -1, -1):
            self._factor.leave(at)
        self.coefficients[:] = 0.0
        self.active[:] = False
        self._pull = None
        inside = columns[coefficients != 0.0]
        for j in inside:
            self._enter(int(j))
        self.coefficients[columns] = coefficients
        self.active[inside] = True

    def minimize(self, columns: IntArray, signs: FloatArray) -> None:
        """Move to the minimizer with these signs (m,), +-1, on these columns (m,) and zeros elsewhere.

        Active columns must be among them, with their signs.
        """
        self._signs[columns] = signs
        shut = np.zeros(self.norms.size, dtype=bool)
        if self._first is not None:  # the first of equal columns stands for all
            allowed = shut.copy()
            allowed[columns] = True
            first = self._first[columns]
            shut[columns] = (first != columns) & allowed[first]
        while True:
            some = columns[~(self.active | shut)[columns]]
            if some.size == 0:
                return
            gains = self._signs[some] * self.pull[self._places(some)] / self.norms[some]
            best = gains.argmax()
            if not gains[best] > 0.0:
                return
            if not self._include(int(some[best])):
                shut[some[best]] = True

    def shared(self, columns: IntArray, signs: FloatArray) -> FloatArray:
        """(m,) coefficients of these columns, equal columns sharing equally.

        The fit determines only their sum; columns that are equal and start equal stay equal along gradient flow.
        """
        if self._first is None:
            return self.coefficients[columns]
        groups, group = np.unique(self._first[columns], return_inverse=True)
        total = np.bincount(group, np.abs(self.coefficients[columns]), groups.size)
        share: FloatArray = signs * (total / np.bincount(group, minlength=groups.size))[group]
        return share

    def inner(self, columns: IntArray) -> FloatArray:
        """(m, m) inner products of columns of X."""
        return self._factor.inner(columns)

    def parts(self, columns: IntArray, heights: FloatArray) -> FloatArray:
        """Part of what equal columns add up to that each of these (m,) has at these heights (..., m): (..., m).

        They grow at one rate, so that their squares keep their ratios. 0 for all but the largest, which stand for them.
        """
        if self._first is None or columns.size == 0:
            return np.ones(heights.shape)
        group = np.unique(self._first[columns], return_inverse=True)[1]
        order = np.argsort(group, kind="stable")
        group, heights = group[order], heights[..., order]
        firsts = np.flatnonzero(np.diff(group, prepend=-1))
        top = np.maximum.reduceat(heights, firsts, axis=-1)[..., group]
        behind = np.subtract(heights, top, out=np.zeros(heights.shape), where=np.isfinite(top))
        total = np.add.reduceat(np.exp(2.0 * behind), firsts, axis=-1)[..., group]
        out = np.empty(heights.shape)
        out[..., order] = np.where(-behind <= SUM * np.maximum(np.abs(top), 1.0), 1.0 / total, 0.0)
        return out

    def distance(self, columns: IntArray) -> FloatArray:
        """(m,) squared distance of columns of X from the span of the active ones."""
        square = self.norms[columns] ** 2
        if not self._factor.size:
            return square
        inside = self._factor.coordinates(columns)
        return np.maximum(square - np.einsum("ij,ij->j", inside, inside), EPS * square)

    def _include(self, j: int) -> bool:
        """Let column j in and settle; False, and nothing changed, when it can add nothing."""
        if not self._enter(j):
            return False
        factor = self._factor
        entering = True
        while True:
            order = factor.order
            old, new = self.coefficients[order], factor.coefficients()
            wrong = (self._signs[order] * new <= 0.0).nonzero()[0]
            if entering and wrong.size and wrong[-1] == order.size - 1:
                factor.leave(order.size - 1)  # its gain was rounding error
                return False
            entering = False
            self._pull = None
            if wrong.size == 0:
                self.coefficients[order] = new
                self.active[order] = True
                return True
            fraction = old[wrong] / (old[wrong] - new[wrong])
            first = fraction.min()
            self.coefficients[order] = old + first * (new - old)
            leaving = wrong[fraction <= first * (1.0 + 1e-12)]
            self.coefficients[order[leaving]] = 0.0
            self.active[order[leaving]] = False
            for at in leaving[::-1]:
                factor.leave(int(at))

    def _enter(self, j: int) -> bool:
        if self._factor.enter(j):
            return True
        if isinstance(self._factor, _Orthogonal):
            return False
        exact = _Orthogonal(self._x, self._y)
        for i in self._factor.order:
            exact.enter(int(i))
        self._factor = exact
        return exact.enter(j)


def _first_of_equals(x: FloatArray) -> IntArray | None:
    """(d,) for each column the first one that equals it or its negative; None where no two are equal."""
    sizes = np.abs(x).sum(axis=0)
    in_order = np.sort(sizes)
    if (in_order[1:] != in_order[:-1]).all():  # as usual, and told soon
        return None
    first = np.arange(x.shape[1])
    key, owner, count = np.unique(sizes, return_inverse=True, return_counts=True)
    columns = np.flatnonzero((count[owner] > 1) & (key[owner] > 0.0))
    if columns.size == 0:
        return None
    rows = np.ascontiguousarray(x[:, columns].T)
    leading = np.take_along_axis(rows, np.argmax(rows != 0.0, axis=1)[:, None], axis=1)
    rows = rows * np.sign(leading) + 0.0  # adding 0 makes every zero positive
    whole = rows.view(np.dtype((np.void, rows.strides[0])))[:, 0]
    _, index, inverse = np.unique(whole, return_index=True, return_inverse=True)
    first[columns] = columns[index[inverse]]
    return None if (first[columns] == columns).all() else first
