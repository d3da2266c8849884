"""What each method of a problem must return, checked when it returns it: in a run, at the door and in `agf check`.

Classes from outside the package are checked at every call, so that a wrong kind of value is named where it comes from,
before it has travelled into a result or a file. What the package brings with it is tested with it.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agf.arrays import number
from agf.contract.flow_system import FlowSystem
from agf.contract.raised import Blame
from agf.contract.ties import Ties
from agf.errors import AgfError, ProblemError, explain
from agf.init import Init

#: A loss below 0 by more than this fraction of that of the zero function is none. Limit: above the rounding of a
#: difference of sums, in float32 too; a drop of this size is the smallest that counts.
_BELOW = 1e-6
#: Arrays of numpy that compute by rules of their own: entries that are not there, products of matrices.
_OTHER_ARRAYS = (np.ma.MaskedArray, np.matrix)
#: Packages whose classes are trusted.
OWN = ("agf", "agf_problems")

#: Most letters of a label, a sentence or a name. Limit: of what people read; files hold a label a drop.
_LONGEST = 10_000
#: Methods that users call themselves.
_UNGUARDED = ("initial", "theory")


class BadReturn(ProblemError):
    """A method of a problem returned what it must not. method, found, expected, cause : what a reader needs."""

    def __init__(self, problem: str, method: str, found: str, expected: str, cause: str = "") -> None:
        what = f"`{method}` returned {found}."
        super().__init__(
            explain(what, where=f"problem {problem!r}", expected=expected, remedy=cause and f"Likely cause: {cause}.")
        )
        self.method, self.found, self.expected, self.cause = method, found, expected, cause


class _Odd(Exception):
    """found, expected, cause of a value that is not what its method must return."""


def verify(method: str, value: Any, problem: Any, arguments: tuple[Any, ...]) -> Any:
    """The value that `method` returned for these arguments. Raises BadReturn, which names the method."""
    try:
        _RULES[method](value, problem, *arguments)
    except _Odd as odd:
        raise BadReturn(str(getattr(problem, "name", "?")), method, *odd.args) from None
    return value


def watch(cls: type) -> None:
    """Make every method that a class from outside the package says anew check what it returns (`watched`)."""
    for method, value in list(vars(cls).items()):
        checked = watched(cls, method, value)
        if checked is not value:
            type.__setattr__(cls, method, checked)


def watched(cls: type, method: str, value: Any) -> Any:
    """What a class is given under a name: a method that checks what it returns, and raises an error where it would
    leave the program, where the class is from outside the package and says it anew; else as it is."""
    anew = any(method in vars(base) for base in cls.__mro__[1:])
    inner = method.startswith("_") and method != "__init__"
    if cls.__module__.split(".")[0] in OWN or not anew or inner:
        return value
    if inspect.isfunction(value):
        return _watched(method, value)
    if isinstance(value, property) and value.fget is not None:
        return value.getter(_watched("", value.fget))  # returns a method, not what that one returns
    if isinstance(value, classmethod):
        return classmethod(_watched(method, value.__func__))
    return value


def _watched(method: str, function: Callable[..., Any]) -> Callable[..., Any]:
    names = list(inspect.signature(function).parameters)[1:]

    @functools.wraps(function)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            value = function(self, *args, **options)
        except (AgfError, KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # SystemExit, GeneratorExit and the like are for whoever runs the program
            inside = list(traceback.walk_tb(error.__traceback__))[1:]
            if not inside or (isinstance(error, Exception) and method not in _UNGUARDED):
                raise
            raise ProblemError(Blame.of(inside[0][0], *inside[-1]).words(error)) from error
        if method not in _RULES:
            return value
        if options:
            args = (*args, *(options[name] for name in names[len(args) :] if name in options))
        return verify(method, value, self, args)

    return call


# -- the rules ----------------------------------------------------------------------------------------------------


def a(value: Any) -> str:
    """A value in a few words: its type, or the shape and dtype of an array."""
    if isinstance(value, _OTHER_ARRAYS):
        return f"a {type(value).__name__}"
    if isinstance(value, np.ndarray):
        return f"shape {value.shape} of {value.dtype}"
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _array(value: Any, shape: tuple[int | None, ...], words: str) -> None:
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    sizes = tuple(wanted if wanted is not None else found for wanted, found in zip(shape, array.shape, strict=False))
    plain = array.dtype == np.float64 and not isinstance(array, _OTHER_ARRAYS)
    if array.shape == sizes and len(shape) == array.ndim and plain:
        return
    wanted = f"({', '.join('N' if size is None else str(size) for size in shape)}{',' * (len(shape) == 1)})"
    raise _Odd(
        a(array) if array.dtype != object else a(value), f"shape {wanted} of float64, {words}",
        "a sum over the wrong axis, a transposed or flattened array, or float32 arithmetic",
    )  # fmt: skip


def _loss(value: Any) -> None:
    plain = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    if not plain and not (isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind == "f"):
        raise _Odd(f"{a(value)} for the loss", "a real number", "a loss that is text, an array or a tensor")


def _pair(value: Any, words: str) -> tuple[Any, Any]:
    if not (isinstance(value, tuple) and len(value) == 2):
        raise _Odd(a(value), f"a pair {words}", "a value left out of the return")
    return value


def _loss_grad(value: Any, problem: Any, theta: Any, *rest: Any) -> None:
    _batch_loss_grad(value, problem, theta)
    loss = float(value[0])
    if not len(theta):  # the zero function: the unit of losses
        problem._zero_loss = loss if loss > 0 else np.inf
    elif loss < -_BELOW * problem._zero_loss:
        raise _Odd(
            f"a loss of {loss:.6g}", "losses of at least 0: all tolerances are shares of the loss",
            "a constant left out of the loss, such as that of the targets",
        )  # fmt: skip


def _batch_loss_grad(value: Any, problem: Any, theta: Any, *rest: Any) -> None:
    loss, gradient = _pair(value, "(loss, gradient)")
    _loss(loss)
    _array(gradient, theta.shape, "one row of gradient a neuron")


def _utility(value: Any, problem: Any, theta: Any, *rest: Any) -> None:
    values, gradients = _pair(value, "(utilities, gradients)")
    _array(values, theta.shape[:1], "one utility a neuron")
    _array(gradients, theta.shape, "one row of gradient a neuron")


def _rows(value: Any, problem: Any, directions: Any, *rest: Any) -> None:
    _array(value, directions.shape, "one row a neuron")


def _self_interaction(value: Any, problem: Any, directions: Any, *rest: Any) -> None:
    _array(value, directions.shape[:1], "one a neuron")


def _outputs(value: Any, problem: Any, theta: Any, *rest: Any) -> None:
    if value is not None:
        _array(value, (theta.shape[0], None), "one row a neuron, or None")


def _hessian(value: Any, problem: Any, theta: Any, *rest: Any) -> None:
    if value is not None:
        _array(value, (theta.size, theta.size), "rows and columns as theta.ravel(), or None")


def _initial(value: Any, problem: Any, *rest: Any) -> None:
    array = np.asarray(value)
    expected = f"finite real numbers of shape ({problem.width}, {problem.n_params})"
    if array.shape != (problem.width, problem.n_params) or array.dtype.kind not in "iuf":
        raise _Odd(a(array), expected, "rows are neurons")
    if not np.isfinite(array).all():
        raise _Odd(f"{array[~np.isfinite(array)][0]} among its numbers", expected, "a division by zero")


def _words(value: Any, *rest: Any) -> None:
    if not isinstance(value, str):
        raise _Odd(a(value), "a few words, a str", "a number or None in place of words: use an f-string")
    _written(value)


def _written(text: str) -> None:
    """Files and pictures hold text that UTF-8 has: no half of a pair, as undecodable bytes of a file name are; and no
    more of it than people read."""
    if len(text) > _LONGEST:
        raise _Odd(f"text of {len(text):,} letters", f"up to {_LONGEST:,}", "every neuron in place of the first few")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Odd(f"{text!r:.60}", "text that UTF-8 can write", "bytes that were decoded as something else") from None


def _named_arrays(value: Any, *rest: Any) -> None:
    if not isinstance(value, Mapping):
        raise _Odd(a(value), "a dict of arrays, {} for none", "a return left out")
    for name, entry in value.items():
        if not isinstance(name, str):
            raise _Odd(f"{name!r} as a name", "names that are text", "numbers as keys of the dict")
        _written(name)
        if not (name and name.isprintable()):
            raise _Odd(f"{name!r} as a name", "names of printable letters", "a name read from bytes or from a file")
        try:
            kind = "O" if isinstance(entry, _OTHER_ARRAYS) else np.asarray(entry).dtype.kind
        except (TypeError, ValueError):  # ragged
            kind = "O"
        if kind not in "biuf":
            raise _Odd(
                f"{a(np.asarray(entry)) if kind != 'O' else a(entry)} for {name!r}", "an array of real numbers",
                "text, complex numbers or objects where numbers belong",
            )  # fmt: skip


def _flow_system(value: Any, *rest: Any) -> None:
    if value is not None and not isinstance(value, FlowSystem):
        raise _Odd(a(value), "an agf.FlowSystem, or None for the generic coordinates", "another class, or no subclass")


def _ties(value: Any, *rest: Any) -> None:
    if value is not None and not isinstance(value, Ties):
        raise _Odd(a(value), "an agf.Ties, or None for none", "its parts in place of the whole")


def _start(value: Any, *rest: Any) -> None:
    if not isinstance(value, Init):
        raise _Odd(a(value), "an agf.Init: that which was given, or another", "a return left out")


def _kink_normals(value: Any, problem: Any, *rest: Any) -> None:
    if value is None:
        return
    found = value if isinstance(value, np.ndarray) else np.asarray(value)
    each = (problem.width,) * (found.ndim == 3)
    shaped = found.shape[: len(each)] == each and found.ndim in (2, 3) and found.shape[-1] <= problem.n_params
    if not shaped or found.dtype != np.float64 or not np.isfinite(found).all():
        words = f"finite float64 (n, d) or ({problem.width}, n, d) with d up to {problem.n_params}, or None"
        raise _Odd(a(value if found.dtype == object else found), words, "samples transposed, or not finite")


def _is_problem(value: Any) -> bool:
    return callable(getattr(value, "loss_grad", None)) and hasattr(value, "degree")


def _rounded(value: Any, *rest: Any) -> None:
    if value is not None and not _is_problem(value):
        raise _Odd(a(value), "a problem, or None", "a return left out")


def _restriction(value: Any, problem: Any, *rest: Any) -> None:
    if value is None:
        return
    fits = isinstance(value, tuple) and len(value) == 2 and _is_problem(value[0]) and value[0] is not problem
    mask = value[1] if fits else None
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (problem.width, problem.n_params):
        words = f"another problem and booleans ({problem.width}, {problem.n_params}), or None"
        raise _Odd(a(value if mask is None else mask), words, "a mask of another shape")


def _critical(value: Any, problem: Any, *rest: Any) -> None:
    if value is None:
        return
    words = "a list of agf.Critical, or None"
    if not isinstance(value, list | tuple):
        raise _Odd(a(value), words, "a generator")
    for entry in value:
        if not (hasattr(entry, "direction") and isinstance(getattr(entry, "label", None), str)):
            raise _Odd(f"{a(entry)} in it", words, "numbers in place of agf.Critical")
        _array(entry.direction, (problem.n_params,), "one direction")
        if not np.isfinite(entry.direction).all() or not np.isfinite(entry.utility):
            raise _Odd("a direction or a utility that is not finite", words, "a division by zero")


def _least_loss(value: Any, *rest: Any) -> None:
    if not isinstance(value, float | int | np.floating) or np.isnan(number(value)):
        raise _Odd(a(value), "a number, 0 where nothing better is known", "a return left out")


def _are_phases(value: Any) -> bool:
    return hasattr(value, "clock") and all(
        callable(getattr(value, name, None)) for name in ("start", "dormant", "active")
    )


def _phases(value: Any, *rest: Any) -> None:
    if value is not None and not _are_phases(value):
        raise _Odd(
            a(value),
            "an object with a clock and the methods start, dormant and active, or None",
            "one of them left out",
        )


def _many_phases(value: Any, problem: Any, inits: Any, *rest: Any) -> None:
    if value is None:
        return
    if not isinstance(value, list | tuple) or len(value) != len(inits):
        raise _Odd(a(value), f"a list of {len(inits)}, one an initialization, or None", "a generator, or one too few")
    for entry in value:
        _phases(entry)


def _theory(value: Any, *rest: Any) -> None:
    if not (hasattr(value, "levels") and hasattr(value, "drops")):
        raise _Odd(a(value), "an agf.Staircase", "a list of levels in place of a Staircase")


def _remarks(value: Any, *rest: Any) -> None:
    if not (isinstance(value, tuple | list) and all(isinstance(sentence, str) for sentence in value)):
        raise _Odd(a(value), "a tuple of sentences, () for none", "one sentence without the comma of a tuple")
    for sentence in value:
        _written(sentence)


def _example(value: Any, *rest: Any) -> None:
    if not (isinstance(value, dict) and all(isinstance(name, str) for name in value)):
        raise _Odd(a(value), "a dict of constructor arguments by name", "a return left out")


_RULES: dict[str, Callable[..., None]] = {
    "loss_grad": _loss_grad,
    "batch_loss_grad": _batch_loss_grad,
    "utility": _utility,
    "pull": _rows,
    "network_pull": _rows,
    "self_interaction": _self_interaction,
    "outputs": _outputs,
    "hessian": _hessian,
    "initial": _initial,
    "label": _words,
    "acquired": _words,
    "describe": _words,
    "remarks": _remarks,
    "features": _named_arrays,
    "features_along": _named_arrays,
    "conserved": _named_arrays,
    "flow_system": _flow_system,
    "ties": _ties,
    "start_of": _start,
    "kink_normals": _kink_normals,
    "rounded": _rounded,
    "restriction": _restriction,
    "critical": _critical,
    "least_loss": _least_loss,
    "phases": _phases,
    "many_phases": _many_phases,
    "theory": _theory,
    "example": _example,
}
#: Methods of a problem that the package calls.
METHODS = ("residual", *(method for method in _RULES if method != "batch_loss_grad"))
