"""No constant decides a result in silence: doubled and halved, it moves no more than is written down."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def _script():
    spec = importlib.util.spec_from_file_location("agf_constants", DOCS / "constants.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["agf_constants"] = module
    spec.loader.exec_module(module)
    return module


constants = _script()


def test_the_page_is_that_of_the_code():
    assert constants.page() == constants.PAGE.read_text(encoding="utf-8"), "run: python docs/constants.py"


def test_the_measurements_are_of_constants_that_there_are():
    stale = set(constants.measured()) - {one.key for one in constants.constants()}
    assert not stale, "run: python docs/constants.py"


@pytest.mark.parametrize("constant", constants.constants(), ids=lambda one: one.key)
def test_a_constant_says_what_it_is_and_what_it_decides_and_why(constant):
    wanted = f"{constant.key}: a comment '#: what it is. KIND: why', with one of {', '.join(constants.KINDS)}"
    assert all((constant.means, constant.kind, constant.reason)), wanted
    # each is read alone, on a page or beside its name
    assert not re.search(r"\.\.\.|^The same\b|\bas above\b", constant.comment), "say it anew, or name the other one"


def test_few_are_tuned():
    tuned = [one.key for one in constants.constants() if one.kind == "Result"]
    assert len(tuned) <= constants.MOST_TUNED, "derive one, or delete it"


def test_a_run_comes_to_every_tuned_one():
    missed = [
        one.key for one in constants.constants() if one.kind == "Result" and constants.measured().get(one.key) is None
    ]
    assert not missed, "add a run to docs/constants.py, derive it, or delete it; then: docs/constants.py --measure NAME"


def test_what_decides_cost_or_a_limit_moves_no_result():
    # Found false, it decides a result and says so.
    cheap = [one for one in constants.constants() if one.kind in ("Cost", "Limit")]
    wrong = {one.key: constants.measured().get(one.key) or 0.0 for one in cheap}
    assert not {key: move for key, move in wrong.items() if move > constants.ACCURACY}


#: Those that move a run and leave its drops; what no run reads, or what decides which drops there are, the page says.
HELD = [one for one in constants.constants() if math.isfinite(constants.bound(one.key))]


@pytest.mark.parametrize("constant", HELD, ids=lambda one: one.key)
def test_doubled_and_halved_it_moves_no_more_than_is_written_down(constant):
    move, allowed = constants.moves(constant, most=2), constants.bound(constant.key)
    assert move is None or move <= allowed, (
        f"moves {move:.1e}, not {allowed:.1e}; if rightly: docs/constants.py --measure {constant.key}"
    )
