"""What a neuron that a user wrote in torch must return: it is called once plainly and once batched, and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agf.errors import ProblemError, explain
from agf.networks.scaling import size

if TYPE_CHECKING:
    from agf.networks.autograd import AutogradProblem

_NONFINITE = "log or sqrt of a negative number, or a division by zero"
_DETACHED = ".detach(), torch.no_grad() or torch.tensor(...) in the neuron"
_STATE = "randomness or state in the neuron"


def probe(problem: AutogradProblem) -> None:
    """Call the neuron once plainly and once batched, and explain what is wrong with what it returns."""
    torch = problem._backend.xp
    where = f"{type(problem).__name__}.neuron"
    theta = problem._backend.array(np.random.default_rng(1).standard_normal((2, problem.n_params))).requires_grad_(True)
    index = np.arange(2) % problem.width
    x = problem._x[:2]
    if problem.neuron_inputs is not None:
        x = problem.neuron_inputs(x, torch.as_tensor(index))[0]
    before = theta.detach().clone(), x.detach().clone()

    def refuse(what: str, found: object = None, expected: str = "", cause: str = "") -> ProblemError:
        return ProblemError(
            explain(
                what, where=where, found=found, expected=expected, remedy=f"Likely cause: {cause}." if cause else ""
            )
        )

    try:
        with torch.enable_grad():
            out = problem.neuron(theta[0], x[0])
    except ProblemError:
        raise
    except Exception as error:
        raise refuse(
            f"it failed on theta {tuple(theta[0].shape)} and x {tuple(x[0].shape)} ({error}).",
            cause="a slice of theta that does not match P and the inputs, or an in-place change of theta",
        ) from error
    if not torch.is_tensor(out):
        raise refuse(
            "the result is not a torch tensor.", type(out).__name__, "a torch tensor",
            "a numpy function, .item() or float() in the neuron",
        )  # fmt: skip
    if tuple(out.shape) not in {(problem.n_outputs,), *([()] if problem.n_outputs == 1 else [])}:
        raise refuse(
            "wrong shape for one neuron and one input.", tuple(out.shape),
            f"({problem.n_outputs},)" + (" or a scalar" if problem.n_outputs == 1 else ""),
            "the neuron was written for a batch, or its output weights do not match the columns of Y",
        )  # fmt: skip
    if out.dtype != torch.float64:
        raise refuse(
            f"the result is {str(out.dtype).removeprefix('torch.')}.", None, "float64",
            "a constant tensor made without dtype=theta.dtype",
        )  # fmt: skip
    if not bool(torch.isfinite(out).all()):
        raise refuse("the result is not finite at a random theta.", out.tolist(), "finite numbers", _NONFINITE)
    if not out.requires_grad:
        raise refuse("the result does not depend on theta.", None, "a differentiable function of theta", _DETACHED)
    if not (torch.equal(theta.detach(), before[0]) and torch.equal(x, before[1])):
        raise refuse(
            "it changed its arguments.", None, "theta and x left alone", "an in-place operation such as x *= 2"
        )
    try:
        batched = problem.at(problem._backend.numpy(theta), index, 1.0)
    except ProblemError:
        raise
    except Exception as error:
        raise refuse(
            f"it works on one input but not under torch.func.vmap ({str(error).split('. ')[0]}).",
            cause="an `if` on the value of a tensor, .item(), or an in-place change; use torch.where",
        ) from error
    one = problem._backend.numpy(out).ravel()
    typical = size(one)
    if not np.isfinite(batched).all():
        raise refuse("the result is not finite at a random theta.", None, "finite numbers", _NONFINITE)
    if not np.allclose(batched[: one.size], one, rtol=1e-9, atol=1e-12 * typical):
        raise refuse("batched and single calls differ.", batched[: one.size].tolist(), str(one.tolist()), _STATE)
    zero = size(problem.at(np.zeros((2, problem.n_params)), index, 1.0))
    if zero > 1e-12 * typical:
        raise refuse("a neuron with theta = 0 has an output.", zero, "0", "a constant added to the output")
