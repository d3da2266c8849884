"""Predict the staircase of losses of a network trained from tiny initialization, and check it against gradient flow.

Names are loaded when first used, so that `import agf` needs neither torch nor matplotlib.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# public name -> module that defines it. A function never shares its name with a module of this package.
_EXPORTS = {
    "AutogradProblem": "autograd",
    "TwoLayer": "two_layer",
    "Problem": "contract",
    "Phases": "contract",
    "Init": "init",
    "Settings": "settings",
    "Status": "status",
    "Certificate": "saddle",
    "Clock": "clock",
    "State": "events",
    "Activation": "events",
    "Settled": "events",
    "FlowSystem": "system",
    "Snapshot": "system",
    "Engine": "engine",
    "Step": "engine",
    "predict": "engine",
    "predict_many": "engine",
    "Drop": "staircase",
    "Staircase": "staircase",
    "Trajectory": "trajectory",
    "flow": "gradient_flow",
    "descend": "descent",
    "certificate": "saddle",
    "compare": "comparison",
    "Comparison": "comparison",
    "check": "checks",
    "problem": "registry",
    "load": "runs",
    "sweep": "sweeps",
    "watch": "watcher",
    "AgfError": "errors",
    "RequestError": "errors",
    "DataError": "errors",
    "ProblemError": "errors",
    "FileError": "errors",
    "NoTheory": "errors",
    "ComputationError": "errors",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(f"agf.{_EXPORTS[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'agf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from agf.autograd import AutogradProblem as AutogradProblem
    from agf.checks import check as check
    from agf.clock import Clock as Clock
    from agf.comparison import Comparison as Comparison
    from agf.comparison import compare as compare
    from agf.contract import Phases as Phases
    from agf.contract import Problem as Problem
    from agf.descent import descend as descend
    from agf.engine import Engine as Engine
    from agf.engine import Step as Step
    from agf.engine import predict as predict
    from agf.engine import predict_many as predict_many
    from agf.errors import AgfError as AgfError
    from agf.errors import ComputationError as ComputationError
    from agf.errors import DataError as DataError
    from agf.errors import FileError as FileError
    from agf.errors import NoTheory as NoTheory
    from agf.errors import ProblemError as ProblemError
    from agf.errors import RequestError as RequestError
    from agf.events import Activation as Activation
    from agf.events import Settled as Settled
    from agf.events import State as State
    from agf.gradient_flow import flow as flow
    from agf.init import Init as Init
    from agf.registry import problem as problem
    from agf.runs import load as load
    from agf.saddle import Certificate as Certificate
    from agf.saddle import certificate as certificate
    from agf.settings import Settings as Settings
    from agf.staircase import Drop as Drop
    from agf.staircase import Staircase as Staircase
    from agf.status import Status as Status
    from agf.sweeps import sweep as sweep
    from agf.system import FlowSystem as FlowSystem
    from agf.system import Snapshot as Snapshot
    from agf.trajectory import Trajectory as Trajectory
    from agf.two_layer import TwoLayer as TwoLayer
    from agf.watcher import watch as watch
