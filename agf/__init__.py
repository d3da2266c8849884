"""Predict the staircase of losses of a network trained from tiny initialization, and check it against gradient flow.

Names and modules are loaded when first used, so that `import agf` needs neither torch nor matplotlib.
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

# Modules whose own names are public too; docs/index.md says what is in each. `import agf` is enough to reach them.
_MODULES = (
    "arrays", "batch", "clock", "datasets", "errors", "figures", "graph", "init", "integrators", "losses", "plot",
    "registry", "sphere", "summary",
)  # fmt: skip

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(f"agf.{_EXPORTS[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"agf.{name}")
    raise AttributeError(f"module 'agf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


if TYPE_CHECKING:
    from agf import arrays as arrays
    from agf import batch as batch
    from agf import clock as clock
    from agf import datasets as datasets
    from agf import errors as errors
    from agf import figures as figures
    from agf import graph as graph
    from agf import init as init
    from agf import integrators as integrators
    from agf import losses as losses
    from agf import plot as plot
    from agf import registry as registry
    from agf import sphere as sphere
    from agf import summary as summary
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
