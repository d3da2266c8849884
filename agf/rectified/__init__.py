"""(Leaky) ReLU networks of one output, exactly: the frozen-residual flow event by event, its cones and critical points.

[BF24] and [Min23] study this phase. Everything here is for a sharp kink; nothing steps. Read `dormant_flow` first.
"""
