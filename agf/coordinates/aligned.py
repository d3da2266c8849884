"""Neurons that share a direction: for degree 2 they are one neuron, of norm rho^2 = sum rho_i^2.

The flow of a direction does not know the norm there, and the network hears of an aligned group only sum rho_i^2: so a
group grows, saturates and competes as the one neuron would, and its members keep their shares.
"""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract.problem import Problem
from agf.errors import ProblemError, explain
from agf.rounding import LOG_FAINT
from agf.sphere import lengths

#: Entries of a block of distances. Cost: memory, 4 MB at any width, which caches hold.
_BLOCK = 1 << 19
#: Neurons from which on they are first gathered around leaders. Cost: below it every pair is looked at in a millisecond
#: or two.
_MANY = 1024
#: Leaders they are gathered around, at most. Cost: a product with all directions each; who is near none of them is
#: compared with everybody.
_LEADERS = 32
#: Products of a number that comparing neurons in pairs may take. Limit: a minute or two of one core; 10^6 neurons of
#: four parameters in all directions would take a quarter of an hour, and again for each drop.
_PRODUCTS = 1e12
#: Log norm over the largest below which a neuron counts as one of this. Derived: its square is a normal number.
_LEAST = 0.5 * LOG_FAINT


def groups(problem: Problem) -> bool:
    """Whether aligned neurons of this problem are one: degree 2, and no neuron's index means anything."""
    return problem.degree == 2 and problem.interchangeable


def homogeneous(problem: Problem) -> bool:
    """Whether neurons of any norm move as small ones do, so that aligned ones stay aligned: tried on one random neuron.

    A tanh neuron does not: of a group those that grow large see another gradient than those that are still small, and
    the small ones are free to learn something else.
    """
    rng = np.random.default_rng(0)
    direction = rng.standard_normal((1, problem.n_params))
    direction /= np.linalg.norm(direction)
    first = np.zeros(1, dtype=np.int64)
    residual = problem.residual(*problem.empty)
    small = problem.utility(direction, first, residual)[1]
    return bool(np.allclose(problem.pull(direction, np.zeros(1), first, residual), small, rtol=1e-6, atol=0.0))


def log_group_norms(directions: FloatArray, log_norms: FloatArray, rows: IntArray, close: float) -> FloatArray:
    """Log norm of the group that each of rows (k,) belongs to, (k,): of all neurons within `close` of its direction.

    Parameters
    ----------
    directions : float ndarray, shape (m, P)
        Unit rows.
    log_norms : float ndarray, shape (m,)
        Natural logs of the norms, -inf for none.
    rows : int ndarray, shape (k,)
        Whose groups.
    close : float
        Largest distance of two unit directions of one group; the whole sphere is within 2.
    """
    top = float(np.max(log_norms, initial=-np.inf))
    if not np.isfinite(top):
        return np.full(rows.size, -np.inf)
    if close >= 2.0:
        with np.errstate(divide="ignore"):
            return np.full(rows.size, 0.5 * np.logaddexp.reduce(2.0 * log_norms))
    squares = np.exp(2.0 * np.maximum(log_norms - top, _LEAST))
    squares[np.isinf(log_norms)] = 0.0
    if log_norms.size < _MANY:
        out = _sums(directions, squares, directions[rows], close)
    else:
        out = _gathered(directions, squares, rows, close)
    with np.errstate(divide="ignore"):  # a group of one has the norm of that one, to the last bit
        return np.where(out == squares[rows], log_norms[rows], top + 0.5 * np.log(out))


def _sums(directions: FloatArray, squares: FloatArray, at: FloatArray, close: float) -> FloatArray:
    """Sum of the squares of all that are within `close` of each of the directions `at` (k, P), (k,): every pair is
    looked at."""
    out, size = np.empty(len(at)), max(1, _BLOCK // max(squares.size, 1))
    for some in (slice(k, k + size) for k in range(0, len(at), size)):
        cosines = at[some] @ directions.T
        out[some] = np.greater_equal(cosines, 1.0 - 0.5 * close**2, out=cosines) @ squares
    return out


def _gathered(directions: FloatArray, squares: FloatArray, rows: IntArray, close: float) -> FloatArray:
    """`_sums` of many neurons that have few directions between them.

    Whoever is within a quarter of `close` of a leader is its follower. Two followers of leaders that are within half of
    `close` of each other are near by the triangle inequality, of leaders beyond one and a half of it are not, and
    between these their pairs are looked at, with a twentieth to spare for rounding.
    """
    leaders: list[FloatArray] = []
    label, left = np.full(squares.size, -1), np.argsort(-squares, kind="stable")
    while left.size and len(leaders) < _LEADERS:
        near = directions[left] @ directions[left[0]] >= 1.0 - 0.5 * (0.25 * close) ** 2
        near[0] = True  # unit up to rounding
        label[left[near]] = len(leaders)
        leaders.append(directions[left[0]])
        left = left[~near]
    _refuse(left.size, directions)
    heads, count = np.array(leaders), len(leaders)
    totals = np.bincount(label[label >= 0], squares[label >= 0], count)
    gaps = lengths((heads[:, None] - heads[None]).reshape(count**2, -1)).reshape(count, count)
    together, apart = gaps <= 0.45 * close, gaps >= 1.55 * close
    out, of = np.empty(rows.size), label[rows]
    out[of < 0] = _sums(directions, squares, directions[rows[of < 0]], close)
    for k in range(count):
        mine = of == k
        some = (label < 0) | (~together[k] & ~apart[k])[label]
        out[mine] = together[k] @ totals + _sums(directions[some], squares[some], directions[rows[mine]], close)
    return out


def _refuse(strays: int, directions: FloatArray) -> None:
    """Raise ProblemError where so many are near no leader that comparing them with all would not end."""
    products = float(strays) * directions.size
    if products > _PRODUCTS:
        raise ProblemError(
            explain(
                f"which of {len(directions):,} neurons are aligned takes {products:.1g} products, as {strays:,} of "
                "them point in all directions.",
                where="groups of aligned neurons",
                expected=f"at most {_PRODUCTS:.0g}",
                remedy="Use a smaller width, or a smaller alpha: neurons align before they grow. The flow needs no "
                "groups.",
            )
        )
