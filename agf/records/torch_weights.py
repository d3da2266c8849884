"""The weights of a two-layer network that was written in torch: of a module, a state_dict, or a file of one."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agf.arrays import FloatArray, matrix, vector
from agf.errors import DataError, FileError, explain, shown

#: torch's modules by their class -> the activation of `TwoLayer`.
_ACTIVATIONS = {
    "ReLU": "relu", "LeakyReLU": "leaky-relu", "Tanh": "tanh", "GELU": "gelu", "SiLU": "silu", "Identity": "linear",
}  # fmt: skip
#: Largest difference between a module and the network read off it, both in float64, relative to its outputs. Derived:
#: its root; constants inside a forward pass may be known to no more.
_AGREES = 1e-8


@dataclass(frozen=True)
class Weights:
    """A two-layer network f(x) = sum_i a_i sigma(w_i . x + b_i) + b.

    theta : (H, d + c), or (H, d + 1 + c) with hidden biases: rows (w, a) or (w, b, a); then (0, b) with an output bias.
    biased, output : whether there are hidden biases, and an output bias.
    activation, leak : sigma, None where the weights alone do not tell.
    """

    theta: FloatArray
    biased: bool
    output: bool = False
    activation: str | None = None
    leak: float | None = None

    @property
    def width(self) -> int:
        """Number of neurons H."""
        return self.theta.shape[0] - self.output

    @property
    def bias(self) -> str:
        """In the words of `TwoLayer`."""
        return (("none", "output"), ("hidden", "both"))[self.biased][self.output]


def read(model: Any) -> Weights:
    """The weights of a module, a state_dict, or a file of one. Raises DataError or FileError for another network."""
    if isinstance(model, str | os.PathLike):
        model = _load(model)
    if isinstance(model, Mapping):
        return _of_tensors({str(name): value for name, value in model.items()})
    if isinstance(model, type) or not (hasattr(model, "state_dict") and hasattr(model, "modules")):
        raise DataError(
            explain("this is no torch network.", where="from_torch", found=f"{type(model).__name__} {shown(model)}",
                    expected="an nn.Module, a state_dict, or the path of a file of one",
                    remedy="Call it: a network, not its class." if isinstance(model, type) else "")
        )  # fmt: skip
    return _of_module(model)


def _of_module(model: Any) -> Weights:
    """In the order, and with the activation, in which its forward pass uses what it holds: that decides."""
    layers = [module for module in model.modules() if not list(module.children())]
    names = [type(layer).__name__ for layer in layers if type(layer).__name__ != "Flatten"]
    inside = [layer for layer in layers if type(layer).__name__ in _ACTIVATIONS]
    if names.count("Linear") != 2 or len(names) != 2 + len(inside) or len(inside) > 1:
        raise DataError(
            explain("the network has other layers than two Linear ones around an activation.", where="from_torch",
                    found=", ".join(names), expected="Linear, one of " + ", ".join(_ACTIVATIONS) + ", Linear")
        )  # fmt: skip
    if inside and getattr(inside[0], "approximate", "none") != "none":
        raise DataError(explain("GELU(approximate='tanh') is not `gelu`.", where="from_torch", remedy="Use GELU()."))
    tensors = dict(model.state_dict())
    first, second = (layer for layer in layers if type(layer).__name__ == "Linear")
    orders = [tensors] if first.out_features == second.in_features else []
    if second.out_features == first.in_features:  # perhaps defined in another order than used
        orders.append(_swapped(tensors))
    why = ""
    for tried in orders or [tensors]:
        found, outputs = _of_tensors(tried), (second if tried is tensors else first).out_features
        for name, function in _functions(inside).items():
            why = _differs(model, function, found, outputs)
            if not why:
                leak = float(inside[0].negative_slope) if name == "leaky-relu" else None
                return replace(found, activation=name, leak=leak)
    raise DataError(
        explain(why, where="from_torch", expected="a . sigma(W x + b), sigma one of " + ", ".join(_functions(inside)),
                remedy="Give its state_dict, with rows scaled as they act, or write it as an agf.AutogradProblem.")
    )  # fmt: skip


def _functions(inside: list[Any]) -> dict[str, Any]:
    """Activations, by name, that a network with this module inside may have: that, else any a forward pass can call."""
    from torch import nn

    modules = inside or [getattr(nn, name)() for name in _ACTIVATIONS if name != "LeakyReLU"]
    return {_ACTIVATIONS[type(module).__name__]: module for module in modules}


def _swapped(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """With the second layer first."""
    last = next(name for name in reversed(list(tensors)) if getattr(tensors[name], "ndim", 0) == 2).rpartition(".")[0]
    return dict(sorted(tensors.items(), key=lambda item: item[0].rpartition(".")[0] != last))


def _of_tensors(tensors: Mapping[str, Any]) -> Weights:
    where = "from_torch"
    arrays = {name: value for name, value in tensors.items() if getattr(value, "ndim", 0) in (1, 2)}
    layers = [name for name, value in arrays.items() if value.ndim == 2]
    biases = {name.rpartition(".")[0]: name for name, value in arrays.items() if value.ndim == 1}
    if len(layers) != 2 or len(arrays) != len(tensors):
        found = ", ".join(f"{name} {tuple(getattr(value, 'shape', ()))}" for name, value in tensors.items())
        within = [name for name, value in tensors.items() if isinstance(value, Mapping)]
        raise DataError(
            explain("these are not the weights of a two-layer network.", where=where, found=found or "none",
                    expected="two matrices, (H, d) and (c, H), and perhaps biases (H,) and (c,)",
                    remedy=f"Give the entry {within[0]!r} if the weights are there." if within else "")
        )  # fmt: skip
    first, second = (matrix(arrays[name], name, where=where) for name in layers)
    width = first.shape[0]
    if second.shape[1] != width:
        raise DataError(
            explain(f"{layers[0]!r} has {width} neurons, and {layers[1]!r} takes {second.shape[1]}.", where=where)
        )
    last = biases.get(layers[1].rpartition(".")[0])
    if layers[0].rpartition(".")[0] == layers[1].rpartition(".")[0]:
        last = None  # names without layers: a bias is that of the first
    hidden = biases.get(layers[0].rpartition(".")[0])
    rows = [first] if hidden is None else [first, vector(arrays[hidden], hidden, where=where, length=width)[:, None]]
    theta = np.hstack([*rows, second.T])
    if last is not None:
        row = np.zeros((1, theta.shape[1]))
        row[0, theta.shape[1] - second.shape[0] :] = vector(arrays[last], last, where=where, length=second.shape[0])
        theta = np.concatenate([theta, row])
    return Weights(theta, hidden is not None, last is not None)


def _differs(model: Any, activation: Any, found: Weights, outputs: int) -> str:
    """Why its forward pass is not a . sigma(W x + b) with these weights, in float64 whatever it holds; or nothing."""
    import torch

    inputs = found.theta.shape[1] - outputs - found.biased
    x = torch.as_tensor(np.random.default_rng(0).standard_normal((4, inputs)))
    rows = torch.as_tensor(found.theta)
    try:
        with torch.no_grad():
            after = inputs + found.biased
            bias, rows = (rows[-1, after:] if found.output else 0.0), rows[: found.width]
            z = x @ rows[:, :inputs].T + (rows[:, inputs] if found.biased else 0.0)
            here = activation(z) @ rows[:, after:] + bias
            there = copy.deepcopy(model).to("cpu", torch.float64)(x).reshape(here.shape)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a forward pass of somebody else does
        return f"the network cannot be called on {inputs} inputs ({type(error).__name__}: {error})."
    same = bool((here - there).abs().max() <= _AGREES * there.abs().max() + 1e-300)
    return "" if same else "the network computes something else than a . sigma(W x + b) with its weights."


def _load(path: str | os.PathLike[str]) -> Any:
    """A file of torch.save, read without executing anything in it."""
    try:
        import torch
    except ImportError:
        raise FileError(explain(f"{str(path)!r} is read by torch.", remedy="pip install torch")) from None
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged or hostile file provokes
        words = " ".join(str(error).split())[:200]
        if words.startswith("Weights only load failed"):
            words = "it holds more than tensors, which is not executed"
        raise FileError(
            explain(f"cannot read {str(path)!r} as weights ({type(error).__name__}: {words}).",
                    expected="a file of torch.save(model.state_dict(), path)")
        ) from None  # fmt: skip
