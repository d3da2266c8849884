"""Utilities that vanish by symmetry, to rounding: the next order of the activation decides (`agf.contract.order`).

[AGF] takes the leading order of a neuron in its parameters for its utility. Where that vanishes no phase of the
algorithm grows the neurons as training does: such a network is followed in real time (mode "resolved"), from weights
large enough for the next order to stand out of the rounding of the first. This is what is said of it.
"""

_VANISH = (
    "To leading order the utilities of all dormant neurons vanish at this loss, by symmetry: they are rounding. They "
    "grow by the next order of their activation, at a rate that depends on their norms"
)
HANDED = _VANISH + ", which mode agf does not know; the network was followed in real time instead (mode resolved)."
UNTIMED = _VANISH + ": in units of -log alpha they never activate. Mode resolved follows them at a finite alpha."
