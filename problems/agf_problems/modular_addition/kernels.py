"""Sums over all pairs (a, b) for neurons (<u, a.x> + <v, b.x>)^2 w, without ever listing the pairs.

With A_i[a] = <u_i, a.x> and B_i[b] = <v_i, b.x> (correlations with the template, of mean zero because x is centred):

    E s_i^2 s_j^2 = sum_a A_i^2 A_j^2 / p + sum_b B_i^2 B_j^2 / p
                    + (mean A_i^2)(mean B_j^2) + (mean B_i^2)(mean A_j^2) + 4 (mean A_i A_j)(mean B_i B_j)
    E s_i^2 <w_i, (a+b).x> = 2 E A_i[a] B_i[b] C_i[a + b],   C_i[c] = <w_i, c.x>

with s_i = A_i[a] + B_i[b] and E the mean over the p^2 pairs. The first is a Gram matrix of p-vectors, the second a
product of Fourier coefficients: O(H^2 p + H p log p) in all. `Moments` does the same for sums of k terms and z^k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from agf.arrays import BoolArray, FloatArray
from agf_problems.modular_addition.template import ComplexArray, Template

#: Above this order the correlations go through the fast Fourier transform. Cost: below, a matrix product is faster
#: (measured: equal near p = 150 for 64 neurons).
_DENSE_ORDER = 192
#: Pairs of neurons whose joint moments are held at once. Cost: memory, some ten numbers a pair.
_BLOCK = 2**16
#: Largest Jacobian span projected on, in columns; of more the largest neurons stand for the rest. Result: natural
#: thresholds of later neurons then count as new what those left out could do; a matrix of 20,000 columns takes 3.2 GB,
#: and 200 columns are 50 neurons of one frequency.
_SPAN = 2000


class Correlations:
    """Correlations of weights with the template, and the product of Fourier coefficients that the target needs.

    A row u of weights becomes z, (S,) complex, the Fourier coefficients of A[a] = <u, a.x> at the learnable
    frequencies, scaled so that the utility of a neuron with nothing active is Re sum z_u z_v ... conj(z_w); `low`,
    (d,), the same numbers as coordinates of A / sqrt(p) in orthonormal waves; and A / sqrt(p) itself, (p,).

    Attributes
    ----------
    waves : float ndarray, shape (d, p)
        The real and imaginary wave of each learnable frequency in turn, d = 2S; orthonormal, but for the sine of a
        real character, which is zero.
    """

    def __init__(self, template: Template, terms: int):
        characters = template.characters
        p = characters.order
        self.order = p
        self.rows = terms + 1
        self._characters = characters
        chosen = template.learnable
        weight = np.where(characters.paired[chosen], 2.0, 1.0)
        # E prod_l A_l[a_l] C[a_1 + .. + a_k] = p^-(k+1) sum_chi prod Ah_l conj(Ch), times k! from the multinomial
        scale = (math.factorial(terms) * weight) ** (1.0 / self.rows) / p
        self._at = characters.frequencies[chosen]
        self._spectrum = characters.transform(template.values)
        self._mode_scale = scale * template.spectrum[chosen].conj()
        bases = np.ascontiguousarray(characters.transform(np.eye(p))[:, self._at])
        # A / sqrt(p) = sum_k weight_k Re(z_k conj(base_k)) / (scale_k p sqrt(p)), and |Re base_k|^2 = p / weight_k
        self._stretch = np.repeat(np.sqrt(weight) / (scale * p), 2)
        self.waves = np.ascontiguousarray((bases * np.sqrt(weight / p)).view(np.float64).T)
        self.waves[1::2][~characters.paired[chosen]] = 0.0
        self._waves_adjoint = np.ascontiguousarray(self.waves.T)
        self.dense = p <= _DENSE_ORDER
        if self.dense:
            self._modes = np.ascontiguousarray(bases * self._mode_scale).view(np.float64)
            self._modes_adjoint = np.ascontiguousarray(self._modes.T)

    def forward(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, ComplexArray]:
        """Weights (m, (k+1) p) to A (k, m, p) and `low` (k, m, d), without the row of w, and z (k+1, m, S)."""
        parts = theta.reshape(theta.shape[0], self.rows, self.order).transpose(1, 0, 2)
        if self.dense:
            modes = parts @ self._modes
            low = modes[:-1] * self._stretch
            return low @ self.waves, low, modes.view(np.complex128)
        hats = self._characters.transform(parts)
        pre = self._characters.inverse(hats[:-1] * self._spectrum.conj()) / np.sqrt(self.order)
        z = np.ascontiguousarray(hats[:, :, self._at]) * self._mode_scale
        return pre, z[:-1].view(np.float64) * self._stretch, z

    def adjoint(self, pre: FloatArray, low: FloatArray | float, z: ComplexArray, w: FloatArray) -> FloatArray:
        """Gradient (m, (k+1) p) in the weights from those in what `forward` returns, and what w adds, (m, p)."""
        m, p = w.shape
        if self.dense:
            modes = z.view(np.float64)
            inner = pre @ self._waves_adjoint
            inner += low
            inner *= self._stretch
            modes[:-1] += inner
            out = modes @ self._modes_adjoint
        else:
            z[:-1] += (low * self._stretch).view(np.complex128)
            hats = np.zeros((self.rows, m, p), dtype=np.complex128)
            # the real part of sum conj(g) dz, z = scale * hat: a real function with coefficients p conj(scale) g
            hats[:, :, self._at] = p * self._mode_scale.conj() * z
            hats[:-1] += self._characters.transform(pre) * (self._spectrum / np.sqrt(p))
            out = self._characters.inverse(hats)
        out[-1] += w
        return out.transpose(1, 0, 2).reshape(m, self.rows * p)

    def coordinates(self) -> FloatArray:
        """(p, d): weights times this are `low`."""
        return self._modes * self._stretch

    def target(self, used: BoolArray) -> FloatArray:
        """The target as (u, u, p): by products of two of the `low` in use (d,), for each weight of w."""
        z = np.eye(used.size)[used].view(np.complex128) / self._stretch[::2]
        pairs = z[:, None] * z[None, :]
        return np.einsum("ijs,cs->ijc", pairs, self._modes.view(np.complex128).conj()).real


@dataclass(frozen=True)
class Sources:
    """What the couplings need of m neurons. Small arrays: at p = 20 the time goes into the number of operations.

    Parameters
    ----------
    pre : float ndarray, shape (k, m, p)
        A and B over sqrt(p).
    z : complex ndarray, shape (k+1, m, S)
        Fourier coefficients.
    w : float ndarray, shape (m, p)
        Output weights.
    low : float ndarray, shape (k, m, d)
        See `Correlations`.
    squares : float ndarray, shape (2, m, p)
        Squares of pre.
    partner : float ndarray, shape (2, m, p)
        Such that squares_i . partner_j + 4 (A_i.A_j)(B_i.B_j) is E s_i^2 s_j^2. The last two are empty for `Moments`.
    """

    pre: FloatArray
    z: ComplexArray
    w: FloatArray
    low: FloatArray
    squares: FloatArray
    partner: FloatArray

    def at(self, rows: slice) -> Sources:
        """Those of some of the neurons."""
        pre, low, squares, partner = (part[:, rows] for part in (self.pre, self.low, self.squares, self.partner))
        return Sources(pre, self.z[:, rows], self.w[rows], low, squares, partner)

    @cached_property
    def powers(self) -> FloatArray:
        """(k+1, k, m, p): A^r / r!, r = 0 .. k, of each term."""
        k, _, p = self.pre.shape
        out = np.ones((k + 1, *self.pre.shape))
        for r in range(1, k + 1):
            out[r] = out[r - 1] * (self.pre * (np.sqrt(p) / r))
        return out

    @cached_property
    def mean(self) -> FloatArray:
        """(2, p, p): what all the neurons take from each output, by the square of A at each residue; and of B."""
        return self.partner.transpose(0, 2, 1) @ self.w

    @cached_property
    def twist(self) -> FloatArray:
        """(d^2, p): the same for each product of a coordinate of A and one of B, sum_j 4 a_j b_j w_j."""
        pairs = self.low[0][:, :, None] * self.low[1][:, None, :]
        return pairs.reshape(self.w.shape[0], pairs.shape[1] * pairs.shape[2]).T @ (4.0 * self.w)


class Quadratic:
    """Two terms and sigma(z) = z^2."""

    terms = 2

    def __init__(self, template: Template):
        self.correlations = Correlations(template, 2)
        self.order = template.characters.order
        self._characters = template.characters
        self._template = template.values

    def sources(self, theta: FloatArray) -> Sources:
        p = self.order
        pre, low, z = self.correlations.forward(theta)
        squares = pre * pre
        partner = p * squares
        partner += np.vecdot(pre, pre)[::-1, :, None]
        return Sources(pre, z, theta[:, 2 * p :], low, squares, partner)

    def gram(self, one: Sources, two: Sources) -> FloatArray:
        """E s_i^2 s_j^2, (m, n)."""
        return self._gram(one, two, one.low @ two.low.transpose(0, 2, 1))

    @staticmethod
    def _gram(one: Sources, two: Sources, overlap: FloatArray) -> FloatArray:
        within = one.squares @ two.partner.transpose(0, 2, 1)
        out = overlap[0] * overlap[1]
        out *= 4.0
        out += within[0]
        out += within[1]
        return out

    @staticmethod
    def norms(one: Sources) -> FloatArray:
        """E s_i^4, (m,): the diagonal of the Gram matrix."""
        sizes = np.vecdot(one.low, one.low)
        return np.vecdot(one.squares, one.partner).sum(axis=0) + 4.0 * sizes[0] * sizes[1]

    def pull(self, one: Sources, two: Sources) -> tuple[FloatArray, FloatArray]:
        """Gradient of the utility of each neuron of `one` against the target less `two`, and the part taken away.

        Returns (m, 3p), and (m,) E <f_i, f_two>; the utility is <w_i, gradient in w_i>, because f is linear in w.
        """
        p, n, d = self.order, two.w.shape[0], one.low.shape[2]
        # partners one by one, or what they take in all, in arrays no larger than theirs: whichever is less work
        twisted = 4 * d * d * p < n * (4 * d + 2 * p)
        if twisted:
            pairs = one.low[0][:, :, None] * one.low[1][:, None, :]
            taken = pairs.reshape(len(pairs), d * d) @ two.twist
            turned = (one.w @ two.twist.T).reshape(len(one.w), d, d)
            low = np.stack([np.matvec(turned, one.low[1]), np.vecmat(one.low[0], turned)])
            np.negative(low, out=low)
        else:
            overlap = one.low @ two.low.transpose(0, 2, 1)
            weights = one.w @ (-4.0 * two.w).T
            low = (weights * overlap[::-1]) @ two.low
            if n <= p:
                taken = self._gram(one, two, overlap) @ two.w
                weights *= 0.5
                inner = weights @ two.partner
            else:
                taken = (overlap[0] * overlap[1]) @ (4.0 * two.w)
        if n > p or twisted:
            taken += one.squares[0] @ two.mean[0]
            taken += one.squares[1] @ two.mean[1]
            inner = one.w @ (-2.0 * two.mean).transpose(0, 2, 1)
        inner *= one.pre
        z, conjugate = one.z, one.z.conj()
        pulled = np.empty_like(conjugate)
        np.multiply(conjugate[1], z[2], out=pulled[0])
        np.multiply(conjugate[0], z[2], out=pulled[1])
        np.multiply(z[0], z[1], out=pulled[2])
        return self.correlations.adjoint(inner, low, pulled, -taken), np.vecdot(taken, one.w)

    @cached_property
    def _translates(self) -> FloatArray:
        p = self.order
        return self._template[self._characters.differences()].reshape(p, p)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Second derivatives of the loss, (3pm, 3pm): blocks in (A, B, w), carried over to weights at the end.

        O(m^2 p^3) work and 9 m^2 p^2 numbers.
        """
        m, p = theta.shape[0], self.order
        own = self.sources(theta)
        a, b, w = own.pre[0], own.pre[1], own.w
        weights = w @ w.T
        diagonal, each = np.arange(p), np.arange(m)
        full = np.zeros((m, 3, p, m, 3, p))
        full[:, 2, diagonal, :, 2, diagonal] = self.gram(own, own)
        for row, x, y in ((0, a, b), (1, b, a)):
            overlap = (y @ y.T)[:, :, None]
            partner = own.partner[row]
            # d2/dA_i dA_j, diagonal in the residue
            block = 4.0 * weights[:, :, None] * (p * x[:, None] * x + overlap)
            block[each, each] += 2.0 * weights @ partner
            full[:, row, diagonal, :, row, diagonal] = block.transpose(2, 0, 1)
            # d2/dA_i dw_j: the slope of E s_i^2 s_j^2 in A_i along w_i, and for i = j the whole sum as well
            slope = 2.0 * x[:, None] * partner + 4.0 * overlap * x
            cross = np.einsum("ija,ic->iajc", slope, w)
            cross[each, :, each] += np.einsum("ija,jc->iac", slope, w) - self._target_slope(y)
            full[:, row, :, :, 2] = cross
            full[:, 2, :, :, row] = cross.transpose(2, 3, 0, 1)
        mixed = np.einsum("ij,ia,jb->iajb", weights, a, b) + np.einsum("ij,ja,ib->iajb", weights, a, b)
        mixed[each, :, each] += np.einsum("ij,ja,jb->iab", weights, a, b)
        mixed *= 4.0
        mixed[each, :, each] -= self._target_twist(w)
        full[:, 0, :, :, 1] = mixed
        full[:, 1, :, :, 0] = mixed.transpose(2, 3, 0, 1)
        basis = self._translates / np.sqrt(p)
        full[:, :2] = np.einsum("ra,iqajkc->iqrjkc", basis, full[:, :2], optimize=True)
        full[:, :, :, :, :2] = full[:, :, :, :, :2] @ basis.T
        return full.reshape(3 * p * m, 3 * p * m)

    @cached_property
    def _spectrum(self) -> ComplexArray:
        return self._characters.transform(self._template)

    def _target_slope(self, partner: FloatArray) -> FloatArray:
        """d2/dA_i[a] dw_i[c] of the target's utility, (m, p, p): 2/p of the convolution of B_i with x, at c - a."""
        hats = self._characters.transform(partner) * self._spectrum
        return 2.0 / self.order * self._characters.inverse(hats)[:, self._characters.differences().T]

    def _target_twist(self, w: FloatArray) -> FloatArray:
        """d2/dA_i[a] dB_i[b] of the target's utility, (m, p, p): 2/p of the correlation of w_i with x, at a + b."""
        return 2.0 / self.order * (w @ self._translates)[:, self._characters.sums()]


class Moments:
    """k terms and sigma(z) = z^k: E s_i^k s_j^k from the joint moments of each term, whose sum is over independent a's.

    With M_rq = mean A_i^r A_j^q / (r! q!), the moments of a sum of independent terms are products of polynomials in two
    variables, truncated at degree k in each; E s_i^k s_j^k is (k!)^2 times the coefficient (k, k).
    O(k^3 H^2 (p + k^2)).
    """

    def __init__(self, template: Template, terms: int):
        self.terms = terms
        self.order = template.characters.order
        self.correlations = Correlations(template, terms)

    def sources(self, theta: FloatArray) -> Sources:
        pre, low, z = self.correlations.forward(theta)
        none = np.zeros((0, theta.shape[0], 0))
        return Sources(pre, z, theta[:, self.terms * self.order :], low, none, none)

    def _times(self, one: FloatArray, two: FloatArray) -> FloatArray:
        """Product of two truncated polynomials whose coefficients are arrays."""
        out = one[0, 0] * two
        for r in range(self.terms + 1):
            for q in range(r == 0, self.terms + 1):
                out[r:, q:] += one[r, q] * two[: self.terms + 1 - r, : self.terms + 1 - q]
        return out

    def _without_each(self, moments: FloatArray) -> FloatArray:
        """Product of the polynomials of all terms but one, for each of them: about 3 k products, from both ends."""
        k = self.terms
        if k == 2:
            return moments[:, :, ::-1]
        chains = [moments[:, :, [0, -1]]]  # the product of the first terms, and that of the last
        for term in range(1, k - 2):
            chains.append(self._times(chains[-1], moments[:, :, [term, -1 - term]]))
        first, last = ([chain[:, :, end] for chain in chains] for end in (0, 1))
        before = np.stack([moments[:, :, 1], *first, first[-1]], axis=2)
        return self._times(before, np.stack([last[-1], *last[::-1], moments[:, :, -2]], axis=2))

    def _coupling(self, one: FloatArray, two: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From `Sources.powers`: E s_i^k s_j^k, (m, n), and the moments of all but each term, (k+1, k+1, k, m, n)."""
        k = self.terms
        moments = one[:, None] @ two[None].transpose(0, 1, 2, 4, 3) / self.order
        rest = self._without_each(moments)
        full = np.sum(rest[:, :, 0] * moments[::-1, ::-1, 0], axis=(0, 1))
        return math.factorial(k) ** 2 * full, rest

    def gram(self, one: Sources, two: Sources) -> FloatArray:
        """E s_i^k s_j^k, (m, n)."""
        return self._coupling(one.powers, two.powers)[0]

    def norms(self, one: Sources) -> FloatArray:
        """E s_i^2k, (m,)."""
        blocks = self._blocks(one, math.isqrt(_BLOCK))  # of so many neurons, each with itself
        return np.concatenate([np.diagonal(self._coupling(rows, rows)[0]) for rows in blocks])

    def _blocks(self, one: Sources, partners: int) -> list[FloatArray]:
        """Powers of a few neurons at a time, so that no block of moments is large."""
        size = max(1, _BLOCK // max(partners, 1))
        return np.array_split(one.powers, max(1, -(-one.w.shape[0] // size)), axis=2)

    def pull(self, one: Sources, two: Sources) -> tuple[FloatArray, FloatArray]:
        """As `Quadratic.pull`: (m, (k+1) p) and (m,)."""
        k = self.terms
        weights = one.w @ two.w.T
        taken, inner, at = np.empty_like(one.w), np.empty_like(one.pre), 0
        for left in self._blocks(one, two.w.shape[0]):
            rows = slice(at, at + left.shape[2])
            at = rows.stop
            full, rest = self._coupling(left, two.powers)
            taken[rows] = full @ two.w
            # d/dA_i of A_i^(r+1)/(r+1)! is A_i^r/r!, and what remains to degree (k, k) comes from the other terms
            turned = (weights[rows] * rest[k - 1 :: -1, ::-1]) @ two.powers
            inner[:, rows] = np.sum(left[:k] * turned.sum(axis=1), axis=0)
        inner *= -(math.factorial(k) ** 2) / np.sqrt(self.order)
        z = one.z
        pulled = np.empty_like(z)
        for row in range(k):
            pulled[row] = z[[other for other in range(k) if other != row]].prod(axis=0).conj() * z[k]
        pulled[k] = z[:k].prod(axis=0)
        return self.correlations.adjoint(inner, np.zeros_like(one.low), pulled, -taken), np.vecdot(taken, one.w)


class Span:
    """Span, in function space, of the Jacobian of some active neurons; `projected` gives E|P f_i|^2 of others.

    The columns for the w's, s_j^k times each output, are orthogonalised first: they are an n by n Gram matrix for all p
    outputs at once. With two terms those for u and v follow, s_j times a wave of a or of b, in the d real waves that
    the template can produce: 2 d n columns (at most `_SPAN`; the largest neurons stand for the rest).
    """

    def __init__(self, kernel: Quadratic | Moments, active: Sources):
        self._kernel, self._active = kernel, active
        gram = kernel.gram(active, active)
        self._outputs = _solver(gram)
        self._waves = None
        if not isinstance(kernel, Quadratic):
            return
        waves = kernel.correlations.waves
        waves = waves[waves.any(axis=1)].T
        n, d = gram.shape[0], waves.shape[1]
        size = np.diagonal(gram) * np.sum(active.w**2, axis=1)
        kept = np.sort(np.argsort(-size)[: max(1, _SPAN // max(2 * d, 1))])
        if n == 0 or d == 0:
            return
        self._kept, self._basis = kept, waves
        p = kernel.order
        a, b = active.pre[:, kept]
        ahat, bhat = a @ waves, b @ waves
        eye = np.eye(d)
        blocks = np.empty((2, kept.size, d, 2, kept.size, d))
        for row, x, y in ((0, a, b), (1, b, a)):
            lifted = (x[:, None] * waves.T).reshape(-1, p)
            within = (lifted @ lifted.T).reshape(kept.size, d, kept.size, d)
            blocks[row, :, :, row] = within + (y @ y.T / p)[:, None, :, None] * eye[:, None]
        mixed = np.einsum("jr,lq->jrlq", ahat, bhat) + np.einsum("lr,jq->jrlq", ahat, bhat)
        blocks[0, :, :, 1] = mixed / p
        blocks[1, :, :, 0] = mixed.transpose(2, 3, 0, 1) / p
        self._cross = self._inner(active)
        flat = 2 * kept.size * d
        weights = np.tile(np.repeat(active.w[kept] @ active.w[kept].T, d, axis=0).repeat(d, axis=1), (2, 2))
        whole = blocks.reshape(flat, flat) * weights
        rest = whole - self._cross @ self._outputs(self._cross.T) * weights
        # the rest may be rounding alone (one real character): what is absent is judged by the whole
        self._waves = _solver(rest, like=whole)

    def _inner(self, others: Sources) -> FloatArray:
        """E s_j e_r s_l^2 for the kept active j, each wave e_r of a and of b, and others l: (2 n d, m)."""
        p, kept = self._kernel.order, self._kept
        out = np.empty((2, kept.size, self._basis.shape[1], others.w.shape[0]))
        for row in (0, 1):
            x, y = self._active.pre[row, kept], self._active.pre[1 - row, kept]
            hats = others.pre[row] @ self._basis
            lifted = (x[:, None] * self._basis.T).reshape(-1, p)
            first = (lifted @ others.partner[row].T).reshape(*out.shape[1:])
            second = 2.0 * (y @ others.pre[1 - row].T)[:, None] * hats.T
            out[row] = (first + second) / np.sqrt(p)
        return out.reshape(-1, others.w.shape[0])

    def projected(self, others: Sources) -> FloatArray:
        """E |P f_i|^2, (m,)."""
        gram = self._kernel.gram(self._active, others)
        solved = self._outputs(gram)
        out = np.sum(gram * solved, axis=0) * np.sum(others.w**2, axis=1)
        if self._waves is not None:
            rest = self._inner(others) - self._cross @ solved
            weights = np.repeat(self._active.w[self._kept] @ others.w.T, self._basis.shape[1], axis=0)
            rest *= np.tile(weights, (2, 1))
            out += np.sum(rest * self._waves(rest), axis=0)
        return out


def _solver(gram: FloatArray, like: FloatArray | None = None) -> Callable[[FloatArray], FloatArray]:
    """Solve with a Gram matrix that symmetries make singular.

    Directions below 1e-10 of its scale, or of that of `like`, count as absent.
    """
    if gram.size == 0:
        return lambda right: np.zeros((0, right.shape[1]))
    ridge = 1e-10 * max(float(np.diagonal(gram if like is None else like).max()), np.finfo(np.float64).tiny)
    factor = cho_factor(gram + ridge * np.eye(gram.shape[0]), check_finite=False)
    return lambda right: cho_solve(factor, right, check_finite=False)
