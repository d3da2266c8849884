"""Gradient flow of any problem in (direction, log norm): nothing underflows, and errors are relative to each neuron."""

from __future__ import annotations

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.contract import Problem
from agf.errors import ProblemError, explain
from agf.init import Init
from agf.system import FlowSystem, Snapshot

#: Log norms below this are 0 in the parameters handed to the problem: no subnormal arithmetic, and a product of two
#: such entries would be 0 anyway.
_VANISHED = -345.0
#: Unit rows are restored when they have drifted this far; the velocity does not depend on their length.
_DRIFT = 1e-6


class PolarSystem(FlowSystem):
    """y = (directions (H, P) row by row, log norms (H,)); d theta/dt = -grad L in polar form ([AGF] eq. 2, with the
    residual of the whole network, neuron i included, in place of the dormant one):

        d theta_bar/dt = rho^(kappa-2) (I - theta_bar theta_bar^T) pull
        d log rho/dt   = rho^(kappa-2) theta_bar . pull,     pull = -grad_i L / rho^(kappa-1)

    Time is in units of exp(log_time_unit) = (largest initial norm)^(2-kappa), so that velocities start at order one
    for every alpha. Neurons that are exactly zero never move. One group a neuron, in which an error of `rtol` is an
    error of the parameters theta_i of size rtol |theta_i|.
    """

    def __init__(self, problem: Problem, init: Init) -> None:
        self.problem = problem
        self.init = init
        self.neurons = np.arange(init.width)
        self.alive = np.isfinite(init.log_norms)
        self.smooth = problem.smooth
        self.power = problem.degree - 2
        self.log_time_unit = 0.0 if self.power == 0 else -self.power * float(init.log_norms[self.alive].max())
        width, n_params = init.directions.shape
        self._groups = np.concatenate([np.repeat(self.neurons, n_params), self.neurons])
        self._scale = np.full(width * (n_params + 1), (n_params + 1) ** -0.5)

    @property
    def groups(self) -> IntArray:
        """Neuron of each entry of y."""
        return self._groups

    def start(self) -> FloatArray:
        """y at time 0."""
        return np.concatenate([self.init.directions.ravel(), np.where(self.alive, self.init.log_norms, 0.0)])

    def scale(self, y: FloatArray) -> FloatArray:
        """Makes the root mean square over a neuron's entries the Euclidean norm of its relative error."""
        del y
        return self._scale

    def velocity(self, y: FloatArray) -> FloatArray:
        """dy/ds, from `residual` and `pull`. Raises ProblemError when the problem returns another shape."""
        directions, log_norms, lengths = self._split(y)
        theta = self._theta(directions, log_norms)
        residual = self.problem.residual(theta, self.neurons)
        pull = np.asarray(self.problem.pull(directions, log_norms, self.neurons, residual))
        if pull.shape != directions.shape:
            raise ProblemError(
                explain(
                    f"`pull` returned shape {pull.shape}.",
                    where=f"problem {self.problem.name!r}",
                    expected=f"{directions.shape}, one row of parameters a neuron",
                )
            )
        speed = self._speed(log_norms)
        radial = np.sum(directions * pull, axis=1)
        out = np.empty_like(y)
        size = directions.size
        out[:size] = ((speed * lengths)[:, None] * (pull - radial[:, None] * directions)).ravel()
        out[size:] = speed * radial
        return out

    def retract(self, y: FloatArray) -> FloatArray:
        """Unit rows restored; y itself while they are unit to 1e-6."""
        directions, _, lengths = self._split(y)
        if np.all(np.abs(lengths[self.alive] - 1) < _DRIFT):
            return y
        return np.concatenate([directions.ravel(), y[directions.size :]])

    def loss(self, y: FloatArray) -> float:
        """Loss of the whole network."""
        return self.loss_and_rate(y)[0]

    def loss_rate(self, y: FloatArray) -> float:
        """dL/ds = -|grad L|^2 per unit of s."""
        return self.loss_and_rate(y)[1]

    def loss_and_rate(self, y: FloatArray) -> tuple[float, float]:
        """Both from one gradient."""
        directions, log_norms, _ = self._split(y)
        loss, gradient = self.problem.loss_grad(self._theta(directions, log_norms), self.neurons)
        with np.errstate(over="ignore"):
            return float(loss), -float(np.sum(gradient**2)) * float(np.exp(self.log_time_unit))

    def growth(self, y: FloatArray) -> float:
        """Largest d log rho/ds over the neurons, or 0."""
        return float(np.max(self.velocity(y)[-self.neurons.size :], initial=0.0))

    def snapshot(self, y: FloatArray) -> Snapshot:
        """Directions, log norms and the problem's features at y."""
        directions, log_norms, _ = self._split(y)
        features = self.problem.features(self._theta(directions, log_norms), self.neurons)
        return Snapshot(
            np.where(self.alive, log_norms, -np.inf),
            directions.copy(),
            {name: np.array(value, dtype=np.float64) for name, value in features.items()},
        )

    def conserved(self, y: FloatArray) -> dict[str, FloatArray]:
        """The problem's conserved quantities at y."""
        directions, log_norms, _ = self._split(y)
        return self.problem.conserved(self._theta(directions, log_norms), self.neurons)

    def _split(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Unit directions (H, P), log norms (H,), and the lengths (H,) the rows of y had."""
        width = self.neurons.size
        rows = y[:-width].reshape(width, -1)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        lengths = np.where(lengths > 0, lengths, 1.0)
        return rows / lengths[:, None], y[-width:], lengths

    def _theta(self, directions: FloatArray, log_norms: FloatArray) -> FloatArray:
        present = self.alive & (log_norms > _VANISHED)
        return directions * np.where(present, np.exp(np.where(present, log_norms, 0.0)), 0.0)[:, None]

    def _speed(self, log_norms: FloatArray) -> FloatArray:
        """rho^(kappa-2) in units of 1/s; 0 for neurons that are exactly zero."""
        if self.power == 0:
            return self.alive.astype(np.float64)
        return np.where(self.alive, np.exp(self.power * log_norms + self.log_time_unit), 0.0)
