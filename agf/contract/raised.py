"""An exception of a stranger's method in one sentence: the method, its line, and the shapes that it was given."""

from __future__ import annotations

from dataclasses import dataclass
from types import FrameType

from agf.errors import explain
from agf.records.files import near
from agf.records.table import visible

#: What a method returns, in words.
_RETURNS = {
    "loss_grad": "(loss, gradient (m, P))",
    "residual": "what `utility` reads",
    "utility": "(utilities (m,), gradients (m, P))",
    "pull": "an array (m, P)",
    "outputs": "an array (m, N) or None",
    "self_interaction": "an array (m,)",
    "features": "a dict of arrays",
    "label": "a few words",
    "initial": "an array (H, P)",
    "neuron": "a torch scalar or vector, one number an output",
}


@dataclass(frozen=True)
class Blame:
    """Where the fault lies.

    Parameters
    ----------
    method : str
        Its name.
    place : str
        Method, file and line.
    given : str
        The shapes of its arguments, "" when it has none.
    """

    method: str
    place: str
    given: str

    @classmethod
    def of(cls, method: FrameType, inner: FrameType, line: int) -> Blame:
        """Of the frame of a method, and the line of the frame inside it that is to blame."""
        place = f"{method.f_code.co_qualname.rpartition('<locals>.')[2]} ({near(inner.f_code.co_filename)}:{line})"
        return cls(method.f_code.co_name, place, _arguments(method))

    def words(self, error: BaseException) -> str:
        """What happened, in one message."""
        rows = self.given and self.method not in ("initial", "neuron", "__init__")
        expected = _RETURNS.get(self.method, "")
        return explain(
            f"it raised {told(error)}.",
            where=self.place,
            found=self.given or None,
            expected=expected + (" for any number of rows m, also none" if rows and expected else ""),
            remedy="" if self.method == "__init__" else "The other methods may be right: `agf check` tries each.",
        )


def told(error: BaseException) -> str:
    """Type and message of an exception, on one line."""
    try:
        text = visible(" ".join(str(error).split()))
    except Exception:  # a stranger's exception, which cannot say itself what it is
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _arguments(frame: FrameType) -> str:
    names = frame.f_code.co_varnames[1 : frame.f_code.co_argcount]
    shapes = [(name, getattr(frame.f_locals.get(name), "shape", None)) for name in names]
    return ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes if shape is not None)
