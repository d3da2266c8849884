"""Both homes of arrays clip alike."""

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
