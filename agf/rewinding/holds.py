"""What keeps masked weights of a torch module at 0 while it is trained: pruning, or a parametrization."""

from __future__ import annotations

import importlib
from typing import Any

from agf.errors import RequestError, explain

#: Names of both.
HOLDS = ("prune", "parametrization")


class Pruned:
    """Masks by `torch.nn.utils.prune`: a weight is computed from its original before every forward pass."""

    def put(self, layer: Any, name: str, mask: Any) -> None:
        """Hold one weight."""
        importlib.import_module("torch.nn.utils.prune").custom_from_mask(layer, name, mask)

    def remove(self, layer: Any, name: str) -> None:
        """The masked weight as a parameter again."""
        importlib.import_module("torch.nn.utils.prune").remove(layer, name)


class Parametrized:
    """Masks by `torch.nn.utils.parametrize`: a weight is computed whenever it is read, as copies and penalties do."""

    @classmethod
    def of(cls, module: Any) -> Parametrized:
        """For a module; RequestError where some layer reads its weights past a parametrization."""
        from torch import nn

        for name, layer in module.named_modules():
            if isinstance(layer, nn.RNNBase):
                raise RequestError(
                    explain(f"{name or type(layer).__name__!r} keeps its weights in a list of its own, where no "
                            "parametrization is seen.", where='rewind hold="parametrization"',
                            remedy='Use hold="prune".')
                )  # fmt: skip
        return cls()

    def put(self, layer: Any, name: str, mask: Any) -> None:
        """Hold one weight."""
        from torch import nn
        from torch.nn.utils import parametrize

        class Masked(nn.Module):
            """A weight times a mask."""

            def forward(self, weight: Any) -> Any:
                return weight * mask

        parametrize.register_parametrization(layer, name, Masked())

    def remove(self, layer: Any, name: str) -> None:
        """The masked weight as a parameter again."""
        from torch.nn.utils import parametrize

        parametrize.remove_parametrizations(layer, name, leave_parametrized=True)


def hold_of(name: str, module: Any) -> Pruned | Parametrized:
    """By name. Raises RequestError for an unknown one, and for a module on which it cannot be."""
    if name not in HOLDS:
        raise RequestError(explain(f"unknown way to hold masks {name!r}.", where="rewind", expected=" or ".join(HOLDS)))
    return Pruned() if name == "prune" else Parametrized.of(module)
