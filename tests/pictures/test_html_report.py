"""The interactive page: self-contained, alive in a browser, the numbers of the run file, nothing executed from it."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import agf
from agf.clock import Clock
from agf.errors import FileError, RequestError
from agf.page import report as html_report
from agf.records.status import Status
from agf.results.drop import Drop
from agf.results.staircase import Staircase
from agf.results.trajectory import Trajectory

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def stairs(label="mode 1"):
    drops = (Drop(2.0, 1.5, 0.2, 1.0, np.array([0]), label=label, utility=np.ones(1)),)
    return Staircase("toy", 2, Clock(2, np.log(10.0)), 3.0, drops, Status.FITTED)


def curve():
    times = np.concatenate([[0.0], np.geomspace(1e-2, 20, 300)])
    losses = 1 + 2 / (1 + (times / 1.5) ** 6)
    moments = times[::30]
    features = {
        "coefficients": np.outer(np.arange(moments.size), [1.0, -2.0]),
        "matrix": np.random.default_rng(0).standard_normal((moments.size, 3, 4)),
        "accuracy": np.linspace(0, 1, moments.size),
    }
    return Trajectory(
        "toy", 2, "rk45", times, losses, Status.SETTLED, snapshot_times=moments,
        log_norms=np.zeros((moments.size, 2)), features_over_time=features, arguments={"names": ["age", "b<mi"]},
    )  # fmt: skip


def late():
    """A curve whose second drop is a thousandth of the first."""
    times = np.concatenate([[0.0], np.geomspace(1e-2, 1e4, 900)])
    losses = 2 + 1 / (1 + (times / 1.5) ** 6) + 1e-2 / (1 + (times / 300) ** 6)
    return Trajectory("toy", 2, "rk45", times, losses, Status.SETTLED)


def embedded(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="agf-data">(.*?)</script>', text, re.S)[1])


def test_the_page_holds_the_numbers_of_the_runs_and_needs_no_network(tmp_path):
    size = html_report.report([stairs(), curve()], tmp_path / "r.html")
    assert size == (tmp_path / "r.html").stat().st_size
    data = embedded(tmp_path / "r.html")
    assert data["curves"][0]["losses"] == curve().losses.tolist()
    assert data["staircases"][0]["drops"][0]["half_time"] == 1.5
    features = data["snapshots"]["features"]  # coordinates that have names are called by them below their bars
    assert {name: feature["named"] for name, feature in features.items()} == {
        "coefficients": True,
        "matrix": False,
        "accuracy": False,
    }
    assert features["coefficients"]["entries"] == ["age", "b&lt;mi"]
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    head = text.split("<script", 1)[0] + text.rsplit("</script>", 1)[1]
    assert not re.search(r"""(src|href)\s*=\s*["']https?:""", head)


def test_runs_are_told_apart_by_name_and_a_resolved_prediction_is_drawn_as_its_curve(tmp_path):
    other = replace(curve(), problem="another")
    times = np.geomspace(0.1, 10.0, 7)
    resolved = replace(stairs(), curve_times=times, curve_losses=np.linspace(3.0, 1.0, 7))
    html_report.report([curve(), other, curve(), stairs(), resolved], tmp_path / "r.html")
    data = embedded(tmp_path / "r.html")
    assert [run["name"] for run in data["curves"]] == [
        "toy, gradient flow, 1",
        "another, gradient flow",
        "toy, gradient flow, 2",
    ]
    assert data["snapshots"]["name"] == "toy, gradient flow, 1"  # whose norms and features are drawn
    assert [run["shape"] for run in data["staircases"]] == ["hv", "linear"]
    assert data["staircases"][1]["times"] == times.tolist()


def test_a_hostile_label_stays_text(tmp_path):
    evil = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'
    html_report.report([stairs(evil), curve()], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in text
    assert "<img src=x" not in text


def test_runs_without_curve_norms_or_drops_still_make_a_page(tmp_path):
    empty = Staircase("toy", 2, Clock(2, 0.0), 3.0, (), Status.FITTED)
    html_report.report([empty], tmp_path / "r.html")
    assert embedded(tmp_path / "r.html")["snapshots"] is None


def test_nothing_to_show_and_unwritable_paths_are_refused(tmp_path):
    with pytest.raises(RequestError, match="no run"):
        html_report.report([], tmp_path / "r.html")
    with pytest.raises(FileError, match="cannot write"):
        html_report.report([stairs()], tmp_path / "no" / "r.html")


@pytest.mark.browser
@pytest.mark.parametrize(
    "runs", [[stairs(), curve()], [stairs()], [curve()], [late()]], ids=["both", "stairs", "curve", "late"]
)
def test_the_page_is_alive_in_a_browser(tmp_path, runs):
    from playwright.sync_api import sync_playwright

    path = tmp_path / "r.html"
    html_report.report(runs, path)
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=flags, timeout=0)
        try:
            tab = browser.new_page()
            tab.set_default_timeout(0)  # what is waited for is a state of the page, however busy the machine is
            complaints = []
            tab.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
            tab.on("pageerror", lambda e: complaints.append(str(e)))
            tab.on("request", lambda r: complaints.append(r.url) if r.url.startswith("http") else None)
            tab.goto(path.as_uri())
            tab.wait_for_selector("body[data-ready=yes]")
            moments = [run for run in runs if isinstance(run, Trajectory)]
            if moments and moments[0].snapshot_times.size:
                for k in (0, 4):
                    tab.evaluate(
                        "k => { const s = document.getElementById('time'); s.value = k;"
                        " s.dispatchEvent(new Event('input')); }",
                        k,
                    )
                    shown = float(tab.text_content("#read-loss"))
                    assert shown == pytest.approx(float(moments[0].loss_at(moments[0].snapshot_times[k])), rel=1e-4)
                    bar = tab.evaluate("() => document.getElementById('features').data[0].y")
                    words = tab.evaluate("() => document.getElementById('features').layout.xaxis.ticktext")
                    if tab.input_value("#feature-name") == "coefficients":
                        assert (bar, words) == ([float(k), -2.0 * k], ["age", "b&lt;mi"])
                tab.select_option("#feature-name", "matrix")
                assert tab.evaluate("() => document.getElementById('features').data[0].type") == "heatmap"
            check_the_scale_of_the_loss(tab, embedded(path))
            cells = tab.locator("table").first.locator("tbody tr").count()
            assert cells >= 1
            assert complaints == []
        finally:
            browser.close()


def check_the_scale_of_the_loss(tab, data):
    """Unchecking gives the losses as they are; hovering reads them in either scale."""
    if not data["curves"]:
        return
    read = "key => document.getElementById('loss').data[0][key]"
    losses = data["curves"][0]["losses"]
    assert tab.evaluate(read, "customdata") == losses
    assert tab.is_checked("#log-loss") == tab.is_enabled("#log-loss") == (data["scale"] is not None)
    if data["scale"] is not None:
        heights = tab.evaluate(read, "y")
        assert min(heights) > 0
        np.testing.assert_allclose(np.array(heights) + data["scale"]["base"] - data["scale"]["floor"], losses)
        tab.uncheck("#log-loss")
    assert tab.evaluate(read, "y") == losses


def test_the_scale_of_the_loss_is_that_of_the_pictures(tmp_path):
    for run, scaled in ((late(), True), (curve(), False)):
        html_report.report([run], tmp_path / "r.html")
        assert (embedded(tmp_path / "r.html")["scale"] is not None) == scaled
        assert (run.plot().get_yscale() == "function") == scaled


def test_comparisons_are_taken_apart_and_runs_shown_once(tmp_path):
    report = agf.compare(stairs(), curve())
    html_report.report([report, report.stairs], tmp_path / "r.html")
    data = embedded(tmp_path / "r.html")
    assert (len(data["curves"]), len(data["staircases"])) == (1, 1)
