"""Restarts on digits, [GB24] in small: `python -m audit.restarts [--seeds 3] [--cycles 14]`.

A torch module 64-100-10 with biases, digits in place of CIFAR-10 (three quarters for training), SGD with momentum .9
and weight decay 1e-4 in batches of 64, 15 epochs a cycle with two of warm-up to .1 and a cosine after it, a fifth of
the weights pruned a cycle. What the paper calls IMP in its experiments is WR here: back to the end of warm-up. Takes
three minutes.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

import agf
from agf.results.rewinding import Rewinding

EPOCHS, WARM, BATCH, PEAK = 15, 2, 64, 0.1
#: Epochs of the dense training that WR goes back to.
EARLY = 3
#: Name -> options of `agf.rewind`.
PIPELINES: dict[str, dict[str, Any]] = {
    "LRR": {"method": "lrr"},
    "WR": {"method": "wr", "rewind": EARLY},
    "IMP": {"method": "imp"},
    "WR, trained as long as LRR": {"method": "wr", "rewind": EARLY, "budget": "equal"},
    "IMP, trained as long as LRR": {"method": "imp", "budget": "equal"},
}
#: Cycles at whose end signs are counted.
COUNTED = (3, 5, 8)


def pipeline(seed: int, by: str, cycles: int, **options: Any) -> Rewinding:
    """One pipeline, scored by the accuracy on the quarter kept apart."""
    import torch
    from torch import nn

    data = agf.datasets.load("digits")
    X = torch.as_tensor(np.asarray(data["X"]), dtype=torch.float32)
    labels = torch.as_tensor(np.asarray(data["labels"], dtype=np.int64))
    train_rows, held = _split(labels.numpy(), seed)
    torch.manual_seed(seed)
    layers = nn.Linear(64, 100), nn.Linear(100, 10)
    net = nn.Sequential(layers[0], nn.ReLU(), layers[1])
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)

    def train(module: Any, until: float | None = None, budget: int = 1) -> float:
        """One schedule over `budget` times the epochs of a cycle, or its first `until` epochs."""
        order, epochs, loss = np.random.default_rng([seed, 1]), budget * EPOCHS, math.nan
        sgd = torch.optim.SGD(module.parameters(), lr=PEAK, momentum=0.9, weight_decay=1e-4)
        for epoch in range(epochs if until is None else int(until)):
            after = (epoch - WARM) / (epochs - WARM)
            rate = (epoch + 1) / (WARM + 1) if epoch < WARM else 0.5 * (1 + math.cos(math.pi * after))
            sgd.param_groups[0]["lr"] = PEAK * rate
            for rows in np.array_split(order.permutation(train_rows), math.ceil(train_rows.size / BATCH)):
                sgd.zero_grad()
                value: Any = nn.functional.cross_entropy(module(X[rows]), labels[rows])
                value.backward()
                sgd.step()
                loss = value.item()
        return loss

    def accuracy(module: Any, theta: Any) -> float:
        with torch.no_grad():
            return float((module(X[held]).argmax(dim=1) == labels[held]).double().mean())

    return agf.rewind(net, train=train, score=accuracy, by=by, cycles=cycles, seed=seed, **options)


def _split(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, and a quarter of every class kept apart."""
    rng = np.random.default_rng([seed, 0])
    held = np.concatenate([rng.permutation(np.flatnonzero(labels == k))[: np.sum(labels == k) // 4] for k in range(10)])
    return np.setdiff1d(np.arange(labels.size), held), held


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(prog="audit.restarts", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cycles", type=int, default=14)
    options = parser.parse_args()
    torch.set_num_threads(1)
    counted = [i for i in COUNTED if i <= options.cycles]
    for by in ("random", "magnitude"):
        ends: dict[str, list[float]] = {}
        print(f"{by} masks, {options.cycles} cycles, {options.seeds} seeds")
        for name, how in PIPELINES.items():
            if by == "magnitude" and "budget" in how:
                continue
            runs = [pipeline(seed, by, options.cycles, **how) for seed in range(options.seeds)]
            ends[name] = [float(run.scores[-1]) for run in runs]
            flips = "; ".join(f"cycle {i} " + " ".join(str(run.signs().flips[i]) for run in runs) for i in counted)
            print(f"  {name}: accuracy {' '.join(f'{end:.3f}' for end in ends[name])}; flips {flips}")
        for name in list(ends)[1:]:
            gaps = np.subtract(ends["LRR"], ends[name])
            error = gaps.std(ddof=1) / math.sqrt(gaps.size) if gaps.size > 1 else math.nan
            print(f"  LRR above {name} by {gaps.mean():.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
