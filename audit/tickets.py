"""Tickets on digits, [Pinson] in small: `python -m audit.tickets [--seeds 4]`: the table of docs/races.md.

250 ReLU neurons with hidden biases, 50 images each of 0 and 3 against 1 and 2, 20,000 steps of SGD at .001 with
momentum .9 in batches of four, all weights N(0, std^2). Takes five minutes.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import agf

WIDTH, STEPS, BATCH = 250, 20_000, 4


def start(centred: bool, scale: float, seed: int) -> tuple[agf.TwoLayer, agf.Init]:
    """The network on its samples, and weights."""
    data = agf.datasets.load("digits")
    X, labels = np.asarray(data["X"]), np.asarray(data["labels"])
    rows = np.concatenate([np.flatnonzero(labels == k)[:50] for k in (0, 3, 1, 2)])
    X = X[rows] - (X[rows].mean(axis=0) if centred else 0.0)
    problem = agf.TwoLayer(X, np.isin(labels[rows], (0, 3)), loss="cross-entropy", width=WIDTH, bias="hidden")
    theta = scale * np.random.default_rng(seed).standard_normal((WIDTH, problem.n_params))
    theta[:, problem.n_inputs - 1] = 0.0
    return problem, agf.Init.from_params(theta, alpha=scale)


def main() -> None:
    parser = argparse.ArgumentParser(prog="audit.tickets", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    seeds = parser.parse_args().seeds
    agf.tickets(*start(True, 1e-2, 0))  # imports are no part of the cost
    for centred in (False, True):
        for scale in (1e-4, 1e-2):
            scores: dict[str, list[float]] = {}
            cost, passes = [], []
            for seed in range(seeds):
                problem, init = start(centred, scale, seed)
                began = time.process_time()
                trained = agf.descend(
                    problem, init, lr=1e-3, momentum=0.9, batch_size=BATCH, steps=STEPS, seed=seed, snapshots=2
                )
                spent = time.process_time() - began
                found = agf.tickets(problem, init)
                for name, values in found.scores(trained).items():
                    scores.setdefault(name, []).append(values["spearman"])
                cost.append(spent / (time.process_time() - began - spent))
                passes.append(found.evaluations * problem.n_samples / (STEPS * BATCH))
            said = "; ".join(f"{name} {min(values):.4f} to {max(values):.4f}" for name, values in scores.items())
            print(f"{'centred' if centred else 'raw'}, {scale:g}: {said}")
            print(f"  CPU 1/{max(cost):.0f} to 1/{min(cost):.0f} of training, samples {min(passes):.2f} to "
                  f"{max(passes):.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
