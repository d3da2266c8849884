"""Where training starts: the object that the engine and the reference trainers both take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agf import sphere
from agf.arrays import USUAL, FloatArray, matrix, number
from agf.asked import asked
from agf.errors import DataError, explain, shown
from agf.records import torch_weights
from agf.records.table import one_line

#: What the constructors of problems call the number of neurons, where it is a choice.
WIDTHS = ("width", "heads")


@asked
@dataclass(frozen=True, repr=False)
class Init:
    """Initial neurons in polar form.

    Parameters
    ----------
    directions : float ndarray, shape (H, P)
        Unit rows.
    log_norms : float ndarray, shape (H,)
        Natural log of the norm of each neuron; -inf for a neuron that is exactly zero and never moves.
    alpha : float
        The scale quoted in reports; `log_alpha` is what computations use, so alpha = 1e-200 is an ordinary value.
    seed : int or None
        What produced it, or None.
    kind : str
        How it was made ("gaussian", "balanced", "params", "from FILE", ...), for the record.
    """

    directions: FloatArray
    log_norms: FloatArray
    alpha: float
    seed: int | None = None
    kind: str = "params"

    def __post_init__(self) -> None:
        for name in ("directions", "log_norms"):
            value = getattr(self, name)
            try:
                if np.iscomplexobj(value):
                    raise TypeError("they are complex")
                own = np.array(value.detach() if hasattr(value, "detach") else value, dtype=np.float64)
            except Exception as error:  # also of a stranger's __array__
                raise DataError(explain(f"`{name}` cannot be read as numbers ({error}).", where="Init")) from None
            own.flags.writeable = False
            object.__setattr__(self, name, own)
        check_alpha(self.alpha)
        if self.directions.ndim != 2 or self.log_norms.shape != self.directions.shape[:1]:
            raise DataError(
                explain(
                    f"directions have shape {self.directions.shape} and log_norms {self.log_norms.shape}.",
                    where="Init",
                    expected="(H, P) and (H,)",
                )
            )
        with np.errstate(over="ignore"):
            squares = np.sum(self.directions**2, axis=1)
        odd = ~(np.abs(squares - 1.0) < 1e-6) & ~((squares == 0) & np.isneginf(self.log_norms))
        odd |= ~(self.log_norms < np.inf)
        if odd.any():
            first = int(np.flatnonzero(odd)[0])
            raise DataError(
                explain(
                    f"neuron {first} has a direction of squared norm {squares[first]:.6g} and log norm "
                    f"{self.log_norms[first]:.6g}.",
                    where="Init",
                    expected="unit directions and finite log norms (direction 0 and -inf for a neuron that is zero)",
                    remedy="Use Init.from_params for weights as they are.",
                )
            )

    @classmethod
    @np.errstate(**USUAL)
    def from_params(cls, theta: Any, alpha: float | None = None, seed: int | None = None, kind: str = "params") -> Init:
        """From parameters `theta` (H, P), rows laid out as the problem says.

        Parameters
        ----------
        alpha : float or None, optional
            Quoted scale; the geometric mean of the non-zero norms when None.

        Raises
        ------
        DataError
            For non-finite values, or when all neurons are zero: exactly zero neurons never move.
        """
        theta = matrix(theta, "theta", where="Init.from_params")
        directions, log_norms = sphere.polar(theta)
        alive = np.isfinite(log_norms)
        if not alive.any():
            raise DataError(
                explain(
                    "all neurons are exactly zero, and such neurons never move.",
                    where="Init.from_params",
                    remedy="Start from small, non-zero weights.",
                )
            )
        if alpha is None:
            alpha = float(np.exp(log_norms[alive].mean()))
        return cls(directions, log_norms, check_alpha(alpha), seed, kind)

    @classmethod
    def from_torch(cls, model: Any) -> Init:
        """From the weights of a torch network with one hidden layer; `TwoLayer.from_torch` makes the problem of it.

        Parameters
        ----------
        model : torch.nn.Module or mapping or str or os.PathLike[str]
            nn.Sequential(Linear, activation, Linear) and the like, its state_dict, or a file of that. Hidden biases
            become the column before the outgoing weights, an output bias the last row.

        Returns
        -------
        Init
            Where training starts: take it before the loop, which changes the weights.

        Raises
        ------
        DataError
            For another network.
        FileError
            For a file that cannot be read.
        """
        return cls.from_params(torch_weights.read(model).theta, kind="from torch")

    @classmethod
    @np.errstate(**USUAL)
    def scaled(cls, theta: FloatArray, alpha: float, seed: int | None = None, kind: str = "gaussian") -> Init:
        """From order-one parameters `theta` (H, P) times alpha, without forming the product.

        Raises
        ------
        DataError
            Unless 0 < alpha and alpha is finite.
        """
        alpha = check_alpha(alpha)
        directions, log_norms = sphere.polar(matrix(theta, "theta", where="Init.scaled"))
        return cls(directions, log_norms + np.log(alpha), alpha, seed, kind)

    def __repr__(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        size = f"{self.width:,} neurons of {self.n_params:,} parameters"
        return one_line(f"<Init of {size}, {self.description}, {self.kind}{seed}>")

    @property
    def width(self) -> int:
        """Number of neurons H."""
        return self.directions.shape[0]

    @property
    def n_params(self) -> int:
        """Parameters a neuron, P."""
        return self.directions.shape[1]

    @property
    def description(self) -> str:
        """Where training starts: "alpha = 1e-08", or "weights from FILE"."""
        return f"weights {self.kind}" if self.kind.startswith("from ") else f"alpha = {self.alpha:g}"

    @property
    def log_alpha(self) -> float:
        """Natural log of alpha."""
        return float(np.log(self.alpha))

    @np.errstate(**USUAL)
    def params(self) -> FloatArray:
        """Parameters (H, P). Entries below the range of float64 become 0; `log_norms` keeps them."""
        return sphere.cartesian(self.directions, self.log_norms)


def check_alpha(alpha: Any) -> float:
    """alpha as a float; DataError unless it is finite and positive."""
    value = number(alpha)
    if not (np.isfinite(value) and value > 0):
        raise DataError(
            explain(
                "alpha, the initialization scale, must be a positive finite number.",
                where="init",
                found=shown(alpha),
                remedy="Use for example alpha=1e-8; values down to 1e-300 are ordinary.",
            )
        )
    return value
