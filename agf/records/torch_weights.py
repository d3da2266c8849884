"""The weights of a two-layer network that was written in torch: of a module, a state_dict, or a file of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agf.arrays import FloatArray, matrix, vector
from agf.errors import DataError, FileError, explain

#: torch's modules by their class -> the activation of `TwoLayer`.
_ACTIVATIONS = {
    "ReLU": "relu", "LeakyReLU": "leaky-relu", "Tanh": "tanh", "GELU": "gelu", "SiLU": "silu", "Identity": "linear",
}  # fmt: skip
#: Largest difference between a module and the network read off it, relative to its outputs; torch's float32 has 1e-7.
_AGREES = 1e-4


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
    if not (hasattr(model, "state_dict") and hasattr(model, "modules")):
        raise DataError(
            explain(f"a {type(model).__name__} is no torch network.", where="from_torch",
                    expected="an nn.Module, a state_dict, or the path of a file of one")
        )  # fmt: skip
    layers = [module for module in model.modules() if not list(module.children())]
    names = [type(layer).__name__ for layer in layers if type(layer).__name__ != "Flatten"]
    hidden = names[1:-1] or ["Identity"]
    if len(names) not in (2, 3) or names[0] != "Linear" or names[-1] != "Linear" or hidden[0] not in _ACTIVATIONS:
        raise DataError(
            explain("the network has other layers than two Linear ones around an activation.", where="from_torch",
                    found=", ".join(names), expected="Linear, one of " + ", ".join(_ACTIVATIONS) + ", Linear")
        )  # fmt: skip
    module = [layer for layer in layers if type(layer).__name__ == hidden[0]][:1]
    if module and getattr(module[0], "approximate", "none") != "none":
        raise DataError(explain("GELU(approximate='tanh') is not `gelu`.", where="from_torch", remedy="Use GELU()."))
    leak = float(module[0].negative_slope) if module and hidden[0] == "LeakyReLU" else None
    found = _of_tensors(dict(model.state_dict()), _ACTIVATIONS[hidden[0]], leak)
    _agree(model, module[0] if module else None, found)
    return found


def _of_tensors(tensors: Mapping[str, Any], activation: str | None = None, leak: float | None = None) -> Weights:
    where = "from_torch"
    arrays = {name: value for name, value in tensors.items() if getattr(value, "ndim", 0) in (1, 2)}
    layers = [name for name, value in arrays.items() if value.ndim == 2]
    biases = {name.rpartition(".")[0]: name for name, value in arrays.items() if value.ndim == 1}
    if len(layers) != 2 or len(arrays) != len(tensors):
        found = ", ".join(f"{name} {tuple(getattr(value, 'shape', ()))}" for name, value in tensors.items())
        raise DataError(
            explain("these are not the weights of a two-layer network.", where=where, found=found or "none",
                    expected="two matrices, (H, d) and (c, H), and perhaps biases (H,) and (c,)")
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
    return Weights(theta, hidden is not None, last is not None, activation, leak)


def _agree(model: Any, activation: Any, found: Weights) -> None:
    """Refuse a module whose forward pass does something else with these weights."""
    import torch

    outputs = next(p for p in reversed(list(model.parameters())) if p.ndim == 2).shape[0]
    inputs = found.theta.shape[1] - outputs - found.biased
    like = next(model.parameters())
    x = torch.as_tensor(np.random.default_rng(0).standard_normal((4, inputs)), dtype=like.dtype, device=like.device)
    rows = torch.as_tensor(found.theta, dtype=like.dtype, device=like.device)
    with torch.no_grad():
        after = inputs + found.biased
        bias, rows = (rows[-1, after:] if found.output else 0.0), rows[: found.width]
        z = x @ rows[:, :inputs].T + (rows[:, inputs] if found.biased else 0.0)
        here = (z if activation is None else activation(z)) @ rows[:, after:] + bias
        there = model(x).reshape(here.shape)
    if not bool((here - there).abs().max() <= _AGREES * there.abs().max() + 1e-300):
        raise DataError(
            explain("the network computes something else than a . sigma(W x + b) with its weights.", where="from_torch",
                    remedy="Give its state_dict, with rows scaled as they act, or write it as an agf.AutogradProblem.")
        )  # fmt: skip


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
        raise FileError(
            explain(f"cannot read {str(path)!r} as weights ({type(error).__name__}: {words}).",
                    expected="a file of torch.save(model.state_dict(), path)")
        ) from None  # fmt: skip
