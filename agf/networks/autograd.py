"""A network from one function: write `neuron(theta, x)` in torch, and everything the engine needs is derived.

`neuron` is written for one neuron and one input; torch.func batches it over neurons and samples, autograd gives
gradients and Hessian products, and the leading order at the origin is read off by scaling the weights down. torch is
imported when a problem is built.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray
from agf.errors import ProblemError, explain
from agf.networks.sampled import MAX_ORDER, SampledProblem
from agf.networks.scaling import Scaling, measure_scaling
from agf.networks.written_neuron import probe
from agf.numerics.backend import import_torch

#: Neurons that the leading order is measured on. Cost: they must agree.
_PROBES = 16


class AutogradProblem(SampledProblem):
    """Two-layer network whose neuron is a torch function.

    Parameters
    ----------
    X : array_like, shape (n, ...)
        Inputs.
    Y : array_like, shape (n,) or (n, c)
        Targets, or class labels for the classification losses.
    width : int
        Number of neurons.
    loss : str
        As for `TwoLayer`.
    device : str
        Torch device.

    Attributes
    ----------
    name : str
        A word for reports. A subclass must define it.
    n_params : int
        P; n_inputs + n_outputs, the row (w, a), where a subclass does not define it.
    degree : int
        Measured; a subclass may define a number to be checked against the measured one.
    smooth : bool
        False where the gradient of the neuron jumps.

    Raises
    ------
    RequestError
        Without torch.
    DataError
        For bad data.
    ProblemError
        At first use, for a neuron that breaks the above: the message names the method, what it returned and the likely
        cause.

    Methods
    -------
    neuron(theta, x)
        Output of one neuron on one input, a scalar or (c,) tensor, from theta (P,) and x, one row of the inputs;
        differentiable, and zero at theta = 0. A subclass must define it. It is batched with torch.func.vmap, so
        branches on values must be written with torch.where.
    neuron_inputs(x, neurons)
        Each neuron's own inputs g_i(x), a tensor (m, k, ...), from the inputs x (k, ...) of k samples and the indices
        (m,) of the neurons; without it all neurons read x. Neurons then have an identity.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "neuron_inputs" in cls.__dict__ and "interchangeable" not in cls.__dict__:
            cls.interchangeable = False

    def __init__(self, X: Any, Y: Any, width: int = 10, loss: str = "half-squared", device: str = "cpu") -> None:
        import_torch(f"problem {self.name!r}")
        super().__init__(X, Y, width, loss, device or "cpu")

    def neuron(self, theta: Any, x: Any) -> Any:
        """Output of one neuron on one input. To be written by the subclass."""
        raise ProblemError(
            explain(
                "`neuron(theta, x)` is not defined.",
                where=f"problem {self.name!r}",
                remedy="Write it in torch, for one neuron and one input.",
            )
        )

    neuron_inputs: Any = None

    @property
    def n_params(self) -> int:  # type: ignore[override]
        """P, parameters a neuron."""
        return self.n_inputs + self.n_outputs

    @property
    def degree(self) -> int:  # type: ignore[override]
        """kappa, measured: the power of s that f(s theta) follows as s -> 0."""
        return self.scaling.degree

    @cached_property
    def scaling(self) -> Scaling:
        """Leading order of the neuron, measured on random weights and every sample.

        Raises
        ------
        ProblemError
            Without one.
        """
        probe(self)
        theta = np.random.default_rng(0).standard_normal((_PROBES, self.n_params))
        theta /= np.linalg.norm(theta, axis=1, keepdims=True)
        neurons = np.arange(_PROBES) % self.width
        found = measure_scaling(lambda scale: self.at(theta, neurons, scale), f"{type(self).__name__}.neuron")
        declared = _declared_degree(type(self))
        if declared is not None and declared != found.degree:
            raise ProblemError(
                explain(
                    f"`degree` is declared as {declared}.",
                    where=type(self).__name__,
                    expected=f"{found.degree}, the power that neuron(s theta, x) follows as s -> 0",
                    remedy="Leave `degree` out: it is measured.",
                )
            )
        return found

    # -- contract ---------------------------------------------------------------------------------------------

    def loss_grad(self, theta: FloatArray, neurons: IntArray) -> tuple[float, FloatArray]:
        """Mean loss of the network of these neurons, and its gradient: (float, (m, P))."""
        return self._loss_grad(theta, neurons, self._x, self._y)

    def batch_loss_grad(self, theta: FloatArray, neurons: IntArray, rows: IntArray) -> tuple[float, FloatArray]:
        """`loss_grad` on these rows of the data alone (mean over them); rows (k,) in 0..n_samples-1."""
        return self._loss_grad(theta, neurons, self._x[rows], self._y[rows])

    def utility(self, theta: FloatArray, neurons: IntArray, residual: Any) -> tuple[FloatArray, FloatArray]:
        """E<f_i, r> with f_i at leading order, and its gradient: ((m,), (m, P))."""
        scale = np.full(theta.shape[0], self.scaling.scale)
        return self._work(theta, neurons, scale, residual)

    def pull(self, directions: FloatArray, log_norms: FloatArray, neurons: IntArray, residual: Any) -> FloatArray:
        """-grad L / rho^(degree - 1): exact above the scale of the leading order, which holds below it."""
        if self.scaling.homogeneous:
            return self.utility(directions, neurons, residual)[1]
        scale = np.exp(np.maximum(log_norms, math.log(self.scaling.scale)))
        return self._work(directions, neurons, scale, residual)[1]

    def hessian_product(self, theta: FloatArray, neurons: IntArray, vector: FloatArray) -> FloatArray:
        """Hessian of the loss times a vector (m, P), by differentiating the gradient: (m, P)."""
        torch = self._backend.xp
        point = self._backend.array(theta).clone().requires_grad_(True)
        along = self._backend.array(vector)
        out = torch.zeros_like(point)
        for rows in self._blocks(self._cost(theta)):
            total = self._total(point, neurons, self._x[rows], self._y[rows])
            (grad,) = torch.autograd.grad(total, point, create_graph=True)
            if grad.requires_grad:
                out += torch.autograd.grad((grad * along).sum(), point)[0]
        return self._backend.numpy(out) / self.n_samples

    def hessian(self, theta: FloatArray, neurons: IntArray) -> FloatArray | None:
        """Dense Hessian of the loss, (mP, mP), one product a column; None above order 4,000."""
        if theta.size > MAX_ORDER:
            return None
        columns = np.eye(theta.size).reshape(theta.size, *theta.shape)
        out = np.array([self.hessian_product(theta, neurons, column).ravel() for column in columns])
        return 0.5 * (out + out.T)

    # -- derived ----------------------------------------------------------------------------------------------

    def _forward(self, theta: Any, neurons: IntArray, x: Any) -> Any:
        """Outputs (m, k, c) of neurons theta (m, P) on inputs x (k, ...), differentiable."""
        out = self._batched(self.neuron, theta, neurons, x)
        return out.reshape(theta.shape[0], x.shape[0], self.n_outputs)

    def _batched(self, function: Any, theta: Any, neurons: IntArray, x: Any) -> Any:
        """function(theta_i, g_i(x_k)) for every neuron and sample, (m, k, ...)."""
        torch = self._backend.xp
        if theta.shape[0] == 0:
            return theta.new_zeros((0, x.shape[0], self.n_outputs))
        inputs = x
        if self.neuron_inputs is not None:
            try:
                inputs = self.neuron_inputs(x, torch.as_tensor(np.asarray(neurons), device=x.device))
            except IndexError as error:
                raise ProblemError(
                    explain(
                        f"it has no inputs for some of {self.width} neurons ({error}).",
                        where=f"{type(self).__name__}.neuron_inputs",
                        remedy="Give the network as many neurons as there are inputs (width=).",
                    )
                ) from error
            if not torch.is_tensor(inputs) or inputs.shape[:2] != (theta.shape[0], x.shape[0]):
                raise ProblemError(
                    explain(
                        "wrong shape." if torch.is_tensor(inputs) else "the result is not a torch tensor.",
                        where=f"{type(self).__name__}.neuron_inputs",
                        found=tuple(inputs.shape) if hasattr(inputs, "shape") else type(inputs).__name__,
                        expected=f"({theta.shape[0]}, {x.shape[0]}, ...), one row a neuron and one column a sample",
                    )
                )
        over_samples = torch.func.vmap(function, in_dims=(None, 0))
        return torch.func.vmap(over_samples, in_dims=(0, None if inputs is x else 0))(theta, inputs)

    def _total(self, theta: Any, neurons: IntArray, x: Any, y: Any) -> Any:
        """Sum of the losses of the rows, a differentiable scalar."""
        return self.loss.value(self._backend, self._forward(theta, neurons, x).sum(0), y).sum()

    def _loss_grad(self, theta: FloatArray, neurons: IntArray, x: Any, y: Any) -> tuple[float, FloatArray]:
        self.scaling  # noqa: B018  the neuron is checked once, before it is trusted
        torch = self._backend.xp
        point = self._backend.array(theta).clone().requires_grad_(True)
        total, grad = 0.0, torch.zeros_like(point)
        for rows in self._blocks(self._cost(theta), x.shape[0]):
            part = self._total(point, neurons, x[rows], y[rows])
            total += float(part.detach())
            if theta.shape[0]:
                grad += torch.autograd.grad(part, point)[0]
        return total / x.shape[0], self._backend.numpy(grad) / x.shape[0]

    def _work(
        self, theta: FloatArray, neurons: IntArray, scale: FloatArray, residual: Any
    ) -> tuple[FloatArray, FloatArray]:
        """E<f_i(s_i theta_i), r> / s_i^degree and its gradient in theta: ((m,), (m, P))."""
        torch = self._backend.xp
        point = self._backend.array(theta).clone().requires_grad_(True)
        s = self._backend.array(scale)
        power = s**self.scaling.degree
        value, grad = torch.zeros_like(s), torch.zeros_like(point)
        for rows in self._blocks(self._cost(theta)):
            out = self._forward(s[:, None] * point, neurons, self._x[rows])
            part = (out * residual[rows]).sum((1, 2)) / power
            value += part.detach()
            if theta.shape[0]:
                grad += torch.autograd.grad(part.sum(), point)[0]
        return self._backend.numpy(value) / self.n_samples, self._backend.numpy(grad) / self.n_samples

    def _values(self, theta: FloatArray, neurons: IntArray, rows: slice, leading: bool = False) -> Any:
        scale = self.scaling.scale if leading else 1.0
        with self._backend.xp.no_grad():
            return (
                self._forward(scale * self._backend.array(theta), neurons, self._x[rows]) / scale**self.scaling.degree
            )

    def _neuron_jacobian(self, theta: FloatArray, neurons: IntArray, rows: slice) -> Any:
        x = self._x[rows]
        slopes = self._backend.xp.func.jacrev(self.neuron)
        out = self._batched(slopes, self._backend.array(theta), neurons, x)
        out = out.reshape(theta.shape[0], x.shape[0], self.n_outputs, self.n_params).permute(0, 3, 1, 2)
        return out.reshape(theta.size, x.shape[0], self.n_outputs).detach()

    def _cost(self, theta: FloatArray) -> int:
        """Numbers held a sample: every neuron keeps its inputs and outputs for the backward pass."""
        return theta.shape[0] * (self.n_inputs + self.n_outputs)

    def at(self, theta: FloatArray, neurons: IntArray, scale: float) -> FloatArray:
        """f(s theta) at s = `scale`, on at most 256 samples, flattened."""
        with self._backend.xp.no_grad():
            out = self._forward(scale * self._backend.array(theta), neurons, self._x[:256])
        return self._backend.numpy(out).ravel()


def _declared_degree(cls: type) -> int | None:
    for base in cls.__mro__:
        if base is AutogradProblem:
            return None
        if isinstance(base.__dict__.get("degree"), int):
            return int(base.__dict__["degree"])
    return None
