"""A drop of a linear network: the active modes from where new ones have entered to where they settle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf import Settings
from agf.arrays import FloatArray, IntArray
from agf.factored import Factored
from agf.stopping import LONGEST
from agf_problems.linear.active import ActiveModes
from agf_problems.linear.growth import Growth, Modes
from agf_problems.linear.moments import Moments
from agf_problems.linear.settle import SETTLED, Route
from agf_problems.linear.theory import energies

#: Error of a step of the active flow over settings.rtol. Cost: a drop lasts a few of the log(1/alpha) e-folds of a
#: plateau, and its error counts by as much less.
_FLOW_RTOL = 10.0


@dataclass(frozen=True)
class Settlement:
    """How the active modes settled.

    Attributes
    ----------
    grad_norm, left : float
        Norm of the gradient, and what is still lost until the next activation.
    settled, failed : bool
        Whether they rest, and whether their flow could not be followed.
    evaluations : int
        Gradients that it took.
    """

    grad_norm: float = 0.0
    left: float = 0.0
    settled: bool = False
    failed: bool = False
    evaluations: int = 0


@dataclass(frozen=True)
class Held:
    """What a state of `ModePhases` remembers, in the basis of the moments.

    theta : (k, n) active modes.  order : (k,) their mode numbers.  turn : flow time and (k, n) active modes halfway
    through a turn that the flow takes if no dormant mode activates before, or None.  rest : how theta settled.
    """

    dormant: Factored
    theta: FloatArray
    order: IntArray
    turn: tuple[float, FloatArray] | None = None
    rest: Settlement = Settlement()


@dataclass(frozen=True)
class Entry:
    """Who enters a drop, and when.

    Attributes
    ----------
    dormant : Factored
        At the switch.
    theta : float ndarray, shape (k, n)
        Active modes at `start`, the new ones among them.
    order : int ndarray, shape (k,)
        Their mode numbers.
    labels : int ndarray
        The modes that are new, or that turn.
    rate : float
        Their growth.
    start : float
        Flow time at which the active flow starts.
    lead : float
        How long before the switch this is.
    least : float
        Smallest fall of the loss that can be theirs.
    """

    dormant: Factored
    theta: FloatArray
    order: IntArray
    labels: IntArray
    rate: float
    start: float
    lead: float = 0.0
    least: float = 0.0


class ActiveFlow:
    """The flow of the active modes, drop after drop.

    Parameters
    ----------
    moments : Moments
        The data, in the basis of their singular modes.
    settings : Settings
        `rtol`, and how far the flow is followed.
    """

    def __init__(self, moments: Moments, settings: Settings) -> None:
        self.moments, self.settings = moments, settings
        self.n_inputs = moments.sxx.shape[0]
        self.growth = Growth(moments, settings.threshold == "natural")
        self.energies = energies(moments)
        self.explainable = moments.loss(np.zeros(moments.syx.shape)) - moments.floor

    def modes(self, theta: FloatArray, order: IntArray) -> Modes:
        """What grows next to these active modes."""
        return self.growth.modes(self.residual(theta), theta, order)

    def residual(self, theta: FloatArray) -> FloatArray:
        """What these active modes leave of the correlation of targets with inputs."""
        return self.moments.residual(self._map(theta))

    def loss(self, theta: FloatArray) -> float:
        """Loss of these active modes alone."""
        return self.moments.loss(self._map(theta))

    def fitted(self, held: Held) -> bool:
        """Whether the active modes rest, or have no more to lose than the tolerance: they may be on their way still."""
        left = self.loss(held.theta) - self.moments.floor
        return held.rest.settled or left <= self.settings.rtol * (self.explainable + self.moments.floor)

    def follow(self, held: Held, entry: Entry) -> tuple[Held, float]:
        """From the entry on: where the modes rest, and the flow time halfway down; `held` is before the drop."""
        dormant, theta, order, labels = entry.dormant, entry.theta, entry.order, entry.labels
        # Independent blocks that have settled stand still while another drops; one that this drop cuts short moves on.
        # With hidden units used up before the modes are, what an active mode has of other blocks may turn it: then all
        # move, and their least entries count.
        alone = dormant.empty and order.size < self.moments.rank
        moving = self._moving(held, LONGEST / entry.rate)
        blocks = [b for b in self.moments.blocks if alone or np.isin(labels, b[0]).any() or np.isin(moving, b[0]).any()]
        rows, columns = (np.concatenate([b[k] for b in blocks]) for k in (0, 1))
        mine = np.flatnonzero(np.isin(order, rows))
        inside = np.ix_(mine, np.concatenate([columns, self.n_inputs + rows]))
        sxx, syx = self.moments.sxx[np.ix_(columns, columns)], self.moments.syx[np.ix_(rows, columns)]
        target = self.moments.target[np.ix_(rows, columns)]

        def whole(y: FloatArray) -> FloatArray:
            out = theta.copy()
            out[inside] = y.reshape(theta[inside].shape)
            return out

        def horizon(y: FloatArray) -> float:
            if self.settings.settle == "converged" or dormant.empty:
                return span
            waits = self.growth.waits(self.modes(whole(y), order), dormant)
            return min(entry.lead + horizons * float(waits.min(initial=np.inf)), span)

        assert self.settings.horizon is not None  # it applies to the only mode these phases know
        span, horizons = LONGEST / entry.rate, self.settings.horizon
        system = ActiveModes(theta[inside], sxx, syx, target, entries=alone and len(blocks) > 1)
        system.others = self.loss(theta) - self.moments.floor - system.loss(system.start())
        path = Route(
            system,
            horizon,
            above=self.loss(held.theta) - self.moments.floor,
            best=self._best(order, alone),
            least=entry.least,
            whole=self.explainable,
            span=span,
            rtol=_FLOW_RTOL * self.settings.rtol,
        ).follow()
        rest, turn = path.rest, path.turn
        left = rest.rate * max(path.horizon - rest.t, 0.0)
        summary = Settlement(
            float(np.sqrt(rest.rate)), left, path.settled or turn is not None, path.failed, path.evaluations
        )
        later = None if turn is None else (entry.start + turn[0], whole(turn[1]))
        return Held(dormant, whole(rest.y), order, later, summary), entry.start + path.half

    def _moving(self, held: Held, span: float) -> IntArray:
        """Mode numbers (k',) of the active modes that within `span` of flow time may still lower the loss visibly."""
        residual = self.residual(held.theta)
        d = self.n_inputs
        push = np.concatenate([held.theta[:, d:] @ residual, held.theta[:, :d] @ residual.T], axis=1)
        left = np.sum(push**2, axis=1) * span
        return held.order[left > SETTLED * max(self.loss(held.theta) - self.moments.floor, SETTLED * self.explainable)]

    def _best(self, order: IntArray, alone: bool) -> float:
        """Lowest loss above the floor with as many modes a block as are active; of any block when none is dormant."""
        if alone:
            return 0.5 * float(np.sum(np.sort(np.concatenate(self.energies))[: -order.size]))
        counts = [int(np.isin(order, rows).sum()) for rows, _ in self.moments.blocks]
        return 0.5 * sum(float(np.sum(e[k:])) for e, k in zip(self.energies, counts, strict=True))

    def _map(self, theta: FloatArray) -> FloatArray:
        return theta[:, self.n_inputs :].T @ theta[:, : self.n_inputs]
