"""The same two-layer network in numpy and in torch on a device: the work of a dormant phase and of the flow.

    python tests/benchmarks/bench_device.py [DEVICE [WIDTH SAMPLES INPUTS]]

Default: cuda if there is one, else cpu; 10,000 neurons, 5,000 samples, 784 inputs. One of the utility is a stage of
the dormant phase, one of the loss gradient a stage of the flow; both return numpy arrays, so transfers are counted.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import agf
from agf.records.table import Table, number


def seconds(function, *arguments) -> float:
    """Least time of three calls."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print both times for both backends, their ratio, and how far the results are apart."""
    import torch

    device, *sizes = sys.argv[1:] or ["cuda" if torch.cuda.is_available() else "cpu"]
    width, n, d = map(int, sizes or (10_000, 5_000, 784))
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, d)) / np.sqrt(d), rng.standard_normal((n, 10))
    results = {}
    for name, where in (("numpy", None), (device, device)):
        p = agf.TwoLayer(X, Y, "relu", width=width, device=where)
        theta, who = p.init(1.0, seed=0).params(), np.arange(width)
        residual = p.residual(theta[:0], who[:0])
        gradients = p.utility(theta, who, residual)[1], p.loss_grad(theta, who)[1]
        results[name] = seconds(p.utility, theta, who, residual), seconds(p.loss_grad, theta, who), gradients
    base, fast = results["numpy"], results[device]
    rows = []
    for k, words in enumerate(("utility and gradient", "loss and gradient")):
        apart = np.abs(base[2][k] - fast[2][k]).max() / np.abs(base[2][k]).max()
        rows.append([words, number(base[k]), number(fast[k]), f"{base[k] / fast[k]:.2f}", f"{apart:.0e}"])
    note = f"torch {torch.__version__}, {torch.get_num_threads()} threads; numpy as its BLAS is set."
    if device.startswith("cuda"):
        note += f" {torch.cuda.get_device_name()}, peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB."
    columns = ["evaluation", "numpy, s", f"{device}, s", "ratio", "largest difference"]
    print(Table(f"{width} relu neurons, {n} samples, {d} inputs", columns, rows, [note]).text())


if __name__ == "__main__":
    main()
