"""Start-up from the shell: a whole prediction against the interpreter with numpy alone. Best of several, in one run.

Processor seconds beside wall seconds, since the former hardly depend on what else the machine does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

REPEATS = 5
PREDICT = "from agf.shell.main import main; main(['predict', 'diagonal-linear', '--data', 'diabetes', '--quiet'])"
ROWS = {
    "python -c 'import numpy' (baseline)": "import numpy",
    "import agf": "import agf",
    "agf --help": "from agf.shell.main import main; main(['--help'])",
    "agf predict diagonal-linear --data diabetes": PREDICT,
    "the same data by sklearn.datasets.load_diabetes": "from sklearn.datasets import load_diabetes; load_diabetes()",
    "import torch": "import torch",
}


def seconds(code: str) -> tuple[float, float]:
    """Best wall time and best processor time of a fresh interpreter that runs `code`."""
    wall = cpu = float("inf")
    for _ in range(REPEATS):
        began, before = time.perf_counter(), os.times()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        wall = min(wall, time.perf_counter() - began)
        cpu = min(cpu, after.children_user + after.children_system - before.children_user - before.children_system)
    return wall, cpu


def main() -> None:
    """Print seconds and ratios."""
    baseline = None
    print(f"{'':50s} {'wall s':>8s} {'cpu s':>8s} {'cpu ratio':>10s}")
    for name, code in ROWS.items():
        wall, cpu = seconds(code)
        baseline = baseline or cpu
        print(f"{name:50s} {wall:8.3f} {cpu:8.3f} {cpu / baseline:10.1f}")


if __name__ == "__main__":
    main()
