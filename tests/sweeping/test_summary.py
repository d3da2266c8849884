"""Statistics of sweeps: exact on scripted rows, slopes recovered, absent parts said to be absent."""

import json
import math

import numpy as np
import pytest

from agf import summary
from agf.errors import RequestError
from agf.sweeping import sweep as sweeps


def document(times, levels, labels, start=10.0):
    drops = [
        {
            "time": t, "half_time": t, "accelerated_time": t, "level": level, "neurons": [i], "collapsed": [],
            "label": label, "utility": [1.0], "runner_up": None,
        }
        for i, (t, level, label) in enumerate(zip(times, levels, labels, strict=True))
    ]  # fmt: skip
    return {"drops": drops, "status": "fitted", "start_level": start, "degree": 2, "clock_scale": 1.0}


def scripted(tmp_path, axes, make):
    """A finished sweep whose predictions are `make(run)`; None for a failed run."""
    plan = sweeps.Plan("toy", axes)
    (tmp_path / "rows").mkdir(exist_ok=True)
    for name, runs in plan.chunks().items():
        lines = []
        for run in runs:
            made = make(run)
            entry = {"key": sweeps.key(run), "run": run, "error": "" if made else "boom"}
            lines.append(json.dumps({**entry, **({"predict": made} if made else {})}))
        (tmp_path / "rows" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    return sweeps.Sweep(tmp_path, plan)


def test_quantiles_orders_and_positions_are_those_of_the_rows(tmp_path):
    def make(run):
        seed = run["seed"]
        labels = ["mode 1 (sigma 2)", "mode 2 (sigma 1)"] if seed < 3 else ["mode 2 (sigma 1)", "mode 1 (sigma 2)"]
        return document([1.0 + seed, 10.0], [5.0, 0.0], labels)

    found = summary.summarize(scripted(tmp_path, {"alpha": [1e-3], "seed": list(range(4))}, make))
    (group,) = found.groups
    assert group.column("time", 1).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert found.times().rows[0][4] == "2.5"
    assert found.orders().rows[0][1:3] == ["75 %", "3"]
    assert found.positions()["mode 1"].tolist() == [0.75, 0.25]
    assert found.graph().graph["runs"] == 4
    found.draw()
    for table in found.tables():
        assert len(set(table.columns)) == len(table.columns)  # none is called as another is
    told = found.to_dict()
    assert told["times"][0]["time_median"] == 2.5
    assert (told["orders"][0]["share"], told["orders"][0]["order"]) == (0.75, ["mode 1", "mode 2"])
    assert told["agreement"] == told["convergence"] == []
    assert repr(found) == "<Summary of toy, 1 group, 4 predictions>"


def test_the_median_staircase_goes_on_in_time_and_down_where_fast_runs_make_more_jumps(tmp_path):
    """Over those runs alone that make it, the median of the third jump was before that of the second."""

    def make(run):
        fast = run["seed"] == 0
        return document([1.0, 2.0, 3.0] if fast else [4.0, 8.0 + run["seed"]], [5.0, 2.0, 0.0][: 3 if fast else 2],
                        ["a", "b", "c"][: 3 if fast else 2])  # fmt: skip

    found = summary.summarize(scripted(tmp_path, {"alpha": [1e-3], "seed": [0, 1, 2, 3]}, make))
    (group,) = found.groups
    assert group.column("half_time", 3).tolist() == [3.0]
    low, middle, high, levels = group.median_staircase()
    assert middle.tolist() == [4.0, 9.5]
    assert levels.tolist() == [10.0, 5.0, 2.0]
    assert "of the runs that make the drop" in found.times().notes[0]
    for times in (low, middle, high):
        assert (np.diff(times) > 0).all()


def test_errors_below_the_tolerance_are_drawn_there(tmp_path):
    axes = {"alpha": [1e-3, 1e-4], "seed": [0]}
    found = summary.summarize(scripted(tmp_path, axes, lambda run: document([2.0], [0.0], ["x"])))
    for group, error in zip(found.groups, (0.02, -3e-15), strict=True):
        group.matches.append([{"k": 1, "time_error": error, "level_error": 0.0}])
    (line,) = found.draw_errors().lines
    assert line.get_ydata().tolist() == [1e-6, 0.02]  # at 1e-4 and at 1e-3


def test_failed_runs_are_counted_not_averaged(tmp_path):
    axes = {"alpha": [1e-3], "seed": [0, 1]}
    found = summary.summarize(scripted(tmp_path, axes, lambda r: document([2.0], [0.0], ["x"]) if r["seed"] else None))
    assert found.times().rows[0][2] == "1"
    assert "1 failed run left out" in found.times().notes[0]


def test_seeds_that_all_gave_the_same_run_are_noted(tmp_path):
    axes = {"alpha": [1e-3], "seed": [0, 1, 2]}
    same = summary.summarize(scripted(tmp_path, axes, lambda run: document([2.0], [0.0], ["x"])))
    assert same.times().notes == ["All seeds of alpha=0.001 are the same run: nothing is random there."]
    other = scripted(tmp_path, axes, lambda run: document([2.0 + 1e-12 * run["seed"]], [0.0], ["x"]))
    assert summary.summarize(other).times().notes == []


def test_convergence_recovers_the_limit_and_a_slope_of_one(tmp_path):
    alphas = [10.0**-e for e in (2, 4, 8, 16, 32, 64)]
    axes = {"alpha": alphas, "seed": [0]}
    sweep = scripted(tmp_path, axes, lambda r: document([0.7 - 0.3 / math.log(r["alpha"])], [0.0], ["x"]))
    (row,) = summary.summarize(sweep).convergence().rows
    assert float(row[2]) == pytest.approx(0.7, abs=1e-6)
    assert row[4].startswith("1.00 +- 0.00")


def test_the_limit_of_a_time_is_none_below_0_and_four_alphas_have_no_slope(tmp_path):
    # a drop whose flow time hardly hangs on alpha, 0 to a line from two points that are .2 % off
    alphas = [1e-3, 1e-6, 1e-12, 1e-24]
    sweep = scripted(
        tmp_path,
        {"alpha": alphas, "seed": [0]},
        lambda r: document([-26000.0 * (0.998 if r["alpha"] == 1e-24 else 1.0) / math.log(r["alpha"])], [0.0], ["x"]),
    )
    table = summary.summarize(sweep).convergence()
    assert float(table.rows[0][2]) == 0.0
    assert table.rows[0][4] == "-"
    assert table.notes[-1] == "A slope takes five alphas."


def test_convergence_follows_the_seeds_whose_order_stays(tmp_path):
    alphas = [10.0**-e for e in (2, 4, 8, 16, 32)]

    def make(run):
        # seed 1 learns the other coordinate first, and later, at the largest alpha
        early = run["seed"] == 1 and run["alpha"] == 1e-2
        time = 9.0 if early else 0.7 - 0.3 / math.log(run["alpha"])
        return document([time, 20.0], [5.0, 0.0], ["b", "a"] if early else ["a", "b"])

    sweep = scripted(tmp_path, {"alpha": alphas, "seed": [0, 1, 2]}, make)
    first, second = summary.summarize(sweep).convergence().rows
    assert first[4].startswith("1.00 +- 0.00")
    assert first[5] == second[5] == "2"


def test_orders_write_a_repeated_word_once(tmp_path):
    labels = ["coordinate 3", "coordinate 1", "class 7"]
    sweep = scripted(
        tmp_path, {"alpha": [1e-3], "seed": [0]}, lambda r: document([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], labels)
    )
    row = summary.summarize(sweep).orders().rows[0]
    assert row[1:] == ["-", "1", "coordinate 3 > 1 > class 7"]  # one run is no distribution


@pytest.mark.parametrize(
    ("label", "named"),
    [
        ("coordinates 3 (bp), 7 (s3)", "coordinate 3 (bp), 7 (s3)"),
        ("coordinates 3 (a (b), c), 7 (s3); leaves: coordinate 2 (x)", "coordinate 3 (a (b), c), 7 (s3)"),
        ("coordinates 3, 7", "coordinate 3, 7"),
        ("modes 3 (sigma 2), 7 (sigma 1)", "mode 3, 7"),
    ],
)
def test_tied_coordinates_are_one_feature_with_their_names(tmp_path, label, named):
    made = document([1.0], [3.0], [label])
    made["drops"][0]["neurons"] = [3, 7]
    found = summary.summarize(scripted(tmp_path, {"alpha": [1e-3], "seed": [0]}, lambda r: made))
    assert found.orders().rows[0][3] == named
    assert named in found.graph()


def test_sensitivity_compares_the_two_rules_drop_by_drop(tmp_path):
    axes = {"alpha": [1e-3], "threshold": ["natural", "unit"], "seed": [0]}
    sweep = scripted(tmp_path, axes, lambda r: document([2.0 if r["threshold"] == "natural" else 3.0], [0.0], ["x"]))
    (row,) = summary.summarize(sweep).sensitivity().rows
    assert row[-1] == "50 %"


def test_what_was_not_swept_gives_no_table(tmp_path):
    sweep = scripted(tmp_path, {"alpha": [1e-3], "seed": [0]}, lambda r: document([], [], []))
    found = summary.summarize(sweep)
    assert found.convergence() is None
    assert found.sensitivity() is None
    assert found.agreement() is None
    assert len(found.tables()) == 2
    found.draw()


def test_a_sweep_with_nothing_finished_is_refused(tmp_path):
    with pytest.raises(RequestError, match="no run is finished"):
        summary.summarize(sweeps.Sweep(tmp_path, sweeps.Plan("toy", {"alpha": [1e-3]})))


def test_power_law_slope_and_its_error_cover_the_truth():
    rng = np.random.default_rng(0)
    x = np.geomspace(1e-3, 1, 40)
    fit = summary.power_law(x, 3 * x**1.5 * np.exp(0.1 * rng.standard_normal(40)))
    assert abs(fit.slope - 1.5) < 3 * fit.error
    assert fit.error < 0.05
    assert summary.power_law([1, 1, 1], [1, 2, 3]) is None
    assert summary.power_law([1, 2], [1, 2]) is None
