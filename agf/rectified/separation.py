"""Every constant and bound of [Min23] and [BF24] for one problem and one start, and whether a run keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agf import sphere
from agf.arrays import USUAL
from agf.asked import asked
from agf.contract.admission import admitted
from agf.contract.problem import Problem
from agf.errors import RequestError, explain
from agf.init import Init
from agf.records.table import Table, Tabular, number, percent
from agf.rectified.claims import Claims, claims
from agf.rectified.early import Early, Spurious, early, spurious
from agf.rectified.orthogonal import Orthogonal, orthogonal
from agf.rectified.samples import Samples
from agf.results.trajectory import Trajectory
from agf.rounding import TIED

_MIN = {
    "mu": "mu", "X_min": "X_min", "X_max": "X_max", "|x_+|": "plus", "|x_-|": "minus", "zeta1": "zeta1",
    "zeta2": "zeta2", "zeta": "zeta", "xi": "xi", "log eps": "log_eps", "log eps of Theorem 1, eps_A": "log_eps_A",
    "log eps of Theorem 1, eps_B": "log_eps_B", "rate of the 1/t bound, paper's units": "rate",
}  # fmt: skip
_MIN_TIMES = {
    "T, certified up to": "T", "t1, all aligned": "t1", "t1, by the path sum": "t1_path",
    "t1_log, ours, for the limit flow": "t1_log", "t2 bound, positives": "t2_plus", "t2 bound, negatives": "t2_minus",
}  # fmt: skip
_EARLY = {
    "D_max": "D_max", "D_min": "D_min", "alpha_min, +": "alpha_plus", "alpha_min, -": "alpha_minus", "delta_0": "delta",
    "log lambda": "log_lambda", "eps": "eps", "log lambda*": "log_star",
    "log constant of Theorem 1 (ii)": "log_constant",
    "log lambda where (ii) has content": "log_content",
}  # fmt: skip
_EARLY_TIMES = {
    "alignment time tau": "tau", "rotation time, Theorem 1": "turn", "rotation time, Theorem 3": "turn_any"
}  # fmt: skip


def _numbers(source: str, kind: str, names: dict[str, str], values: Any, unit: float = 1.0) -> list[list[str]]:
    return [[f"{source} {name}", kind, number(unit * getattr(values, key), 8)] for name, key in names.items()]


@asked
@dataclass(frozen=True, repr=False)
class Separation(Tabular):
    """Constants, bounds and assumptions of both papers.

    Parameters
    ----------
    problem : Problem
        The problem.
    init : Init
        The start.
    separable : Orthogonal or None
        [Min23], where labels are +-1: `separable.mu`, `.t1`, `.log_eps_B`, ...
    early : Early or None
        [BF24], Theorems 1 and 3: `early.D_min`, `.log_star`, `.tau`, ...
    spurious : Spurious or None
        [BF24], assumptions of Theorem 2, for half-squared losses without a leak.
    notes : tuple of str
        What does not apply, and why.
    """

    problem: Problem
    init: Init
    separable: Orthogonal | None
    early: Early | None
    spurious: Spurious | None
    notes: tuple[str, ...] = ()

    @np.errstate(**USUAL)
    def check(self, trajectory: Trajectory) -> Claims:
        """Each claim against a run of gradient flow from this start: left side, right side, whether it holds, slack.

        trajectory : what `agf.flow` returned. Raises RequestError where it holds no neurons.
        """
        return claims(self.problem, self.separable, self.early, self.spurious, trajectory)

    @np.errstate(**USUAL)
    def assumptions(self) -> list[tuple[str, float, bool]]:
        """(name, margin, whether it holds): a margin is positive where the assumption holds."""
        out: list[tuple[str, float, bool]] = []

        def ask(name: str, margin: float, least: float = 0.0) -> None:
            """A margin that must be above 0, or at least `least` where that is negative: equality is allowed there."""
            out.append((name, margin, margin > 0 or (least < 0 and margin >= least)))

        s, e, p = self.separable, self.early, self.spurious
        if s is not None:
            ask("[Min23] assumption 1: signed inputs correlate, mu > 0", s.mu)
            ask("[Min23] assumption 2: no neuron exactly against its class, zeta2 > 0", s.zeta2)
            ask("[Min23] log eps below that of Lemmas 1, 3", s.log_eps_lemma - s.log_eps, -TIED)
            ask("[Min23] log eps below that of Theorem 1", s.log_eps_theorem - s.log_eps, -TIED)
        if e is not None:
            ask("[BF24] start dominated: least log |a| - log |w|", e.log_dominance, -TIED)
            corners = e.found.kinds.count("saddle") + e.found.kinds.count("degenerate")
            ask("[BF24] no saddle: less their number", -float(corners), -0.5)
            ask("[BF24] log lambda below lambda*", e.log_star - e.log_lambda)
            ask("[BF24] case (ii) says something: log lambda below", e.log_content - e.log_lambda)
        if p is not None:
            ask("[BF24] assumption 4: inputs correlate", p.correlated)
            ask("[BF24] assumption 4: labels positive", p.positive)
            ask("[BF24] assumption 4: d inputs independent", p.independent)
            ask("[BF24] assumption 5", p.gap)
            ask("[BF24] assumption 6: outer points under-fitted", p.under)
            ask("[BF24] assumption 6: walls", p.wall)
            ask("[BF24] assumption 6: mixed cones", p.mixed)
        return out

    @np.errstate(**USUAL)
    def table(self) -> Table:
        """Assumptions with their margins, then constants, then times in flow time of the problem."""
        rows = [[name, "holds" if holds else "fails", number(margin, 6)] for name, margin, holds in self.assumptions()]
        s, e, p = self.separable, self.early, self.spurious
        if s is not None:
            rows += _numbers("[Min23]", "", _MIN, s)
            rows += _numbers("[Min23]", "flow time", _MIN_TIMES, s, s.unit)
            soft = s.soft
            parts = " / ".join(percent(part) for part in (soft.every, soft.same, soft.different))
            rows.append(["[Min23] pairs that correlate", "all / same / different label", parts])
        if e is not None:
            rows += _numbers("[BF24]", "", _EARLY, e)
            rows += _numbers("[BF24]", "flow time", _EARLY_TIMES, e, e.unit)
        if p is not None:
            rows.append(["[BF24] level of the linear fit", "loss", number(p.level, 8)])
        return Table(f"Bounds for {self.problem.describe()}", ["quantity", "", "value"], rows, self.notes)

    @np.errstate(**USUAL)
    def to_dict(self) -> dict[str, Any]:
        """Plain values; the extremal vectors are in `agf.landscape`."""

        def plain(value: Any) -> dict[str, Any] | None:
            if value is None:
                return None
            out = {key: item for key, item in vars(value).items() if not hasattr(item, "__dataclass_fields__")}
            for key, member in vars(type(value)).items():
                if isinstance(member, property):
                    out[key] = getattr(value, key)
            return out

        return {
            "problem": self.problem.name,
            "assumptions": [{"name": n, "margin": m, "holds": h} for n, m, h in self.assumptions()],
            "separable": plain(self.separable),
            "soft": None if self.separable is None else plain(self.separable.soft),
            "early": plain(self.early),
            "spurious": plain(self.spurious),
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return f"<Separation of {self.problem.name}, {self.init.width} neurons>"


@asked
def separation(
    problem: Problem, init: Init, *, log_eps: float | None = None, eps: float = 0.3, alpha0: float = 1.0
) -> Separation:
    """Constants and bounds of [Min23] and [BF24], in logs where they leave float64, and which assumption holds.

    Parameters
    ----------
    problem : Problem
        A (leaky) ReLU network of one output.
    init : Init
        The start. Its shape W0 is its weights over alpha.
    log_eps : float or None
        Natural log of the scale of the weights; that of alpha by default. The theorem's own is mostly below float64:
        `separation(problem, init).separable.log_eps_theorem`.
    eps : float
        Exponent of the alignment time of [BF24], between 0 and 1/3.
    alpha0 : float
        Condition 1 of [BF24] on the start, between 0 and 1.

    Returns
    -------
    Separation
        Constants, assumptions with margins, and `check` for a trajectory.

    Raises
    ------
    RequestError
        Another network, another shape of the start, or eps or alpha0 out of range.
    """
    samples = Samples.of(problem) if isinstance(problem, Problem) else None
    if samples is None or samples.problem.permanent:
        words = "the bounds are about relu or leaky-relu networks with one output."
        raise RequestError(explain(words, where="separation", found=getattr(problem, "name", type(problem).__name__)))
    if not isinstance(init, Init) or init.n_params != problem.n_params:
        raise RequestError(
            explain("the start does not fit the problem.", where="separation", expected="problem.init(...)")
        )
    if not 0 < eps < 1 / 3 or not 0 < alpha0 <= 1:
        words = "eps or alpha0 is out of range."
        raise RequestError(
            explain(words, where="separation", found=(eps, alpha0), expected="0 < eps < 1/3, 0 < alpha0 <= 1")
        )
    with admitted(problem, "separation"):
        return _separation(samples, init, log_eps, eps, alpha0)


def _separation(samples: Samples, init: Init, log_eps: float | None, eps: float, alpha0: float) -> Separation:
    problem, X, y, d = samples.problem, samples.X, samples.problem.Y[:, 0], samples.X.shape[1]
    n = y.size
    c = samples.weights(np.zeros((0, problem.n_params)))
    w, log_w = sphere.polar(init.directions[:, :d])
    log_w = log_w + init.log_norms
    with np.errstate(divide="ignore"):
        log_a = np.log(np.abs(init.directions[:, d])) + init.log_norms
    scale = init.log_alpha if log_eps is None else float(log_eps)
    notes = []
    first = None
    if not np.all(np.abs(y) == 1):
        notes.append("[Min23] is about labels +-1; these are others.")
    elif not np.any(X, axis=1).all():
        notes.append("[Min23] needs inputs other than 0.")
    elif not np.isfinite(log_w).all():
        notes.append("[Min23] needs input weights other than 0.")
    else:
        unit = float(np.mean(y / c))
        first = orthogonal(X, y, w, log_w - init.log_alpha, init.directions[:, d] > 0, scale, unit)
        if first.mu <= 0:
            notes.append("Assumption 1 of [Min23] fails: its bounds are empty, the statistics of pairs remain.")
    shift = scale - init.log_alpha
    moving = np.isfinite(log_a) & np.isfinite(log_w)
    prefix = np.logaddexp.accumulate(2 * log_a) - np.log(np.arange(1, log_a.size + 1))
    log_lambda = 0.5 * (np.log(log_a.size) + float(prefix.max())) + shift
    dominance = float((log_a - log_w)[moving].min()) if moving.any() else 0.0
    # the paper's mean over the samples: n c are its residuals, whatever the loss counts a sample
    weight = float(samples.weigh(np.ones(n))[0])
    second = early(
        X, c / weight, samples.leak, log_lambda=log_lambda, log_dominance=dominance, unit=1.0 / (n * weight), eps=eps,
        alpha0=alpha0,
    )  # fmt: skip
    if second is None:
        notes.append("[BF24]: nothing to fit, or too many faces for its constants.")
    third = None
    if samples.leak or not problem.quadratic_loss:
        notes.append("Theorem 2 of [BF24] is about half-squared losses without a leak.")
    else:
        third = spurious(X, y)
        if third is None:
            notes.append("Assumptions 4 to 6 of [BF24]: a zero input, or too many faces or subsets.")
    return Separation(problem, init, first, second, third, tuple(notes))
