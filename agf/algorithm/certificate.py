"""What kind of critical point a level is: the index of the Hessian there.

A level of a staircase is a minimum for the neurons that are active and a saddle for the network. The number of
directions in which the loss falls says how many ways lead on from it; one among the active neurons alone would mean
that the flow of the active phase had not ended where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agf.arrays import BoolArray, FloatArray, IntArray
from agf.asked import asked
from agf.contract.admission import admit_problem
from agf.contract.blame import guarded
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.numerics.derivatives import hessian
from agf.records.state import State
from agf.sphere import norms

#: Largest order of a Hessian that is formed by differences or taken apart. Limit: a certificate is refused beyond;
#: eigenvalues of a matrix of 4,000 take half a minute.
MAX_ORDER = 4000
#: Curvature of a symmetry's direction, over the gradient divided by the length of the neuron. Derived: the parts (w, a)
#: of a neuron have half its squared length each.
_BESIDE = 2.0


@dataclass(frozen=True)
class Certificate:
    """The Hessian of the loss at one state.

    Parameters
    ----------
    index : int
        Number of negative eigenvalues: independent directions in which the loss falls. Dormant neurons stand at 0;
        they count where the loss is smooth there (not for ReLU, whose corner they sit on), and have their part in the
        index only at degree 2, as at higher degree the loss is flat to second order around them.
    active_index : int
        The same among the active neurons alone; 0 where they are at a minimum, as far as second order says.
    growth : float
        Rate at which the flow of the active neurons would leave along its least curved direction, one over flow time;
        0 where active_index is 0.
    flat : int
        Number of eigenvalues that are zero.
    order : int
        Number of all.
    grad_norm : float
        Euclidean norm of the gradient over the active neurons: how critical the point is.
    """

    index: int
    active_index: int
    growth: float
    flat: int
    order: int
    grad_norm: float


@asked
@guarded
def certificate(problem: Problem, state: State, rtol: float = 1e-6) -> Certificate:
    """Count the directions of negative curvature at a state, such as an `observer` of `predict` is given.

    Uses `problem.hessian`, or central differences of the gradient: 2 H P gradients, and O((H P)^3) for the eigenvalues.

    Parameters
    ----------
    problem : Problem
        Whose loss.
    state : State
        Where, with the neurons that are active there.
    rtol : float, optional
        Eigenvalues below this fraction of the largest are 0; so are those that may be due to the gradient that is left
        at the state.

    Returns
    -------
    Certificate
        Numbers of negative and of zero eigenvalues, and how critical the point is.

    Raises
    ------
    RequestError
        The Hessian would be of order above 4,000, or the state is of another problem.
    ProblemError
        As `predict`.
    """
    admit_problem(problem, "certificate")
    shape = state.directions.shape
    if shape[0] > problem.width or shape[1] != problem.n_params:
        raise RequestError(
            explain(
                f"the state has shape {shape}.",
                where=f"certificate of problem {problem.name!r}",
                expected=f"({problem.width}, {problem.n_params})",
            )
        )
    # a problem's own phases may carry fewer rows than neurons: the modes of a linear network
    theta, inside = np.zeros((problem.width, problem.n_params)), np.zeros(problem.width, dtype=bool)
    theta[: shape[0]], inside[: shape[0]] = state.params, state.active
    active = np.flatnonzero(inside)
    neurons = active if problem.cornered else np.arange(problem.width)
    if neurons.size * problem.n_params > MAX_ORDER:
        raise RequestError(
            explain(
                f"the Hessian is of order {neurons.size * problem.n_params}.",
                where="certificate",
                expected=f"at most {MAX_ORDER}",
            )
        )
    matrix = _hessian(problem, theta[neurons], neurons, state)
    inside = np.repeat(inside[neurons], problem.n_params)
    values = np.linalg.eigvalsh(matrix) if matrix.size else np.zeros(0)
    own = values if inside.all() else _values(matrix, inside)
    gradient = float(np.linalg.norm(problem.loss_grad(theta[active], active)[1]))
    # a symmetry's direction is flat at a critical point, and curved by up to gradient over length beside one
    beside = _BESIDE * gradient / norms(theta[active]).min() if gradient > 0 else 0.0
    bound = max(rtol * float(np.abs(values).max(initial=0.0)), beside)
    falling = own < -bound
    return Certificate(
        index=int((values < -bound).sum()),
        active_index=int(falling.sum()),
        growth=float(np.abs(own[falling]).max(initial=0.0)),
        flat=int((np.abs(values) <= bound).sum()),
        order=values.size,
        grad_norm=gradient,
    )


def _values(matrix: FloatArray, inside: BoolArray) -> FloatArray:
    return np.asarray(np.linalg.eigvalsh(matrix[np.ix_(inside, inside)])) if inside.any() else np.zeros(0)


def _hessian(problem: Problem, theta: FloatArray, neurons: IntArray, state: State) -> FloatArray:
    """Of the loss at theta (m, P), (mP, mP)."""
    matrix = problem.hessian(theta, neurons)
    if matrix is None:
        # with no neuron active, any length serves where the loss is quadratic
        length = np.abs(theta).max(initial=0.0) or np.exp(state.log_norms.max(initial=-700.0))
        matrix = hessian(lambda at: problem.loss_grad(at, neurons)[1], theta, float(length))
    return 0.5 * (matrix + matrix.T)
