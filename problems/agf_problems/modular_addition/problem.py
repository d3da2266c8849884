"""A quadratic two-layer network that learns modular addition: one Fourier feature after another ([AGF] section 5).

The network sees two elements a, b of a finite abelian group (Z/p), encoded as translates a.x, b.x of a template x, and
must return (a+b).x: f = sum_i (<u_i, a.x> + <v_i, b.x>)^2 w_i. All p^2 pairs are the data,
L = (1/2p^2) sum |(a+b).x - f|^2. Rows of theta are (u, v, w). With `terms` = k, sums of k elements and sigma(z) = z^k.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from agf import Critical, Init, RequestError, Staircase
from agf.arrays import BoolArray, FloatArray, IntArray, count, positive
from agf.errors import DataError, explain
from agf_problems.modular_addition.kernels import Moments, Quadratic, Sources, Span
from agf_problems.modular_addition.products import products_of
from agf_problems.modular_addition.spectrum import Spectral
from agf_problems.modular_addition.template import characters_of, read_template
from agf_problems.modular_addition.theory import Theory
from agf_problems.modular_addition.tuples import Tuples
from agf_problems.modular_addition.waves import ThreeWaves

#: Largest dense Hessian offered, in parameters (46 MB). Cost: larger networks take explicit steps.
_DENSE_HESSIAN = 2400


class ModularAddition(Spectral):
    """Quadratic network on modular addition.

    Network: f(a, b) = sum_i w_i (u_i . a.x + v_i . b.x)^2, with (a.x)[j] = x[j - a] the template x moved by a. Loss:
    mean over all p^2 pairs (a, b) of |(a+b).x - f(a, b)|^2 / 2, summed over the p outputs.

    Raises DataError for what cannot be used. A constant template is allowed: there is nothing to learn.

    Parameters
    ----------
    p : int or None
        Number of residues, at least 2; may be left out when the template is an array, or with `group`.
    template : Any
        array (p,), centred here; a spectrum {frequency: amplitude} with amplitude = |xh| (see `modular_template`);
        "one-hot" (every |xh| = 1); or "power-law:S" (|xh_k| = k^-S).
    width : int
        Number of neurons H.
    terms : int
        k >= 2 summands, with sigma(z) = z^k.
    group : Any
        Orders of cyclic groups, for their product in place of Z/p.

    Notes
    -----
    The largest utility on frequency k is sqrt(2/(27 p^3)) |xh_k|^3, of cosine neurons, and every frequency is a strict
    local maximum up to phases ([AGF] Theorem 5.1 denies it). Even p has a Nyquist frequency, on which a neuron gains
    sqrt(2) times more and two neurons suffice instead of six; the theorems assume odd p.
    """

    name = "modular-addition"
    kinds = ("gaussian", "entrywise")
    data_arguments = ("template", "p", "group")

    def __init__(
        self,
        p: int | None = None,
        template: Any = "one-hot",
        width: int = 18,
        terms: int = 2,
        group: Any = None,
    ):
        where = self.name
        length = None if isinstance(template, str | dict) or template is None else np.size(template)
        self.characters = characters_of(p, group, length)
        self.template = read_template(template, self.characters)
        self.p = self.characters.order
        self.width = count(width, "width", where=where)
        self.terms = count(terms, "terms", where=where, least=2)
        if 2 * math.lgamma(self.terms + 1) > math.log(np.finfo(np.float64).max):
            words = f"with {self.terms:,} terms the loss has factors (terms!)^2, beyond float64."
            raise DataError(explain(words, where=where, expected="fewer than 99 terms"))
        self.degree = self.terms + 1
        self.n_params = (self.terms + 1) * self.p
        self.kernel = Quadratic(self.template) if self.terms == 2 else Moments(self.template, self.terms)
        self.products = products_of(self.kernel.correlations, self.width) if self.terms == 2 else None
        self.tuples = Tuples(self.template.translates(), self.characters.sums(), self.terms)
        self._theory = Theory(self.name, self.template, self.terms, self.width)
        self._span: tuple[FloatArray, Span] | None = None

    @property
    def operations(self) -> int:
        """For more than two terms, products of k polynomials of (k+1)^2 moments for each pair of neurons, and phases
        that take some ten times as many gradients as others do (26,000 and more for three terms)."""
        pairs = 0 if self.terms == 2 else 10 * self.terms**5 * self.width
        return super().operations + pairs

    # -- the network ------------------------------------------------------------------------------------------

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        if self.products is not None:
            return self.products.loss_grad(theta)
        own = self.kernel.sources(theta)
        gradient, taken = self.kernel.pull(own, own)
        utility = np.vecdot(own.w, gradient[:, self.terms * self.p :]).sum()
        # L = |x|^2/2 - sum T + sum I / 2 with utility T - I; rounding must not make a perfect fit negative
        loss = max(0.5 * self.template.energy - float(utility) - 0.5 * float(taken.sum()), 0.0)
        return loss, -gradient

    def residual(self, theta: FloatArray, neurons: IntArray) -> Sources | FloatArray:
        return self.kernel.sources(theta) if self.products is None else self.products.residual(theta)

    def utility(
        self, theta: FloatArray, neurons: IntArray, residual: Sources | FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        if self.products is not None and not isinstance(residual, Sources):
            return self.products.utility(theta, residual)
        assert isinstance(residual, Sources)
        own = self.kernel.sources(theta)
        gradient, _ = self.kernel.pull(own, residual)
        return np.vecdot(own.w, gradient[:, self.terms * self.p :]), gradient

    def network_pull(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, members: BoolArray
    ) -> FloatArray:
        if self.products is None:
            return super().network_pull(directions, log_norms, neurons, members)
        return self.products.network_pull(directions, np.exp(self.degree * np.where(members, log_norms, -np.inf)))

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """C_i = (1/2) E|f_i - P_A f_i|^2, (m,), unit: loss, through Gram products only.

        P_A is the projection on the active neurons' Jacobian; with `terms` > 2, on its columns for the w's.
        """
        own = self.kernel.sources(directions)
        alone = self.kernel.norms(own) * np.sum(own.w**2, axis=1)
        if active_neurons.size == 0:
            return 0.5 * alone
        # the same active network is asked about many times in a phase
        if self._span is None or not np.array_equal(self._span[0], active):
            self._span = (active.copy(), Span(self.kernel, self.kernel.sources(active)))
        return 0.5 * np.maximum(alone - self._span[1].projected(own), 0.0)

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        if theta.size > _DENSE_HESSIAN:
            return None
        if isinstance(self.kernel, Quadratic):
            return self.kernel.hessian(theta)
        return self.tuples.hessian(theta) if self.tuples.fits(theta.shape[0]) else None

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """Balance |u|^2 + |v|^2 - k |w|^2 of each neuron, in units of its squared norm (initially)."""
        squares = np.sum(theta.reshape(theta.shape[0], self.terms + 1, self.p) ** 2, axis=2)
        return {"balance": squares[:, :-1].sum(axis=1) - self.terms * squares[:, -1]}

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """Order-one parameters, drawn u, v, w in turn, (H, p) each.

        "gaussian": variance one over fan-in, u and v N(0, 1/(k p)) and w N(0, 1/p). "entrywise": N(0, 1), so that alpha
        is the standard deviation of every weight.
        """
        scales = [1.0 / np.sqrt(self.terms * self.p)] * self.terms + [1.0 / np.sqrt(self.p)]
        parts = [rng.standard_normal((self.width, self.p)) for _ in scales]
        if kind == "gaussian":
            parts = [part * scale for part, scale in zip(parts, scales, strict=True)]
        return np.concatenate(parts, axis=1)

    # -- theory -----------------------------------------------------------------------------------------------

    def max_utilities(self) -> FloatArray:
        """(K,) largest utility on the unit sphere of each frequency, nothing active; unit: loss.

        For two terms sqrt(2/(27 p^3)) |xh|^3 ([AGF] Theorem 5.1), and sqrt(2) times that for a real character.
        """
        return self._theory.max_utilities()

    def jump_bound(self, frequency: int, mu: float, radius: float = 1.0) -> float:
        """Least flow time in which neurons of norm at most mu reach norm `radius` on `frequency` alone.

        [AGF] eq. 9 with its misprints mended: sqrt(3) p^{3/2} (1/mu - 1/radius) / (sqrt(2) |xh|^3) for two terms.
        """
        return self._theory.jump_bound(frequency, mu, radius)

    def theory(
        self,
        alpha: float | None = None,
        *,
        init: Init | None = None,
        mu: float | None = None,
        radius: float = 1.0,
        **options: Any,
    ) -> Staircase:
        """One drop a frequency in decreasing order of its largest utility, as alpha -> 0 with six neurons or more each.

        Levels: loss left when a frequency is fully learned, sum of |xh|^2 / p over the others ([AGF] section 5).
        Times: NaN. `bounds` are filled when `init`, `mu` (largest initial norm) or alpha is given: `jump_bound` from
        mu to norm `radius`. The first is a bound on the flow's first activation; the later ones suppose that the
        neurons that learn a frequency have grown on it alone.
        Drop features: "frequency", "amplitude" |xh|, "group_size" 6 (2 for a real character).
        """
        if options:
            raise RequestError(
                explain(
                    f"unknown option `{next(iter(options))}`.",
                    where=f"{self.name}.theory",
                    expected="alpha, init, mu or radius",
                )
            )
        log_norms = np.zeros(0)
        if init is not None:
            log_norms = init.log_norms
        elif mu is not None or alpha is not None:
            log_norms = np.log([positive(alpha if mu is None else mu, "mu", where=f"{self.name}.theory")])
        radius = positive(radius, "radius", where=f"{self.name}.theory")
        return self._theory.staircase(init, log_norms, radius, self.arguments)

    def three_waves(self, theta: FloatArray) -> ThreeWaves:
        """The dormant flow of neurons (m, 3p) in closed form, while nothing is active and for two terms.

        Raises
        ------
        RequestError
            For more than two terms.
        """
        if self.terms != 2:
            raise RequestError(
                explain(
                    "three waves meet in sums of two terms only.", where=f"{self.name}.three_waves", found=self.terms
                )
            )
        return ThreeWaves.of(self.coefficients(theta), self.template, np.sum(theta**2, axis=1))

    def critical(self, theta: FloatArray, neurons: IntArray) -> list[Critical] | None:
        """A maximum at every frequency while nothing is active, where the phases of the cosines agree; then unknown."""
        if theta.shape[0] or self.template.learnable.size == 0:
            return None
        nothing = self.residual(theta, neurons)
        utilities = self.max_utilities()
        out = []
        for position in self.template.learnable.tolist():
            peak = np.zeros(self.characters.frequencies.size, dtype=np.complex128)
            peak[position] = 1.0
            wave = self.characters.inverse(self.characters.fill(peak))
            wave /= np.linalg.norm(wave) * np.sqrt(self.terms + 1)
            row = np.concatenate([wave] * self.terms + [0.0 * wave])
            pull = self.utility(row[None], np.zeros(1, dtype=np.int64), nothing)[1][0, self.terms * self.p :]
            row[self.terms * self.p :] = pull / (np.linalg.norm(pull) * np.sqrt(self.terms + 1))
            words = self.characters.name(self.characters.frequencies[position])
            out.append(Critical(row, float(utilities[position]), "maximum", f"{words}, up to phases"))
        return out

    def describe(self) -> str:
        largest = np.abs(self.template.spectrum).max(initial=0.0)
        group = " x ".join(f"Z/{n}" for n in self.characters.orders)
        count = self.template.learnable.size
        found = f"{count} {'frequency' if count == 1 else 'frequencies'}, largest |xh| {largest:.4g}"
        even = ", even order (Nyquist)" if not self.characters.paired.all() else ""
        what = found if count else "constant template, nothing to learn"
        return f"{self.name} on {group}, {self.width} neuron{'s' * (self.width != 1)} z^{self.terms}, {what}{even}"

    @classmethod
    def example(cls) -> dict[str, Any]:
        return {"p": 11, "template": {1: 10.0, 3: 5.0}, "width": 12}
