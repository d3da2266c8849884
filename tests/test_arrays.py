"""What users hand over as numbers: odd kinds are refused by name, exact conversions are made, nothing is guessed."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import agf
from agf.arrays import matrix, parsed, positive, vector
from agf.errors import DataError, RequestError

ODD = {
    "dates": (np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), "dates"),
    "lengths of time": (np.array([1, 2], dtype="timedelta64[s]"), "lengths of time"),
    "booleans": (np.array([True, False]), "booleans"),
    "a list of booleans": ([True, False], "booleans"),
    "records": (np.zeros(2, dtype=[("a", "f8")]), "records"),
    "text": (np.array(["1", "2"]), "text"),
    "text among numbers": ([1.0, "2"], "text"),
    "bytes": (np.array([b"1", b"2"]), "bytes"),
    "complex": (np.array([1 + 0j]), "complex"),
    "objects": (np.array([1.0, None], dtype=object), "None, of type NoneType"),
    "text in objects": (np.array([1.0, "2"], dtype=object), "'2', of type str"),
    "a boolean in objects": (np.array([1.0, True], dtype=object), "True, of type bool"),
    "ragged": ([[1.0], [1.0, 2.0]], "cannot be read"),
    "too large": ([10**400], "cannot be read|non-finite"),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_kinds_are_refused_by_name(kind):
    value, words = ODD[kind]
    with pytest.raises(DataError, match=f"`theta`.*{words}"):
        vector(value, "theta")


@pytest.mark.parametrize(
    "value", [[1, 2], np.array([1, 2], dtype=np.uint8), [Decimal("1"), Fraction(2)], np.array([1, 2], dtype=np.float16),
              np.array([1, 2], dtype=object), np.array([1, 2], dtype=np.longdouble)]
)  # fmt: skip
def test_real_numbers_of_any_kind_are_taken(value):
    assert vector(value, "x").tolist() == [1.0, 2.0]


def test_tensors_are_converted_exactly_or_refused():
    torch = pytest.importorskip("torch")
    for kind in (torch.bfloat16, torch.float16, torch.float32, torch.int8):
        assert vector(torch.tensor([1, 2]).to(kind), "x").tolist() == [1.0, 2.0]
    assert vector(torch.tensor([1.0], requires_grad=True), "x").tolist() == [1.0]
    for value in (torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr()):
        with pytest.raises(DataError, match=r"`X` is a sparse tensor.*to_dense"):
            matrix(value, "X")
    with pytest.raises(DataError, match="booleans"):
        vector(torch.tensor([True]), "x")


def test_sparse_matrices_are_refused_by_name():
    from scipy.sparse import csr_matrix

    with pytest.raises(DataError, match=r"`X` is sparse.*toarray"):
        matrix(csr_matrix(np.eye(2)), "X")


@pytest.mark.parametrize("text", ["1", " 1.5e-3 ", "-.5", "+2.", "1E5", "nan", "-inf"])
def test_cells_that_are_numbers(text):
    assert parsed(text) == float(text) or parsed(text) != parsed(text)


@pytest.mark.parametrize("text", ["1_000", "1,5", "\u0661", "\uff11", "0x10", "1e", "", ".", "one", "1 2", "1d3"])
def test_cells_that_are_not(text):
    assert parsed(text) is None


def test_a_cell_that_python_alone_reads_as_a_number_is_text(tmp_path):
    (tmp_path / "data.csv").write_text("a,y\n1_000,2\n3,4\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"column 'a' holds text, first on line 2\. Found '1_000'"):
        agf.datasets.load(tmp_path / "data.csv", "y")
    (tmp_path / "curve.csv").write_text("time,loss\n1,2\n2,1_0\n3,1\n", encoding="utf-8")
    with pytest.raises(DataError, match="not finite numbers"):
        agf.Trajectory.from_csv(tmp_path / "curve.csv")


@pytest.mark.parametrize("build", [
    lambda X, y: agf.problem("diagonal-linear", X=X, y=y),
    lambda X, y: agf.problem("linear", X=X, Y=y),
    lambda X, y: agf.TwoLayer(X, y, activation="relu", width=3),
])  # fmt: skip
def test_inputs_that_are_zero_everywhere_are_refused(build):
    with pytest.raises(DataError, match="`X` is zero everywhere"):
        build(np.zeros((5, 2)), np.ones(5))


def test_flow_times_beyond_float64_are_refused_and_not_inf():
    problem = agf.problem("linear-attention", **agf.registry.find("linear-attention").example())
    with pytest.raises(RequestError, match=r"flow times are about exp\(7\d\d\), beyond float64"):
        agf.predict(problem, problem.init(1e-320), mode="agf")
    assert np.isfinite(agf.predict(problem, problem.init(1e-290), mode="agf").times).all()


@pytest.mark.parametrize("template", [np.ones(5), np.zeros(5)])
def test_a_constant_template_has_nothing_to_learn_in_any_way_of_asking(template):
    problem = agf.problem("modular-addition", p=5, template=template, width=4)
    init = problem.init(1e-3)
    assert agf.predict(problem, init, mode="agf").levels.tolist() == [0.0]
    assert agf.flow(problem, init).losses.max() == 0.0
    assert agf.descend(problem, init, lr=0.1, steps=3).losses.max() == 0.0
    assert agf.check(problem).passed


@pytest.mark.parametrize("value", [True, np.True_, "1e-8", b"1", 10**400, None, 1j, [1.0], float("nan"), 0, -1])
def test_what_is_no_positive_number_is_told(value):
    with pytest.raises(DataError, match="positive finite number"):
        positive(value, "x")
    with pytest.raises(DataError, match="positive finite number"):
        agf.init.check_alpha(value)


def test_a_tensor_without_data_is_no_array():
    torch = pytest.importorskip("torch")
    with pytest.raises(DataError, match="`x` is a tensor that cannot be read"):
        matrix(torch.empty(2, 3, device="meta"), "x")
