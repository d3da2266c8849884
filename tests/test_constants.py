"""No constant of the numerics decides a result in silence: doubled and halved, it moves no more than is written down."""

from __future__ import annotations

import importlib.util
import math
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
    assert not stale, "run: python docs/constants.py --measure"


@pytest.mark.parametrize("constant", constants.constants(), ids=lambda one: one.key)
def test_doubled_and_halved_it_moves_no_more_than_is_written_down(constant):
    allowed = constants.bound(constant.key)
    if allowed == math.inf:
        return  # written down as deciding which drops there are
    move = constants.moves(constant)
    assert move is None or move <= allowed, (
        f"{move:.1e} is more than {allowed:.1e}; if rightly: docs/constants.py --measure"
    )
