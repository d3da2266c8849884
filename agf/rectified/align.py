"""The dormant phase of a (leaky) ReLU network alone: exact, event by event, for any number of neurons."""

from __future__ import annotations

from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray, positive
from agf.asked import asked
from agf.contract.admission import admit_problem
from agf.contract.blame import guarded
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.init import Init
from agf.networks.two_layer import TwoLayer
from agf.rectified.dormant_flow import DormantFlow
from agf.rectified.dormant_phase import BLOCK, DormantPhase
from agf.rectified.events import Events, Fate
from agf.rectified.landscape import network_of
from agf.rectified.walls import Walls
from agf.sphere import polar

#: Singular values of a residual below this fraction of the largest are rounding. Derived: float64, sums over samples.
_RANK = 1e-12


@asked
@guarded
def align(problem: Problem, init: Init, theta: Any = None, t_max: float | None = None) -> DormantPhase:
    """Follow dormant neurons on a residual that stays as it is: exactly, from one activation cone to the next.

    Parameters
    ----------
    problem : Problem
        A network of relu or leaky-relu neurons with one output, or with several whose residuals are multiples of one
        vector, as those of two classes are. Its kinks count as sharp.
    init : Init
        The neurons, any number of them.
    theta : array-like or None
        (k, d + 1) active neurons, at whose residual the others move; none, the empty network, by default.
    t_max : float or None
        Flow time at which to stop; None: after the last event of the last neuron, when each is in its last cone.

    Returns
    -------
    DormantPhase
        Of every neuron its fate, events, last arrival and charge; clusters; and the state at any time.

    Raises
    ------
    RequestError
        Not a problem of this kind, residuals of a higher rank, or neurons of another shape.

    Notes
    -----
    With several outputs a stands for the component of the output weights along that vector; the others never move.
    In a cone the field D is constant and the flow dw/dt = a D, da/dt = w . D has a closed form; a wall w . x_k = 0 is
    crossed where both its sides push the same way, and slid along, on the field of least norm, where both push
    towards it ([BF24] eq. 6 and section 5, [Min23] eq. 4). a^2 - |w|^2 is carried as it was at the start. Regular
    solutions: a neuron without an active sample never moves again, nor does one whose input weights reach 0.
    """
    if not isinstance(problem, TwoLayer) or problem.activation.name not in ("relu", "leaky-relu"):
        raise RequestError(
            explain(
                f"{getattr(problem, 'name', type(problem).__name__)!r} has no cones to follow neurons through.",
                where="align",
                expected="relu, or two-layer with activation relu or leaky-relu",
                remedy="agf.predict follows dormant neurons of any problem, by integration.",
            )
        )
    if not isinstance(init, Init) or init.n_params != problem.n_params:
        found = f"{init.n_params} parameters a neuron" if isinstance(init, Init) else type(init).__name__
        expected = f"an Init of {problem.n_params} parameters a neuron"
        raise RequestError(explain("the neurons do not fit.", where="align", found=found, expected=expected))
    admit_problem(problem, "align")
    until = np.inf if t_max is None else positive(t_max, "t_max", where="align")
    network = network_of(problem, theta, "align")
    leak = -float(problem.activation.left)
    weights, along = _one_output(problem.weigh(problem.residual(network, np.arange(network.shape[0]))))
    walls = Walls.of(problem.X, weights, leak)
    start, start_log_norms = _projected(init, problem.n_inputs, along)
    m = init.width
    fates, patterns = np.zeros(m, dtype=np.int64), np.zeros((m, walls.sample.size), dtype=np.int8)
    arrivals, charges, utilities = np.zeros(m), np.zeros(m), np.zeros(m)
    ends = np.zeros((m, problem.n_inputs + 1))
    parts = []
    for first in range(0, m, BLOCK):
        rows = slice(first, min(first + BLOCK, m))
        flow = DormantFlow(walls, start[rows], start_log_norms[rows])
        events = flow.run(until)
        parts.append(Events(events.neuron + first, events.sample, events.kind, events.time))
        fates[rows], arrivals[rows] = flow.fate, flow.time
        with np.errstate(invalid="ignore"):
            charges[rows] = np.where(np.isfinite(flow.log_norms), flow.log_norms - start_log_norms[rows], 0.0)
        ends[rows], utilities[rows] = flow.ends()
        turning = np.flatnonzero(flow.fate == Fate.TURNING)
        if turning.size:
            ends[first + turning] = flow.inside(turning, until)[0]
        patterns[rows] = np.sign(flow.at.sides)
    everything = Events.join(parts)
    return DormantPhase(
        problem=problem.name,
        X=problem.X,
        weights=weights,
        leak=leak,
        start=start,
        start_log_norms=start_log_norms,
        t_max=until,
        fates=fates,
        arrivals=arrivals,
        charges=charges,
        ends=ends,
        utilities=utilities,
        clusters=_clusters(fates, ends, patterns),
        event_neurons=everything.neuron,
        event_samples=everything.sample,
        event_kinds=everything.kind,
        event_times=everything.time,
        along=along,
    )


def _one_output(weights: FloatArray) -> tuple[FloatArray, FloatArray | None]:
    """Weighted residuals (n,) of the one output that (n, c) amount to, and its unit direction among the c, None for
    c = 1. Raises RequestError where their rank is more than one."""
    if weights.shape[1] == 1:
        return weights[:, 0], None
    left, sizes, right = np.linalg.svd(weights, full_matrices=False)
    if sizes[1] > _RANK * sizes[0]:
        rank = int(np.sum(sizes > _RANK * sizes[0]))
        raise RequestError(
            explain(
                f"the residual has rank {rank} in {weights.shape[1]} outputs, and only rank 1 has a closed form.",
                where="align",
                remedy="agf.dormant.carry follows the neurons by integration, and agf.predict does.",
            )
        )
    turn = np.sign(right[0, np.argmax(np.abs(right[0]))])
    return turn * sizes[0] * left[:, 0], turn * right[0]


def _projected(init: Init, d: int, along: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Unit rows (m, d + 1) and log norms (m,) of (w, a . along): what the residual moves of a neuron."""
    if along is None:
        return init.directions, init.log_norms
    rows, norms = polar(np.column_stack([init.directions[:, :d], init.directions[:, d:] @ along]))
    return rows, init.log_norms + norms


def _clusters(fates: IntArray, ends: FloatArray, patterns: np.ndarray) -> IntArray:
    """Number of the cluster of each neuron, (m,), by falling size: neurons of one sign in one face of the cones have
    one direction; fates without a direction are one cluster a sign."""
    directed = np.isin(fates, [Fate.ALIGNS, Fate.OPPOSED])
    key = np.column_stack([fates, np.sign(ends[:, -1]), np.where(directed[:, None], patterns, 0)]).astype(np.int8)
    rows = np.ascontiguousarray(key).view(np.dtype((np.void, key.shape[1]))).reshape(-1)
    _, index, counts = np.unique(rows, return_inverse=True, return_counts=True)
    place = np.empty(counts.size, dtype=np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(counts.size)
    return place[index.reshape(-1)]
