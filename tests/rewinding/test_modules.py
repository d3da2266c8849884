"""Pipelines on torch modules: exact starts and masks, buffers taken along, what cannot be said in a sentence."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

import agf

X = torch.as_tensor(np.random.default_rng(0).standard_normal((60, 6)), dtype=torch.float64)
Y = (X[:, 0] - X[:, 1] * X[:, 2] > 0).long()


def model(seed=0, norm=False):
    torch.manual_seed(seed)
    layers = [nn.Linear(6, 20), *([nn.BatchNorm1d(20)] if norm else []), nn.ReLU(), nn.Linear(20, 2)]
    return nn.Sequential(*layers).double()


def train(module, until=None, budget=1):
    """Full-batch SGD with momentum and weight decay, `until` steps or forty times `budget`."""
    sgd = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    for _ in range(40 * budget if until is None else int(until)):
        sgd.zero_grad()
        loss = nn.functional.cross_entropy(module(X), Y)
        loss.backward()
        sgd.step()
    return loss.item()


def flat(module):
    """By name: torch's pruning, once removed, registers weights behind biases."""
    state = module.state_dict()
    return np.concatenate([state[name].numpy().ravel() for name in ("0.weight", "0.bias", "2.weight", "2.bias")])[None]


@pytest.mark.parametrize("method", ["imp", "wr", "lrr"])
def test_starts_masks_and_ends_are_those_of_the_method(method):
    start = flat(model())
    module = model()
    run = agf.rewind(module, train=train, method=method, cycles=3, keep=0.7, rewind=5.0 if method == "wr" else 0.0)
    weights = np.isin(np.arange(start.size), [*range(120), *range(140, 180)])[None]
    early = model()
    train(early, until=5)
    back = {"imp": start, "wr": flat(early)}.get(method)
    for i in range(1, 4):
        assert (run.masks[i] & weights).sum() == round(160 * 0.7**i)
        assert run.masks[i][~weights].all()  # biases are not pruned
        assert not (run.masks[i] & ~run.masks[i - 1]).any()
        before = np.abs(run.ends[i - 1])
        assert before[run.masks[i - 1] & ~run.masks[i]].max() <= before[run.masks[i] & weights].min()
        assert not run.ends[i][~run.masks[i]].any()  # through momentum and weight decay
        assert run.starts[i] == pytest.approx((run.ends[i - 1] if back is None else back) * run.masks[i], rel=1e-13)
    assert flat(module) == pytest.approx(run.ends[-1], rel=1e-13)  # the module is left there, without masks
    assert all("_orig" not in name for name, _ in module.named_parameters())
    by_hand = model()
    train(by_hand)
    assert run.ends[0] == pytest.approx(flat(by_hand), rel=1e-12)
    assert np.isfinite(run.losses).all()


def test_buffers_of_normalization_are_rewound_and_never_pruned():
    run = agf.rewind(model(norm=True), train=train, cycles=1, keep=0.5, score=lambda module, _: len(list(module)))
    assert run.scores[1] == 4
    assert (
        run.starts[1].size == 120 + 20 + 20 + 20 + 40 + 2 + 20 + 20
    )  # two weights, two biases, gamma, beta, mean, var
    assert run.masks[1].sum() == run.masks[1].size - 80
    assert run.starts[1][0, -20:] == pytest.approx(np.ones(20))  # the running variance of the start


def test_equal_budgets_random_masks_and_foreign_masks():
    equal = agf.rewind(model(), train=train, cycles=2, by="random", budget="equal")
    lrr = agf.rewind(model(), train=train, cycles=2, by="random", method="lrr")
    assert np.array_equal(equal.masks, lrr.masks)
    taken = agf.rewind(model(), train=train, cycles=2, masks=lrr)
    assert np.array_equal(taken.masks, lrr.masks)
    inner, outer = lrr.masks[2][0, :120].sum(), lrr.masks[2][0, 140:180].sum()
    assert (inner, outer) == (62, 40)  # the small layer stays whole: 102 are left


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.other.weight = self.one.weight


def test_what_cannot_be_is_refused_in_a_sentence():
    for module, options, words in (
        (Tied(), {"train": train}, "are one parameter"),
        (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 2))), {"train": train}, "computed from"),
        (nn.LayerNorm(4), {"train": train}, "no weight matrix"),
        (nn.Linear, {"train": train}, "is a class"),
        (nn.Linear(3, 3, dtype=torch.complex64), {"train": train}, "is complex"),
        (model(), {}, "needs a training function"),
        (model(), {"train": train, "by": "snip"}, "no score 'snip' by itself"),
        (model(), {"train": train, "rebalance": True}, "no rows"),
        (model(), {"train": train, "prunable": "inner"}, "starts where it is"),
    ):
        with pytest.raises(agf.RequestError, match=words):
            agf.rewind(module, cycles=1, **options)
    with pytest.raises(agf.DataError, match="kills all"):
        agf.rewind(model(), train=train, cycles=1, masks=[np.zeros((1, 182))])


SCRIPT = """
import sys, time, numpy as np, agf
problem = agf.TwoLayer(**{**agf.TwoLayer.example(), "width": 20})
def train(problem, init):
    run = agf.descend(problem, init, lr=0.05, steps=20)
    print("trained", flush=True)
    time.sleep(0.2)
    return run
agf.rewind(problem, problem.init(0.3), cycles=10, keep=0.9, train=train, path=sys.argv[1])
"""


def test_kill_9_loses_at_most_the_cycle_under_way(tmp_path):
    path = tmp_path / "run.npz"
    child = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE, text=True)
    for _ in range(4):
        assert child.stdout.readline() == "trained\n"
    time.sleep(0.1)
    os.kill(child.pid, signal.SIGKILL)  # while the fourth, cycle 3, sleeps in its training
    child.communicate()
    kept = agf.load(path)
    assert kept.cycles == 2
    problem = agf.TwoLayer(**{**agf.TwoLayer.example(), "width": 20})
    count = []

    def again(problem, init):
        count.append(1)
        return agf.descend(problem, init, lr=0.05, steps=20)

    options = {"cycles": 4, "keep": 0.9, "train": again}
    resumed = agf.rewind(problem, problem.init(0.3), path=path, **options)
    assert len(count) == 2
    assert np.array_equal(resumed.ends, agf.rewind(problem, problem.init(0.3), **options).ends)


def test_snip_scores_weights_by_the_gradient_of_the_loss_that_is_given():
    """|w dL/dw| of one layer and a square loss, by hand, in two cycles; it is not the order of the magnitudes."""
    torch.manual_seed(0)
    x, y = torch.randn(20, 5, dtype=torch.float64), torch.randn(20, 2, dtype=torch.float64)
    net = nn.Linear(5, 2, dtype=torch.float64)
    w, bias = net.weight.detach().numpy().copy(), net.bias.detach().numpy().copy()

    def loss(net):
        return ((net(x) - y) ** 2).mean()

    run = agf.rewind(net, train=lambda net: None, by="snip", loss=loss, cycles=2, keep=0.5)
    for cycle, left in ((1, 5), (2, 2)):
        saliency = np.abs(w * ((x.numpy() @ w.T + bias - y.numpy()).T @ x.numpy())).ravel()
        best = np.argsort(-saliency)[:left]
        assert set(np.flatnonzero(run.masks[cycle][0, :10])) == set(best)
        assert cycle == 2 or set(best) != set(np.argsort(-np.abs(w).ravel())[:left])
        w = w * run.masks[cycle][0, :10].reshape(2, 5)


def test_synflow_scores_weights_by_the_sum_over_the_paths_they_are_on():
    """Three layers: |W3| |W2| |W1| summed over all paths through a weight, by hand; the module is left as it was."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    w1, w2, w3 = (np.abs(net[k].weight.detach().double().numpy()) for k in (0, 2, 4))
    before, after = (w2.T @ w3.sum(axis=0))[:, None] * w1, w1.sum(axis=1)
    paths = [before, w2 * np.outer(w3.sum(axis=0), after), w3 * (w2 @ after)]
    best = np.argsort(-np.concatenate([part.ravel() for part in paths]))[:14]
    run = agf.rewind(net, train=lambda net: None, by="synflow", inputs=(4,), cycles=1, keep=0.5)
    kept = run.masks[1][0][np.r_[0:12, 15:24, 27:33]]  # without biases
    assert set(np.flatnonzero(kept)) == set(best)
    assert net[0].weight.dtype == torch.float32
    assert run.ends[0] == pytest.approx(run.starts[0])
    conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    assert agf.rewind(conv, train=lambda net: None, by="synflow", inputs=(1, 4, 4), cycles=3, keep=0.5).cycles == 3


def test_weights_of_half_precision_and_frozen_ones_are_taken_as_they_are():
    assert agf.rewind(nn.Linear(3, 3).bfloat16(), train=lambda net: None, cycles=1, keep=0.5).cycles == 1
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[0].weight.requires_grad_(False)
    run = agf.rewind(
        net, train=lambda net: None, by="snip", loss=lambda net: net(torch.ones(1, 3)).sum(), cycles=1, keep=0.5
    )
    assert not run.masks[1][0, :9].any()  # no gradient, no saliency


def test_parametrizations_hold_masks_as_pruning_does_and_also_where_weights_are_read_or_copied():
    both = [agf.rewind(model(), train=train, cycles=2, keep=0.6, hold=hold) for hold in ("prune", "parametrization")]
    assert np.array_equal(both[0].masks, both[1].masks)
    assert both[0].ends == pytest.approx(both[1].ends, rel=1e-12)

    def penalized(module):
        sgd = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(5):
            sgd.zero_grad()
            penalty = 1e-2 * module[0].weight.abs().sum()  # before the forward pass
            (penalty + nn.functional.cross_entropy(module(X), Y)).backward()
            sgd.step()
        assert copy.deepcopy(module)(X).shape == (60, 2)

    net = model()
    run = agf.rewind(net, train=penalized, cycles=2, keep=0.6, hold="parametrization", method="lrr")
    assert not run.ends[2][~run.masks[2]].any()
    assert [name for name, _ in net.named_parameters() if "parametrizations" in name] == []
    with pytest.raises(agf.RequestError, match="a list of its own"):
        agf.rewind(nn.LSTM(3, 4), train=lambda net: None, cycles=1, hold="parametrization")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "snip"}, "snip with loss="),
        ({"by": "snip", "loss": lambda net: 1.0}, "does not return a tensor"),
        ({"by": "synflow"}, "synflow with inputs="),
        ({"by": "synflow", "inputs": (3,)}, "does not take an input of ones"),
        ({"by": "synflow", "inputs": "four"}, "no shape of one input"),
        ({"hold": "glue"}, "prune or parametrization"),
        ({"train": lambda net: "x"}, "returns no number"),
        ({"method": "wr", "rewind": 2}, "takes no `until`"),
        ({"budget": "equal"}, "takes no `budget`"),
        ({"train": lambda: None}, r"cannot be called as train\(module\)"),
        ({"masks": [[1, 0], [1]]}, "shape"),
        ({"masks": "abc"}, "no sequence"),
    ],
)
def test_what_a_training_function_lacks_is_said(options, words):
    options = {"train": lambda net: None, "cycles": 1, **options}
    with pytest.raises(agf.RequestError, match=words):
        agf.rewind(nn.Linear(4, 4), **options)
