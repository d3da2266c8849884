"""Shared fixtures: no display, no thread pools, and a plugin written as a user would write one."""

from __future__ import annotations

import os
import shutil

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest
from hypothesis import settings

# Timings depend on the machine, and every example is recomputed when a test fails: no deadline, no database.
settings.register_profile("agf", deadline=None, database=None, derandomize=True)
settings.load_profile("agf")


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(20250609)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Browser tests run where Chromium is installed, as it is in CI; elsewhere they are deselected and counted."""
    if shutil.which("chromium") or shutil.which("google-chrome"):
        return
    without = [item for item in items if item.get_closest_marker("browser")]
    if without:
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if item not in without]
