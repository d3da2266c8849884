"""Why a run ended: one table for predictions and for trajectories.

A status is a word (written to files and JSON) and a sentence with a remedy (shown to people). The stop *decision* is
made by whoever computes; the status only says which it was. docs/when-it-fails.md has one heading per status.
"""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """Why a run ended. `word` is the machine's name, `sentence` what the user reads."""

    # predictions
    FITTED = ("fitted", "The loss gradient vanished: these neurons have nothing left to fit.")
    ALL_ACTIVE = (
        "all_active",
        "Every neuron is active. Where the width is a choice, a larger one may show further drops.",
    )
    NO_GROWTH = (
        "no_growth",
        "No dormant neuron gains utility, so none will ever activate. Another seed may, or a larger width where it is "
        "a choice.",
    )
    MAX_DROPS = ("max_drops", "Stopped after max_drops drops. Raise max_drops to go on.")
    NO_CRITICAL_POINT = (
        "no_critical_point",
        "The active neurons have no critical point to settle at: the loss kept falling. "
        "The level given is the loss up to where it was followed.",
    )
    # trajectories
    SETTLED = ("settled", "The flow settled: nothing it can still lose within the horizon asked for.")
    SADDLE = (
        "saddle",
        "The flow is parked at a saddle: the gradient is small but neurons still grow. Raise t_max, or tighten rtol.",
    )
    PLATEAU = (
        "plateau",
        "The budget ran out on a plateau: a small neuron still grows, and another drop follows. Raise max_steps or "
        "max_gradients.",
    )
    QUIET = (
        "quiet",
        "The loss has all but stopped, though something still creeps. To train on, lower settle or give a t_max.",
    )
    STEPS = ("steps", "All the gradient-descent steps asked for were taken.")
    # both
    MAX_TIME = ("max_time", "Reached the time limit (flow time). Raise it to go on.")
    MAX_STEPS = (
        "max_steps",
        "The step budget ran out before the end. Raise max_steps, or loosen rtol.",
    )
    STALLED = ("stalled", "The step size fell below what float64 can resolve. Loosen rtol, or try another method.")
    INTERRUPTED = ("interrupted", "Interrupted; what was computed is kept. Training runs and sweeps can be resumed.")
    NONFINITE = ("nonfinite", "A non-finite value appeared. The result is kept up to the last good state.")
    STIFF = (
        "stiff",
        "What has settled relaxes so much faster than the next neuron grows that explicit steps would take for ever. "
        "A prediction does not step through plateaus.",
    )
    ERROR = (
        "error",
        "An error was raised while computing. The result is kept up to the last good state.",
    )
    # theory and curves
    THEORY = ("theory", "Closed form.")
    CURVE = ("curve", "Read from a file; nothing was computed.")

    def __init__(self, word: str, sentence: str) -> None:
        self.word = word
        self.sentence = sentence

    @property
    def failed(self) -> bool:
        """Whether the computation failed (exit code 1). The partial result is still there."""
        return self in _FAILED

    @property
    def cut_short(self) -> bool:
        """Whether the run stopped at a bound the user can raise."""
        return self in _CUT_SHORT

    @classmethod
    def from_word(cls, word: str) -> Status:
        """The status of that word; KeyError when there is none."""
        return _BY_WORD[word]


_FAILED = {
    Status.ERROR,
    Status.STIFF,
    Status.NONFINITE,
    Status.STALLED,
    Status.SADDLE,
    Status.PLATEAU,
    Status.MAX_STEPS,
}
_CUT_SHORT = {Status.MAX_DROPS, Status.MAX_TIME, Status.MAX_STEPS, Status.PLATEAU, Status.INTERRUPTED}
_BY_WORD = {status.word: status for status in Status}
