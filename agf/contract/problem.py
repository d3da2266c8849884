"""The contract of a problem: what a plugin must define, what it may define, and what is derived.

A problem is a two-layer network f(x) = sum_i f_i(x; theta_i), its data and its loss. The engine and the reference
trainers see nothing else. `AutogradProblem` and `TwoLayer` derive most of it; docs/write-a-problem.md has examples.
"""

from __future__ import annotations

import inspect
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from agf import sphere
from agf.arrays import BoolArray, FloatArray, IntArray, count
from agf.clock import Clock
from agf.contract.copies import copied, frozen
from agf.contract.flow_system import FlowSystem
from agf.contract.returns import watch
from agf.errors import DataError, NoTheory, ProblemError, RequestError, explain
from agf.init import Init, check_alpha
from agf.numerics.derivatives import LENGTH, central
from agf.records import files
from agf.records.state import Activation, Settled, State
from agf.records.status import Status
from agf.records.table import Table

if TYPE_CHECKING:
    from agf.records.settings import Settings
    from agf.results.landscape import Critical
    from agf.results.staircase import Staircase

#: A label of more neurons names the first few: cost only, `Drop.neurons` has them all.
_MOST_NAMED, _FIRST_NAMED = 20, 8


class Phases(Protocol):
    """The two phases of [AGF] Algorithm 1 from one initialization. A problem may bring its own (`Problem.phases`).

    Each method takes a state and returns a new one; what they remember is in the state (`State.memory`). `clock` says
    what accelerated time is: all times here are.
    """

    clock: Clock

    def start(self) -> State[Any]:
        """All neurons dormant, time 0."""
        ...

    def dormant(self, state: State[Any]) -> tuple[State[Any], Activation | Status]:
        """Utility maximization until the next activation, or the status that says why there is none."""
        ...

    def active(self, state: State[Any], activation: Activation) -> tuple[State[Any], Settled | Status]:
        """Cost minimization of the active neurons, `activation.neurons` being new; state.level is the new level."""
        ...


class _FromCopies(ABCMeta):
    """Makes instances from copies of their arguments: what a caller does to his arrays afterwards changes nothing."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*copied(args), **copied(kwargs))

    @property
    def __signature__(cls) -> inspect.Signature:
        """What the constructor takes, for `help` and editors."""
        taken = inspect.signature(cls.__init__)  # type: ignore[misc]
        return taken.replace(parameters=list(taken.parameters.values())[1:])


#: Arrays of the size of the weights that a prediction or a training holds at once, measured on a linear network.
_ARRAYS = 16


class Problem(ABC, metaclass=_FromCopies):
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
    A problem must define these attributes and the methods `loss_grad`, `residual` and `utility`. It may define
    network_pull, initial, outputs, self_interaction, theory, critical, features, label, acquired, conserved, phases,
    many_phases, flow_system, hessian, least_loss, remarks, footprint, example. Derived are init, arguments, describe
    and table.

    Conventions: `theta` is (m, P), `neurons` the (m,) indices of these rows in 0..H-1 (they matter where neurons are
    not interchangeable); m may be 0. `directions` (m, P) are unit rows and `log_norms` (m,) natural logs of norms, for
    what would underflow as theta. `residual` is what the method `residual` returned. Inputs are never modified. Losses
    carry this problem's own normalisation (docs/notation.md), and the engine and the trainers use the same functions.
    All times that a problem sees are flow times, but for those of its own phases, which are accelerated.
    """

    name: ClassVar[str]
    #: Names of the constructor arguments that come from a data file, in order.
    data_arguments: ClassVar[tuple[str, ...]] = ()
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
    #: Half-width over which the corners of f_i are rounded, relative to a typical pre-activation; 0 where there are
    #: none, or sharp ones. The phases do not ask for more accuracy than a corner allows.
    kink: float = 0.0
    #: (d, p) where the flow conserves p |a|^2 - |w|^2 of every neuron, w its first d parameters and a the others, and
    #: where that alone keeps the sign of an a which shrinks: it is then restored along a run. None: nothing is.
    layers: tuple[int, int] | None = None
    #: Whether the loss is half-squared, so that self-interactions are exact.
    quadratic_loss: bool = True

    degree: int
    width: int
    n_params: int
    #: Constructor arguments as given, for run files.
    arguments: dict[str, Any]
    _spanned: tuple[bytes, FloatArray] | None
    #: Whether the door (`agf.contract.admission`) has let this problem pass.
    _admitted: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        if "network_pull" not in own and not own.keys().isdisjoint(("residual", "utility", "pull")):
            cls.network_pull = Problem.network_pull  # type: ignore[method-assign]
        watch(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Problem:
        self = super().__new__(cls)
        self._spanned = None
        try:
            bound = inspect.signature(cls.__init__).bind(self, *args, **kwargs)
        except TypeError:
            self.arguments = {}  # __init__ is about to raise the same, with its own message
        else:
            given = dict(list(bound.arguments.items())[1:])
            given.update(given.pop("kwargs", {}))
            self.arguments = frozen(given)
        return self

    def __reduce__(self) -> Any:
        return _built, (type(self), self.arguments)

    # -- must define ------------------------------------------------------------------------------------------

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

    # -- may define -------------------------------------------------------------------------------------------

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

    @property
    def footprint(self) -> int:
        """Numbers that a computation holds at once for each neuron: a width that needs more than the memory is refused.

        Default: some arrays of the size of the weights; more where each sample takes a number.
        """
        return _ARRAYS * self.n_params

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
            none = np.zeros((0, self.n_params))
            no_neurons = np.zeros(0, dtype=np.int64)
            zero = self.loss_grad(none, no_neurons)[0]
            utilities = self.utility(directions, neurons, self.residual(none, no_neurons))[0]
            losses = [self.loss_grad(directions[i : i + 1], neurons[i : i + 1])[0] for i in range(neurons.size)]
            return np.maximum(np.asarray(losses) - zero + utilities, 0.0)
        if active_neurons.size:
            span = self._jacobian_span(active, active_neurons)
            out = out - (out @ span.T) @ span
        return 0.5 * np.sum(out**2, axis=1)

    def _jacobian_span(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        """Orthonormal rows that span the outputs' Jacobian, rank decided at 1e-10 of the largest; kept for the last
        network, since a dormant phase asks about the same one again and again."""
        key = theta.tobytes() + neurons.tobytes()
        if self._spanned is None or self._spanned[0] != key:
            _, values, rows = np.linalg.svd(self._jacobian(theta, neurons), full_matrices=False)
            self._spanned = key, rows[values > 1e-10 * values.max(initial=0.0)]
        return self._spanned[1]

    def _jacobian(self, theta: FloatArray, neurons: IntArray) -> FloatArray:
        def made(at: FloatArray) -> FloatArray:
            outputs = self.outputs(at, neurons)
            assert outputs is not None
            return outputs

        rows = []
        for p in range(self.n_params):  # over parameters, not over neurons: all neurons move together
            step = LENGTH * np.maximum(np.abs(theta).max(axis=1, initial=0.0), 1e-8)
            shift = np.zeros_like(theta)
            shift[:, p] = step
            rows.append(central(made, theta, shift) / step[:, None])
        return np.concatenate(rows)

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

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Dense Hessian of the loss, (mP, mP), or None to let others difference the gradient."""
        del theta, neurons
        return None

    def theory(self, alpha: float | None = None, **options: Any) -> Staircase:
        """The sequence in closed form as alpha -> 0; flow times only when alpha is given; options: the problem's own.

        Raises
        ------
        NoTheory
            Where there is none, the default.
        """
        del alpha, options
        raise NoTheory(
            explain(
                "has no closed form.",
                where=f"problem {self.name!r}",
                remedy='Use agf.predict(problem, init), or mode="limit" where degree is 2.',
            )
        )

    def critical(self, theta: FloatArray, neurons: IntArray) -> Sequence[Critical] | None:
        """Critical directions of the utility beside this network, in closed form, or None, the default.

        For `agf.landscape`, which climbs the utility from many starts where there is none.
        """
        del theta, neurons
        return None

    def features(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """What the network has learned, by name (coefficients, singular values, power spectrum, ...)."""
        del theta, neurons
        return {}

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """A few words for the drop of neurons `chosen` (indices in 0..H-1), e.g. "coordinate 3"; the first of many.

        Parameters
        ----------
        theta : float ndarray, shape (m, P)
            Active neurons after the drop.
        neurons : int ndarray, shape (m,)
            Their indices.
        chosen : int ndarray, shape (k,)
            Indices of the neurons to be named.
        """
        del theta, neurons
        shown = chosen if chosen.size <= _MOST_NAMED else chosen[:_FIRST_NAMED]
        words = [str(int(i)) for i in shown]
        if shown.size < chosen.size:
            words.append(f"and {chosen.size - shown.size:,} more")
        return f"{'neuron' if chosen.size == 1 else 'neurons'} {', '.join(words)}"

    def acquired(self, before: dict[str, FloatArray], after: dict[str, FloatArray]) -> str:
        """A few words for what grew most between two sets of `features`, e.g. "frequency 3"; "" leaves it to `label`.

        For drops read off a curve (mode "resolved"), over which several neurons may grow, shrink and trade places.

        Parameters
        ----------
        before : dict[str, FloatArray]
            `features` of the network before a drop.
        after : dict[str, FloatArray]
            `features` of the network after it.
        """
        del before, after
        return ""

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """Quantities that gradient flow conserves, by name, (m,) each where they belong to neurons."""
        del theta, neurons
        return {}

    def phases(self, init: Init, settings: Settings) -> Phases | None:
        """The problem's own two phases from `init` under these settings where it has closed forms, or None for the
        generic ones."""
        del init, settings
        return None

    def many_phases(self, inits: Sequence[Init], settings: Settings) -> Sequence[Phases | None] | None:
        """Phases under these settings for each of many inits that share work (`batch.Script`), or None to use a loop.

        An entry may be None, for an initialization that is better predicted alone. What an initialization gets must
        not depend on the others: a sweep that was cut off asks again for those that are missing.
        """
        del inits, settings
        return None

    def flow_system(self, init: Init) -> FlowSystem | None:
        """The problem's own coordinates for gradient flow, or None for the generic polar ones."""
        del init
        return None

    def remarks(self) -> tuple[str, ...]:
        """Sentences that go with every prediction and training run of this problem, on what its data make of it."""
        return ()

    def kink_normals(self) -> FloatArray | None:
        """Normals v_k (n, d) of sharp kinks, or None where there are none.

        The gradient of f_i jumps where v_k . w_i = 0, w_i being the first d parameters of neuron i, and by a multiple
        of v_k. Gradient flow then slides along kinks exactly, which an integrator that does not know them cannot.
        """
        return None

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Constructor arguments used when the user gives no data, and for the conformance checks."""
        return {}

    def describe(self) -> str:
        """One line for reports: what the network and the data are."""
        return f"{self.name}, {self.width} neurons of {self.n_params} parameters, degree {self.degree}"

    # -- derived ----------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """What was asked for: sizes, and the constructor arguments (arrays by shape)."""
        rows = [["neurons", str(self.width)], ["parameters a neuron", str(self.n_params)], ["degree", str(self.degree)]]
        rows += [[name, _brief(value)] for name, value in self.arguments.items()]
        return Table(self.describe(), ["what", "value"], rows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.describe()}>"

    def _repr_html_(self) -> str:
        return self.table().html()

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
        check_sizes(self, f"{self.name}.init")
        check_memory(self, f"{self.name}.init")
        alpha = check_alpha(alpha)
        seed = None if seed is None else count(seed, "seed", where=f"{self.name}.init", least=0)
        if kind not in self.kinds:
            raise DataError(
                explain(
                    f"unknown kind of initialization {kind!r}.",
                    where=f"{self.name}.init",
                    expected="one of " + ", ".join(self.kinds),
                )
            )
        theta = self.initial(alpha, np.random.default_rng(seed), kind)
        return self.start_of(Init.scaled(theta, alpha, seed, kind))


def _built(cls: type[Problem], arguments: dict[str, Any]) -> Problem:
    """A problem that was pickled or deep-copied: built again from its arguments."""
    return cls(**arguments)


def check_sizes(problem: Problem, where: str) -> None:
    """Refuse a problem whose degree, width or number of parameters cannot be. Raises ProblemError."""
    for name, least in (("degree", 2), ("width", 1), ("n_params", 1)):
        value = getattr(problem, name, None)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ProblemError(
                explain(
                    f"problem {problem.name!r} has {name} = {value!r}.",
                    where=where,
                    expected=f"an integer, at least {least}",
                    remedy="Its __init__ sets degree, width and n_params.",
                )
            )


def check_memory(problem: Problem, where: str) -> None:
    """Refuse a network whose weights leave no room for a computation. Raises RequestError with the memory needed."""
    needed, there = 8.0 * problem.width * problem.footprint, float(files.memory())
    if needed > there:
        raise RequestError(
            explain(
                f"{problem.width:,} neurons of {problem.n_params:,} parameters need about {needed / 2**30:,.0f} GiB of "
                f"memory, and there are {there / 2**30:,.0f} GiB.",
                where=where,
                remedy="Use a smaller width.",
            )
        )


def _brief(value: Any) -> str:
    """An argument for people: an array as its shape, anything else in at most 60 characters."""
    shape = getattr(value, "shape", None)
    if shape:
        return "array of " + " x ".join(str(size) for size in shape)
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
