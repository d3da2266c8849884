"""Smaller networks that compute the same, or nearly: neurons of one direction merged, others left out.

A neuron of degree kappa contributes rho^kappa f(direction): neurons of one direction add up to one of norm (sum
rho^kappa)^(1/kappa), exactly where the activation is homogeneous. Hidden biases are entries of the rows (a column of
ones in X), so that they take part.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agf.arrays import FloatArray, IntArray, count, fraction, matrix, positive
from agf.asked import asked
from agf.capacity.group import Group
from agf.capacity.groups import by_direction, cluster
from agf.capacity.layers import require_two_layer, two_layer
from agf.capacity.seats import seats as seats_of
from agf.contract.admission import admit_problem, refuse_nonfinite
from agf.contract.blame import guard, guarded
from agf.contract.problem import Problem
from agf.contract.start import check_range
from agf.errors import RequestError, explain
from agf.init import WIDTHS, Init
from agf.records.table import Table, Tabular, number, percent
from agf.results.trajectory import Trajectory
from agf.rounding import SUM
from agf.sphere import cartesian, lengths, polar

#: Ways of merging and of choosing whom to keep.
RULES = ("total", "input")
PRUNE_BY = ("group", "norm", "charge", "random", "snip")


@dataclass(frozen=True, repr=False)
class Compressed(Tabular):
    """A network with fewer neurons, beside the one it came from.

    problem : the problem at the new width.  theta : (k, P) its weights.  how : what was done, in words.
    width_before : neurons of the former network.
    members : for each row of theta, the indices of the former neurons that it stands for.
    exact : whether the network computes the same by construction, up to rounding and the cosine.
    loss_before, loss_after : on the data.  accuracy_before, accuracy_after : NaN where there are no classes.
    trained_loss, trained_accuracy : after training on, where that was asked for, else NaN.
    """

    problem: Problem
    theta: FloatArray
    how: str
    members: tuple[IntArray, ...]
    width_before: int
    exact: bool
    loss_before: float
    loss_after: float
    accuracy_before: float
    accuracy_after: float
    trained_loss: float = np.nan
    trained_accuracy: float = np.nan

    @property
    def neurons(self) -> int:
        """How many neurons are left; an output bias is none."""
        return self.theta.shape[0] - len(self.problem.permanent)

    @property
    def init(self) -> Init:
        """The weights as a start for `agf.flow` or `agf.descend`."""
        return Init.from_params(self.theta, kind="compressed")

    @property
    def relative_change(self) -> float:
        """(loss after - loss before) / loss before; NaN where that is 0."""
        return (self.loss_after - self.loss_before) / self.loss_before if self.loss_before else np.nan

    def table(self) -> Table:
        """Before, after, and after training on."""
        rows = [
            ["before", str(self.width_before), number(self.loss_before, 6), number(self.accuracy_before)],
            ["after", str(self.neurons), number(self.loss_after, 6), number(self.accuracy_after)],
        ]
        if not np.isnan(self.trained_loss):
            rows.append(["trained on", str(self.neurons), number(self.trained_loss, 6), number(self.trained_accuracy)])
        notes = [f"Relative change of the loss: {percent(self.relative_change)}."]
        return Table(
            f"{self.problem.name}: {self.how[0].lower()}{self.how[1:]}",
            ["network", "neurons", "loss", "accuracy"],
            rows,
            notes,
        )

    def __repr__(self) -> str:
        return f"<Compressed {self.problem.name}: {self.width_before} to {self.neurons} neurons, {self.how}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the document that `--json` prints."""
        names = ("how", "width_before", "exact", "loss_before", "loss_after", "accuracy_before", "accuracy_after",
                 "trained_loss", "trained_accuracy", "relative_change")  # fmt: skip
        out: dict[str, Any] = {"problem": self.problem.name, "theta": self.theta.tolist()}
        out["members"] = [some.tolist() for some in self.members]
        return {**out, **{name: getattr(self, name) for name in names}}


@asked
@guarded
def merge(problem: Problem, theta: Any, *, cosine: float = 0.999, rule: str = "total") -> Compressed:
    """Replace neurons of one direction by one neuron.

    Parameters
    ----------
    problem : Problem
        Of interchangeable neurons.
    theta : array (H, P) or Trajectory
        Weights, or a run whose last weights are taken.
    cosine : float
        Smallest cosine inside a cluster, in (0, 1]. Clusters are grown from the largest norm down.
    rule : str
        "total": neurons of one direction theta_i, to the norm (sum rho^kappa)^(1/kappa) ([Pinson] 4.5 for kappa = 2).
        "input": two-layer networks of a homogeneous activation: neurons of one direction of w alone, whatever their a,
        to `w = u, a = sum |w_i|^p a_i`, balanced. Neurons that cancel are left out.

    Returns
    -------
    Compressed
        At cosine 1 with a homogeneous activation, exact.

    Raises
    ------
    RequestError
        For neurons whose index means something, for rule "input" without (w, a) or a homogeneous activation,
        and for weights of another shape.
    """
    if rule not in RULES:
        raise RequestError(explain(f"unknown rule {rule!r}.", where="merge", expected="one of " + ", ".join(RULES)))
    cosine = fraction(cosine, "cosine", where="merge")
    theta = _weights(problem, theta, "merge")
    how = f"Merging at cosine {cosine:g} by {rule}"
    if rule == "total":
        found = by_direction(problem, theta, cosine)
        directions, sizes = polar(theta)
        dead = cluster(
            problem, directions, np.where(np.isin(np.arange(sizes.size), found.dead), sizes, -np.inf), cosine
        )
        kappa = problem.degree
        totals = np.array([np.logaddexp.reduce(kappa * sizes[some]) / kappa for some in dead])
        ends = cartesian(directions[[int(some[0]) for some in dead]], totals)
        rows = [*(group.parameters for group in found.groups), *ends]
        members = [*(group.members for group in found.groups), *dead]
        network = two_layer(problem)
        return _compressed(problem, theta, rows, members, how, network is None or network.activation.homogeneous)
    network = require_two_layer(problem, 'merge rule="input"')
    if not network.activation.homogeneous:
        raise RequestError(
            explain(
                f"{network.activation.name} is not homogeneous, so parallel neurons do not add up to one.",
                where='merge rule="input"',
                expected="relu, leaky-relu, linear or a power",
            )
        )
    d, p = network.n_inputs, network.activation.power
    unit, log_w = polar(theta[:, :d])
    strength = log_w + np.log(np.maximum(lengths(theta[:, d:]), 1e-300))
    strength[list(problem.permanent)] = -np.inf
    rows, members = [], []
    for some in _parallel(unit, np.where(np.isfinite(log_w), strength, -np.inf), cosine):
        sizes = np.exp(p * log_w[some])
        weight = sizes * lengths(theta[some, d:])
        w = polar((weight @ unit[some])[None])[0][0] if weight.any() else unit[some[0]]
        a = sizes @ theta[some, d:]
        if lengths(a[None])[0] <= SUM * weight.sum():  # they cancel, to rounding
            continue
        scale = (p * float(a @ a)) ** (1 / (2 * (p + 1)))  # p |a / s^p|^2 = s^2: the balance of the flow
        rows.append(np.concatenate([scale * w, a / scale**p]))
        members.append(some)
    return _compressed(problem, theta, rows, members, how, True)


def _parallel(unit: FloatArray, strength: FloatArray, cosine: float) -> list[IntArray]:
    """Rows of one direction of w with the same sense, grown from the strongest down."""
    order, free, out = np.argsort(-strength, kind="stable"), np.isfinite(strength), []
    for leader in order:
        if free[leader]:
            near = ((unit @ unit[leader] >= cosine) | (np.arange(free.size) == leader)) & free
            out.append(order[near[order]])
            free &= ~near
    return out


@asked
@guarded
def prune(
    problem: Problem,
    theta: Any,
    keep: float,
    *,
    by: str = "group",
    cosine: float = 0.95,
    seed: int = 0,
    train: float | None = None,
) -> Compressed:
    """Keep some neurons and leave the others out.

    Parameters
    ----------
    problem : Problem
        Of interchangeable neurons.
    theta : array (H, P) or Trajectory
        Weights, or a run whose last weights are taken.
    keep : int or float
        Number of neurons, or below 1 the fraction of them.
    by : str
        "group": every group first keeps its winner, largest total first, then seats go to whoever contributes most; the
        kept members take over the total of their group. "norm": the largest. "charge": those that grew most since the
        start of the run. "random". "snip": the largest `|theta_i . grad_i L|`.
    cosine : float
        Of the groups. Below the .999 of `groups`: before a drop, those that will make it are not yet closer.
    seed : int
        For "random".
    train : float, optional
        Flow time to train on for, to see what the smaller network then learns.

    Returns
    -------
    Compressed
        Rows in order of the former neurons, with loss and accuracy before and after.

    Raises
    ------
    RequestError
        For a `keep` that leaves nothing or more than there is, "charge" without a run, neurons whose index
        means something, and weights of another shape.
    """
    if by not in PRUNE_BY:
        raise RequestError(explain(f"unknown score {by!r}.", where="prune", expected="one of " + ", ".join(PRUNE_BY)))
    run = theta if isinstance(theta, Trajectory) else None
    theta = _weights(problem, theta, "prune")
    neurons = np.delete(np.arange(problem.width), problem.permanent)
    cosine = fraction(cosine, "cosine", where="prune")
    seats = seats_of(keep, neurons.size, "prune")
    if by == "group":
        kept, rows = _by_group(by_direction(problem, theta, cosine).groups, seats, theta, problem.degree)
    else:
        score = _score(problem, theta, run, by, count(seed, "seed", where="prune", least=0))[neurons]
        kept = np.sort(neurons[np.argsort(-score, kind="stable")[:seats]])
        rows = theta[kept]
    out = _compressed(problem, theta, list(rows), [np.array([i]) for i in kept], f"Pruning to {seats} by {by}", False)
    return out if train is None else _trained(out, positive(train, "train", where="prune"))


def _score(problem: Problem, theta: FloatArray, run: Trajectory | None, by: str, seed: int) -> FloatArray:
    """(H,) what to keep most of."""
    if by == "random":
        return np.random.default_rng(seed).random(problem.width)
    if by == "snip":
        with guard(problem):
            gradient = problem.loss_grad(theta, np.arange(problem.width))[1]
        refuse_nonfinite(problem, "loss_grad", gradient)
        return np.abs(np.sum(theta * gradient, axis=1))
    if by == "norm":
        return lengths(theta)
    if run is None:
        raise RequestError(explain("charges need the run, not its last weights alone.", where='prune by="charge"'))
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(run.log_norms[-1] - run.log_norms[0], nan=-np.inf)


def _by_group(found: tuple[Group, ...], seats: int, theta: FloatArray, degree: int) -> tuple[IntArray, FloatArray]:
    """(k,) kept neurons in order, and their rows, scaled so that each group keeps its total."""
    taken = [1 if k < seats else 0 for k in range(len(found))]
    contributions = [group.total**degree * group.shares for group in found]
    while sum(taken) < seats:
        best = max(
            (k for k in range(len(found)) if 0 < taken[k] < found[k].members.size),
            key=lambda k: contributions[k][taken[k]],
            default=None,
        )
        if best is None:
            break
        taken[best] += 1
    rows = {}
    for group, some in zip(found, taken, strict=True):
        if some:
            factor = float(np.sum(group.shares[:some])) ** (-1 / degree)
            rows.update({int(i): factor * theta[i] for i in group.members[:some]})
    kept = np.array(sorted(rows), dtype=np.int64)
    return kept, np.array([rows[int(i)] for i in kept])


def _weights(problem: Problem, theta: Any, where: str) -> FloatArray:
    admit_problem(problem, where)
    if not problem.interchangeable:
        raise RequestError(
            explain(f"a neuron of {problem.name!r} is not like another: its index means something.", where=where)
        )
    if isinstance(theta, Trajectory):
        theta = theta.params(-1)
    elif isinstance(theta, Init):
        theta = theta.params()
    theta = matrix(theta, "theta", where=where, rows=problem.width, columns=problem.n_params)
    check_range(problem, polar(theta)[1], where)
    return theta


def _compressed(
    problem: Problem, theta: FloatArray, rows: list[FloatArray], members: list[IntArray], how: str, exact: bool
) -> Compressed:
    if not rows:
        raise RequestError(explain("no neuron is left.", where=how, remedy="All of them are dead, or cancel."))
    always = list(problem.permanent)
    smaller, new = resized(problem, len(rows)), np.concatenate([np.array(rows), theta[always]])
    before, after = loss_and_accuracy(problem, theta), loss_and_accuracy(smaller, new)
    parts = (*members, *(np.array([i]) for i in always))
    width = problem.width - len(always)
    return Compressed(smaller, new, how, parts, width, exact, before[0], after[0], before[1], after[1])


def _trained(out: Compressed, time: float) -> Compressed:
    from agf.training.gradient_flow import flow

    run = flow(out.problem, out.init, t_max=time, snapshots=2)
    loss, accuracy = loss_and_accuracy(out.problem, run.params(-1))
    return replace(out, trained_loss=loss, trained_accuracy=accuracy)


def loss_and_accuracy(problem: Problem, theta: FloatArray) -> tuple[float, float]:
    """Loss, and accuracy where there are classes, else NaN."""
    neurons = np.arange(theta.shape[0])
    with guard(problem):
        accuracy = problem.features(theta, neurons).get("accuracy", np.array([np.nan]))
        loss = float(problem.loss_grad(theta, neurons)[0])
    refuse_nonfinite(problem, "loss_grad", np.array(loss))
    return loss, float(np.ravel(accuracy)[0])


def resized(problem: Problem, width: int) -> Problem:
    """The same problem with another number of interchangeable neurons, each of the same mask where there is one.

    Raises RequestError where its constructor takes no width.
    """
    restricted = problem.restriction()
    if restricted is not None:
        base, mask = restricted
        neuron = int(np.delete(np.arange(problem.width), problem.permanent)[0])
        return type(problem)(resized(base, width), mask[[*(neuron,) * width, *problem.permanent]])
    takes = inspect.signature(type(problem)).parameters
    for name in WIDTHS:
        if name in problem.arguments or name in takes:
            return type(problem)(**{**problem.arguments, name: width})
    raise RequestError(
        explain("its constructor takes no width, so no smaller one can be built.", where=f"problem {problem.name!r}")
    )
