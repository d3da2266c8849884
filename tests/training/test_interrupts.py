"""An interrupt at any line of the package: what was computed comes back whole, or nothing was computed yet."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import agf
from agf.records.status import Status
from agf.training import recorder

FOLDERS = tuple(str(Path(agf.__file__).parents[1] / name) for name in ("agf", "problems"))
#: Places tried of each computation: at evenly spaced lines of it.
PLACES = 12


class Interrupting:
    """Raises KeyboardInterrupt when so many lines of the package have run (0: counts them)."""

    def __init__(self, at: int) -> None:
        self.at, self.lines = at, 0

    def __call__(self, frame, event, argument):
        return self.line if frame.f_code.co_filename.startswith(FOLDERS) else None

    def line(self, frame, event, argument):
        self.lines += event == "line"
        if event == "line" and self.lines == self.at:
            raise KeyboardInterrupt
        return self.line


def lines_of(compute, at=0):
    """The result of `compute` interrupted at a line, None where it raised KeyboardInterrupt; and lines run."""
    tracer, before = Interrupting(at), sys.gettrace()
    sys.settrace(tracer)
    try:
        return compute(), tracer.lines
    except KeyboardInterrupt:
        return None, tracer.lines
    finally:
        sys.settrace(before)


def problem(name):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(10, 3))
    y = X @ np.array([1.0, 0.5, -0.2]) + 0.1 * rng.normal(size=10)
    if name == "diagonal-linear":  # six coordinates: of three, half the lines come before the first step
        return agf.problem(name, X=np.hstack([X, rng.normal(size=(10, 3))]), y=y), 1e-6
    if name == "linear":
        return agf.problem(name, X=X, Y=np.stack([y, X[:, 0] * X[:, 1]], axis=1), width=3), 1e-4
    return agf.TwoLayer(X, y, activation="erf", width=2), 1e-3


@pytest.mark.parametrize("name", ["diagonal-linear", "linear", "two-layer"])
@pytest.mark.parametrize("way", ["predict", "agf", "flow", "descend"])
def test_an_interrupt_at_any_line_keeps_what_was_computed(tmp_path, name, way):
    network, alpha = problem(name)
    init, file = network.init(alpha, seed=1), tmp_path / "run.npz"
    compute = {
        "predict": lambda: agf.predict(network, init, max_drops=4),
        "agf": lambda: agf.predict(network, init, mode="agf"),
        "flow": lambda: agf.flow(network, init, max_steps=60, snapshots=20),
        "descend": lambda: agf.descend(network, init, lr=1e-2, steps=200, snapshots=20),
    }[way]
    compute()  # what is imported late is there from here on
    whole, lines = lines_of(compute)
    assert whole is not None
    kept = 0
    for at in np.linspace(1, lines - 5, PLACES).astype(int):
        found, _ = lines_of(compute, int(at))
        if found is None:
            continue
        kept += 1
        assert found.status in (Status.INTERRUPTED, whole.status)
        assert found.table().text()
        found.save(file)
        assert agf.load(file).status is found.status
        if way in ("flow", "descend"):
            assert np.all(np.diff(found.times) > 0)
            assert found.times.size == found.losses.size
        elif found.curve_times is not None:
            assert found.curve_times.shape == found.curve_losses.shape
    assert kept > PLACES // 2


def test_an_interrupt_between_a_drop_and_its_measures_loses_neither():
    """Every line of a run of three drops, of which few are between the two."""
    network, alpha = problem("diagonal-linear")
    init = network.init(alpha, seed=1)
    compute = lambda: agf.predict(network, init, mode="agf")  # noqa: E731
    _, lines = lines_of(compute)
    for at in range(lines // 2, lines, 3):
        found, _ = lines_of(compute, at)
        assert found is None or all(np.isfinite(drop.error) for drop in found.drops)


def test_an_interrupt_while_a_run_file_is_written_waits_for_it(tmp_path):
    network, alpha = problem("diagonal-linear")
    init, file = network.init(alpha), tmp_path / "run.npz"
    compute = lambda: agf.flow(network, init, checkpoint=file, max_steps=20)  # noqa: E731
    compute()
    _, lines = lines_of(compute)
    for at in np.linspace(lines - 150, lines - 5, 12).astype(int):
        file.unlink(missing_ok=True)
        lines_of(compute, int(at))
        assert agf.load(file).times.size > 10


def test_of_large_features_as_few_snapshots_are_kept_as_of_large_networks(monkeypatch):
    """A feature of four million numbers was kept two hundred times, and the process was ended for its memory."""

    class Large(agf.TwoLayer):
        def features(self, theta, neurons):
            return {"large": np.zeros(1000)}

    monkeypatch.setattr(recorder, "_SNAPSHOT_BYTES", 12 * 8 * 1012)
    X = np.eye(3)
    kept = []
    for cls in (agf.TwoLayer, Large):
        problem = cls(X, X[:, 0], activation="tanh", width=3)
        kept.append(agf.flow(problem, problem.init(1e-3)).snapshot_times.size)
    assert kept[0] > 24 > 16 >= kept[1]


@pytest.mark.parametrize(
    "train",
    [
        lambda problem, init, steps, **more: agf.flow(problem, init, max_steps=steps, **more),
        lambda problem, init, steps, **more: agf.descend(problem, init, lr=0.1, steps=steps, **more),
        lambda problem, init, steps, **more: agf.descend(problem, init, lr=0.1, steps=steps, batch_size=4, **more),
    ],
)
def test_what_is_resumed_is_the_problem_that_was_trained(train):
    """With the file of a plugin changed in between, the run went on from 2.01 at 4.99, and exit code 0."""

    class Mine(agf.TwoLayer):
        factor = 1.0

        def loss_grad(self, theta, neurons):
            loss, gradient = super().loss_grad(theta, neurons)
            return self.factor * loss, self.factor * gradient

    X = np.random.default_rng(0).standard_normal((8, 3))
    problem = Mine(X, X[:, 0], activation="tanh", width=2)
    init = problem.init(0.1)
    before = train(problem, init, 40)
    assert train(problem, init, 80, resume=before).times[-1] > before.times[-1]
    Mine.factor = 1.01
    with pytest.raises(agf.RequestError, match="cannot resume: the problem is not the one that was trained"):
        train(problem, init, 80, resume=before)
    Mine.factor = np.nan
    with pytest.raises(agf.ProblemError, match="`loss_grad` returned a non-finite value"):
        train(problem, init, 40)
