"""Which coordinates gradient flow is followed in: the problem's own, modes where hidden units mix, else polar ones."""

from __future__ import annotations

from agf.contract.flow_system import FlowSystem
from agf.contract.problem import Problem
from agf.coordinates.mode_system import ModeSystem, mixes
from agf.coordinates.polar_system import PolarSystem
from agf.coordinates.sharp_system import SharpSystem
from agf.init import Init


def flow_system(problem: Problem, init: Init) -> FlowSystem:
    """Coordinates of gradient flow of `problem` from `init`; one neuron alone has none to mix with."""
    own = problem.flow_system(init)
    if own is not None:
        return own
    if problem.kink_normals() is not None:
        return SharpSystem(problem, init)
    return (ModeSystem if init.width > 1 and mixes(problem) else PolarSystem)(problem, init)
