"""Predict the staircase of losses of a network trained from tiny initialization, and check it against gradient flow.

Names and modules are loaded when first used, so that `import agf` needs neither torch nor matplotlib.
"""

from __future__ import annotations

import importlib

#: As in `typing`, which would be a tenth of the time until an interrupt is heeded.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

# public name -> module that defines it. A function never shares its name with a module of this package.
_EXPORTS = {
    "cones": "rectified.cones",
    "course": "rectified.course",
    "Course": "rectified.course",
    "align": "rectified.align",
    "DormantPhase": "rectified.dormant_phase",
    "landscape": "rectified.landscape",
    "separation": "rectified.separation",
    "Separation": "rectified.separation",
    "escape": "rectified.escape",
    "Escape": "rectified.escape",
    "Landscape": "results.landscape",
    "Critical": "results.landscape",
    "AutogradProblem": "networks.autograd",
    "TwoLayer": "networks.two_layer",
    "Problem": "contract.problem",
    "Phases": "contract.phases",
    "Init": "init",
    "Settings": "records.settings",
    "Status": "records.status",
    "Certificate": "algorithm.certificate",
    "Clock": "clock",
    "State": "records.state",
    "Activation": "records.state",
    "Settled": "records.state",
    "FlowSystem": "contract.flow_system",
    "Ties": "contract.ties",
    "FactoredFlow": "coordinates.factored_flow",
    "Snapshot": "contract.flow_system",
    "Engine": "algorithm.engine",
    "Step": "algorithm.engine",
    "predict": "algorithm.prediction",
    "predict_many": "algorithm.prediction",
    "Drop": "results.drop",
    "Staircase": "results.staircase",
    "Trajectory": "results.trajectory",
    "CurveWriter": "results.curve_file",
    "flow": "training.gradient_flow",
    "descend": "training.descent",
    "certificate": "algorithm.certificate",
    "compare": "results.comparison",
    "Comparison": "results.comparison",
    "alignment": "capacity.alignment",
    "groups": "capacity.groups",
    "merge": "capacity.compress",
    "prune": "capacity.compress",
    "tickets": "capacity.tickets",
    "masked": "rewinding.masked",
    "rewind": "rewinding.rewind",
    "Rewinding": "results.rewinding",
    "check": "conformance.checks",
    "problem": "registry",
    "load": "loading.runs",
    "sweep": "sweeping.sweep",
    "watch": "shell.progress",
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
    "arrays", "batch", "clock", "datasets", "errors", "factored", "figures", "graph", "init", "integrators", "losses",
    "plot", "registry", "rounding", "sphere", "stopping", "summary",
)  # fmt: skip

# The phases, for who drives them alone; `from agf import dormant` has always worked.
_PHASES = {"active": "algorithm.active", "dormant": "algorithm.dormant", "phases": "algorithm.phases"}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(f"agf.{_EXPORTS[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES or name in _PHASES:
        return importlib.import_module(f"agf.{_PHASES.get(name, name)}")
    raise AttributeError(f"module 'agf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


if TYPE_CHECKING:
    from agf import arrays as arrays
    from agf import batch as batch
    from agf import clock as clock
    from agf import datasets as datasets
    from agf import errors as errors
    from agf import factored as factored
    from agf import figures as figures
    from agf import graph as graph
    from agf import init as init
    from agf import integrators as integrators
    from agf import losses as losses
    from agf import plot as plot
    from agf import registry as registry
    from agf import sphere as sphere
    from agf import stopping as stopping
    from agf import summary as summary
    from agf.algorithm.certificate import Certificate as Certificate
    from agf.algorithm.certificate import certificate as certificate
    from agf.algorithm.engine import Engine as Engine
    from agf.algorithm.engine import Step as Step
    from agf.algorithm.prediction import predict as predict
    from agf.algorithm.prediction import predict_many as predict_many
    from agf.capacity.alignment import alignment as alignment
    from agf.capacity.compress import merge as merge
    from agf.capacity.compress import prune as prune
    from agf.capacity.groups import groups as groups
    from agf.capacity.tickets import tickets as tickets
    from agf.clock import Clock as Clock
    from agf.conformance.checks import check as check
    from agf.contract.flow_system import FlowSystem as FlowSystem
    from agf.contract.flow_system import Snapshot as Snapshot
    from agf.contract.phases import Phases as Phases
    from agf.contract.problem import Problem as Problem
    from agf.contract.ties import Ties as Ties
    from agf.coordinates.factored_flow import FactoredFlow as FactoredFlow
    from agf.errors import AgfError as AgfError
    from agf.errors import ComputationError as ComputationError
    from agf.errors import DataError as DataError
    from agf.errors import FileError as FileError
    from agf.errors import NoTheory as NoTheory
    from agf.errors import ProblemError as ProblemError
    from agf.errors import RequestError as RequestError
    from agf.init import Init as Init
    from agf.loading.runs import load as load
    from agf.networks.autograd import AutogradProblem as AutogradProblem
    from agf.networks.two_layer import TwoLayer as TwoLayer
    from agf.records.settings import Settings as Settings
    from agf.records.state import Activation as Activation
    from agf.records.state import Settled as Settled
    from agf.records.state import State as State
    from agf.records.status import Status as Status
    from agf.rectified.align import align as align
    from agf.rectified.cones import cones as cones
    from agf.rectified.course import Course as Course
    from agf.rectified.course import course as course
    from agf.rectified.dormant_phase import DormantPhase as DormantPhase
    from agf.rectified.escape import Escape as Escape
    from agf.rectified.escape import escape as escape
    from agf.rectified.landscape import landscape as landscape
    from agf.rectified.separation import Separation as Separation
    from agf.rectified.separation import separation as separation
    from agf.registry import problem as problem
    from agf.results.comparison import Comparison as Comparison
    from agf.results.comparison import compare as compare
    from agf.results.curve_file import CurveWriter as CurveWriter
    from agf.results.drop import Drop as Drop
    from agf.results.landscape import Critical as Critical
    from agf.results.landscape import Landscape as Landscape
    from agf.results.rewinding import Rewinding as Rewinding
    from agf.results.staircase import Staircase as Staircase
    from agf.results.trajectory import Trajectory as Trajectory
    from agf.rewinding.masked import masked as masked
    from agf.rewinding.rewind import rewind as rewind
    from agf.shell.progress import watch as watch
    from agf.sweeping.sweep import sweep as sweep
    from agf.training.descent import descend as descend
    from agf.training.gradient_flow import flow as flow
