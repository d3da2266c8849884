"""Numbers and tables for people."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf.records.table import Table, apart, bound, counted, level, number, percent, those


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (math.nan, "-"),
        (0.0, "0"),
        (3, "3"),
        (np.int64(3), "3"),
        (True, "yes"),
        ("bmi", "bmi"),
        (1.23456, "1.235"),
        (0.5, "0.5"),
        (-0.5, "-0.5"),
        (123456.0, "123456"),
        (1e-3, "0.001"),
        (1.23456e-8, "1.235e-08"),
        (1.23456e9, "1.235e+09"),
        (math.inf, "inf"),
        (5e-324, "4.941e-324"),
    ],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


@given(st.floats(-1e300, 1e300), st.integers(2, 12))
def test_a_printed_number_is_the_number_to_its_digits(value, digits):
    # Half a unit in the last printed digit; the leading digit is at least 1.
    assert float(number(value, digits)) == pytest.approx(value, rel=0.5 * 10.0 ** (1 - digits) * 1.000001, abs=5e-324)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (math.nan, "-"),
        (math.inf, "inf"),
        (0.0012, "0.12 %"),
        (-0.5, "-50 %"),
        (0.999, "100 %"),
        (3, "300 %"),
        (428.08, "428 times"),
        (-1.2e9, "-1.2e+09 times"),
        (0.0, "0 %"),
        (-8.5e-9, "<0.001 %"),
        (1.01e-5, "0.001 %"),
    ],
)
def test_errors_are_percentages(value, text):
    assert percent(value) == text


@given(st.floats(0, 1), st.floats(1e-200, 1e200))
def test_a_level_reads_0_where_float64_loses_it_beside_the_first_one(share, scale):
    value = share * scale
    if level(value, scale) == "0":
        assert scale + value == scale
    assert level(2e-16 * scale, scale) != "0"


def test_text_aligns_columns_and_ends_with_the_notes():
    table = Table("Drops", ["k", "label"], [["1", "bmi"], ["10", "s5 leaves"]], ["fitted: done."])
    assert table.text().splitlines() == [
        "Drops",
        " k  label",
        "--  ---------",
        " 1  bmi",
        "10  s5 leaves",
        "fitted: done.",
    ]


def test_an_empty_table_has_its_columns():
    assert Table("Nothing", ["k", "label"], []).text().splitlines()[1] == "k  label"


def test_html_shows_what_data_say_and_executes_nothing():
    html = Table("<b>", ["<i>"], [["<script>alert(1)</script>"]], ["a & b"]).html()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "a &amp; b" in html


def test_printing_a_table_shows_it():
    table = Table("t", ["a"], [["1"]])
    assert str(table) == table.text()
    assert "<table>" in table._repr_html_()


def test_numbers_that_differ_are_printed_with_digits_that_differ():
    assert apart([1.0, 2.0]) == ["1", "2"]
    assert apart([1.23456, 1.23457, 1.23457]) == ["1.23456", "1.23457", "1.23457"]
    assert apart([5.0, 5.0]) == ["5", "5"]
    assert apart([float("nan"), 3.14159265]) == ["-", "3.142"]
    assert apart([0.1424618, 0.1424619, 0.1424671], most=6) == ["0.14246", "0.14246", "0.14247"]
    assert apart([0.1424618, 0.1424619], most=6) == ["0.1425", "0.1425"]
    assert apart([0.1, np.nextafter(0.1, 1)]) == ["0.1", "0.1"]  # not within 15 digits


def test_counts_and_lists_of_one_are_in_the_singular():
    assert [counted(n, "run") for n in (0, 1, 2, 12_000)] == ["0 runs", "1 run", "2 runs", "12,000 runs"]
    assert [those("drop", which) for which in ([2], np.array([1, 6]), range(1, 2))] == [
        "drop 2",
        "drops 1, 6",
        "drop 1",
    ]


@given(st.floats(min_value=0.0, allow_nan=False, exclude_max=True, max_value=1e300))
def test_a_bound_is_written_from_above_and_by_no_more_than_its_second_digit(value):
    assert value <= float(bound(value)) <= max(1.101 * value, 1e-321 + value)
    assert bound(np.inf) == "inf"
