"""The algorithm ([AGF] Algorithm 1) and its modes: read `engine`, then `phases` and the two that it joins.

The round:
    `engine`, `phases`; `utility_maximization`, then `arrivals`, then `cost_minimization`.
Dormant neurons:
    `dormant` steps them to the first crossing, in the `field` of a frozen residual; `threshold`, `crossings`, and
    `resting`.
    How they are stepped: `choose_stepper`, of `stepper`: `dormand_prince`, whose `past_steps` are kept, or by closed
    forms, `linear_stepper` and `exact_stepper`.
Active neurons:
    `active` follows their `cost` for as long as the `next_activation` takes.
What a run carries:
    `task`, `phase_run`, `memory`.
Round after round:
    `prediction`, which `observer` watches, past the door of `smallness` to an `outcome`.
What a drop is told with:
    its error bars, `deviation` and `lag`; `saturation`, `certificate`, `conditioning`.
Other modes and neurons:
    `auto`, `limit`, `resolved`; `mixing` where modes take the part of neurons, `untie` where several are one.
What the paper does not say:
    `departures`.
"""
