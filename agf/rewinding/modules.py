"""A torch module as the subject of a pipeline: all its numbers in one row, masks by `torch.nn.utils`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agf.arrays import BoolArray, FloatArray
from agf.errors import DataError, RequestError, explain
from agf.init import Init
from agf.numerics.backend import import_torch
from agf.rewinding.holds import hold_of
from agf.rewinding.subject import Subject, Train, takes


class ModuleSubject(Subject):
    """A module and the user's training function; theta is (1, N), every parameter and buffer of floats in order.

    Parameters of two dimensions and more are weights, and may be pruned; biases, parameters of normalization layers and
    buffers are none, but are rewound with the weights.

    Parameters
    ----------
    module : torch.nn.Module
        Trained in place; it ends with the weights of the last cycle.
    train : callable
        train(module), or train(module, until=moment) where a method goes back to a moment, or train(module, budget=k)
        for k times a cycle's training. May return the loss at its end.
    score : callable or None
        (module, theta) -> float.
    loss : callable or None
        loss(module) -> tensor, whose gradient scores weights by "snip".
    inputs : sequence of int or None
        Shape of one input, for "synflow".
    hold : str
        What keeps masked weights at 0 in training: "prune" or "parametrization".
    """

    def __init__(
        self,
        module: Any,
        train: Train | None,
        score: Callable[[Any, FloatArray], float] | None,
        loss: Callable[[Any], Any] | None,
        inputs: Sequence[int] | None = None,
        hold: str = "prune",
    ) -> None:
        import_torch("rewinding a module")
        if not callable(train):
            raise RequestError(
                explain("a module needs a training function.", where="rewind", expected="train=f, f(module) trains it")
            )
        self.module, self.train, self._score, self._objective = module, train, score, loss
        self._inputs = None if inputs is None else _shape(inputs)
        self.name, self.arguments, self._loss = type(module).__name__, {}, np.nan
        _refuse(module)
        parameters = list(module.named_parameters())
        buffers = [(name, value) for name, value in module.named_buffers() if value.is_floating_point()]
        self._names = [name for name, _ in parameters + buffers]
        self._pruned = [name for name, value in parameters if value.ndim > 1]
        if not self._pruned:
            raise RequestError(explain("this module has no weight matrix to prune.", where="rewind"))
        self._hold = hold_of(hold, module)
        numbers = [np.full(value.numel(), k) for k, (_, value) in enumerate(parameters + buffers)]
        self.layers = np.concatenate(numbers)[None].astype(np.int64)
        self.weights = np.isin(self.layers, [self._names.index(name) for name in self._pruned])
        self.may = self.weights
        self.init = Init.from_params(self._read(), kind="module")

    def trained(self, start: FloatArray, mask: BoolArray, budget: int) -> FloatArray:
        self._under(start, mask, {} if budget == 1 else {"budget": budget})
        return self._read()

    def early(self, moment: float) -> FloatArray:
        self._under(self.init.params(), np.ones_like(self.may), {"until": moment})
        return self._read()

    def measure(self, end: FloatArray) -> tuple[float, float, float]:
        self._write(end)
        return self._loss, np.nan, np.nan if self._score is None else float(self._score(self.module, end))

    def score(self, theta: FloatArray, by: str) -> FloatArray:
        if by == "magnitude":
            return np.abs(theta)
        if by == "synflow" and self._inputs is not None:
            return np.abs(theta) * self._flow(theta)
        if by == "snip" and self._objective is not None:
            return np.abs(theta * self._gradient(theta))
        raise RequestError(
            explain(f"a module has no score {by!r} by itself.", where="rewind",
                    expected="magnitude, random, snip with loss=f, f(module) a tensor, or synflow with inputs=(...)")
        )  # fmt: skip

    def _gradient(self, theta: FloatArray) -> FloatArray:
        """(1, N) gradient of the user's loss at these weights; 0 for buffers."""
        import torch

        assert self._objective is not None
        self._write(theta)
        with torch.enable_grad():
            loss = self._objective(self.module)
        if not (isinstance(loss, torch.Tensor) and loss.ndim == 0 and loss.requires_grad):
            raise RequestError(
                explain("`loss` does not return a tensor of one number with a gradient.", where="rewind")
            )
        return self._slopes(self.module, loss)

    def _flow(self, theta: FloatArray) -> FloatArray:
        """(1, N) gradient of R = 1^T prod |W_l| 1 in float64, of a copy; biases are 0, and other numbers positive.

        It is R where activations are the identity on positive numbers.
        """
        import copy

        import torch

        assert self._inputs is not None
        self._write(theta)
        network = copy.deepcopy(self.module).double().eval()
        with torch.no_grad():
            for name, value in (*network.named_parameters(), *network.named_buffers()):
                if name.rpartition(".")[2] in ("bias", "running_mean"):
                    value.zero_()
                elif value.is_floating_point():
                    value.abs_()
        device = next(network.parameters()).device
        try:
            with torch.enable_grad():
                total = network(torch.ones((1, *self._inputs), dtype=torch.float64, device=device)).sum()
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise RequestError(
                explain("the module does not take an input of ones of this shape.", where="rewind",
                        found=f"inputs={self._inputs}: {first}")
            ) from None  # fmt: skip
        if not bool(torch.isfinite(total)):
            raise RequestError(explain("the sum over all paths does not fit in float64.", where='rewind by="synflow"'))
        return self._slopes(network, total)

    def _slopes(self, module: Any, value: Any) -> FloatArray:
        """(1, N) gradient of a number in the parameters of a module like this one; 0 for buffers."""
        import torch

        parameters = dict(module.named_parameters())  # by name: pruning, once removed, registers weights last
        weights = [parameters[name] for name in self._names if name in parameters]
        free = [w for w in weights if w.requires_grad]
        slopes = dict(zip(map(id, free), torch.autograd.grad(value, free, allow_unused=True), strict=True))
        parts = [slopes.get(id(w)) for w in weights]  # none of what is frozen, or not used
        flat = [np.zeros(w.numel()) if g is None else g.detach().cpu().double().numpy().ravel()
                for w, g in zip(weights, parts, strict=True)]  # fmt: skip
        out = np.zeros(self.may.size)
        out[: sum(part.size for part in flat)] = np.concatenate(flat)
        return out[None]

    def mask(self, given: Any) -> BoolArray:
        mask = np.asarray(given)
        if mask.shape != self.may.shape or not np.isin(mask, (0, 1)).all():
            raise DataError(
                explain(f"the mask has shape {mask.shape}.", where="rewind",
                        expected=f"{self.may.shape}, of 0 and 1, every number of the module in order")
            )  # fmt: skip
        if not mask[self.weights].any():
            raise DataError(explain("the mask kills all weights.", where="rewind", expected="some entry that is 1"))
        return mask.astype(bool) | ~self.weights

    def leave(self, end: FloatArray) -> None:
        self._write(end)

    def balanced(self, start: FloatArray) -> FloatArray:
        raise RequestError(explain("a module has no rows (w, a) to balance.", where="rewind rebalance=True"))

    def _under(self, start: FloatArray, mask: BoolArray, options: dict[str, Any]) -> None:
        """Train from these weights with masks in place, which are then made permanent."""
        import torch

        self._write(start * mask)
        held = []
        for name in self._pruned:
            rows = mask[self.layers == self._names.index(name)]
            if not rows.all():
                owner, _, own = name.rpartition(".")
                layer = self.module.get_submodule(owner)
                weight = getattr(layer, own)
                self._hold.put(layer, own, torch.as_tensor(rows.reshape(weight.shape), device=weight.device))
                held.append((layer, own))
        try:
            takes(self.train, options, "module")
            loss = self.train(self.module, **options)
        finally:
            for layer, own in held:
                self._hold.remove(layer, own)
        try:
            self._loss = np.nan if loss is None else float(loss)
        except (TypeError, ValueError):
            raise RequestError(
                explain("the training function returns no number.", where="rewind", found=type(loss).__name__,
                        expected="its loss at the end, or nothing")
            ) from None  # fmt: skip

    def _values(self) -> list[Any]:
        values = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        return [values[name] for name in self._names]

    def _read(self) -> FloatArray:
        flat = [np.array(value.detach().cpu().double().numpy(), dtype=np.float64).ravel() for value in self._values()]
        out = np.concatenate(flat)[None]
        if not np.isfinite(out).all():
            raise RequestError(explain("the module has weights that are not finite.", where="rewind"))
        return out

    def _write(self, theta: FloatArray) -> None:
        import torch

        for k, value in enumerate(self._values()):
            part = torch.as_tensor(theta[self.layers == k].reshape(tuple(value.shape)))
            with torch.no_grad():
                value.copy_(part)


def _shape(given: Any) -> tuple[int, ...]:
    """Shape of one input, checked. Raises RequestError."""
    try:
        sizes = tuple(given)
        good = all(size == int(size) and size >= 1 for size in sizes)
    except (TypeError, ValueError):
        good = False
    if not good:
        raise RequestError(
            explain("`inputs` is no shape of one input.", where="rewind", found=repr(given),
                    expected="whole numbers, such as (64,) or (3, 32, 32)")
        )  # fmt: skip
    return tuple(int(size) for size in sizes)


def is_module(given: Any) -> bool:
    """Whether this is a torch module, without importing torch."""
    return hasattr(given, "named_parameters") and hasattr(given, "get_submodule")


def _refuse(module: Any) -> None:
    """Raise RequestError for shared parameters, and for weights that are computed from others."""
    seen: dict[int, str] = {}
    for name, value in module.named_parameters(remove_duplicate=False):
        if id(value) in seen:
            raise RequestError(
                explain(f"{name!r} and {seen[id(value)]!r} are one parameter.", where="rewind",
                        remedy="Give each layer its own: a mask for one of them would be a mask for both.")
            )  # fmt: skip
        seen[id(value)] = name
        if value.is_complex():
            raise RequestError(explain(f"{name!r} is complex.", where="rewind", expected="real parameters"))
        if "parametrizations" in name.split(".") or name.endswith("_orig"):
            raise RequestError(
                explain(f"{name!r} is what another weight is computed from.", where="rewind",
                        remedy="Remove parametrizations and pruning first (torch.nn.utils).")
            )  # fmt: skip
