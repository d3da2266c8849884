"""What a network on modular addition has learned, read off its weights frequency by frequency."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from agf import Drop, Problem
from agf.arrays import FloatArray, IntArray
from agf_problems.modular_addition.kernels import Moments, Quadratic, Sources
from agf_problems.modular_addition.template import Characters, ComplexArray, Template

#: Pairs on which `features` measures the accuracy; `accuracy` takes all of them. Result: of the accuracies along a run,
#: exact up to p = 32 and beyond to 1/_PAIRS^(1/2) = 3 %; to 10 % with a tenth of them, and ten times more cost ten
#: times the evaluation of the network.
_PAIRS = 1024


class Spectral(Problem):
    """A network whose weights theta (m, P) are read as Fourier coefficients of the characters of a group."""

    template: Template
    characters: Characters
    #: k summands.
    terms: int
    #: Order of the group.
    p: int
    kernel: Quadratic | Moments

    def spectra(self, theta: FloatArray) -> FloatArray:
        """(m, k+1, K) amplitudes of the cosines in u, v, ... and w at `characters.frequencies`."""
        return np.abs(self.coefficients(theta)) * np.where(self.characters.paired, 2.0, 1.0) / self.p

    def coefficients(self, theta: FloatArray) -> ComplexArray:
        """Fourier coefficients of u, v, ..., w, (m, k+1, K)."""
        rows = theta.reshape(theta.shape[0], self.terms + 1, self.p)
        return self.characters.transform(rows)[..., self.characters.frequencies]

    def neuron_frequencies(self, theta: FloatArray) -> tuple[IntArray, FloatArray]:
        """Position in `characters.frequencies` of each neuron's strongest learnable one, (m,), and its share (m,).

        The share is that of the neuron's squared norm, over all of u, v, ..., w; 1 for a pure cosine neuron.
        """
        return self._strongest(theta, self.coefficients(theta))

    def neuron_phases(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Phases s of u, v, ..., w at each neuron's frequency, (m, k+1), and s_u + s_v - s_w - s_x in (-pi, pi], (m,).

        A weight a cos(2 pi k j / p + s) has phase s; the difference is zero at the largest utility ([AGF] Theorem 5.1).
        """
        hats = self.coefficients(theta)
        return self._phases(hats, self._strongest(theta, hats)[0])

    def output_power(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """E |fh_k|^2 over all pairs at `characters.frequencies`, (K,); |xh_k|^2 when all is learned."""
        return self._power(self.coefficients(theta), self.kernel.sources(theta))

    def learned(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """E <f, target> / E |target|^2 at each frequency, (K,): 0 at the start, 1 when learned; 0 if unlearnable."""
        return self._learned(self.kernel.sources(theta).z)

    def accuracy(self, theta: FloatArray, neurons: IntArray, pairs: int | None = None) -> float:
        """Share of the pairs (a, b) whose output is closest in direction to the encoding of a + b.

        Parameters
        ----------
        pairs : int or None, optional
            How many, evenly spread over all p^2 (all when None). Two terms only; NaN otherwise.
        """
        return float(self._accuracies(theta[None], pairs)[0])

    def _accuracies(self, thetas: FloatArray, pairs: int | None) -> FloatArray:
        """`accuracy` at each of `thetas` (T, m, P), (T,)."""
        if self.terms != 2:
            return np.full(len(thetas), np.nan)
        p = self.p
        total = p * p if pairs is None else min(pairs, p * p)
        chosen = np.arange(total) * (p * p) // total
        translates, sums, alike = self._tables
        a, b, w = (thetas[:, :, k * p : (k + 1) * p] @ translates for k in range(3))
        right = np.zeros(len(thetas), dtype=np.int64)
        for block in np.array_split(chosen, max(1, len(thetas) * total * max(p, thetas.shape[1]) // 2**20)):
            rows, columns = block // p, block % p
            scores = ((a[:, :, rows] + b[:, :, columns]) ** 2).mT @ w
            guess, truth = scores.argmax(axis=2), sums[rows, columns]
            right += np.sum(alike[guess] == alike[truth], axis=1)
        return right / total

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """What the network has learned; per-neuron arrays are (H,), NaN for neurons that are not in `neurons`.

        `power` (K,) is `output_power`, `learned` (K,) is `learned`, `accuracy` is that on at most 1024 pairs;
        `neuron_frequency`, `neuron_share`, `phase_gap` (H,) and `phases` (H, k+1) are of each neuron.
        """
        return {name: values[0] for name, values in self.features_along(theta[None], neurons).items()}

    def features_along(self, thetas: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """`features` at each of `thetas` (T, m, P); transforms and sources of all neurons are worked out at once."""
        many, m, size = thetas.shape
        theta = thetas.reshape(many * m, size)
        hats, own = self.coefficients(theta), self.kernel.sources(theta)
        position, share = self._strongest(theta, hats)
        phases, gap = self._phases(hats, position)
        each = [slice(t * m, (t + 1) * m) for t in range(many)]
        out = {
            "power": np.array([self._power(hats[rows], own.at(rows)) for rows in each]),
            "learned": np.array([self._learned(own.z[:, rows]) for rows in each]),
            "accuracy": self._accuracies(thetas, _PAIRS),
        }
        found = {
            "neuron_frequency": self.characters.frequencies[position].astype(np.float64),
            "neuron_share": share,
            "phase_gap": gap,
            "phases": phases,
        }
        for name, values in found.items():
            out[name] = np.full((many, self.width, *values.shape[1:]), np.nan)
            out[name][:, neurons] = values.reshape(many, m, *values.shape[1:])
        return out

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        rows = np.flatnonzero(np.isin(neurons, chosen))
        position, _ = self.neuron_frequencies(theta[rows])
        names = [self.characters.name(k) for k in self.characters.frequencies[np.unique(position)]]
        return " and ".join(names) if names else super().label(theta, neurons, chosen)

    def acquired(self, before: dict[str, FloatArray], after: dict[str, FloatArray]) -> str:
        """The frequencies that took most of the fall of the loss, by Parseval's identity: of frequency k it is
        gain_k (2 learned_k - power_k / |xh_k|^2) since all was unlearned."""
        at = self.template.learnable
        size = np.abs(self.template.spectrum[at]) ** 2
        gains = self.template.gains()[at]
        fallen = [gains * (2.0 * each["learned"][at] - each["power"][at] / size) for each in (before, after)]
        share = fallen[1] - fallen[0]
        if not (share > 0).any():
            return ""
        chosen = at[share >= Drop.SHARED * share.max()]
        return " and ".join(self.characters.name(k) for k in self.characters.frequencies[chosen])

    @cached_property
    def _tables(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Translates (p, p), sums (p, p), and a number for each element, (p,): templates with a period encode several
        alike."""
        translates = self.template.translates()
        return translates, self.characters.sums(), np.unique(translates, axis=1, return_inverse=True)[1]

    def _strongest(self, theta: FloatArray, hats: ComplexArray) -> tuple[IntArray, FloatArray]:
        """`neuron_frequencies`, from the coefficients."""
        if self.template.learnable.size == 0:
            return np.zeros(theta.shape[0], dtype=np.int64), np.zeros(theta.shape[0])
        weight = np.where(self.characters.paired, 2.0, 1.0) / self.p
        power = np.sum(np.abs(hats) ** 2, axis=1)[:, self.template.learnable]
        power *= weight[self.template.learnable]
        best = power.argmax(axis=1)
        norm = np.maximum(np.sum(theta**2, axis=1), np.finfo(np.float64).tiny)
        return self.template.learnable[best], power[np.arange(theta.shape[0]), best] / norm

    def _phases(self, hats: ComplexArray, position: IntArray) -> tuple[FloatArray, FloatArray]:
        """`neuron_phases`, from the coefficients and each neuron's frequency."""
        hats = hats[np.arange(position.size), :, position]
        gap = hats[:, :-1].prod(axis=1) * (hats[:, -1] * self.template.spectrum[position]).conj()
        return np.angle(hats), np.angle(gap)

    def _power(self, hats: ComplexArray, own: Sources) -> FloatArray:
        """`output_power`, from the coefficients and the sources of the neurons."""
        out = hats[:, -1]
        return np.vecdot((self.kernel.gram(own, own).T @ out).T, out.T).real

    def _learned(self, z: ComplexArray) -> FloatArray:
        """`learned`, from the coefficients (k+1, m, S) of the sources."""
        out = np.zeros(self.characters.frequencies.size)
        at = self.template.learnable
        out[at] = (z[:-1].prod(axis=0) * z[-1].conj()).real.sum(axis=0) / (2.0 * self.template.gains()[at])
        return out
