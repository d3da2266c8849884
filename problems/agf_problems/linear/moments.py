"""Second moments of a linear regression: the data of a linear network, checked, and the basis in which it decouples.

A linear network sees its data only through Sxx = E[x x^T] and Syx = E[y x^T]. In the singular basis of Syx the two
matrices often fall apart into independent blocks (in the extreme, one singular mode a block when they commute). Blocks
learn without ever seeing one another, so what rounding puts between them is removed here, once: otherwise 1e-16 of
coupling grows like everything else and fakes a jump.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from agf import Init
from agf.arrays import FloatArray, IntArray, in_range, matrix, not_zero
from agf.errors import DataError, explain
from agf.rounding import RANK, SUM, TIED


@dataclass(frozen=True)
class Moments:
    """Moments in the singular basis of Syx: x = inputs @ x', y = outputs @ y'.

    Parameters
    ----------
    sxx : float ndarray, shape (d, d)
        E[x' x'^T], exact zeros between blocks.
    syx : float ndarray, shape (c, d)
        E[y' x'^T], diagonal, decreasing.
    target : float ndarray, shape (c, d)
        The best linear map in this basis, syx sxx^+.
    floor : float
        Loss that no linear map can fit.
    inputs : float ndarray, shape (d, d)
        Orthogonal.
    outputs : float ndarray, shape (c, c)
        Orthogonal.
    blocks : tuple[tuple[IntArray, IntArray], ...]
        pairs (rows, columns) of index arrays, outputs and inputs of each independent block that has a signal.
    """

    sxx: FloatArray
    syx: FloatArray
    target: FloatArray
    floor: float
    inputs: FloatArray
    outputs: FloatArray
    blocks: tuple[tuple[IntArray, IntArray], ...]

    @classmethod
    def of(cls, sxx: FloatArray, syx: FloatArray, floor: float = 0.0) -> Moments:
        """From moments in the user's basis; Sxx (d, d) symmetric positive semidefinite, Syx (c, d) in its range."""
        outputs, sigma, inputs_t = np.linalg.svd(syx)
        inputs = inputs_t.T
        sigma = np.where(sigma > RANK * sigma.max(initial=0.0), sigma, 0.0)
        inputs, outputs = _resolve_degenerate(sxx, sigma, inputs, outputs)
        rotated = inputs.T @ sxx @ inputs
        rotated = 0.5 * (rotated + rotated.T)
        rotated[np.abs(rotated) <= RANK * np.max(np.abs(rotated))] = 0.0
        diagonal = np.zeros(syx.shape)
        np.fill_diagonal(diagonal, sigma)
        blocks = _blocks(rotated, sigma)
        target = np.zeros(syx.shape)
        for rows, columns in blocks:
            inverse = pseudo_inverse(rotated[np.ix_(columns, columns)])
            target[np.ix_(rows, columns)] = diagonal[np.ix_(rows, columns)] @ inverse
        return cls(rotated, diagonal, target, floor, inputs, outputs, blocks)

    @property
    def sigma(self) -> FloatArray:
        """Singular values of Syx, (min(c, d),), decreasing: the first growth rates, per unit of flow time."""
        return np.diagonal(self.syx).copy()

    @property
    def rank(self) -> int:
        """Number of modes with a signal: the most that can ever be learned."""
        return int(np.count_nonzero(np.diagonal(self.syx)))

    def residual(self, beta: FloatArray) -> FloatArray:
        """-dL/d beta = Syx - beta Sxx, (..., c, d), in this basis."""
        return self.syx - beta @ self.sxx

    def loss(self, beta: FloatArray) -> float:
        """floor + (1/2) tr[(target - beta) Sxx (target - beta)^T] for beta (c, d) in this basis."""
        return float(self.losses(beta))

    def losses(self, betas: FloatArray) -> FloatArray:
        """Of maps betas (..., c, d), (...,)."""
        gap = self.target - betas
        return np.asarray(self.floor + 0.5 * np.sum((gap @ self.sxx) * gap, axis=(-2, -1)))

    @cached_property
    def root(self) -> FloatArray:
        """Sxx^(1/2), (d, d)."""
        return square_root(self.sxx)

    def least(self, rank: int) -> float:
        """Least loss of a map of this rank: the floor, and the singular values of target Sxx^(1/2) beyond it."""
        return self.floor + 0.5 * float(np.sum(np.linalg.svd(self.target @ self.root, compute_uv=False)[rank:] ** 2))

    def start(self, init: Init) -> tuple[FloatArray, float]:
        """Initial weights in this basis, (H, d + c), over the largest row norm, and the log of that norm."""
        d = self.sxx.shape[0]
        log_size = float(np.max(init.log_norms))
        z = init.directions * np.exp(init.log_norms - log_size)[:, None]
        return np.concatenate([z[:, :d] @ self.inputs, z[:, d:] @ self.outputs], axis=1), log_size

    def natural_rows(self, rows: FloatArray) -> FloatArray:
        """Weight rows (w, a) of this basis, (..., d + c), in the user's."""
        d = self.sxx.shape[0]
        return np.concatenate([rows[..., :d] @ self.inputs.T, rows[..., d:] @ self.outputs.T], axis=-1)

    def natural(self, beta: FloatArray) -> FloatArray:
        """A map (..., c, d) of this basis in the user's: outputs beta inputs^T."""
        return self.outputs @ beta @ self.inputs.T


def pseudo_inverse(sxx: FloatArray) -> FloatArray:
    """Inverse of a symmetric positive semidefinite matrix on its range, decided at RANK of the largest."""
    values, vectors = np.linalg.eigh(sxx)
    keep = values > RANK * values.max(initial=0.0)
    return (vectors[:, keep] / values[keep]) @ vectors[:, keep].T


def square_root(sxx: FloatArray) -> FloatArray:
    """Of a symmetric positive semidefinite matrix, symmetric."""
    values, vectors = np.linalg.eigh(sxx)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def hessian(w: FloatArray, a: FloatArray, root: FloatArray, residual: FloatArray) -> FloatArray:
    """Of the loss at W (H, d) and A (c, H), (H (d + c), H (d + c)), rows and columns (w, a) unit by unit.

    root : Sxx^(1/2); residual : (c, d), Syx - A W Sxx; all in one basis.
    """
    (units, d), c = w.shape, a.shape[0]
    # change of A W Sxx^(1/2), (c, d), by each weight
    change = np.zeros((units, d + c, c, d))
    change[:, :d] = np.einsum("ki,jl->ijkl", a, root)
    change[:, d:] = np.einsum("kn,il->inkl", np.eye(c), w @ root)
    flat = change.reshape(units * (d + c), c * d)
    out = (flat @ flat.T).reshape(units, d + c, units, d + c)
    who = np.arange(units)
    out[who, :d, who, d:] -= residual.T
    out[who, d:, who, :d] -= residual
    return out.reshape(units * (d + c), units * (d + c))


def _resolve_degenerate(
    sxx: FloatArray, sigma: FloatArray, inputs: FloatArray, outputs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Within equal singular values the basis is free: take the one in which Sxx is diagonal."""
    inputs, outputs = inputs.copy(), outputs.copy()
    d = inputs.shape[0]
    values = np.concatenate([sigma, np.zeros(d - sigma.size)])
    start = 0
    while start < d:
        stop = start + 1
        while stop < d and values[start] - values[stop] <= TIED * values[start]:
            stop += 1
        if stop - start > 1:
            span = inputs[:, start:stop]
            turn = np.linalg.eigh(span.T @ sxx @ span)[1][:, ::-1]
            inputs[:, start:stop] = span @ turn
            if values[start] > 0:  # u and v of a degenerate space turn together
                outputs[:, start:stop] = outputs[:, start:stop] @ turn
        start = stop
    return inputs, outputs


def _blocks(sxx: FloatArray, sigma: FloatArray) -> tuple[tuple[IntArray, IntArray], ...]:
    """Connected components of the inputs under Sxx that hold a singular value, in order of their largest one."""
    from scipy.sparse.csgraph import connected_components

    _, labels = connected_components(sxx != 0, directed=False)
    out = []
    for label in dict.fromkeys(labels[: sigma.size][sigma > 0].tolist()):
        columns = np.flatnonzero(labels == label)
        rows = columns[columns < sigma.size]
        out.append((rows[sigma[rows] > 0], columns))
    return tuple(out)


def read(
    Sxx: Any = None, Syx: Any = None, B: Any = None, X: Any = None, Y: Any = None
) -> tuple[FloatArray, FloatArray, float]:
    """(Sxx, Syx, floor) from whichever of the three forms was given. Raises DataError, which says what is wrong."""
    given = {name for name, value in (("Sxx", Sxx), ("Syx", Syx), ("B", B), ("X", X), ("Y", Y)) if value is not None}
    sxx, syx, floor = _given(given, Sxx, Syx, B, X, Y)
    # What is left of the targets along directions that are rounding of Sxx is rounding, and no mode.
    values, vectors = np.linalg.eigh(sxx)
    beyond = vectors[:, values <= RANK * values.max(initial=0.0)]
    return sxx, syx - (syx @ beyond) @ beyond.T, floor


def _given(given: set[str], Sxx: Any, Syx: Any, B: Any, X: Any, Y: Any) -> tuple[FloatArray, FloatArray, float]:
    if given == {"X", "Y"}:
        return _from_samples(X, Y)
    if given not in ({"Sxx", "B"}, {"Sxx", "Syx"}):
        raise DataError(
            explain(
                "the data must be given in exactly one way.",
                where="linear",
                found=", ".join(sorted(given)) or "nothing",
                expected="(Sxx, B), (Sxx, Syx) or (X, Y)",
            )
        )
    sxx = _covariance(in_range(matrix(Sxx, "Sxx", where="linear"), "Sxx", where="linear", power=8))
    if B is not None:
        return sxx, _product(_as_rows(B, "B", sxx.shape[0]), sxx), 0.0
    syx = _as_rows(Syx, "Syx", sxx.shape[0])
    outside = syx - syx @ pseudo_inverse(sxx) @ sxx
    if np.linalg.norm(outside) > 1e-8 * np.linalg.norm(syx):
        raise DataError(
            explain(
                "`Syx` correlates the target with inputs that never vary (outside the range of `Sxx`).",
                where="linear",
                found=f"{np.linalg.norm(outside):.3g} of {np.linalg.norm(syx):.3g} outside",
                expected="Syx = B Sxx for some B",
            )
        )
    return sxx, syx, 0.0


def _as_rows(value: Any, name: str, columns: int) -> FloatArray:
    """A (c, d) matrix; a vector of length d is one output."""
    array = matrix(value, name, where="linear")
    if np.ndim(value) == 1:
        array = array.T.copy()
    return in_range(matrix(array, name, where="linear", columns=columns), name, where="linear", power=8)


def _from_samples(X: Any, Y: Any) -> tuple[FloatArray, FloatArray, float]:
    x = in_range(matrix(X, "X", where="linear"), "X", where="linear", power=8)
    y = in_range(matrix(Y, "Y", where="linear", rows=x.shape[0]), "Y", where="linear", power=8)
    n = x.shape[0]
    not_zero(x, "X", where="linear")
    # Left singular vectors of X with signal: what a linear map can fit, without squaring the condition number.
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    u = u[:, s**2 > RANK * s[0] ** 2]
    unfitted = y - u @ (u.T @ y)
    return x.T @ x / n, _product(y.T, x) / n, 0.5 * float(np.sum(unfitted**2)) / n


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """left @ right, 0 where its sums are no more than rounding makes of vectors that are orthogonal."""
    product = left @ right
    sizes = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(right, axis=0)
    return np.where(np.abs(product) > SUM * sizes, product, 0.0)


def _covariance(sxx: FloatArray) -> FloatArray:
    """Checked for shape, symmetry and sign, and symmetrized."""
    if sxx.shape[0] != sxx.shape[1]:
        raise DataError(explain(f"`Sxx` has shape {sxx.shape}.", where="linear", expected="a square matrix"))
    size = float(np.max(np.abs(sxx)))
    if size == 0:
        raise DataError(explain("`Sxx` is zero: there is nothing to learn from.", where="linear"))
    skew = np.abs(sxx - sxx.T)
    if skew.max() > 1e-8 * size:
        i, j = np.unravel_index(int(np.argmax(skew)), skew.shape)
        raise DataError(
            explain(
                "`Sxx` is not symmetric.",
                where="linear",
                found=f"Sxx[{i}, {j}] = {sxx[i, j]:.6g} and Sxx[{j}, {i}] = {sxx[j, i]:.6g}",
                remedy="A covariance is symmetric; use (Sxx + Sxx.T) / 2 if the difference is noise.",
            )
        )
    sxx = 0.5 * (sxx + sxx.T)
    values = np.linalg.eigvalsh(sxx)
    if values[0] < -1e-8 * values[-1]:
        raise DataError(
            explain(
                "`Sxx` is not positive semidefinite, so it is no covariance.",
                where="linear",
                found=f"smallest eigenvalue {values[0]:.6g}, largest {values[-1]:.6g}",
            )
        )
    return sxx
