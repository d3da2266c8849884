"""Any two-layer network f(x) = sum_i a_i sigma(w_i . x) on samples: no code to write, only data and two names.

Formulas are analytic and batched over neurons and samples, in numpy or, with `device=`, in torch; work arrays are
bounded by walking over blocks of samples. Everything a caller gives or gets is numpy, except the opaque residual.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray, matrix
from agf.errors import DataError, RequestError, explain
from agf.networks.activations import SMALLEST
from agf.networks.activations import activation as activation_of
from agf.networks.sampled import MAX_ORDER, SampledProblem
from agf.records import torch_weights

if TYPE_CHECKING:
    from agf.results.staircase import Staircase

#: sigma of pre-activations (samples, m) and its slope.
Sigma = Callable[[Any], tuple[Any, Any]]

#: Below exp(-300) the quotient sigma(rho z) / rho^p no longer changes in float64: it is the leading order.
_LOG_TINY = -300.0
#: Sums of squares in this range have lost nothing to underflow or overflow.
_SQUARES = (1e-200, 1e200)
#: Half-width of kinks where none is given.
_KINK = 1e-3
#: Samples that are asked first whether a neuron is alive.
_PROBES = 32
#: A label names the neurons of a drop one by one up to this many: a choice of what reads well.
_MOST_NAMED = 8
#: A trial step may ask about absurd weights: infinities and NaN are the answer, not a warning.
_absurd_is_infinite = np.errstate(over="ignore", invalid="ignore")


class TwoLayer(SampledProblem):
    """Two-layer network on data, rows theta_i = (w_i, a_i), P = d + c.

    Network: f(x) = sum_i a_i sigma(w_i . x), without biases. Loss: mean over the n samples of |y - f(x)|^2 / 2, summed
    over outputs, unless `loss` says otherwise.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Inputs. Append a column of ones for a hidden bias.
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
        Half-width to which the kink of relu and leaky-relu is rounded, relative to |w| rms|x|. None: 1e-3, except in
        the dormant phase of networks of one output, which is exact for sharp kinks, as it is for widths below 1e-3. 0
        is the textbook ReLU with relu'(0) = 0 everywhere, at ten times the cost.
    device : str or None
        None for numpy, or a torch device such as "cpu" or "cuda" (the same formulas, float64).
    reduction : str
        "mean" over the rows, or "sum" ([Min23]): n times the loss and 1/n of the times.

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
    A relu neuron for which no sample is strictly active is dead, and stays where it is for ever, whatever `kink`.
    Directions of relu neurons slide along kinks w . x_k = 0, where the gradient jumps from side to side. With rounded
    kinks the flow is smooth there and reaches the same balance; outputs change by O(kink^2), utilities at a kink by
    O(kink), and drop times by what the saddles that are passed make of that: less than 1e-4 on whitened digits, 15 %
    for a late drop of a network that leaves a saddle slowly. With sharp ones `agf.flow` slides along them exactly.
    For a loss that is not quadratic, `outputs` and `self_interaction` carry the square root of l'' (at f = 0, and at
    the active network), which makes the loss half-squared to second order there. Separable classes have no finite
    minimizer: the active phase then ends by its horizon or with status "no_critical_point".
    """

    name = "two-layer"
    theory_at_infinite_width = True
    kinds = ("gaussian", "balanced", "dominated", "ball", "unbalanced")

    @classmethod
    def from_torch(cls, model: Any, X: Any, Y: Any, **options: Any) -> TwoLayer:
        """The problem that a torch network with one hidden layer is trained on; `Init.from_torch` has its weights.

        Parameters
        ----------
        model : torch.nn.Module or mapping or str or os.PathLike[str]
            nn.Sequential(Linear, activation, Linear) and the like, its state_dict, or a file of that.
        X : array_like, shape (n, d)
            Inputs, as the model takes them; a column of ones is appended where it has hidden biases.
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
            For another network, an output bias, or weights without an activation.
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
        x = matrix(X, "X", where="from_torch")
        if found.biased:
            x = np.column_stack([x, np.ones(x.shape[0])])
        problem = cls(x, Y, width=found.theta.shape[0], **options)
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
    ) -> None:
        where = type(self).__name__
        self.activation = activation_of(activation, leak=leak, power=power)
        super().__init__(X, Y, width, loss, device)
        if reduction not in ("mean", "sum"):
            raise DataError(explain(f"unknown reduction {reduction!r}.", where=where, expected="one of mean, sum"))
        self._weight = float(self.n_samples) if reduction == "sum" else 1.0
        if self.X.ndim != 2:
            raise DataError(explain(f"`X` has shape {self.X.shape}.", where=where, expected="(n, d)"))
        if not self.X.any():
            raise DataError(explain("all of `X` is zero, so no neuron can ever grow.", where=where))
        # Samples last in memory: sums and products run along them, and thin products take half the time or less.
        self._x, self._y = (self._backend.array(rows.T.copy()).T for rows in (self.X, self.Y))
        self.n_params = self.n_inputs + self.n_outputs
        self.degree = self.activation.degree
        width_of_kink = _KINK if kink is None else float(kink)
        if not 0.0 <= width_of_kink <= 1.0:
            raise DataError(explain("`kink` must be between 0 and 1.", where=where, found=kink))
        self.kink = 0.0 if self.activation.smooth else width_of_kink
        #: Whether predictions take the dormant phase as that of sharp kinks, which is exact where there is one output.
        self.sharp_dormant = not self.activation.smooth and (kink is None or self.kink < _KINK)
        self.smooth = self.activation.smooth or self.kink > 0
        largest = np.abs(self.X).max()
        self._stride = max(1, self.n_samples // _PROBES)
        self._reach = self.kink * float(largest * np.sqrt(np.mean(np.sum((self.X / largest) ** 2, axis=1))))

    # -- contract ---------------------------------------------------------------------------------------------

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """Mean loss of the network of these neurons, and its gradient: (float, (m, P)). Exact for every activation."""
        return self._loss_grad(theta, self._x, self._y)

    def batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        """`loss_grad` on these rows of the data alone (mean over them); rows (k,) in 0..n_samples-1."""
        return self._loss_grad(theta, self._x[rows], self._y[rows])

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """a . E[r sigma(w . x)] with sigma at leading order, and its gradient: ((m,), (m, P))."""
        grad = self._force(theta, residual, partial(self._sigma, leading=True))
        return np.sum(theta[:, self.n_inputs :] * grad[:, self.n_inputs :], axis=1), grad

    def pull(self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any) -> FloatArray:
        """-grad L / rho^(degree - 1), exact at any rho: sigma(rho z) / rho^p tends to the leading order by itself."""
        return self._force(directions, residual, self._sigma_at(log_norms))

    def kink_normals(self) -> FloatArray | None:
        """The inputs (n, d) where kinks are sharp, else None."""
        return None if self.smooth else self.X

    def weigh(self, residual: Any) -> FloatArray:
        """What each sample counts in a utility, (n, c): U = sum_k c_k . a sigma(w . x_k), at a residual as returned."""
        return self._backend.numpy(residual) * (self._weight / self.n_samples)

    @_absurd_is_infinite
    def network_pull(
        self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, members: BoolArray
    ) -> FloatArray:
        """`pull` on the residual that `members` make: one set of pre-activations serves both."""
        b, network = self._backend, slice(None) if members.all() else np.flatnonzero(members)
        w, a = self._split(directions)
        (inner, scale), sigma = self._inner(w), self._sigma_at(log_norms)
        weights = b.array(np.exp(self.degree * log_norms[network])[:, None]) * (scale * a)[network]
        out = b.zeros(directions.shape)
        for rows in self._blocks(directions.shape[0]):
            x = self._x[rows]
            value, slope = sigma((inner @ x.T).T)
            r = self.loss.residual(b, b.product(weights.T, value.T[network]).T, self._y[rows])
            self._add_force(out, a, x, r, (value, slope))
        return self._mean(out, a, inner, scale, self.n_samples)

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
        theta = super().initial(alpha, rng, "gaussian")
        w, a = theta[:, : self.n_inputs], theta[:, self.n_inputs :]
        if kind in ("gaussian", "unbalanced"):
            return theta
        if kind == "balanced":
            size = np.linalg.norm(w, axis=1) / np.sqrt(self.activation.power)
        elif kind == "ball":
            radii = rng.random(self.width) ** (1.0 / self.n_inputs)
            w *= (radii / np.linalg.norm(w, axis=1))[:, None]
            size = np.ones(self.width)
        else:
            w[:] = rng.uniform(-1.0, 1.0, w.shape)
            size = np.full(self.width, np.sqrt(self.n_inputs))
        a *= (size / np.linalg.norm(a, axis=1))[:, None]
        return theta

    def self_interaction(
        self, directions: FloatArray, neurons: IntArray, active: FloatArray, active_neurons: IntArray
    ) -> FloatArray:
        """(1/2) E|f_i - P_A f_i|^2 of unit neurons at leading order, (m,), weighted by l'' at the active network.

        As for `SampledProblem`, without forming outputs: f_i is sigma(w_i . x) a_i.
        """
        b, d = self._backend, self.n_inputs
        m, count = directions.shape[0], active.shape[0] if active.size <= MAX_ORDER else 0
        w, a = self._split(directions)
        v, o = self._split(active[:count])
        w, v = self._awake(w), self._awake(v)
        sizes, active_sizes = self._sizes(w), self._sizes(v)
        lengths = _nonzero(active_sizes)
        # l'' of a quadratic loss is the same at any network
        f = self._y if self.loss.quadratic else self._predict(active, active_neurons)
        total, cross = b.zeros((m,)), b.zeros((m, count, self.n_params))
        for rows in self._blocks(m + count):
            x = self._x[rows]
            curvature = self.loss.curvature(b, f[rows], self._y[rows])
            value = self._unit((w @ x.T).T, sizes, leading=True)[0]
            total += (value**2 * curvature.squares(a)).sum(0)
            if count == 0:
                continue
            z = (v @ x.T).T
            others, slopes = self._unit(z, active_sizes)
            radials = self._radial(z, others, slopes, lengths)
            for j in range(count):
                weighted = value * (curvature.apply(o[j]) @ a.T)
                cross[:, j, :d] += (weighted * slopes[:, j : j + 1]).T @ x
                if radials is not None:
                    cross[:, j, :d] += (weighted.T @ radials[:, j])[:, None] * (v[j] / lengths[j])
                cross[:, j, d:] += curvature.moment(value * others[:, j : j + 1], a)
        return self._left_over(
            b.numpy(total), b.numpy(cross).reshape(m, count * self.n_params), active, active_neurons, f
        )

    def _gram(self, theta: FloatArray, neurons: IntArray, f: Any) -> Any:
        b, d, c = self._backend, self.n_inputs, self.n_outputs
        m = theta.shape[0]
        w, a = self._split(theta)
        w = self._awake(w)
        sizes = self._sizes(w)
        lengths = _nonzero(sizes)
        out = b.zeros((m, self.n_params, m, self.n_params))
        for rows in self._blocks(m * self.n_params, least=m * self.n_params):  # work arrays no larger than the result
            x = self._x[rows]
            curvature = self.loss.curvature(b, f[rows], self._y[rows])
            z = x @ w.T
            value, slope = self._unit(z, sizes)
            radial = self._radial(z, value, slope, lengths)
            tilt = slope[:, :, None] * x[:, None, :]  # d sigma/dw, (samples, m, d)
            if radial is not None:
                tilt = tilt + radial[:, :, None] * (w / lengths[:, None])
            flat = tilt.reshape(tilt.shape[0], m * d)
            if curvature.weights is None:  # l'' is the identity
                out[:, :d, :, :d] += (flat.T @ flat).reshape(m, d, m, d) * (a @ a.T)[:, None, :, None]
                out[:, :d, :, d:] += (flat.T @ value).reshape(m, d, m, 1) * a[:, None, None, :]
                out[:, d:, :, d:] += (value.T @ value)[:, None, :, None] * b.eye(c)[:, None, :]
                continue
            for i in range(m):
                ours = curvature.apply(a[i])
                weighted = (tilt * (ours @ a.T)[:, :, None]).reshape(flat.shape)
                out[i, :d, :, :d] += (tilt[:, i].T @ weighted).reshape(d, m, d)
                mixed = (value[:, :, None] * ours[:, None, :]).reshape(flat.shape[0], m * c)
                out[i, :d, :, d:] += (tilt[:, i].T @ mixed).reshape(d, m, c)
                for k in range(c):
                    unit = curvature.moment(value * value[:, i : i + 1], b.eye(c)[k : k + 1] + b.zeros((m, c)))
                    out[i, d + k, :, d:] += unit
        for i in range(m):
            for j in range(m):
                out[j, d:, i, :d] = out[i, :d, j, d:].T
        return out.reshape(theta.size, theta.size)

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Dense Hessian of the loss, (mP, mP), sharp kinks ignored; None above order 4,000."""
        if theta.size > MAX_ORDER:
            return None
        b, d = self._backend, self.n_inputs
        m = theta.shape[0]
        w, a = self._split(theta)
        w = self._awake(w)
        sizes = self._sizes(w)
        safe = _nonzero(sizes)
        f = self._predict(theta, neurons)
        out = self._gram(theta, neurons, f).reshape(m, self.n_params, m, self.n_params)
        for rows in self._blocks(m * (d + self.n_outputs)):
            x = self._x[rows]
            z = x @ w.T
            r = self.loss.residual(b, f[rows], self._y[rows])
            drive = r @ a.T
            value, slope = self._unit(z, sizes)
            radial = self._radial(z, value, slope, safe)
            curvature = self._curvature(z, sizes)
            for i in range(m):
                unit = w[i] / safe[i]
                # beside a rounded kink sigma is |w| phi(z / |w|): only directions across w bend it
                across = x if radial is None else x - (x @ unit)[:, None] * unit
                out[i, :d, i, :d] -= ((drive[:, i] * curvature[:, i])[:, None] * across).T @ across
                mixed = (slope[:, i : i + 1] * x).T @ r
                if radial is not None:
                    pull = (drive[:, i] * radial[:, i]).sum() / safe[i]
                    out[i, :d, i, :d] -= pull * (b.eye(d) - unit[:, None] * unit)
                    mixed = mixed + unit[:, None] * (radial[:, i] @ r)
                out[i, :d, i, d:] -= mixed
                out[i, d:, i, :d] -= mixed.T
        return b.numpy(out.reshape(theta.size, theta.size)) * (self._weight / self.n_samples)

    def _curvature(self, z: Any, sizes: Any) -> Any:
        if self.kink > 0:
            return self.activation.rounded_curvature(self._backend, z, self._reach * sizes)
        return self.activation.curvature(self._backend, z)

    def conserved(self, theta: FloatArray, neurons: IntArray) -> dict[str, FloatArray]:
        """{"balance": p |a_i|^2 - |w_i|^2} for a homogeneous activation of power p ([AGF] Lemma C.2 for p = 1)."""
        if not self.activation.homogeneous:
            return {}
        w, a = theta[:, : self.n_inputs], theta[:, self.n_inputs :]
        return {"balance": self.activation.power * np.sum(a**2, axis=1) - np.sum(w**2, axis=1)}

    def theory(self, alpha: float | None = None, **options: Any) -> Staircase:
        """(Leaky) ReLU, one output: the staircase at infinite width as the scale vanishes, with no weights at all.

        Times are in units of -log lambda, lambda / sqrt(m) the scale of m balanced neurons in random directions; flow
        times where alpha = lambda is given. The last note says whether the end is spurious. Raises NoTheory elsewhere.
        """
        from agf.networks.theory import staircase

        if options:
            words = f"unknown option `{next(iter(options))}`."
            raise RequestError(explain(words, where=f"{self.name}.theory", expected="alpha"))
        return staircase(self, alpha)

    def sharp(self, width: int) -> TwoLayer:
        """The same data, activation and loss with `width` neurons whose kinks are sharp."""
        leak = -float(self.activation.left) if self.activation.name == "leaky-relu" else None
        return TwoLayer(self.X, self.Y, self.activation.name, self.loss.name, width, leak=leak, kink=0.0)

    def label(self, theta: FloatArray, neurons: IntArray, chosen: IntArray) -> str:
        """ "neuron 3 (class 7)": the output that the neuron's a favours most, or "not class 7" where it lowers it.

        More than eight neurons are counted: "neurons of class 7 (34), of class 2 (1)"; `Drop.neurons` has them all.
        """
        rows = {int(i): row for i, row in zip(neurons, theta[:, self.n_inputs :], strict=True)}
        favoured = {i: self._direction(row) for i, row in rows.items()}
        if chosen.size > _MOST_NAMED:
            count = Counter(favoured.get(int(i), "no output") for i in chosen).most_common()
            return "neurons " + ", ".join(f"of {word} ({number})" for word, number in count)
        words = [f"{int(i)} ({favoured[int(i)]})" if int(i) in rows else str(int(i)) for i in chosen]
        return ("neuron " if len(words) == 1 else "neurons ") + ", ".join(words)

    def describe(self) -> str:
        """Width, activation, data and loss in one line."""
        summed = " summed over them" if self._weight > 1 else ""
        return (
            f"{self.name}: {self.width} {self.activation.name} neurons on {self.n_samples} samples, "
            f"{self.n_inputs} inputs to {self.n_outputs}, {self.loss.name} loss{summed}, degree {self.degree}"
        )

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Twenty samples of two tanh neurons: small enough for every check."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((20, 3))
        Y = np.tanh(X @ [1.0, -1.0, 0.5]) - 0.5 * np.tanh(X @ [0.0, 1.0, 1.0])
        return {"X": X, "Y": Y, "activation": "tanh", "width": 4}

    # -- formulas ---------------------------------------------------------------------------------------------

    def _split(self, theta: FloatArray) -> tuple[Any, Any]:
        theta = self._backend.array(theta)
        return theta[:, : self.n_inputs], theta[:, self.n_inputs :]

    def _sizes(self, w: Any) -> Any:
        """|w| of every row, without underflow of the squares."""
        squares = (w * w).sum(1)
        if w.shape[0] and float(squares.min()) > _SQUARES[0] and float(squares.max()) < _SQUARES[1]:
            return squares**0.5
        largest = self._backend.xp.amax(abs(w), 1)
        return largest * ((w / _nonzero(largest)[:, None]) ** 2).sum(1) ** 0.5

    def _inner(self, w: Any) -> tuple[Any, Any]:
        """Input weights in the units in which `_sigma` takes them, (m, d), and the units: (m, 1), or 1 for sharp kinks.

        These are the widths of rounded kinks, in proportion to |w|: all neurons then share one sigma.
        """
        if self.kink == 0:
            return w, 1.0
        awake = self._awake(w)
        widths = 2.0 * self._reach * self._sizes(awake)[:, None]
        return awake / _nonzero(widths), widths

    def _awake(self, w: Any) -> Any:
        """Input weights (m, d), those of dead neurons as 0: neither outputs nor forces.

        Dead is a relu neuron for which no sample is strictly active; it stays where it is for ever (a regular solution
        [Min23]). With sharp kinks relu'(0) = 0 sees to that; a rounded one would pull at a neuron that stands just
        beside its last sample, and bring it back to life. A few samples show that most neurons are alive.
        """
        if self.kink == 0 or self.activation.left != 0 or not w.shape[0]:
            return w
        b = self._backend
        alive = b.xp.amax(w @ self._x[:: self._stride].T, 1) > 0
        if bool(alive.all()):
            return w
        for rows in self._blocks(w.shape[0]):
            alive = alive | (b.xp.amax(w @ self._x[rows].T, 1) > 0)
        return w * alive[:, None]

    def _sigma(self, z: Any, leading: bool = False) -> tuple[Any, Any]:
        """sigma of pre-activations z (samples, m) of `_inner` weights, in their units, and d sigma/dz at fixed |w|."""
        b, act = self._backend, self.activation
        if self.kink > 0:
            return act.rounded(b, z)
        if leading:
            return act.leading_value(b, z), act.leading_slope(b, z)
        return act.value(b, z), act.slope(b, z)

    def _sigma_at(self, log_norms: FloatArray) -> Sigma:
        """sigma(rho z) / rho^p and its slope at unit neurons, exact at any norm rho."""
        if self.activation.homogeneous:
            return self._sigma
        b, act = self._backend, self.activation
        rho = b.array(np.exp(np.maximum(log_norms, _LOG_TINY)))

        def sigma(z: Any) -> tuple[Any, Any]:
            return act.value(b, rho * z) / rho**act.power, act.slope(b, rho * z) / rho ** (act.power - 1)

        return sigma

    def _unit(self, z: Any, sizes: Any, leading: bool = False) -> tuple[Any, Any]:
        """sigma of pre-activations z (samples, m) of neurons of these sizes |w|, and d sigma/dz at fixed |w|."""
        if self.kink == 0:
            return self._sigma(z, leading)
        widths = 2.0 * self._reach * sizes
        value, slope = self._sigma(z / _nonzero(widths))
        return widths * value, (widths > SMALLEST) * slope

    def _radial(self, z: Any, value: Any, slope: Any, lengths: Any) -> Any:
        """d sigma/d|w| at fixed z, (samples, m), or None where that is 0; by Euler's identity beside a rounded kink."""
        return (value - slope * z) / lengths if self.kink > 0 else None

    @_absurd_is_infinite
    def _predict(self, theta: FloatArray, neurons: IntArray) -> Any:
        b = self._backend
        w, a = self._split(theta)
        inner, scale = self._inner(w)
        weights = scale * a
        blocks = self._blocks(theta.shape[0])
        parts = [b.product(weights.T, self._sigma((inner @ self._x[rows].T).T)[0].T) for rows in blocks]
        return (parts[0] if len(parts) == 1 else b.xp.concatenate(parts, 1)).T

    @_absurd_is_infinite
    def _loss_grad(self, theta: FloatArray, x: Any, y: Any) -> tuple[float, FloatArray]:
        b = self._backend
        w, a = self._split(theta)
        inner, scale = self._inner(w)
        weights = scale * a
        total = 0.0
        force = b.zeros(theta.shape)
        for rows in self._blocks(theta.shape[0], x.shape[0]):
            sigma = self._sigma((inner @ x[rows].T).T)
            f = b.product(weights.T, sigma[0].T).T
            r = self.loss.residual(b, f, y[rows])
            total += self.loss.total(b, f, y[rows], r)
            self._add_force(force, a, x[rows], r, sigma)
        return total * (self._weight / x.shape[0]), -self._mean(force, a, inner, scale, x.shape[0])

    @_absurd_is_infinite
    def _force(self, theta: FloatArray, residual: Any, sigma: Sigma) -> FloatArray:
        """Gradient of E<f_i, r> of every row at a fixed residual, (m, P)."""
        w, a = self._split(theta)
        inner, scale = self._inner(w)
        force = self._backend.zeros(theta.shape)
        for rows in self._blocks(theta.shape[0]):
            x = self._x[rows]
            self._add_force(force, a, x, residual[rows], sigma((inner @ x.T).T))
        return self._mean(force, a, inner, scale, self.n_samples)

    def _add_force(self, force: Any, a: Any, x: Any, r: Any, sigma: tuple[Any, Any]) -> None:
        """Add sum_k (r_k . a) d sigma/dw at fixed |w|, and sum_k r_k sigma in units of `_inner`, to `force` (m, P)."""
        value, slope = sigma
        drive = (a @ r.T).T
        force[:, : self.n_inputs] += (drive * slope).T @ x
        force[:, self.n_inputs :] += value.T @ r

    def _mean(self, force: Any, a: Any, inner: Any, scale: Any, samples: int) -> FloatArray:
        """Forces of `_add_force` summed over samples (m, P) as a mean, in the units of theta. They lack what rounded
        kinks, whose widths go with |w|, add along w: sigma is homogeneous, so that a . dU/da = w . dU/dw."""
        d = self.n_inputs
        if self.kink > 0:
            on_w, on_a = force[:, :d], force[:, d:]
            if not bool((scale > SMALLEST).all()):  # no input weights: nothing moves them
                on_w *= scale > SMALLEST
            lacks = (a * on_a).sum(1) - (inner * on_w).sum(1)
            on_w += (4.0 * self._reach**2 * lacks)[:, None] * inner
            on_a *= scale
        return self._backend.numpy(force) * (self._weight / samples)

    def _values(self, theta: FloatArray, neurons: IntArray, rows: slice, leading: bool = False) -> Any:
        w, a = self._split(theta)
        w = self._awake(w)
        return self._unit(self._x[rows] @ w.T, self._sizes(w), leading)[0].T[:, :, None] * a[:, None, :]

    def _neuron_jacobian(self, theta: FloatArray, neurons: IntArray, rows: slice) -> Any:
        b, d = self._backend, self.n_inputs
        w, a = self._split(theta)
        w = self._awake(w)
        x, sizes = self._x[rows], self._sizes(w)
        lengths = _nonzero(sizes)
        z = x @ w.T
        value, slope = self._unit(z, sizes)
        radial = self._radial(z, value, slope, lengths)
        out = b.zeros((theta.shape[0], self.n_params, x.shape[0], self.n_outputs))
        tilt = slope.T[:, None, :] * x.T
        if radial is not None:
            tilt = tilt + (w / lengths[:, None])[:, :, None] * radial.T[:, None, :]
        out[:, :d] = tilt[..., None] * a[:, None, None, :]
        for k in range(self.n_outputs):
            out[:, d + k, :, k] = value.T
        return out.reshape(theta.size, x.shape[0], self.n_outputs)

    def _direction(self, a: FloatArray) -> str:
        if self.classes:
            if self.n_outputs == 1:
                return f"class {self.classes[int(a[0] > 0)]}"
            a = a - a.mean()  # what all outputs share tells no class from another
            k = int(np.argmax(a if a.size == 2 else np.abs(a)))  # of two classes, "not" one is the other
            return f"class {self.classes[k]}" if a[k] > 0 else f"not class {self.classes[k]}"
        k = int(np.argmax(np.abs(a)))
        sign = "+" if a[k] > 0 else "-"
        return sign if self.n_outputs == 1 else f"output {k} {sign}"


def _nonzero(sizes: Any) -> Any:
    """Sizes to divide by: 1 in place of 0, where the quotient is 0 anyway."""
    return sizes + (sizes == 0)
