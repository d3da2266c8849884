"""Teacher and student: f(x) = sum_i a_i sigma(w_i . x) fits sum_k b_k sigma(v_k . x) on x ~ N(0, S), exactly.

No sampling: loss, gradient, utility, self-interaction and Hessian are Gaussian averages in closed form (`population`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import agf
from agf.arrays import BoolArray, FloatArray, IntArray, count, in_range, matrix, vector
from agf.errors import DataError, NoTheory, explain
from agf.rounding import LOG_LEAST
from agf.sphere import norms
from agf_problems.gaussian_teacher.kernels import NAMES, kernel_of
from agf_problems.gaussian_teacher.population import Population
from agf_problems.gaussian_teacher.single_neuron import NeuronTheory, theory_of

#: Activations with a kink where w = 0.
_KINKED = ("relu", "leaky-relu")
#: Input weights over the output weight below which those that head for 0 are gone. Derived: steps of the default rtol,
#: 1e-6, hold the direction of (w, a), so that of w alone has less than two digits; it has had nine e-folds to turn.
_GONE = 1e-4
#: Largest sine of the angle between the way that input weights go and the way to 0. Derived: at 45 degrees they lose
#: length as fast as they turn, and those that are not gone yet turn on.
_ASIDE = 0.5**0.5


class GaussianTeacher(agf.Problem):
    """H students on K teachers, inputs x ~ N(0, S) of any covariance, rows theta_i = (w_i, a_i).

    Network: f(x) = sum_i a_i sigma(w_i . x). Loss: E |f*(x) - f(x)|^2 / 2 over the inputs, with the teacher
    f*(x) = sum_k b_k sigma(v_k . x).

    Parameters
    ----------
    teacher : array_like, shape (K, d)
        Input weights v_k of the teachers.
    outer : array_like or None, shape (K,)
        Output weights b_k; ones when None.
    covariance : array_like or float or None, shape (d, d)
        Covariance S of the inputs, or a number times the identity; the identity when None.
    width : int
        Number of students H.
    activation : str
        "relu", "leaky-relu", "linear", "erf" (erf(z)) or "square".
    leak : float
        Slope of "leaky-relu" left of 0.

    Raises
    ------
    DataError
        For shapes that do not match, a covariance that is not symmetric and positive semi-definite, or an unknown
        activation.

    Notes
    -----
    One student and one ReLU teacher on S = 1/d is the neuron of [GB24]; `theory()` then has its ODE, flip times and
    success probabilities.
    """

    name = "gaussian-teacher"
    data_arguments = ("teacher", "outer", "covariance")
    kinds = ("gaussian", "balanced")

    def __init__(
        self,
        teacher: Any,
        outer: Any = None,
        covariance: Any = None,
        width: int = 1,
        activation: str = "relu",
        leak: float = 0.1,
    ) -> None:
        where = "GaussianTeacher"
        self.teacher = in_range(matrix(teacher, "teacher", where=where), "teacher", where=where, power=8)
        teachers, self.n_inputs = self.teacher.shape
        self.outer = np.ones(teachers) if outer is None else vector(outer, "outer", where=where, length=teachers)
        self.width = count(width, "width", where=where)
        self.activation, self.leak = str(activation).lower(), float(leak)
        if self.activation not in NAMES:
            raise DataError(
                explain(f"unknown activation {activation!r}.", where=where, expected="one of " + ", ".join(NAMES))
            )
        if not 0.0 <= self.leak <= 1.0:
            raise DataError(explain("`leak` must be between 0 and 1.", where=where, found=leak))
        self.kernel = kernel_of(self.activation, self.leak)
        self.degree, self.n_params, self.n_outputs = self.kernel.degree, self.n_inputs + 1, 1
        self.covariance = _covariance(covariance, self.n_inputs, where)
        values, vectors = np.linalg.eigh(self.covariance)
        if values.min() < -1e-12 * max(values.max(), 0.0) or values.max() <= 0:
            raise DataError(
                explain(
                    "`covariance` is not positive semi-definite.",
                    where=where,
                    found=f"smallest eigenvalue {values.min():.3g}",
                )
            )
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # symmetric, x = root z
        self.population = Population(self.kernel, root, self.teacher @ root, self.outer)
        if not (self.population.v.any() and self.outer.any()):
            raise DataError(explain("the teacher is zero on these inputs: nothing can be learned.", where=where))

    # -- contract ---------------------------------------------------------------------------------------------

    @property
    def footprint(self) -> int:
        """Weights, and for each pair of students the arrays of their kernel, angle and the two rows."""
        return super().footprint + (self.n_inputs + 10) * self.width

    @property
    def operations(self) -> int:
        """The roots and angles of a pair take some ten times as long as its numbers."""
        return 10 * self.footprint

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """E (f* - f)^2 / 2 and its gradient, exact; that of neurons whose input weights are gone is 0."""
        loss, gradient = self.population.loss_grad(theta)
        gradient[self._gone(theta, -gradient)] = 0.0
        return loss, gradient

    def residual(self, theta: FloatArray, neurons: IntArray) -> Any:
        """What is left of the teacher, as a network: whitened rows (K + m, d) and output weights (K + m,)."""
        u, a = self.population.split(theta)
        return np.concatenate([self.population.v, u]), np.concatenate([self.outer, -a])

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """a E[r sigma(w . x)] with sigma at leading order, and its gradient."""
        u, a = self.population.split(theta)
        value, force = self.population.force(self.kernel.leading, u, a, residual)
        gone = self._gone(theta, force)
        value[gone], force[gone] = 0.0, 0.0
        return a * value, force

    def _gone(self, theta: FloatArray, force: FloatArray) -> BoolArray:
        """Neurons (m,) whose input weights have shrunk to nothing: w = 0, where sigma has a kink, and they stay.

        A neuron of negative utility loses input weights, |w|' = U / |w|, at the rate at which they turn downhill. So
        one that has lost all but `_GONE` of them, and heads for 0, has turned to where E[r sigma] is least, and loses
        the rest. All that is asked of the problem has them at rest: losses that rates promise there never come.

        Parameters
        ----------
        theta : ndarray, shape (m, P)
            Rows (w, a).
        force : ndarray, shape (m, P)
            What drives them.
        """
        if self.activation not in _KINKED:
            return np.zeros(theta.shape[0], dtype=bool)
        w, way = theta[:, :-1], force[:, :-1]
        size, speed = norms(w), norms(way)
        inward = -np.einsum("ij,ij->i", w, way) > (1.0 - _ASIDE**2) ** 0.5 * size * speed
        return np.asarray((size < _GONE * np.abs(theta[:, -1])) & (inward | (size == 0)))

    def pull(self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any) -> FloatArray:
        """-grad L / rho^(degree - 1), exact at any norm."""
        if self.kernel.homogeneous:
            return self.utility(directions, neurons, residual)[1]
        rho = np.exp(np.maximum(log_norms, LOG_LEAST))[:, None]
        u, a = self.population.split(directions)
        value, force = self.population.force(self.kernel, rho * u, a, residual)
        return np.concatenate([force[:, :-1], value[:, None] / rho], axis=1)

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """(1/2) E|f_i - P_A f_i|^2 of unit neurons at leading order, in function space, exact."""
        return self.population.left_over(directions, active)

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Dense Hessian of the loss, (mP, mP), exact (kinks average out); of neurons that are gone as at w = 0."""
        kept = theta.copy()
        kept[self._gone(theta, -self.population.loss_grad(theta)[1]), :-1] = 0.0
        return self.population.hessian(kept)

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """Kind "gaussian", or "balanced": gaussian w, and a of either sign with p a^2 = |w|^2, p the power of sigma."""
        theta = super().initial(alpha, rng, "gaussian")
        if kind == "balanced":
            sizes = np.linalg.norm(theta[:, :-1], axis=1)
            theta[:, -1] = np.sign(theta[:, -1]) * sizes / np.sqrt(self.kernel.power)
        return theta

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """ "overlap" (K,): largest cosine, over the inputs, between a student and each teacher; 0 without students."""
        u, _ = self.population.split(theta)
        sizes = np.linalg.norm(u, axis=1)
        if not sizes.any():
            return {"overlap": np.zeros(self.outer.size)}
        unit = self.population.v / np.maximum(np.linalg.norm(self.population.v, axis=1), 1e-300)[:, None]
        cosines = (u[sizes > 0] / sizes[sizes > 0][:, None]) @ unit.T
        return {"overlap": np.max(cosines, axis=0)}

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """ "neuron 2 (teacher 0)": the teacher that the student looks at most."""
        u, _ = self.population.split(theta)
        rows = {int(i): row for i, row in zip(neurons, u, strict=True)}
        sizes = np.maximum(np.linalg.norm(self.population.v, axis=1), 1e-300)
        words = [
            f"{int(i)} (teacher {int(np.argmax(self.population.v @ rows[int(i)] / sizes))})"
            if int(i) in rows
            else str(int(i))
            for i in chosen
        ]
        return ("neuron " if len(words) == 1 else "neurons ") + ", ".join(words)

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """{"balance": p a_i^2 - |w_i|^2} where sigma is homogeneous of power p."""
        if not self.kernel.homogeneous:
            return {}
        return {"balance": self.kernel.power * theta[:, -1] ** 2 - np.sum(theta[:, :-1] ** 2, axis=1)}

    def theory(self, alpha: float | None = None, **options: Any) -> NeuronTheory:
        """One ReLU student and one teacher on isotropic inputs: the neuron of [GB24], with all its closed forms.

        Raises
        ------
        NoTheory
            For more students or teachers, another activation or a covariance that is no multiple of the identity.
        """
        scale = float(self.covariance[0, 0])
        one = self.width == 1 and self.outer.size == 1 and self.activation == "relu"
        if not one or np.abs(self.covariance - scale * np.eye(self.n_inputs)).max() > 1e-12 * scale:
            raise NoTheory(
                explain(
                    "a closed form is known for one ReLU student and one teacher on isotropic inputs.",
                    where=f"problem {self.name!r}",
                    remedy="Use agf.predict(problem, init).",
                )
            )
        size = abs(float(self.outer[0])) * float(np.linalg.norm(self.teacher[0]))
        return theory_of(self.name, self.arguments, self.n_inputs, scale, size, float(self.outer[0]) > 0, alpha)

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Six students on three orthogonal ReLU teachers of strength 3, 2 and 1."""
        return {"teacher": np.diag([3.0, 2.0, 1.0]), "width": 6}

    def describe(self) -> str:
        """Students, teachers, activation and inputs in one line."""
        sizes = (
            (self.width, f"{self.activation} student"),
            (self.outer.size, "teacher"),
            (self.n_inputs, "Gaussian input"),
        )
        students, teachers, inputs = (f"{count} {word}{'s' * (count != 1)}" for count, word in sizes)
        return f"{self.name}: {students} on {teachers}, {inputs}, degree {self.degree}"

    # -- beside it --------------------------------------------------------------------------------------------

    def sampled(self, samples: int, seed: int = 0, noise: float = 0.0) -> agf.TwoLayer:
        """The same network on a sample of the inputs.

        Parameters
        ----------
        samples : int
            Number n of inputs drawn.
        seed : int
            For numpy.random.default_rng.
        noise : float
            Standard deviation of label noise.

        Returns
        -------
        TwoLayer
            With rows laid out as here, so that initial weights serve both.
        """
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((count(samples, "samples", where="sampled"), self.n_inputs)) @ self.population.root
        options: dict[str, Any] = {"leak": self.leak} if self.activation == "leaky-relu" else {}
        one = agf.TwoLayer(
            X, np.zeros(X.shape[0]), activation=self.activation, width=self.outer.size, kink=0, **options
        )
        theta = np.concatenate([self.teacher, self.outer[:, None]], axis=1)
        y = -np.asarray(one.residual(theta, np.arange(self.outer.size)))[:, 0] + noise * rng.standard_normal(X.shape[0])
        return agf.TwoLayer(X, y, activation=self.activation, width=self.width, **options)


def _covariance(given: Any, inputs: int, where: str) -> FloatArray:
    if given is None:
        return np.eye(inputs)
    if np.ndim(given) == 0:
        return float(given) * np.eye(inputs)
    out = matrix(given, "covariance", where=where, rows=inputs, columns=inputs)
    if np.abs(out - out.T).max() > 1e-12 * np.abs(out).max():
        raise DataError(explain("`covariance` is not symmetric.", where=where))
    return 0.5 * (out + out.T)
