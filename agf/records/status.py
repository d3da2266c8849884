"""Why a run ended: one table for predictions and for trajectories.

A status is a word (written to files and JSON) and a sentence that is true of every run that ends so; what a result
shows to people is said with what was measured of it (`agf.results.endings`). The stop *decision* is made by whoever
computes; the status only says which it was. docs/when-it-fails.md has one heading per status.
"""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """Why a run ended. `word` is the machine's name, `sentence` what holds for every such run."""

    # predictions
    FITTED = ("fitted", "The loss gradient vanished: these neurons have nothing left to fit.")
    ALL_ACTIVE = ("all_active", "Every neuron is active.")
    NO_GROWTH = ("no_growth", "No dormant neuron gains utility, so none will ever activate.")
    MAX_DROPS = ("max_drops", "Stopped after as many drops as were asked for.")
    NO_CRITICAL_POINT = (
        "no_critical_point",
        "The active neurons have no critical point to settle at: the loss kept falling.",
    )
    # trajectories
    SETTLED = ("settled", "The flow settled: nothing that counts can still be lost.")
    SADDLE = ("saddle", "The flow is parked at a saddle: perturbations grow, but float64 holds none here.")
    PLATEAU = ("plateau", "The budget ran out on a plateau: a small neuron still grows, and another drop follows.")
    QUIET = ("quiet", "The loss has all but stopped, though something still creeps.")
    STEPS = ("steps", "All the gradient-descent steps asked for were taken.")
    # both
    MAX_TIME = ("max_time", "Reached the time limit.")
    MAX_STEPS = ("max_steps", "The step budget ran out before the end.")
    STALLED = ("stalled", "The step size fell below what float64 can resolve.")
    INTERRUPTED = ("interrupted", "Interrupted: this is what was computed by then.")
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
