"""Groups, alignment, tickets, flips and cycles draw themselves, and are tables of plain columns."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import race_cases

import agf
from agf.capacity import race_pictures
from agf.shell.main import main


@pytest.fixture(scope="module")
def results():
    problem, init = race_cases.network(12), race_cases.start(12)
    theta = init.params()
    theta[5] = 0.0  # a dead neuron
    init = agf.Init.from_params(theta, alpha=1e-4)
    run = agf.flow(problem, init, t_max=8.0, snapshots=40)
    cycles = agf.rewind(problem, race_cases.start(12, scale=0.3), cycles=2, train={"lr": 0.02, "steps": 20})
    return {
        "run": run,
        "groups": agf.groups(run),
        "alignment": agf.alignment(problem, run),
        "moment": agf.alignment(problem, init),
        "tickets": agf.tickets(problem, init, keep=3, until=8.0),
        "flips": run.flips("inner"),
        "cycles": cycles,
    }


@pytest.mark.parametrize("name", ["groups", "alignment", "moment", "tickets", "flips", "cycles"])
def test_each_draws_itself_and_is_a_frame(results, name, tmp_path):
    found = results[name]
    path = tmp_path / "picture.svg"
    ax = found.plot(path)
    assert path.stat().st_size > 1000
    assert ax.get_xlabel()
    assert ax.has_data()
    assert not found.to_frame().empty


def test_pictures_of_training_are_refused_for_what_is_predicted(results, tmp_path, capsys):
    problem = race_cases.network(12)
    agf.predict(problem, race_cases.start(12), max_drops=1).save(tmp_path / "run.npz")
    for view in ("race", "groups", "alignment"):
        assert main(["plot", str(tmp_path / "run.npz"), "--view", view, "-o", str(tmp_path / "x.svg")]) == 2
        assert "a Staircase holds no weights over time" in capsys.readouterr().err


def test_cosines_at_rest_are_not_drawn(results):
    found = results["alignment"]
    still = replace(found, drive=np.where(found.times[:, None] > 1.0, 1e-9 * found.drive, found.drive))
    drawn = [line.get_ydata() for line in still.plot().lines]
    later, at_rest = still.times[still.times > 0], still.times[still.times > 0] > 1.0
    assert later.size > at_rest.sum() > 0
    assert np.isnan([values[at_rest] for values in drawn]).all()
    assert np.isfinite(drawn[0][~at_rest]).any()


def test_frames_hold_the_numbers_of_the_results(results):
    groups, tickets, run = results["groups"], results["tickets"], results["run"]
    frame = groups.to_frame()
    listed = " ".join(frame["members"]).split()
    assert sorted(map(int, listed)) == list(range(12))
    assert frame["group"].iloc[-1] == -1  # the dead
    assert frame["log_total"][0] == groups[0].log_total
    frame = tickets.to_frame()
    assert frame["neuron"].tolist() == tickets.order.tolist()
    assert frame["kept"].sum() == 3
    assert frame["dead"].sum() == 1
    assert (np.diff(frame["log_norm"]) <= 0).all()
    frame = results["alignment"].to_frame()
    assert len(frame) == 12 * run.snapshot_times.size
    assert set(frame["side"]) <= {"1", "2", ""}
    frame = results["flips"].to_frame()
    assert len(frame) == len(results["flips"])
    assert (np.diff(frame["time"]) >= 0).all()
    cycles = results["cycles"]
    frame = cycles.to_frame()
    assert frame["loss"].tolist() == cycles.losses.tolist()
    assert frame["flips"].tolist() == cycles.signs().flips.tolist()


@pytest.mark.parametrize("name", ["groups", "alignment", "tickets", "flips", "cycles"])
def test_the_meaning_of_every_column_is_in_the_docstring_and_in_the_docs(results, name):
    page = (Path(__file__).parents[2] / "docs" / "notation.md").read_text(encoding="utf-8")
    found = results[name]
    told = {}
    for columns, meaning in re.findall(r"\* (`[^:]*`): (.*)", type(found).to_frame.__doc__):
        assert f"| {columns} | {meaning} |" in page
        told |= dict.fromkeys(re.findall(r"`(\w+)`", columns), meaning)
    others = set(found.baselines) if name == "tickets" else set()  # a column for each, as the page says
    assert set(found.to_frame().columns) - others == set(told)


def test_tickets_are_drawn_against_training(results):
    ax = results["tickets"].plot(against=results["run"])
    assert "Spearman" in ax.get_title()


def test_nothing_to_draw_is_said_in_the_picture():
    problem = agf.TwoLayer([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0], width=2, kink=0)
    dead = np.array([[-1.0, -1.0, 1.0], [-1.0, -2.0, 1.0]])
    for found in (agf.groups(problem, dead), agf.alignment(problem, dead)):
        assert found.plot().texts
    assert agf.groups(problem, dead).to_frame()["members"].tolist() == ["0 1"]
    run = agf.flow(problem, agf.Init.from_params(np.abs(dead)), t_max=0.1)
    assert run.flips("inner").plot().texts
    assert run.flips("inner").to_frame().empty


def test_agf_plot_draws_cycles(results, tmp_path):
    path = str(tmp_path / "run.npz")
    results["cycles"].save(path)
    assert main(["plot", path, "-o", str(tmp_path / "cycles.png")]) == 0


def test_coordinates_that_race_have_their_names():
    problem = agf.problem("diagonal-linear", X=np.eye(2), y=np.array([2.0, 1.0]), names=["age", "bmi"])
    flow = agf.flow(problem, problem.init(1e-3))
    assert [group.label for group in agf.groups(flow)] == ["age", "bmi"]
    for picture in (race_pictures.race, race_pictures.aligned):
        named = [text.get_text() for text in picture(flow).get_legend().get_texts()]
        assert named == ["0: coordinate 0 (age)", "1: coordinate 1 (bmi)"]
