"""Data by name and from files: what arrives, and what is refused in which words."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from agf import datasets
from agf.errors import DataError, RequestError

CSV = "age,bmi,risk\n30,21.5,1\n40,30.25,0\n\n50,-1e-3,2\n"


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_diabetes_is_the_set_of_scikit_learn_with_unit_variances():
    from sklearn.datasets import load_diabetes

    raw = load_diabetes(scaled=False)
    data = datasets.load("diabetes")
    assert data["names"].tolist() == raw.feature_names
    # The standardization inverts to the raw numbers; 1e-12 is rounding in (x - mean) / std over 442 rows.
    np.testing.assert_allclose(data["X"] * raw.data.std(axis=0) + raw.data.mean(axis=0), raw.data, rtol=1e-12)
    np.testing.assert_allclose(data["y"] * raw.target.std() + raw.target.mean(), raw.target, rtol=1e-12)
    np.testing.assert_allclose(data["X"].std(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose((data["y"] ** 2).mean(), 1.0, rtol=1e-12)


def test_digits_are_the_set_of_scikit_learn_with_centred_labels():
    from sklearn.datasets import load_digits

    raw = load_digits()
    data = datasets.load("digits")
    np.testing.assert_array_equal(data["X"] * 16, raw.data)
    np.testing.assert_array_equal(data["Y"].argmax(axis=1), raw.target)
    np.testing.assert_allclose(data["Y"].sum(axis=1), 0.0, atol=1e-15)  # one-hot minus 1/10, ten classes


def test_mnist_digits_are_images_between_0_and_1():
    data = datasets.load("mnist5k")
    assert data["X"].shape == (5000, 784)
    assert data["X"].min() == 0.0
    assert data["X"].max() == 1.0
    assert np.bincount(data["labels"]).tolist() == [500] * 10


def test_named_sets_are_read_without_importing_the_package_that_holds_them():
    code = "import sys; from agf import datasets; datasets.load('diabetes'); sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", datasets.NAMED)
def test_words_say_the_size_and_what_was_done(name):
    data = datasets.read(name)
    n, d = data.arrays["X"].shape
    assert f"{n} x {d}" in data.description
    assert "target" in data.description
    assert datasets.describe(name) == data.description


def test_a_set_whose_package_is_absent_names_the_package(monkeypatch):
    monkeypatch.setattr(datasets.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RequestError, match=r"scikit-learn, which is not installed.*pip install scikit-learn"):
        datasets.load("diabetes")


def test_csv_gives_inputs_target_and_names_as_given(tmp_path):
    data = datasets.load(write(tmp_path, "a.csv", CSV), target="bmi")
    assert data["names"].tolist() == ["age", "risk"]
    np.testing.assert_array_equal(data["X"], [[30, 1], [40, 0], [50, 2]])
    np.testing.assert_array_equal(data["y"], [21.5, 30.25, -1e-3])
    assert data["X"].flags.c_contiguous
    assert "not standardized" in datasets.describe(tmp_path / "a.csv", "bmi")


def test_csv_with_byte_order_mark_spaces_and_windows_line_ends(tmp_path):
    text = "\ufeff" + CSV.replace("\n", "\r\n").replace("age", " age ")
    data = datasets.load(write(tmp_path, "a.csv", text), target="risk")
    assert data["names"].tolist() == ["age", "bmi"]
    np.testing.assert_array_equal(data["y"], [1, 0, 2])


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (CSV, None, r"needs a target column. Found columns 'age', 'bmi', 'risk'. Add --target"),
        (CSV, "weight", r"there is no column 'weight'. Found columns 'age', 'bmi', 'risk'"),
        ("a,a,b\n1,2,3\n", "a", r"more than one column 'a'"),
        ("a,a,b\n1,2,3\n", "b", r"more than one column 'a'"),
        (",a,b\n0,2,3\n", "b", r"column 1 has no name.*to_csv has index=False"),
        ("a;b\n1;2\n", "b", r"no column 'b'.*separated by commas"),
        ("a,b\n1,red\n", "a", r"column 'b' holds text, first on line 2. Found 'red'. Expected numbers"),
        ("a,b\n1,2\n3,\n", "a", r"column 'b' misses a value, first on line 3. Found ''"),
        ("a,b\n1,2\n3,NA\n", "a", r"column 'b' misses a value, first on line 3. Found 'NA'"),
        ("a,b,c,d\n1,,2,3\n1,1,red,nan\n", "a", r"column 'b' misses .* Not of numbers alone, too: 'c', 'd'\.$"),
        ("a,b\n1,2\n3\n", "a", r"line 3 has 1 cells. Expected 2"),
        ("1,2\n3,4\n", "1", r"first row holds numbers"),
        ("a,b\n", "a", r"no rows below the column names"),
        ("", "a", r"the file is empty"),
    ],
)
def test_a_csv_that_cannot_be_used_is_refused(tmp_path, text, target, message):
    with pytest.raises(RequestError, match=message):
        datasets.load(write(tmp_path, "a.csv", text), target=target)


def test_npz_gives_its_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2, dtype=int), y=np.ones(2))
    data = datasets.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(data["X"], np.eye(2))
    assert set(data) == {"X", "y"}


def test_npz_with_pickled_objects_is_refused_and_nothing_is_executed(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    np.savez(tmp_path / "a.npz", X=np.array([Bomb()], dtype=object))
    with pytest.raises(DataError, match="array 'X' holds pickled Python objects"):
        datasets.load(tmp_path / "a.npz")
    assert not (tmp_path / "executed").exists()


def test_npz_that_is_damaged_or_something_else_is_refused(tmp_path):
    good = tmp_path / "good.npz"
    np.savez_compressed(good, X=np.arange(10000.0))
    content = good.read_bytes()
    with open(tmp_path / "single.npz", "wb") as handle:
        np.save(handle, np.ones(3))
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "flipped.npz").write_bytes(content[:2000] + bytes(64) + content[2064:])
    for name in ("single", "empty", "cut", "flipped"):
        with pytest.raises(DataError, match=r"one array|cannot read|pickled"):
            datasets.load(tmp_path / f"{name}.npz")


def test_a_run_file_is_not_data(tmp_path):
    from agf.records import files

    files.write(tmp_path / "run.npz", "staircase", {}, {"X": np.ones(2)})
    with pytest.raises(DataError, match="agf run file, not data"):
        datasets.load(tmp_path / "run.npz")


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("iris", None, r"no data set 'iris'. Expected one of diabetes, digits, mnist5k, or a file"),
        ("data.xlsx", None, r"whose name ends in .npz or .csv"),
        ("absent.npz", None, r"no data file 'absent.npz'"),
        ("diabetes", "bmi", r"has its own target"),
    ],
)
def test_a_source_that_is_not_there_is_refused(name, target, message):
    with pytest.raises(RequestError, match=message):
        datasets.load(name, target)


def test_a_target_is_for_csv_files_only(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2))
    with pytest.raises(RequestError, match="for csv files only"):
        datasets.load(tmp_path / "a.npz", "y")


def test_a_csv_file_is_standardized_on_request(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,y\n1,10,3\n2,30,5\n4,20,4\n", encoding="utf-8")
    found = datasets.read(tmp_path / "a.csv", "y", standardize=True)
    for values in (found.arrays["X"], found.arrays["y"]):
        np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-15)
        np.testing.assert_allclose(values.std(axis=0), 1.0, rtol=1e-15)
    assert found.description.endswith("standardized")
    assert "--standardize" in datasets.describe(tmp_path / "a.csv", "y")
    (tmp_path / "b.csv").write_text("a,y\n1,3\n1,5\n", encoding="utf-8")
    with pytest.raises(DataError, match="column 'a' is constant"):
        datasets.read(tmp_path / "b.csv", "y", standardize=True)
    with pytest.raises(RequestError, match="only csv files are standardized"):
        datasets.read("diabetes", standardize=True)


def test_the_option_of_the_command_line(tmp_path, monkeypatch, capsys):
    from agf.shell import main as cli

    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k},{(7 * k) % 5},{3 * k + (7 * k) % 5}\n" for k in range(12))
    (tmp_path / "a.csv").write_text("a,b,y\n" + rows, encoding="utf-8")
    data = ["--data", "a.csv", "--target", "y", "--standardize"]
    assert cli.main(["predict", "diagonal-linear", *data]) == cli.DONE
    assert "standardized." in capsys.readouterr().err
    assert cli.main(["predict", "diagonal-linear", "--standardize"]) == cli.WRONG
    sweep = ["sweep", "relu", *data, "--alpha", "1e-3", "--width", "2,3", "-o", "s", "--no-files"]
    assert cli.main(sweep) == cli.DONE
    assert "2 runs, 0 failed" in capsys.readouterr().err


@pytest.mark.parametrize("scale", [1e150, 1e200, 1e300, 1e-150, 1e-200, 1e-300])
def test_columns_of_any_size_are_standardized(tmp_path, scale):
    rows = [(1.0, 2.0, 5.0), (-1.0, 0.5, 1.0), (0.3, 1.0, -2.0)]
    one = datasets.load(write(tmp_path, "one.csv", "a,b,y\n" + "\n".join(f"{a},{b},{y}" for a, b, y in rows)),
                        "y", standardize=True)  # fmt: skip
    text = "a,b,y\n" + "\n".join(f"{scale * a},{b},{scale * y}" for a, b, y in rows)
    other = datasets.load(write(tmp_path, "other.csv", text), "y", standardize=True)
    for name in ("X", "y"):
        np.testing.assert_allclose(other[name], one[name], rtol=1e-12)  # rounding of a division


@pytest.mark.parametrize("cell", ["nan", "inf", "-Infinity", "1e999", "9" * 5000])
def test_a_cell_that_is_not_finite_is_named_by_its_column_and_line(tmp_path, cell):
    path = write(tmp_path, "odd.csv", CSV + f"1,{cell},3\n")
    for standardize in (False, True):
        with pytest.raises(DataError, match="column 'bmi' is not finite, first on line 6") as caught:
            datasets.load(path, "risk", standardize=standardize)
        assert len(str(caught.value)) < 300


def test_text_of_another_encoding_says_which_is_read(tmp_path):
    (tmp_path / "odd.csv").write_bytes(CSV.encode("utf-16"))
    with pytest.raises(DataError, match=r"not UTF-8 .* Save it as UTF-8"):
        datasets.load(tmp_path / "odd.csv", "risk")
