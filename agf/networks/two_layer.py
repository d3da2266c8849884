"""Any two-layer network f(x) = sum_i a_i sigma(w_i . x) + b on samples: no code to write, only data and two names.

What a user gives and reads is here. The formulas, analytic and batched over neurons and samples, in numpy or, with
`device=`, in torch, are in `hidden_layer` (sigma and its kinks), `first_order` and `second_order`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import FloatArray, IntArray, number
from agf.errors import DataError, RequestError, explain
from agf.init import Init
from agf.networks import labels
from agf.networks.activations import activation as activation_of
from agf.networks.biases import Biases, moves_at_once
from agf.networks.hidden_layer import HiddenLayer
from agf.networks.polynomials import least_squares
from agf.networks.second_order import SecondOrder
from agf.networks.starts import KINDS, drawn
from agf.records import torch_weights

if TYPE_CHECKING:
    from agf.results.staircase import Staircase

#: Width of kinks where none is given, over |w| rms|x|. Setting: `kink`; at 1e-2 neurons slide a percent of |w| beside a
#: kink, at 1e-4 steps of 1e-4 no longer see it.
_KINK = 1e-3


class TwoLayer(SecondOrder):
    """Two-layer network on data, rows theta_i = (w_i, a_i), P = d + c, or (w_i, b_i, a_i) with hidden biases.

    Network: f(x) = sum_i a_i sigma(w_i . x), without biases unless `bias` says otherwise. Loss: mean over the n samples
    of |y - f(x)|^2 / 2, summed over outputs, unless `loss` says otherwise.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs.
    Y : array_like, shape (n, c) or (n,)
        Targets; for the classification losses, labels (numbers or text) or one-hot rows.
    activation : str
        "linear", "relu", "leaky-relu", "square", "power", "tanh", "erf", "gelu" or "silu".
    loss : str
        "half-squared" |y - f|^2 / 2; "logistic", "double-logistic" (twice the logistic loss) or "exponential" for two
        classes; "cross-entropy"; see `reduction`.
    width : int
        Number of neurons H.
    leak : float or None
        Slope of "leaky-relu" left of 0; 0.01 when None. Other activations take none.
    power : int or None
        Exponent of "power", a whole number; 3 when None. Other activations take none.
    kink : float or None
        Width over which the slope of relu and leaky-relu rises right of its kink, relative to |w| rms|x|. None: 1e-3,
        except in the dormant phase of networks of one output, or two classes under cross-entropy, which is exact for
        sharp kinks, as it is for widths up to 1e-3. 0 is the textbook ReLU with relu'(0) = 0 everywhere, at up to ten
        times the cost.
    device : str or None
        None for numpy, or a torch device such as "cpu" or "cuda" (the same formulas, float64).
    reduction : str
        "mean" over the rows, or "sum" ([Min23]): n times the loss and 1/n of the times.
    bias : str
        "none"; "hidden": sigma(w_i . x + b_i), a column of ones beside X; "output": f + b, the last row of theta, which
        is active from the start; or "both". Biases start at zero.

    Raises
    ------
    DataError
        Data that cannot be used, unknown activation or loss (with the list of valid names).
    RequestError
        Torch missing, or no such device.

    Notes
    -----
    `degree` is measured from the activation at the origin. `utility` is the leading order there (z/2 for gelu and
    silu); `pull` and `loss_grad` are exact, so a neuron is itself as soon as its norm is felt.
    The network and its loss are those of the textbook, and so is what a neuron feels of a sample that is inactive
    (w . x <= 0): nothing, whatever `kink`. A relu neuron with no active sample is dead, and stays where it is for ever.
    Directions of relu neurons slide along kinks w . x_k = 0, where the gradient jumps from side to side. Where the
    slope rises over 0 < w . x < kink |w| rms|x| instead, the flow is continuous and reaches the same balance that far
    beside the kink: levels and times change by O(kink), and by what the saddles that are passed make of that. In
    between the force is no gradient, and the loss may rise by O(kink). With sharp kinks `agf.flow` slides exactly.
    With an output bias b, theta has one row more than neurons, the last: (anything, b). Its first entries do nothing,
    and are kept at a constant of the size of the targets; `Init.from_params` may leave the row out, for b = 0. Where
    targets or classes are not balanced the output bias moves at once, whatever the scale of the weights: it fits the
    mean, or the frequencies of the classes, in a time of order one, before any neuron grows.
    For a loss that is not quadratic, `outputs` and `self_interaction` carry the square root of l'' (at f = 0, and at
    the active network), which makes the loss half-squared to second order there. Separable classes have no finite
    minimizer: the active phase then ends by its horizon or with status "no_critical_point".
    """

    name = "two-layer"
    theory_at_infinite_width = True
    kinds = KINDS
    inputs_argument = "X"

    @classmethod
    def from_torch(cls, model: Any, X: Any, Y: Any, **options: Any) -> TwoLayer:
        """The problem that a torch network with one hidden layer is trained on; `Init.from_torch` has its weights.

        Parameters
        ----------
        model : torch.nn.Module or mapping or str or os.PathLike[str]
            nn.Sequential(Linear, activation, Linear) and the like, its state_dict, or a file of that.
        X : array_like, shape (n, d)
            Inputs, as the model takes them.
        Y : array_like, shape (n, c) or (n,)
            Targets.
        options : object
            Of the constructor: loss, kink, ...; `activation` (and `leak`) where weights alone are given.

        Returns
        -------
        TwoLayer
            The same network, for `predict`, `flow` and `compare`.

        Raises
        ------
        DataError
            For another network, or weights without an activation.
        FileError
            For a file that cannot be read.
        """
        found = torch_weights.read(model)
        if found.activation is not None:
            options = {"activation": found.activation, "leak": found.leak, **options}
        elif "activation" not in options:
            raise DataError(
                explain("weights do not tell the activation.", where="from_torch", remedy="Give activation=")
            )
        problem = cls(X, Y, width=found.width, **{"bias": found.bias, **options})
        if problem.n_params != found.theta.shape[1]:
            raise DataError(
                explain(
                    f"the weights have {found.theta.shape[1]} parameters a neuron, and these data ask for "
                    f"{problem.n_params}.",
                    where="from_torch",
                    expected="as many inputs and outputs as the model has",
                )
            )
        return problem

    def __init__(
        self,
        X: Any,
        Y: Any,
        activation: str = "relu",
        loss: str = "half-squared",
        width: int = 10,
        leak: float | None = None,
        power: int | None = None,
        kink: float | None = None,
        device: str | None = None,
        reduction: str = "mean",
        bias: str = "none",
    ) -> None:
        where = type(self).__name__
        self.biases = Biases.of(bias, where)
        self.activation = activation_of(activation, leak=leak, power=power)
        super().__init__(X, Y, width, loss, device)
        if reduction not in ("mean", "sum"):
            raise DataError(explain(f"unknown reduction {reduction!r}.", where=where, expected="one of mean, sum"))
        self._weight = float(self.n_samples) if reduction == "sum" else 1.0
        if self.X.ndim != 2:
            raise DataError(explain(f"`X` has shape {self.X.shape}.", where=where, expected="(n, d)"))
        if not self.X.any():
            raise DataError(explain("all of `X` is zero, so no neuron can ever grow.", where=where))
        self.X = self.biases.inputs(self.X)
        self.n_inputs = self.X.shape[1]
        #: Number of neurons, without the row of an output bias.
        self.hidden = self.width
        self.permanent = self.biases.permanent(self.hidden)
        self._through_origin = not self.permanent
        self.width += len(self.permanent)
        self.bias = bias
        # Samples last in memory: sums and products run along them, and thin products take half the time or less.
        self._x, self._y = (self._backend.array(rows.T.copy()).T for rows in (self.X, self.Y))
        self.n_params = self.n_inputs + self.n_outputs
        self.degree = self.activation.degree
        width_of_kink = _KINK if kink is None else number(kink)
        if not 0.0 <= width_of_kink <= 1.0:
            raise DataError(explain("`kink` must be between 0 and 1.", where=where, found=kink))
        self.kink = 0.0 if self.activation.smooth else width_of_kink
        #: Unit vector (c,) of outputs along which all residuals lie, or None.
        self.axis = self.loss.axis(self.n_outputs)
        #: Whether predictions take the dormant phase as that of sharp kinks: exact where there is such an axis.
        self.sharp_dormant = not self.activation.smooth and (kink is None or self.kink <= _KINK)
        self.smooth = self.activation.smooth or self.kink > 0
        self.layers = None if self.activation.smooth else (self.n_inputs, self.activation.power)
        self.layer = HiddenLayer(self._backend, self._x, self.activation, self.kink)

    # -- contract ---------------------------------------------------------------------------------------------

    def start_of(self, init: Init) -> Init:
        """The initialization with the row of the output bias, added at zero where it is missing (`Biases.start`)."""
        if not self.permanent or init.n_params != self.n_params:
            return init
        size = float(np.sqrt(np.mean(self.Y**2))) if self.quadratic_loss else 1.0
        return self.biases.start(init, self.hidden, self.n_inputs, size)

    def remarks(self) -> tuple[str, ...]:
        """That an output bias moves at once where targets or classes are not balanced."""
        if not self.permanent:
            return ()
        loss, gradient = self.loss_grad(np.zeros((1, self.n_params)), np.array(self.permanent))
        return moves_at_once(loss * self._weight, gradient, self.loss, self.Y, self.classes)

    @property
    def footprint(self) -> int:
        """Weights, and pre-activations, activations, slopes and gates of every sample."""
        return super().footprint + 4 * self.n_samples

    def kink_normals(self) -> FloatArray | None:
        """The inputs (n, d) where kinks are sharp, else None."""
        return None if self.smooth else self.X

    def rounded(self, kink: float) -> TwoLayer:
        """The same network with another `kink`."""
        other = object.__new__(type(self))  # as it is now: a copy would be built again from its arguments
        vars(other).update(vars(self))
        other.kink = 0.0 if self.activation.smooth else kink
        other.smooth = self.activation.smooth or other.kink > 0
        other.layer = HiddenLayer(self._backend, self._x, self.activation, other.kink)
        return other

    def initial(self, alpha: float, rng: np.random.Generator, kind: str) -> FloatArray:
        """Order-one parameters (H, P); norms of the two layers by kind, the output weights in a uniform direction.

        "gaussian": entries N(0, 1/P). "unbalanced": the same. "balanced": gaussian w, and p |a|^2 = |w|^2, p the power
        of the activation. "ball": |a| = 1 and w uniform in the unit ball; "dominated": |a| = sqrt(d) and w uniform in
        the cube of half-side 1, so that |a| >= |w| [BF24]. Their mean-field scale lambda is alpha = lambda / sqrt(H).

        Parameters
        ----------
        alpha : float
            The scale, which multiplies them later.
        rng : numpy.random.Generator
            The only source of randomness.
        kind : str
            One of `kinds`.
        """
        full = super().initial(alpha, rng, "gaussian")
        self.biases.clear(full, self.n_inputs)
        theta = full[: self.hidden]
        drawn(kind, theta[:, : self.n_inputs], theta[:, self.n_inputs :], self.activation.power, rng)
        return full

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """{"balance": p |a_i|^2 - |w_i|^2} for a homogeneous activation of power p ([AGF] Lemma B.1)."""
        if not self.activation.homogeneous:
            return {}
        w, a = theta[:, : self.n_inputs], theta[:, self.n_inputs :]
        balance = self.activation.power * np.sum(a**2, axis=1) - np.sum(w**2, axis=1)
        return {"balance": np.where(np.isin(neurons, self.permanent), 0.0, balance)}

    def least_loss(self, init: Init) -> float:
        """What no function fits, or no polynomial where the activation is a power of its input (half-squared loss)."""
        least, kind, neurons = super().least_loss(init), self.activation, int(np.isfinite(init.log_norms).sum())
        if not (self.quadratic_loss and kind.homogeneous and kind.smooth):
            return least
        constant, weights = bool(self.permanent), neurons * self.n_params
        left = least_squares(self.X, self.Y, kind.power, constant=constant, weights=weights)
        return max(least, self._weight * left)

    def theory(self, alpha: float | None = None, **options: Any) -> Staircase:
        """(Leaky) ReLU, one output: the staircase at infinite width as the scale vanishes, with no weights at all.

        Times are in units of -log lambda, lambda / sqrt(m) the scale of m balanced neurons in random directions; flow
        times where alpha = lambda is given. The last note says whether the end is spurious. Kinks are sharp, whatever
        `kink` says: active neurons slide along those that hold them.
        Dormant neurons turn along the residual of every drop, into other cones perhaps. It is made three times, twice
        with these neurons turned aside by 1e-3: where another drop follows then, the conditioning of all from there on
        is inf, and a note says so. Past a budget of work the first drops are
        given (status "max_steps"). Raises NoTheory elsewhere.
        """
        from agf.networks.theory import staircase

        if options:
            message = f"unknown option `{next(iter(options))}`."
            raise RequestError(explain(message, where=f"{self.name}.theory", expected="alpha"))
        return staircase(self, alpha)

    def of_width(self, width: int) -> TwoLayer:
        """The same data, activation and loss with `width` neurons, kinks rounded as where nothing is said."""
        leak = -float(self.activation.left) if self.activation.name == "leaky-relu" else None
        reduction = "sum" if self._weight > 1 else "mean"
        return TwoLayer(self.X, self.Y, self.activation.name, self.loss.name, width, leak=leak, reduction=reduction)

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """ "neuron 3 (class 7)": the output that the neuron's a favours most, or "not class 7" where it lowers it.

        More than eight neurons are counted: "neurons of class 7 (34), of class 2 (1)"; `Drop.neurons` has them all.
        """
        biased, chosen = np.isin(chosen, self.permanent).any(), np.setdiff1d(chosen, self.permanent)
        named = labels.of_neurons(theta[:, self.n_inputs :], neurons, chosen, self.classes)
        return ", ".join(part for part in ("output bias" if biased else "", named) if part)

    def describe(self) -> str:
        """Width, activation, data and loss in one line."""
        summed = " summed over them" if self._weight > 1 else ""
        inputs = self.n_inputs - self.biases.hidden
        sizes = ((self.hidden, f"{self.activation.name} neuron"), (self.n_samples, "sample"), (inputs, "input"))
        neurons, samples, columns = (f"{count} {word}{'s' * (count != 1)}" for count, word in sizes)
        return (
            f"{self.name}: {neurons}{self.biases.described} on {samples}, "
            f"{columns} to {self.n_outputs}, {self.loss.name} loss{summed}, degree {self.degree}"
        )

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Twenty samples of two tanh neurons: small enough for every check."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((20, 3))
        Y = np.tanh(X @ [1.0, -1.0, 0.5]) - 0.5 * np.tanh(X @ [0.0, 1.0, 1.0])
        return {"X": X, "Y": Y, "activation": "tanh", "width": 4}
