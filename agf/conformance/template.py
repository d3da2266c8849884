"""The file that `agf new` writes: a commented problem that runs as it is."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agf.errors import FileError, explain
from agf.records import files

TEMPLATE = '''"""A network of your own for agf. It runs as it is:

    agf check {file}
    agf predict {file} --alpha 1e-8
    agf compare {file} --alpha 1e-8 --plot compare.png

Needs torch: pip install torch. For a usual activation on data no code is needed at all: see agf.TwoLayer.
"""

import agf
import numpy as np
import torch


class {name}(agf.AutogradProblem):
    """A tanh network, f(x) = sum_i a_i tanh(w_i . x)."""

    name = "{word}"

    # One neuron on one input, in torch. theta holds its parameters, here (w, a), and x one row of X. The network is the
    # sum of `width` such neurons. Return a scalar, or a vector as long as a row of Y. The output must vanish at
    # theta = 0 like |theta|^kappa, kappa >= 2; kappa is measured. Write branches on values with torch.where.
    def neuron(self, theta, x):
        w, a = theta[: self.n_inputs], theta[self.n_inputs :]
        return a * torch.tanh(w @ x)

    # How many parameters a neuron has. This is the default, one w and one a, and may be left out.
    @property
    def n_params(self):
        return self.n_inputs + self.n_outputs

    # Uncomment to give every neuron an input of its own, g_i(x): here, only its own coordinate of x is seen.
    # `x` holds k samples (k, d) and `neurons` the indices (m,); return (m, k, ...). `neuron` then gets one of these.
    #
    # def neuron_inputs(self, x, neurons):
    #     only = torch.nn.functional.one_hot(neurons % self.n_inputs, self.n_inputs).to(x.dtype)
    #     return only[:, None, :] * x

    # The data used when you give none, by the names of the constructor: X (n, d), Y (n,) or (n, c), width, and loss,
    # one of "half-squared" (the default), "logistic", "exponential", "cross-entropy".
    @classmethod
    def example(cls):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40, 3))
        Y = 2 * np.tanh(X @ [1.0, -1.0, 0.5]) - np.tanh(X @ [0.0, 1.0, 1.0])
        return {{"X": X, "Y": Y, "width": 6}}
'''


def text(path: str | os.PathLike[str]) -> str:
    """The template with the class named after the file: my_net.py holds MyNet."""
    stem = Path(path).stem
    words = [word for word in re.split(r"[^0-9A-Za-z]+", stem) if word]
    name = "".join(word[0].upper() + word[1:] for word in words)
    if not name.isidentifier():
        name = "Mine"
    return TEMPLATE.format(file=f"./{Path(path).name}", name=name, word="-".join(words).lower() or "mine")


def write(path: str | os.PathLike[str]) -> None:
    """Write the template to a new file. Raises FileError for a name without .py, an existing file, an absent folder."""
    target = Path(path)
    if target.suffix != ".py":
        raise FileError(explain(f"{str(path)!r} is not a Python file.", expected="a name ending in .py"))
    if target.exists():
        raise FileError(explain(f"{str(path)!r} exists already.", remedy="Nothing was written; choose another name."))
    with files.atomic(target, "w") as handle:
        handle.write(text(target))
