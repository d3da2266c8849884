"""What competes at a network: signs, shares, drops, closed forms, ascent, files, pictures, commands."""

import json
import re

import numpy as np
import pytest
from rectified_cases import M4, M5D3, T3, alignment

import agf
from agf import registry, sphere
from agf.records.files import jsonable
from agf.rectified.ends import ends, isotropic
from agf.rectified.extremal import extremal
from agf.rectified.walls import Walls
from agf.shell.main import main


@pytest.fixture(scope="module")
def four():
    return agf.landscape(agf.TwoLayer(*M4, kink=0))


def test_shares_of_four_points_are_the_published_arcs(four):
    # D2 of [BF24]: a > 0 at -16.7, -27.8, 180, -111.8 degrees; a < 0 at -116.6, -78.7, -21.8, 63.4
    shares = {one.label: one.share for one in four.criticals}
    known = {
        "a > 0 at -111.801 deg": 0.1052, "a > 0 at 180.000 deg": 0.5, "a > 0 at -27.759 deg": 0.1580,
        "a > 0 at -16.699 deg": 0.2368, "a < 0 at -116.565 deg": 0.1895, "a < 0 at -78.690 deg": 0.2335,
        "a < 0 at -21.801 deg": 0.0307, "a < 0 at 63.435 deg": 0.5464,
    }  # fmt: skip
    assert shares == pytest.approx(known, abs=1e-4)


@pytest.mark.parametrize("leak", [0.0, 0.2])
def test_shares_are_where_small_steps_of_ascent_and_descent_end(leak):
    X, y = M4[0], np.array([1.0, 0.8, -1.2, -0.6])
    kind = {"activation": "leaky-relu", "leak": leak} if leak else {"activation": "relu"}
    found = agf.landscape(agf.TwoLayer(X, y, kink=0, **kind))
    angles = np.linspace(-np.pi, np.pi, 8001)
    heights = alignment(X, y / 4, leak, np.stack([np.cos(angles), np.sin(angles)], axis=1))
    for sign in (1, -1):
        ends = [one for one in found.criticals if one.direction[-1] * sign > 0]
        total = sum(one.share for one in ends) + sum(flat.share for flat in found.flats)
        high = sign * heights[:-1]
        tops = np.flatnonzero((high > np.roll(high, 1) + 1e-12) & (high >= np.roll(high, -1) - 1e-12))
        climbs = np.zeros(len(ends))
        where = np.array([np.arctan2(one.direction[1], one.direction[0]) for one in ends])
        for top in tops:
            gap = np.abs((angles[top] - where + np.pi) % (2 * np.pi) - np.pi)
            if gap.min() > 2e-3:
                continue
            for step in (1, -1):
                k = 1
                while high[(top + step * k) % high.size] < high[(top + step * (k - 1)) % high.size] - 1e-12:
                    k += 1
                climbs[gap.argmin()] += (k - 0.5) / high.size
        assert climbs == pytest.approx([one.share for one in ends], abs=2e-3)
        assert total <= 1 + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_neurons_followed_exactly_end_at_the_maxima_and_minima_and_nowhere_else(seed):
    rng = np.random.default_rng(seed)
    X, c = rng.standard_normal((9, 3)), rng.standard_normal(9)
    found = extremal(X, c, 0.1)
    for sign, kind in ((1.0, "maximum"), (-1.0, "minimum")):
        there = ends(Walls.of(X, c, 0.1), isotropic(rng, 2000, 3, sign), np.zeros(2000), 0.1)
        known = found.directions[[k == kind for k in found.kinds]]
        gaps = np.linalg.norm(there.directions[:, None, :3] * np.sqrt(2) - known, axis=2)
        assert gaps.min(axis=1).max() < 1e-8
        assert np.unique(gaps.argmin(axis=1)).size >= min(3, len(known))
        assert sign * there.directions[:, 3] == pytest.approx(1 / np.sqrt(2))


def test_signs_say_who_ends_there_and_whether_it_grows(four):
    for one in four.criticals:
        value = alignment(M4[0], M4[1] / 4, 0.0, one.direction[:2] * np.sqrt(2))
        assert (one.direction[2] > 0) == (one.kind == "maximum")
        assert one.utility == pytest.approx(np.sign(one.direction[2]) * value / 2)
        assert one.grows == (one.utility > 0)
    assert four.best is four.criticals[0]
    assert four.rates == pytest.approx(2 * four.utilities)


def test_utilities_are_those_of_the_problem(four):
    p = agf.TwoLayer(*M4, kink=0)
    rest = p.residual(np.zeros((0, 3)), np.zeros(0, dtype=int))
    assert p.utility(four.directions, np.zeros(8, dtype=int), rest)[0] == pytest.approx(four.utilities, abs=1e-15)


def test_the_drop_is_what_growing_alone_takes_off_the_loss(four):
    p = agf.TwoLayer(*M4, kink=0)
    for one in four.criticals:
        if one.grows:
            sizes = np.linspace(0, 3, 3001)
            losses = [p.loss_grad(s * one.direction[None], np.array([0]))[0] for s in sizes]
            assert four.level - min(losses) == pytest.approx(one.drop, rel=1e-5)


def test_beside_groups_on_kinks_a_drop_is_the_one_that_escape_says_and_a_flow_makes():
    """Members of a group that differ by what steps left were taken for directions: .1415, where training falls .019."""
    rng = np.random.default_rng(4)
    n = int(rng.integers(5, 12))
    p = agf.TwoLayer(rng.standard_normal((n, 2)), rng.standard_normal(n), width=5)
    theta = np.array([
        [-0.14488387, -0.48526919, 0.50643467], [0.18614587, 0.21869057, -0.28718609],
        [-0.00955716, 0.04762644, -0.04857586], [-0.01062523, -0.03558777, 0.03713997],
        [0.52099805, 0.61208641, -0.80379646],
    ])  # fmt: skip
    found = agf.landscape(p, theta, shares=False)
    assert found.best.drop == pytest.approx(0.01898, rel=0.01)
    assert found.best.drop == pytest.approx(agf.escape(p, theta).best.drop, rel=0.01)
    assert "while the others follow it" in found.notes[-1]


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_margin_losses_compete_with_their_own_residual(loss):
    X = np.array([[1.0, 0.2], [0.8, -0.1], [-1.0, 0.3], [-0.7, -0.2]])
    p = agf.TwoLayer(X, [1, 1, 0, 0], loss=loss, kink=0)
    found = agf.landscape(p)
    rest = p.residual(np.zeros((0, 3)), np.zeros(0, dtype=int))
    for one in found.criticals:
        utility, grad = p.utility(one.direction[None], np.array([0]), rest)
        assert utility[0] == pytest.approx(one.utility, abs=1e-15)
        if (one.pattern != 0).all():
            assert sphere.tangent(one.direction[None], grad) == pytest.approx(np.zeros((1, 3)), abs=1e-12)


def test_the_landscape_after_a_fit_is_that_of_its_residual():
    p = agf.TwoLayer(*T3, kink=0)
    beta = np.linalg.lstsq(*T3, rcond=None)[0]
    theta = np.append(beta / np.linalg.norm(beta), 1.0) * np.sqrt(np.linalg.norm(beta))
    found = agf.landscape(p, theta[None])
    assert found.level == pytest.approx(0.0875213675, abs=1e-9)
    assert found.rates == pytest.approx([0.0305787, 0.0305787], abs=1e-7)
    same = agf.landscape(p, residual=T3[1] - T3[0] @ beta)
    assert same.rates == pytest.approx(found.rates, rel=1e-9)


@pytest.mark.parametrize("name", registry.names())
def test_a_closed_form_is_critical_with_the_utility_it_says(name):
    p = agf.problem(name, **registry.find(name).example())
    found = p.critical(np.zeros((0, p.n_params)), np.zeros(0, dtype=np.int64))
    if found is None:
        assert name in ("relu", "two-layer", "full-linear-attention", "gaussian-teacher")
        return
    rest = p.residual(np.zeros((0, p.n_params)), np.zeros(0, dtype=np.int64))
    assert found
    for one in found:
        utility, grad = p.utility(one.direction[None], np.array([one.neuron or 0]), rest)
        assert np.linalg.norm(one.direction) == pytest.approx(1.0)
        assert utility[0] == pytest.approx(one.utility, rel=1e-9)
        slope = np.linalg.norm(sphere.tangent(one.direction[None], grad))
        assert slope == pytest.approx(0.0, abs=1e-9 * np.linalg.norm(grad))


@pytest.mark.parametrize("name", ["linear", "linear-attention"])
def test_ascent_finds_the_maximum_of_the_closed_form_and_says_that_it_proves_nothing(name):
    p = agf.problem(name, **registry.find(name).example())
    rest = p.residual(np.zeros((0, p.n_params)), np.zeros(0, dtype=np.int64))
    found = agf.landscape(p, residual=rest, starts=30)
    assert not found.complete
    assert "not proven complete" in str(found)
    best = max(one.utility for one in agf.landscape(p).criticals)
    assert found.best.utility == pytest.approx(best, rel=1e-6)


def test_directions_of_a_network_of_ones_own_are_named_by_their_largest_parameters():
    pytest.importorskip("torch")

    class Product(agf.AutogradProblem):
        """f_i(x) = a b x_0: the best directions are (+-1, +-1) / sqrt 2, and the third parameter does nothing."""

        name = "product"
        n_params = 3

        def neuron(self, theta, x):
            return theta[0] * theta[1] * x[:1]

    X = np.random.default_rng(0).standard_normal((20, 2))
    found = agf.landscape(Product(X, X[:, 0], width=2), starts=8)
    assert len(found) == 1
    first, second = found.best.direction[:2]
    each = sorted([f"theta[0] {first:.2f}", f"theta[1] {second:.2f}"])
    words, _, several = found.best.label.partition(", one of")
    assert sorted(words.split(", ")) == each
    assert several == " several equal"


def test_several_outputs_and_too_many_faces_are_climbed_and_marked():
    rng = np.random.default_rng(0)
    two = agf.landscape(agf.TwoLayer(M4[0], rng.standard_normal((4, 2))), starts=20)
    large = agf.landscape(agf.TwoLayer(rng.standard_normal((300, 10)), rng.standard_normal(300)), starts=5)
    assert not two.complete
    assert not large.complete
    assert large.best.utility > 0
    assert "followed exactly" in large.how
    for one in large.criticals:  # each is critical: its slopes make it the direction of its own field
        drive = (one.slopes * large.residual) @ large.samples
        side = np.sign(one.utility) * np.sign(one.direction[-1])
        assert side * drive / np.linalg.norm(drive) == pytest.approx(one.direction[:-1] * np.sqrt(2), abs=1e-7)


def test_a_slope_of_zero_has_no_sign():
    assert "x0 0.0000" in str(agf.landscape(agf.TwoLayer(np.eye(2), [1.0, 2.0], kink=0)))


def test_bad_requests_are_refused():
    p = agf.TwoLayer(*M4)
    with pytest.raises(agf.RequestError, match="a str is not a problem"):
        agf.landscape("relu")
    with pytest.raises(agf.RequestError, match="both a network and a residual"):
        agf.landscape(p, np.ones((1, 3)), residual=M4[1])
    with pytest.raises(agf.RequestError, match=r"`residual` has length 3. Expected length 4"):
        agf.landscape(p, residual=np.ones(3))
    with pytest.raises(agf.RequestError, match=r"`theta` has shape \(1, 2\)"):
        agf.landscape(p, np.ones((1, 2)))


def test_saved_and_loaded_it_is_the_same(four, tmp_path):
    four.save(tmp_path / "l.npz")
    again = agf.load(tmp_path / "l.npz")
    assert jsonable(again.to_dict()) == jsonable(four.to_dict())
    assert str(again) == str(four)
    assert again.samples == pytest.approx(four.samples)


@pytest.mark.parametrize(("data", "view"), [(M4, "auto"), (M5D3, "auto"), (M5D3, "bars"), (T3, "circle")])
def test_pictures(data, view, tmp_path):
    agf.landscape(agf.TwoLayer(*data)).plot(tmp_path / "l.png", view=view)
    assert (tmp_path / "l.png").stat().st_size > 5000


def test_a_circle_needs_two_columns():
    with pytest.raises(agf.RequestError, match="a circle shows a ReLU problem of one output with 2 input columns"):
        agf.landscape(agf.TwoLayer(*M5D3)).plot(view="circle")


def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("t3.npz", X=T3[0], Y=T3[1])
    assert main(["landscape", "two-layer", "--data", "t3.npz", "--json", "--plot", "l.svg", "-o", "l.npz"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["criticals"][0]["rate"] == pytest.approx(0.7149689, abs=1e-6)
    assert "a > 0 at 111.181 deg" in shown.err
    assert main(["show", "l.npz"]) == 0
    assert main(["diff", "l.npz", "l.npz"]) == 2
    assert "holds a landscape" in capsys.readouterr().err
    assert main(["cones", "two-layer", "--data", "t3.npz"]) == 0
    assert "General position has 6 open cones" in capsys.readouterr().err
    assert main(["cones", "linear"]) == 2


def test_command_at_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("t3.npz", X=T3[0], Y=T3[1])
    assert main(["predict", "two-layer", "--data", "t3.npz", "--width", "4", "-o", "run.npz", "--quiet"]) == 0
    assert main(["landscape", "two-layer", "--at", "run.npz"]) == 0
    assert "a > 0 at 26.565 deg" in capsys.readouterr().err
    assert main(["landscape", "two-layer", "--at", "run.npz:0"]) == 0
    assert "a > 0 at 111.181 deg" in capsys.readouterr().err
    assert main(["landscape", "two-layer", "--at", "run.npz:7"]) == 2
    assert main(["landscape", "linear", "--at", "run.npz"]) == 2
    assert main(["landscape", "two-layer", "--at", "run.npz", "--width", "2"]) == 2
    assert "takes the data from the run" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["landscape", "align"])
def test_a_run_says_of_what_problem_it_is(command, tmp_path, monkeypatch, capsys):
    """`--at RUN` alone was "Missing argument 'NAME'", and which option was in the way was not said."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((8, 2))
    problem = agf.TwoLayer(X, X[:, 0], activation="relu", width=2)
    agf.flow(problem, problem.init(1e-2), max_gradients=50).save("run.npz")
    documents = []
    for name in (["two-layer"], []):
        assert main([command, *name, "--at", "run.npz", "--json", "--quiet"]) == 0
        documents.append(capsys.readouterr().out)
    assert documents[0] == documents[1]
    assert main([command, "--at", "run.npz", "--width", "2", "-p", "leak=0"]) == 2
    assert "Found -p, --width." in capsys.readouterr().err
    assert main([command]) == 2
    assert "'NAME', or --at RUN" in capsys.readouterr().err


def test_a_long_landscape_is_printed_in_part(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    problem = agf.problem("relu", X=rng.standard_normal((14, 3)), Y=rng.standard_normal(14), width=2)
    X, Y = problem.X, problem.Y
    np.savez("data.npz", X=X, Y=Y)
    result = agf.landscape(problem)
    assert len(result) > 12
    assert [len(result.table(whole).rows) for whole in (False, True)] == [12, len(result)]
    assert f"And {len(result) - 12} more" in str(result)
    for more, rows in (([], 12), (["--all"], len(result))):
        assert main(["landscape", "relu", "--data", "data.npz", *more]) == 0
        assert len(re.findall(r"^ *a [<>] 0", capsys.readouterr().err, re.MULTILINE)) == rows


@pytest.mark.parametrize(("n", "d", "c"), [(6, 2, 2), (10, 3, 2), (20, 4, 3)])
def test_networks_of_several_outputs_have_each_maximum_once_and_it_is_one(n, d, c):
    # ascents stopped short at kinks: the two maxima of the first set were thirty-seven, some of negative utility
    rng = np.random.default_rng(c * n)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, c))

    def height(w):  # the utility of the best output weights, at unit norm
        w = w / np.linalg.norm(w, axis=-1, keepdims=True)
        return np.linalg.norm(np.maximum(w @ X.T, 0) @ Y / n, axis=-1) / 2

    found = agf.landscape(agf.TwoLayer(X, Y))
    assert 1 <= len(found.criticals) <= 12
    for one in found.criticals:
        w = one.direction[:d]
        assert one.utility == pytest.approx(height(w), rel=1e-9)
        near = w + 1e-6 * rng.standard_normal((500, d))
        assert (height(near) <= one.utility * (1 + 1e-11)).all()
    assert height(rng.standard_normal((20_000, d))).max() <= found.best.utility
    values = [one.utility for one in found.criticals]
    assert min(values) > 0
    assert len(set(np.round(values, 9))) == len(values)


def test_many_samples_with_several_outputs_are_marked_as_perhaps_short_of_a_kink(monkeypatch):
    monkeypatch.setattr("agf.rectified.ascent.FOLLOWED", 1)
    rng = np.random.default_rng(12)
    found = agf.landscape(agf.TwoLayer(rng.standard_normal((6, 2)), rng.standard_normal((6, 2))))
    assert all("perhaps short of a kink" in one.label for one in found.criticals)


def test_kinds_say_of_which_function_they_are_where_neurons_grow_at_minima():
    X, y = np.array([[1.0, 0.2], [0.3, 1.0], [-1.0, 0.5], [-0.4, -1.0]]), [1.0, -0.8, 1.2, 0.6]
    told = "neurons with a < 0 end at its minima"
    assert told in str(agf.landscape(agf.TwoLayer(X, y, kink=0.0)))
    assert told not in str(agf.landscape(agf.problem("diagonal-linear", X=X, y=np.array(y))))
