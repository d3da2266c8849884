"""Both homes of arrays clip alike, and work arrays are not mapped anew at every gradient."""

import platform
import subprocess
import sys

import numpy as np
import pytest

from agf.numerics.backend import Backend

VALUES = np.array([-np.inf, -2.0, -0.0, 0.0, 0.3, 1.0, 7.0, np.inf, np.nan])


@pytest.mark.parametrize("most", [None, 1.0])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_clip_is_that_of_numpy_and_leaves_its_argument(device, most):
    if device:
        pytest.importorskip("torch")
    backend = Backend.of(device)
    values = backend.array(VALUES.copy())
    np.testing.assert_array_equal(backend.numpy(backend.clip(values, 0.0, most)), np.clip(VALUES, 0.0, most))
    np.testing.assert_array_equal(backend.numpy(values), VALUES)


FAULTS = """
import resource
import numpy as np
import agf
rng = np.random.default_rng(0)
problem = agf.TwoLayer(rng.standard_normal((1000, 5)), rng.standard_normal(1000), width=100)
theta, neurons = rng.standard_normal((100, 6)), np.arange(100)
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    problem.loss_grad(theta, neurons)
before = faults()
for _ in range(20):
    problem.loss_grad(theta, neurons)
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how glibc gives memory back")
def test_work_arrays_of_a_gradient_are_not_mapped_anew():
    """.8 MB each, 200 pages: a process of its own, as any earlier array of 16 MB would hide it."""
    said = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True).stdout
    assert int(said) < 200
