"""The contract of a problem: what a plugin must define, what it may define, and the little that is derived.

A problem is a two-layer network f(x) = sum_i f_i(x; theta_i), its data and its loss. The engine and the reference
trainers see nothing else. `AutogradProblem` and `TwoLayer` derive most of it; docs/write-a-problem.md has examples.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from agf import sphere
from agf.arrays import BoolArray, FloatArray, IntArray
from agf.asked import asked
from agf.contract.closed_forms import ClosedForms
from agf.contract.interaction import Span, of_loss
from agf.contract.returns import watch, watched
from agf.contract.start import drawn
from agf.init import Init

#: Arrays of the size of the weights that a prediction or a training holds at once. Limit: of the widths that are
#: refused; measured on a linear network.
_ARRAYS = 16


class Problem(ClosedForms):
    """A two-layer network with its data and loss.

    Attributes
    ----------
    name : str
        Registered name.
    degree : int
        Leading order kappa of the utility (activation degree + 1).
    width : int
        Number of neurons H.
    n_params : int
        Numbers P of one neuron.

    Notes
    -----
    A problem must define these attributes and the methods `loss_grad`, `residual` and `utility`. What it may define
    follows them by purpose: where it starts, and what it knows of its loss, its network and its neurons; its closed
    forms are in `ClosedForms`, what people read of it in `Described`. Nobody defines `init`, `empty`, `cornered`,
    `table` and `arguments`.

    Conventions: `theta` is (m, P), `neurons` the (m,) indices of these rows in 0..H-1 (they matter where neurons are
    not interchangeable); m may be 0. `directions` (m, P) are unit rows and `log_norms` (m,) natural logs of norms, for
    what would underflow as theta. `residual` is what the method `residual` returned. Inputs are never modified. Losses
    carry this problem's own normalisation (docs/notation.md), and the engine and the trainers use the same functions.
    All times that a problem sees are flow times, but for those of its own phases, which are accelerated.
    """

    #: Names of the constructor arguments that come from a data file, in order.
    data_arguments: ClassVar[tuple[str, ...]] = ()
    #: The one whose columns are the d inputs, where these have no order: a neuron's first d parameters are their
    #: weights, or, where neurons are not interchangeable, neurons are inputs. Empty: nothing is said or checked.
    inputs_argument: str = ""
    #: Kinds of random initialization that `initial` knows.
    kinds: ClassVar[tuple[str, ...]] = ("gaussian",)
    #: False where a neuron's index means something (diagonal networks: the coordinate).
    interchangeable: bool = True
    #: True where `theory` is about infinitely many neurons, so that mode "limit", of given weights, is another one.
    theory_at_infinite_width: ClassVar[bool] = False
    #: Rows that are active from the start and for ever, whatever their norm: an output bias.
    permanent: tuple[int, ...] = ()
    #: Whether f_i is smooth in theta; False for a sharp ReLU.
    smooth: bool = True
    #: Width over which slopes at the corners of f_i are rounded, relative to a typical pre-activation; 0 where there
    #: are none, or sharp ones. The phases do not ask for more accuracy than a corner allows.
    kink: float = 0.0
    #: (d, p) where the flow conserves p |a|^2 - |w|^2 of every neuron, w its first d parameters and a the others, and
    #: where that alone keeps the sign of an a which shrinks: it is then restored along a run. None: nothing is.
    layers: tuple[int, int] | None = None
    #: Whether the loss is half-squared, so that self-interactions are exact.
    quadratic_loss: bool = True

    #: Whether the door (`agf.contract.admission`) has let this problem pass.
    _admitted: bool = False
    #: The last loss returned for no neurons, of a class from outside the package; inf: none, or it was 0.
    _zero_loss: float = np.inf

    # -- must define --------------------------------------------------------------------------------------------------

    @abstractmethod
    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """Loss of the network made of these neurons only, at least 0, and its gradient: (float, (m, P))."""

    @abstractmethod
    def residual(self, theta: FloatArray, neurons: IntArray) -> Any:
        """What is left to fit, r = -dl/df, in whatever form `utility` reads; opaque to everybody else."""

    @abstractmethod
    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """Leading-order utility U_i = E<f_i(x; theta_i), r> and its gradient: ((m,), (m, P)), unit: loss.

        Homogeneous of degree `degree` in theta_i. To first order, adding neuron i lowers the loss by U_i; a dormant one
        follows grad U_i ([AGF] eq. 2).
        """

    # -- may define: where it starts ----------------------------------------------------------------------------------

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """Order-one parameters (H, P); `init` scales them by alpha.

        Default: "gaussian", entries N(0, 1/P), so that norms are about alpha.

        Parameters
        ----------
        alpha : float
            The scale, for kinds that depend on it.
        rng : np.random.Generator
            The only source of randomness.
        kind : str
            One of `kinds`.
        """
        del alpha, kind
        return rng.standard_normal((self.width, self.n_params)) / np.sqrt(self.n_params)

    def start_of(self, init: Init) -> Init:
        """The initialization as this problem starts from it: itself, unless some are kept at 0 (`agf.masked`), or a row
        belongs to no neuron (the output bias of `agf.TwoLayer`)."""
        return init

    # -- may define: what it knows of its loss, network and neurons ---------------------------------------------------

    def pull(self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any) -> FloatArray:
        """-grad_theta_i L / rho_i^(degree - 1) at theta_i = rho_i * direction_i, (m, P); r includes neuron i itself.

        For homogeneous neurons this is grad U at the unit direction, the default, and nothing underflows at any rho.
        A non-homogeneous activation overrides it with its exact gradient where rho_i is not tiny.
        """
        del log_norms
        return self.utility(directions, neurons, residual)[1]

    def network_pull(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, members: BoolArray
    ) -> FloatArray:
        """`pull` of all rows on the residual of the network that the rows in `members` (m,) make, (m, P).

        Override it only where `residual` and `pull` share work; a class that overrides one of these and not this one
        gets the composition back.
        """
        network = slice(None) if members.all() else members
        theta = sphere.cartesian(directions[network], log_norms[network])
        return self.pull(directions, log_norms, neurons, self.residual(theta, neurons[network]))

    def outputs(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """f_i on the data, flattened and weighted so that sum_j out_ij out_kj = E<f_i, f_k>: (m, N), or None.

        Used for natural thresholds (see `self_interaction`). None when too large to form.
        """
        del theta, neurons
        return None

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """C_i = (1/2) E|f_i - P_A f_i|^2 of unit neurons, (m,), unit: loss.

        P_A projects on the span of the active neurons' Jacobian. Default: from `outputs` if defined (Jacobian by
        central differences); else without P_A, from the loss itself (exact for a half-squared loss):
        C = L(unit neuron) - L(nothing) + U.

        Parameters
        ----------
        directions : float ndarray, shape (m, P)
            Unit rows.
        neurons : int ndarray, shape (m,)
            Their indices.
        active : float ndarray
            Parameters of the active neurons A, like theta.
        active_neurons : int ndarray
            Indices of the active neurons.
        """
        out = self.outputs(directions, neurons)
        if out is None:
            return of_loss(self, directions, neurons)
        return 0.5 * np.sum(self._reach.beyond(out, self.outputs, active, active_neurons) ** 2, axis=1)

    @cached_property
    def _reach(self) -> Span:
        return Span()

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Dense Hessian of the loss, (mP, mP), or None to let others difference the gradient."""
        del theta, neurons
        return None

    def least_loss(self, init: Init) -> float:
        """A lower bound on every loss that gradient flow from `init` can reach: 0, or what the problem knows better.

        Where the loss is convex in what the network computes, the least loss of a function that it can represent. A
        flow that has come near the bound is over, whatever its rates say.

        Parameters
        ----------
        init : Init
            Where the flow starts: signs that it keeps, neurons that are zero.

        Returns
        -------
        float
            At least 0.
        """
        del init
        return 0.0

    def kink_normals(self) -> FloatArray | None:
        """Normals v_k (n, d) of sharp kinks, (H, n, d) where each neuron has its own, or None where there are none.

        The gradient of f_i jumps where v_k . w_i = 0, w_i being the first d parameters of neuron i, and by a multiple
        of v_k. Gradient flow then slides along kinks exactly, which an integrator that does not know them cannot.
        """
        return None

    def restriction(self) -> tuple[Problem, BoolArray] | None:
        """The problem of which this is a restriction, and which of its parameters may differ from 0, (H, P), or None.

        What is known of its neurons in closed form then holds in coordinate subspaces.
        """
        return None

    def rounded(self, kink: float) -> Problem | None:
        """The same problem with corners rounded over another width (`kink`; sharp at 0), or None where they cannot be.

        A wider one measures what rounding moves. Slopes that are rounded without their values are no derivatives: laws
        on derivatives are tested on the sharp one.
        """
        return self if kink == self.kink else None

    @property
    def footprint(self) -> int:
        """Numbers that a computation holds at once for each neuron: a width that needs more than the memory is refused.

        Default: some arrays of the size of the weights; more where each sample takes a number.
        """
        return _ARRAYS * self.n_params

    @property
    def operations(self) -> int:
        """Numbers that a gradient goes through for each neuron: a width that would take for ever is refused.

        Default: `footprint`; more where numbers are used many times, as sums over pairs of neurons do.
        """
        return self.footprint

    # -- derived, for nobody to define --------------------------------------------------------------------------------

    @asked
    def init(self, alpha: float, seed: int | None = 0, kind: str = "gaussian") -> Init:
        """Random initialization at scale alpha.

        Parameters
        ----------
        alpha : float
            Initialization scale, 0 < alpha.
        seed : int or None, optional
            Integer >= 0 for numpy.random.default_rng, or None for a fresh one.
        kind : str, optional
            One of `kinds`.

        Raises
        ------
        DataError
            For a bad alpha, seed or kind.
        """
        return drawn(self, alpha, seed, kind)

    @property
    def empty(self) -> tuple[FloatArray, IntArray]:
        """`theta` and `neurons` of the network without neurons, which is the zero function."""
        return np.zeros((0, self.n_params)), np.zeros(0, dtype=np.int64)

    @property
    def cornered(self) -> bool:
        """Whether f_i has corners in theta, sharp or rounded: they cost a method its order, and second derivatives do
        not say how it goes on."""
        return not self.smooth or self.kink > 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        watch(cls)
        own = vars(cls)
        if "name" not in own:  # another class is another problem: a run of it is none of its parent's
            cls.name = cls.__name__
        if "network_pull" not in own and not own.keys().isdisjoint(("residual", "utility", "pull")):
            cls.network_pull = Problem.network_pull  # type: ignore[method-assign]
        if "features" in own and "features_along" not in own:
            cls.features_along = Problem.features_along  # type: ignore[method-assign]

    @classmethod
    def _taken(cls, name: str, value: Any) -> Any:
        """A method that the class comes by later is watched as those it was written with."""
        return watched(cls, name, value)
