"""From a torch model to a problem and its weights in one line: the same network, or a sentence."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import agf
from agf.errors import DataError, FileError

torch = pytest.importorskip("torch")
nn = torch.nn


def net(activation, bias=False, inputs=3, outputs=2, width=5):
    torch.manual_seed(0)
    layers = [nn.Linear(inputs, width, bias=bias), activation, nn.Linear(width, outputs, bias=False)]
    return nn.Sequential(*[layer for layer in layers if layer is not None]).double()


MODELS = {
    "relu": nn.ReLU(), "leaky-relu": nn.LeakyReLU(0.2), "tanh": nn.Tanh(), "gelu": nn.GELU(), "silu": nn.SiLU(),
    "linear": None,
}  # fmt: skip


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradient_are_those_of_torch(name, bias):
    """MSELoss of c outputs is 2/c times the half-squared loss, and so is its gradient."""
    model = net(MODELS[name], bias)
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    kink = {"kink": 0.0} if "relu" in name else {}
    problem, init = agf.TwoLayer.from_torch(model, X, Y, **kink), agf.Init.from_torch(model)
    loss = nn.MSELoss()(model(torch.as_tensor(X)), torch.as_tensor(Y))
    loss.backward()
    ours, gradient = problem.loss_grad(init.params(), np.arange(5))
    assert ours == pytest.approx(float(loss), rel=1e-12)  # c = 2 outputs: a factor 2/c of 1
    rows = [model[0].weight.grad.numpy()]
    rows += [model[0].bias.grad.numpy()[:, None]] if bias else []
    assert np.allclose(gradient, np.hstack([*rows, model[-1].weight.grad.numpy().T]), rtol=1e-9, atol=1e-14)


def test_one_output_has_a_factor_of_two():
    model = net(nn.Tanh(), outputs=1)
    X, y = np.random.default_rng(1).standard_normal((20, 3)), np.ones(20)
    problem, init = agf.TwoLayer.from_torch(model, X, y), agf.Init.from_torch(model)
    loss = nn.MSELoss()(model(torch.as_tensor(X))[:, 0], torch.as_tensor(y))
    assert 2.0 * problem.loss_grad(init.params(), np.arange(5))[0] == pytest.approx(float(loss), rel=1e-12)


def test_a_module_of_ones_own_a_state_dict_and_its_file_are_read(tmp_path):
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.act, self.out = nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 1, bias=False)

        def forward(self, x):
            return self.out(self.act(self.hidden(x)))[:, 0]

    torch.manual_seed(0)
    model = Mine()
    X, y = np.random.default_rng(1).standard_normal((20, 3)), np.ones(20)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    wanted = agf.Init.from_torch(model).params()
    assert wanted.shape == (5, 5)
    for source in (model.state_dict(), tmp_path / "weights.pt", str(tmp_path / "weights.pt")):
        assert np.array_equal(agf.Init.from_torch(source).params(), wanted)
        problem = agf.TwoLayer.from_torch(source, X, y, activation="relu")
        assert (problem.width, problem.n_params) == (5, 5)
    with pytest.raises(DataError, match="do not tell the activation"):
        agf.TwoLayer.from_torch(model.state_dict(), X, y)


@pytest.mark.parametrize("bias", ["none", "both"])
def test_the_command_line_takes_a_file_of_torch_and_names_the_biases_that_it_has(tmp_path, bias):
    from agf.contract import weights
    from agf.shell import arguments

    model = nn.Sequential(nn.Linear(3, 4, bias=bias == "both"), nn.Tanh(), nn.Linear(4, 1, bias=bias == "both"))
    torch.save(model.state_dict(), tmp_path / "start.pt")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", X=rng.standard_normal((9, 3)), Y=rng.standard_normal(9))
    data, start = str(tmp_path / "data.npz"), str(tmp_path / "start.pt")
    asked = arguments.problem("two-layer", data=data, pairs=["activation=tanh", f"bias={bias}"], init_file=start)
    assert (asked.problem.hidden, asked.problem.bias) == (4, bias)
    init = arguments.initialization(asked.problem, file=start)
    assert np.allclose(init.params(), agf.Init.from_torch(model).params(), rtol=1e-12)
    other = {"none": "hidden", "both": "none"}[bias]
    words = {"none": "no biases: -p bias=none", "both": "hidden biases and an output bias: -p bias=both"}[bias]
    with pytest.raises(DataError, match=words):
        weights.read(agf.TwoLayer(np.ones((9, 3)), np.ones(9), width=4, bias=other), start)
    with pytest.raises(DataError) as refusal:  # of other inputs: no bias makes them fit
        weights.read(agf.TwoLayer(np.ones((9, 6)), np.ones(9), width=4, bias=other), start)
    assert "bias" not in str(refusal.value)


@pytest.mark.parametrize(("hidden", "output"), [(False, True), (True, True), (False, False), (True, False)])
def test_an_output_bias_is_never_taken_for_a_neuron_nor_a_neuron_for_it(tmp_path, hidden, output):
    """Its row has the shape of a neuron's: a network read with one too many, or too few, was predicted in silence."""
    from agf.contract import weights

    names = {(False, False): "none", (True, False): "hidden", (False, True): "output", (True, True): "both"}
    model = nn.Sequential(nn.Linear(3, 4, bias=hidden), nn.Tanh(), nn.Linear(4, 1, bias=output))
    torch.save(model.state_dict(), tmp_path / "start.pt")
    width = 5 if output else 3
    problem = agf.TwoLayer(np.ones((9, 3)), np.ones(9), width=width, bias=names[hidden, not output])
    with pytest.raises(DataError, match=f"output bias.*-p bias={names[hidden, output]}"):
        weights.read(problem, tmp_path / "start.pt")


def test_what_is_read_trains_and_is_predicted():
    model = net(nn.ReLU(), outputs=1, width=6)
    with torch.no_grad():
        for weights in model.parameters():
            weights *= 1e-4
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 3))
    problem = agf.TwoLayer.from_torch(model, X, np.maximum(X[:, 0], 0.0))
    assert agf.predict(problem, agf.Init.from_torch(model)).drops


def test_an_output_bias_is_the_last_row_and_the_network_computes_the_same():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    X = np.random.default_rng(1).standard_normal((20, 3))
    with torch.no_grad():
        f = model(torch.as_tensor(X)).numpy()
    problem = agf.TwoLayer.from_torch(model, X, np.zeros((20, 2)))
    theta = agf.Init.from_torch(model).params()
    assert (problem.bias, theta.shape) == ("both", (6, 6))
    assert problem.loss_grad(theta, np.arange(6))[0] == pytest.approx(0.5 * np.mean(np.sum(f**2, axis=1)), rel=1e-12)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 1, bias=False)

    def forward(self, x):
        return self.last(self.act(self.first(x))) / 5


REFUSED = {
    "three layers": (lambda: nn.Sequential(net(nn.ReLU()), nn.ReLU(), nn.Linear(2, 1)), "other layers"),
    "dropout": (lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 1)), "other layers"),
    "softplus": (lambda: nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 1)), "other layers"),
    "approximate gelu": (lambda: net(nn.GELU(approximate="tanh")), "is not `gelu`"),
    "scaled outputs": (Scaled, "computes something else"),
    "an array": (lambda: np.ones(3), "is no torch network"),
    "one matrix": (lambda: {"a": torch.ones(2, 2)}, "not the weights of a two-layer network"),
    "text": (lambda: {"a": "b", "c": 3}, "not the weights of a two-layer network"),
    "not finite": (lambda: {"a": torch.full((2, 2), np.nan), "b": torch.ones(1, 2)}, "non-finite"),
    "all zero": (lambda: {"a": torch.zeros(2, 2), "b": torch.zeros(1, 2)}, "exactly zero"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_other_networks_are_refused_in_a_sentence(case):
    make, words = REFUSED[case]
    with pytest.raises(DataError, match=words):
        agf.Init.from_torch(make())


def test_a_file_that_is_no_weights_is_refused(tmp_path):
    (tmp_path / "a.pt").write_bytes(b"nonsense")
    for name in ("a.pt", "none.pt"):
        with pytest.raises(FileError, match=r"cannot read .* as weights"):
            agf.Init.from_torch(tmp_path / name)


class Own(nn.Module):
    """Whatever is defined, in whatever order: the forward pass decides."""

    def __init__(self, function, backwards=False, inside=None, inputs=3):
        super().__init__()
        layers = {"body": nn.Linear(inputs, 5), "head": nn.Linear(5, 2)}
        for name in reversed(layers) if backwards else layers:
            setattr(self, name, layers[name])
        self.function = function
        if inside is not None:
            self.inside = inside  # after the layers

    def forward(self, x):
        return self.head(self.function(self.body(x)))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("relu", Own(torch.relu)),
        ("tanh", Own(torch.tanh, backwards=True)),
        ("gelu", Own(nn.functional.gelu, backwards=True, inputs=2)),  # both orders fit
        ("silu", Own(nn.functional.silu).half()),
        ("relu", Own(torch.relu, inside=nn.ReLU()).bfloat16()),
        ("linear", Own(lambda x: x)),
    ],
    ids=["relu", "backwards", "either way", "half", "after", "none"],
)
def test_the_forward_pass_says_what_a_module_is(name, model):
    inputs = model.body.in_features
    X = np.random.default_rng(0).standard_normal((8, inputs))
    problem, init = agf.TwoLayer.from_torch(model, X, np.zeros((8, 2)), kink=0.0), agf.Init.from_torch(model)
    assert problem.activation.name == name
    with torch.no_grad():
        out = model.double()(torch.as_tensor(X)).numpy()
    loss = problem.loss_grad(init.params(), np.arange(init.width))[0]
    assert loss == pytest.approx(0.5 * np.mean(np.sum(out**2, axis=1)), rel=1e-12)


def test_modules_that_cannot_be_called_and_checkpoints_of_more_are_sentences(tmp_path):
    with pytest.raises(DataError, match="cannot be called"):
        agf.Init.from_torch(Own(lambda x: (x, 1)))
    with pytest.raises(DataError, match="cannot be called"):
        agf.Init.from_torch(Own(lambda x: sys.exit(0)))
    with pytest.raises(DataError, match="a network, not its class"):
        agf.Init.from_torch(torch.nn.Sequential)
    torch.save({"model": Own(torch.relu).state_dict(), "epoch": 3}, tmp_path / "more.pt")
    with pytest.raises(DataError, match="entry 'model'"):
        agf.Init.from_torch(tmp_path / "more.pt")
    torch.save(Own(torch.relu), tmp_path / "whole.pt")
    with pytest.raises(FileError, match="not executed"):
        agf.Init.from_torch(tmp_path / "whole.pt")


@pytest.mark.filterwarnings("error")
def test_a_curve_takes_losses_as_loops_have_them_and_refuses_the_rest(tmp_path):
    curve = agf.CurveWriter(tmp_path / "curve.csv")
    curve(torch.tensor(2.0, requires_grad=True))
    curve(np.float32(1.0))
    for loss in (None, "x", "1", True, torch.ones(2), 1j):
        with pytest.raises(DataError, match="not one number"):
            curve(loss)
    for step in (-1, 1.5, "3"):
        with pytest.raises(DataError, match="`step`"):
            curve(1.0, step)
    with pytest.raises(FileError, match="no path"):
        agf.CurveWriter(None)
    assert np.allclose(agf.Trajectory.from_csv(tmp_path / "curve.csv", lr=1.0).losses, [2.0, 1.0])
