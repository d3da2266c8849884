"""The documentation runs: every python block, file by file; and it is complete where a list exists in the code."""

from __future__ import annotations

import math
import re
import shlex
import signal
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import agf
from agf.records.status import Status
from agf.shell.main import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
FENCE = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Seconds of the processor beyond which an example says that it takes long.
SLOW = 5.0
#: Characters around an example in which it says so.
BESIDE = 700
LANGUAGES = {"python", "console", "text", "json", "bibtex", "toml", "yaml"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def close(shown: str, printed: str, absolute: float) -> bool:
    """Whether two words are equal, as numbers up to what differs between machines (the rtol of the training).

    Rulers of tables are as long as the longest number of their column, -0.0012 or <0.001.
    """
    if shown and not (set(shown) | set(printed)) - {"-"} and min(len(shown), len(printed)) > 2:
        return True
    try:
        return math.isclose(float(shown.lstrip("<")), float(printed.lstrip("<")), rel_tol=1e-3, abs_tol=absolute)
    except ValueError:
        return shown == printed


def check_output(shown: str, printed: str) -> None:
    """Fail unless a page shows what was printed, word by word; lines may be wrapped, and the last words be left out.

    Relative errors of a few 1e-15 are rounding and differ in every digit: compared as numbers, near 0. Errors in per
    cent are differences of nearly equal numbers, which the tolerances of the runs move: to a twentieth of a per cent.
    """
    words, found = shown.split(), printed.split()
    if words[-1:] == ["..."]:
        words.pop()
        found = found[: len(words)]
    assert len(words) == len(found), printed
    units = [*words[1:], ""]
    differ = [
        (one, other)
        for one, other, unit in zip(words, found, units, strict=True)
        if not close(one, other, 0.05 if unit == "%" else 1e-3)
    ]
    assert not differ, (differ, printed)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_block_runs_in_order_and_prints_what_the_page_shows(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "documentation"}
    printed, end = "", 0
    for match in FENCE.finditer(text):
        language, body = match.groups()
        began = time.process_time()
        command, _, shown = body.partition("\n")
        if language == "python":
            # Blank lines in front keep the line numbers of tracebacks those of the page.
            code = "\n" * text.count("\n", 0, match.start(2)) + body
            capsys.readouterr()
            exec(compile(code, str(path), "exec"), namespace)
            printed, end = capsys.readouterr().out, match.end()
        elif language == "text" and printed and not text[end : match.start()].strip():
            check_output(body, printed)  # a text block right below code is what it prints
        elif language == "console" and command.startswith("$ agf"):
            capsys.readouterr()
            assert main(shlex.split(command)[2:]) == 0, capsys.readouterr().err
            captured = capsys.readouterr()
            if shown:
                check_output(shown, captured.out + captured.err)
        if time.process_time() - began > SLOW:
            near = text[max(match.start() - BESIDE, 0) : match.end() + BESIDE]
            assert re.search(r"takes about [\w ]*(seconds|minutes?)", near), (body, "takes long and does not say so")


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_blocks_are_marked_with_a_known_language_and_none_is_exempt(path):
    for match in FENCE.finditer(path.read_text(encoding="utf-8")):
        assert match.group(1) in LANGUAGES, f"{path.name}: a block marked {match.group(1)!r}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_relative_links_lead_somewhere(path):
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (path.parent / link).exists(), f"{path.name} links to {link}"


def test_every_page_and_notebook_is_reached_from_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for path in [*PAGES[1:], *NOTEBOOKS]:
        assert path.name == "index.md" or f"({path.relative_to(ROOT / 'docs')})" in index, path


def test_the_index_says_what_is_in_every_documented_module():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `agf\.(\w+)` \| (.+) \|$", index, re.MULTILINE)
    assert [module for module, _ in rows] == sorted(agf._MODULES)
    for module, words in rows:
        for function in re.findall(r"`(\w+)`", words):
            assert hasattr(getattr(agf, module), function), f"agf.{module}.{function}"


def test_when_it_fails_has_one_heading_for_every_status_and_no_other_word():
    text = (ROOT / "docs" / "when-it-fails.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    assert sorted(headings) == sorted(status.word for status in Status)
    for status in Status:
        section = re.search(rf"^## {status.word}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        assert section is not None
        assert section.group(1).lstrip().startswith("*Failed.*") == status.failed, status.word


def test_version_licence_and_citation_agree():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {agf.__version__}\n" in citation
    assert "license: MIT" in citation
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert f"## {agf.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_readme_lists_every_extra_as_a_clone_installs_it():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    listed = re.findall(r"^\| `'\.\[(\w+)\]'` \|", PAGES[0].read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(set(declared) - {"dev", "docs", "bench", "audit"})


def test_nothing_tells_to_install_the_package_of_this_name_from_the_index():
    # It is somebody else's there.
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    texts += [*(ROOT / "agf").rglob("*.py"), *(ROOT / "problems").rglob("*.py")]
    for path in texts:
        assert not re.search(r"pip install (-\S+ )*['\"]?agf\b", path.read_text(encoding="utf-8")), path


def stated(page: str, pattern: str) -> list[float]:
    """The numbers that a page states in a sentence, so that a test holds those that stand there."""
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    found = re.search(pattern, text)
    assert found is not None, (page, pattern)
    return [float(word) for word in found.groups()]


def test_errors_fall_with_alpha_as_the_readme_says():
    data = agf.datasets.load("diabetes")
    problem = agf.problem("diagonal-linear", X=data["X"], y=data["y"])
    words = (
        r"on these data it is up to ([\d.]+) % off at this alpha, ([\d.]+) % at 1e-8, and below ([\d.]+) % at 1e-200"
    )
    here, coarse, tiny = stated("README.md", words)
    errors = {}
    for alpha in (1e-16, 1e-8, 1e-200):
        init = problem.init(alpha)
        errors[alpha] = agf.compare(agf.predict(problem, init, mode="agf"), agf.flow(problem, init)).max_time_error
    assert 100 * errors[1e-16] == pytest.approx(here, abs=0.05)
    assert 100 * errors[1e-8] == pytest.approx(coarse, abs=0.5)
    assert 100 * errors[1e-200] < tiny


def test_the_lateness_of_steps_is_that_of_the_page_on_curves_trained_elsewhere():
    from agf.results.match import lateness

    words = r"Here that is ([\d.]+) %; with `lr = ([\d.]+)` and `m = ([\d.]+)` .* would come nearly twice as late"
    share, lr, momentum = stated("docs/trained-elsewhere.md", words)
    rng = np.random.default_rng(0)  # the data of the page
    X = rng.standard_normal((100, 4))
    problem = agf.problem("diagonal-linear", X=X, y=X @ [2.0, -1.0, 0.5, 0.0])
    stairs = agf.predict(problem, agf.Init.from_params(1e-6 * rng.standard_normal((4, 2))))

    def late(lr, momentum):
        empty = np.zeros(0)
        run = agf.Trajectory("", 2, "csv", empty, empty, Status.CURVE, settings={"lr": lr, "momentum": momentum})
        return lateness(stairs, run)

    assert 100 * late(0.002, 0.5) == pytest.approx(share, abs=0.5)
    assert 0.8 < late(lr, momentum) < 1.0


def test_errors_at_the_default_alpha_are_those_that_the_pages_admit():
    problem = agf.problem("diagonal-linear", **agf.registry.find("diagonal-linear").example())
    init = problem.init(alpha=1e-8)
    stairs, observed = agf.predict(problem, init, mode="agf"), agf.flow(problem, init)
    errors = [abs(match.time_error) for match in agf.compare(stairs, observed).matches]
    assert 0.135 < max(errors) == errors[7] < 0.145
    assert max(errors[:7] + errors[8:]) < 0.0615
    assert stairs.half_times[2] == stairs.times[1]
    resolved = agf.compare(agf.predict(problem, init, mode="resolved"), observed)
    assert len(resolved.matches) == 7
    assert resolved.max_time_error < 1e-3


def test_exit_codes_of_the_program_are_those_of_the_pages_each_with_what_to_do():
    from agf.shell import main as cli

    codes = [cli.DONE, cli.FAILED, cli.WRONG, cli.INTERRUPTED]
    rows = re.findall(
        r"^\| (\d[\d, ]*) \| .+ \| .+ \|$", (ROOT / "docs/when-it-fails.md").read_text("utf-8"), re.MULTILINE
    )
    assert [int(code) for row in rows for code in row.split(", ")] == [*codes, 128 + signal.SIGTERM, 128 + 1]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split("Exit codes:")[1].split())
    assert [int(code) for code in re.findall(r"(?:^|, )(\d+) ", readme.split(". ")[0])] == codes


def test_every_source_key_used_in_the_code_is_in_the_bibliography():
    listed = set(re.findall(r"^\| \[(.+?)\] \|", (ROOT / "docs" / "bibliography.md").read_text("utf-8"), re.MULTILINE))
    used: dict[str, str] = {}
    for folder in ("agf", "problems"):
        for path in (ROOT / folder).glob("*.py"):
            for key in re.findall(r"\[([A-Z][A-Za-z&]*\d{2}|AGF|GLRL|Pinson)\]", path.read_text(encoding="utf-8")):
                used[key] = path.name
    assert not set(used) - listed, {key: used[key] for key in set(used) - listed}
