"""What float64 cannot tell: each such threshold under one name, as an expression of the machine's epsilon.

Below each lies what rounding makes of a zero, above it what matters, decades away on both sides. A comparison with one
of them asks "is this zero, as far as float64 can tell?", and any value in between gives the same answer.
"""

from __future__ import annotations

import numpy as np

#: Relative distance of 1 from the next number of float64. Derived: the format.
EPS = float(np.finfo(np.float64).eps)
#: Smallest number of float64 that has all its digits. Derived: the format.
TINY = float(np.finfo(np.float64).tiny)
#: A sum, relative to the sum of the sizes of its terms, below which it is rounding. Derived: n roundings in random
#: directions add up to n^(1/2) epsilons, here for n = 2^18 = 262,144 terms.
SUM = 2.0**9 * EPS
#: Distance of a vector to the span of others, a singular value or a coefficient, relative to the largest, below which
#: it is rounding. Derived: a factorization of order n perturbs its matrix by n epsilons at most, here for n = 2^12.
RANK = 2.0**12 * EPS
#: A product of two unit vectors, relative to its terms, below which it is zero. Derived: 64 roundings.
UNIT = 2.0**6 * EPS
#: Relative difference below which two eigenvalues, times or losses are one. Result: thousandfold above what rounding
#: makes of equal ones (`RANK`), and such a difference of two rates shows only after 1e9 growth times; at 1e-12 the
#: equal eigenvalues of a symmetric problem may come apart into drops that follow one another, at 1e-6 times that differ
#: in their sixth digit would count as simultaneous.
TIED = 1e-9
#: Log below which a norm counts as this one. Derived: its square is a normal number, and e^50 of room is left.
LOG_LEAST = 0.5 * float(np.log(TINY)) + 50.0
#: Size below which an entry is not followed to relative accuracy. Derived: its error, down to `EPS` times the entry,
#: still has digits; adding such an entry to one of order one changes nothing, and subnormal arithmetic, which is slow,
#: is never met.
FAINT = TINY / EPS**2
#: Its natural logarithm. Derived: log FAINT.
LOG_FAINT = float(np.log(FAINT))
