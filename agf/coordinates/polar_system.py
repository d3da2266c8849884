"""Gradient flow of any problem in (direction, log norm): nothing underflows, and errors are relative to each neuron."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.contract.flow_system import FlowSystem, Snapshot
from agf.contract.problem import Problem
from agf.coordinates import floors
from agf.coordinates.balance import Balance
from agf.coordinates.growth import Growth
from agf.coordinates.split_system import SplitSystem
from agf.coordinates.vanishing import vanishing
from agf.coordinates.weight_system import WeightSystem
from agf.errors import ProblemError, explain
from agf.init import Init
from agf.rounding import LOG_FAINT, LOG_LEAST, TINY
from agf.sphere import lengths as row_lengths
from agf.sphere import norms, polar

#: Log norms below this are 0 in the parameters handed to the problem. Derived: a product of two such entries is not a
#: normal number.
_VANISHED = 0.5 * float(np.log(TINY))
#: Difference of log norms, at degree 3 and more, up to which neurons are followed in their weights where steps are
#: stiff. Cost: these are then limited by the smallest of them.
_SPREAD = np.log(1e-5)
#: Drift of unit rows at which they are restored. Cost: the velocity does not depend on their length.
_DRIFT = 1e-6


class PolarSystem(FlowSystem):
    """y = (directions (H, P) row by row, sizes (H,)); d theta/dt = -grad L in polar form ([AGF] eq. 2, with the
    residual of the whole network, neuron i included, in place of the dormant one):

        d theta_bar/dt = rho^(kappa-2) (I - theta_bar theta_bar^T) pull
        d log rho/dt   = rho^(kappa-2) theta_bar . pull,     pull = -grad_i L / rho^(kappa-1)

    The size of a neuron is log rho for kappa = 2, and (rho / rho_max(0))^(2-kappa) for kappa > 2: in both a dormant
    neuron of settled direction moves linearly, so that steps are long however small alpha is. Time is in units of
    exp(log_time_unit) = rho_max(0)^(2-kappa), which makes velocities of order one at the start. Neurons that are
    exactly zero never move. One group a neuron, in which an error of `rtol` is an error of the parameters theta_i of
    size rtol |theta_i|.

    Parameters
    ----------
    problem : Problem
        What is trained.
    init : Init
        Where y starts.
    origin : Init or None, optional
        Where training started, by default there: what the layers of a neuron conserve is that of this, and whether
        anything has been learned is told from its loss.
    """

    def __init__(self, problem: Problem, init: Init, origin: Init | None = None) -> None:
        self.problem = problem
        self.init, self.origin = init, origin or init
        self.neurons = np.arange(init.width)
        self.alive = np.isfinite(init.log_norms)
        self.moving = self.alive
        self._zero = np.flatnonzero(~self.alive)
        self.smooth = problem.smooth
        self.power = problem.degree - 2
        self.log_largest = float(init.log_norms[self.alive].max())
        self._balance: Balance | None = None
        if problem.layers is not None and not self.power:
            self._balance = Balance.of(self.origin.directions, self.origin.log_norms, *problem.layers)
        self.log_time_unit = -self.power * self.log_largest if self.power else 0.0
        with np.errstate(over="ignore"):
            self._unit = float(np.exp(self.log_time_unit))
        width, n_params = init.directions.shape
        self._groups = np.concatenate([np.repeat(self.neurons, n_params), self.neurons])
        self._scale = np.full(width * (n_params + 1), (n_params + 1) ** -0.5)
        self.grows = Growth(self)

    @property
    def groups(self) -> IntArray:
        """Neuron of each entry of y."""
        return self._groups

    def start(self) -> FloatArray:
        """y at time 0."""
        return self._pack(self.init.directions, self.init.log_norms)

    def at(self, theta: FloatArray) -> FloatArray:
        """y of weights theta (..., H, P); a neuron that is zero keeps its direction of the start."""
        directions, log_norms = polar(theta)
        return self._pack(np.where((log_norms > -np.inf)[..., None], directions, self.init.directions), log_norms)

    def params(self, y: FloatArray) -> FloatArray:
        """Weights theta (..., H, P) at y (..., N); neurons too small for float64 are zero."""
        return self._theta(*self._split(y)[:2])

    def stiff(self, y: FloatArray) -> tuple[FlowSystem, FloatArray] | None:
        """The weights themselves, where the problem has a Hessian that tells how the smallest neuron grows.

        For degree 2 that is while no weight underflows; for more, growth in proportion to the norm drowns in the
        rounding of the large ones' curvature, and small ones stay in these coordinates.
        """
        log_norms = self._split(y)[1]
        large = self.alive & (log_norms > np.max(log_norms[self.alive]) + _SPREAD)
        if self.power > 0 and not large[self.alive].all():
            return self.apart(y, large)
        return None if self.problem.kink > 0 else self.weights(y)

    def apart(self, y: FloatArray, large: BoolArray) -> tuple[WeightSystem, FloatArray] | None:
        """The flow with neurons `large` (H,) in their weights, and the state there; None without a Hessian."""
        who = np.flatnonzero(large)
        if not self.smooth or self.problem.kink > 0 or self.problem.hessian(self.params(y)[who], who) is None:
            return None
        system = SplitSystem(self, large)
        return system, system.of_polar(y)

    def weights(self, y: FloatArray) -> tuple[WeightSystem, FloatArray] | None:
        """The flow in its weights, and the state there; None without a Hessian, or where weights underflow."""
        theta = self.params(y)
        if not self.smooth or np.min(self._split(y)[1][self.alive]) < LOG_LEAST:
            return None
        return None if self.problem.hessian(theta, self.neurons) is None else (self.in_weights(), theta.ravel())

    def resting(self, y: FloatArray) -> tuple[WeightSystem, FloatArray] | None:
        """Weights whose Hessian tells what can still move where the flow rests, and the state there, as `weights`."""
        return self.weights(y)

    def in_weights(self) -> WeightSystem:
        """The weights themselves."""
        return WeightSystem(self)

    def _pack(self, directions: FloatArray, log_norms: FloatArray) -> FloatArray:
        log_norms = np.where(self.alive & np.isfinite(log_norms), log_norms, self.log_largest)
        sizes = self.sizes(log_norms)
        return np.concatenate([directions.reshape(*sizes.shape[:-1], -1), sizes], axis=-1)

    def sizes(self, log_norms: FloatArray) -> FloatArray:
        """Sizes of neurons of these log norms."""
        if not self.power:
            return log_norms
        return np.asarray(np.exp(np.minimum(self.power * (self.log_largest - log_norms), -LOG_FAINT)))

    def scale(self, y: FloatArray) -> FloatArray:
        """Makes the root mean square over a neuron's entries the Euclidean norm of its relative error."""
        if self.power == 0:
            return self._scale
        scale = self._scale.copy()
        scale[-self.neurons.size :] *= self.power * y[-self.neurons.size :]
        return scale

    def velocity(self, y: FloatArray) -> FloatArray:
        """dy/ds, from `network_pull`. Raises ProblemError when the problem returns another shape."""
        directions, log_norms, lengths = self._split(y)
        pull = self._pull(directions, log_norms)
        if pull.shape != directions.shape:
            raise ProblemError(
                explain(
                    f"`pull` returned shape {pull.shape}.",
                    where=f"problem {self.problem.name!r}",
                    expected=f"{directions.shape}, one row of parameters a neuron",
                )
            )
        width = self.neurons.size
        radial = np.vecdot(directions, pull)
        out = np.empty_like(y)
        turn = out[:-width].reshape(directions.shape)
        np.multiply(directions, radial[:, None], out=turn)
        np.subtract(pull, turn, out=turn)
        if self.power:  # rho^(kappa-2) in units of 1/s, NaN beyond the blow-up
            lengths *= np.exp(self.power * (log_norms - self.log_largest))
        turn *= lengths[:, None]
        np.multiply(radial, -self.power if self.power else 1.0, out=out[-width:])
        if self._zero.size:
            turn[self._zero] = out[-width:][self._zero] = 0.0
        return out

    def _pull(self, directions: FloatArray, log_norms: FloatArray) -> FloatArray:
        """`network_pull` at these unit rows (H, P) and log norms (H,); input weights that are held at zero stay."""
        pull = self._free_pull(directions, log_norms)
        if self._balance is not None and not directions[:, 0].all():
            pull[~directions[:, : self._balance.d].any(axis=1), : self._balance.d] = 0.0
        return pull

    def _free_pull(self, directions: FloatArray, log_norms: FloatArray) -> FloatArray:
        """The same as if nothing were held."""
        return np.asarray(self.problem.network_pull(directions, log_norms, self.neurons, self.members(log_norms)))

    def members(self, log_norms: FloatArray) -> BoolArray:
        """Neurons that make the residual, (H,)."""
        return self.present(log_norms)

    def present(self, log_norms: FloatArray) -> BoolArray:
        """Neurons of these log norms (..., H) that are large enough to be told from zero, (..., H)."""
        return self.alive & (log_norms > _VANISHED)

    def retract(self, y: FloatArray) -> FloatArray:
        """Unit rows restored, and what the layers of a neuron conserve; y itself while neither is off by much.

        Of a neuron whose input weights end at zero they are zero from then on (`_pull`): all its kinks meet there, and
        steps would chatter about them for ever.
        """
        directions, log_norms, lengths = self._split(y)
        off = ended = np.zeros(self.neurons.size, dtype=bool)
        if self._balance is not None:
            may = self.alive.copy()
            may[list(self.problem.permanent)] = False
            off = may & self._balance.off(directions, log_norms)
            ended = vanishing(lambda rows: self._free_pull(rows, log_norms), directions, self._balance.d, may)
        if off.any() or ended.any():
            assert self._balance is not None
            directions[off] = self._balance.restored(directions, log_norms)[off]
            directions[ended, : self._balance.d] = 0.0
            directions[ended] /= norms(directions[ended])[:, None]
        elif np.all(np.abs(lengths[self.alive] - 1) < _DRIFT):
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
        loss, gradient = self.loss_grad(y)
        with np.errstate(over="ignore"):  # the squares
            return loss, -float(np.add.reduce(gradient * gradient, axis=None)) * self._unit

    def loss_grad(self, y: FloatArray, who: IntArray | None = None) -> tuple[float, FloatArray]:
        """The loss of neurons `who` (m,), or of all, alone, and minus the velocity of their weights (m, P)."""
        theta = self.params(y)
        theta, who = (theta, self.neurons) if who is None else (theta[who], who)
        loss, gradient = self.problem.loss_grad(theta, who)
        return float(loss), gradient

    def growth(self, y: FloatArray) -> float:
        """Largest d log rho/ds over the neurons that are still small, or 0; rounding of the gradient is no growth."""
        return self.grows.fastest(y)

    def due(self, y: FloatArray) -> float:
        """Time until the first small neuron is as large as the largest one, at its present pull."""
        return self.grows.due(y)

    def noise(self, y: FloatArray) -> float:
        """That of the fastest neuron that moves."""
        return self.grows.noise(y)

    def rates(self, y: FloatArray, velocity: FloatArray) -> FloatArray:
        """d log rho/ds, (H,), from the velocity at y."""
        rates = velocity[-self.neurons.size :]
        return -rates / (self.power * y[-self.neurons.size :]) if self.power else rates

    @cached_property
    def first_loss(self) -> float:
        """Loss where training started."""
        theta = self._theta(self.origin.directions, self.origin.log_norms)
        return float(self.problem.loss_grad(theta, self.neurons)[0])

    def snapshot(self, y: FloatArray) -> Snapshot:
        """Directions, log norms and the problem's features at y."""
        return self.snapshots(y[None]).at(0)

    def snapshots(self, ys: FloatArray) -> Snapshot:
        """The same at states ys (m, N)."""
        directions, log_norms, _ = self._split(ys)
        features = self.problem.features_along(self._theta(directions, log_norms), self.neurons)
        return Snapshot(
            np.where(self.alive, log_norms, -np.inf),
            directions.copy(),
            {name: np.array(value, dtype=np.float64) for name, value in features.items()},
        )

    def conserved(self, y: FloatArray) -> dict[str, FloatArray]:
        """The problem's conserved quantities at y."""
        return self.problem.conserved(self.params(y), self.neurons)

    def conserved_along(self, ys: FloatArray) -> list[dict[str, FloatArray]]:
        """The same at states ys (m, N)."""
        return [self.problem.conserved(theta, self.neurons) for theta in self.params(ys)]

    def warnings(self, y: FloatArray) -> list[str]:
        """The float64 floor where small neurons all turn alike: modes below 1e-16 of the weights are rounding."""
        shrunk = self.log_largest - float(np.max(self._split(y)[1][self.alive]))
        return floors.of_small_weights(self.problem, self.neurons.size, shrunk)

    def history_warnings(self, log_norms: FloatArray) -> list[str]:
        """The other floor: a neuron that grew 1e8-fold has lost the difference of its two layers, which it needs to
        change sign should it shrink again."""
        return floors.of_returns(self.problem, self.alive, log_norms)

    def polar(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unit directions (H, P) and log norms (H,)."""
        return self._split(y)[:2]

    def _split(self, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Unit directions (..., H, P) at y (..., N), log norms (..., H), and the lengths (..., H) that its rows had."""
        width = self.neurons.size
        rows = y[..., :-width].reshape(*y.shape[:-1], *self.init.directions.shape)
        sizes, lengths = y[..., -width:], row_lengths(rows)
        lengths += lengths == 0
        if self.power:  # a stage beyond the blow-up has a negative size: NaN, and the step is rejected
            sizes = self.log_largest - np.log(sizes) / self.power
        return rows / lengths[..., None], sizes, lengths

    def _theta(self, directions: FloatArray, log_norms: FloatArray) -> FloatArray:
        present = self.present(log_norms)
        return directions * np.where(present, np.exp(np.where(present, log_norms, 0.0)), 0.0)[..., None]
