"""Run the audit: `python -m audit [--jobs 2] [--tables 400] [--only WORD] [--out FILE] [--page]`.

Every table is one line of the file; a run goes on where one of the same code stopped. `--page` writes the tables of
errors into docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from audit import report
from audit.measure import record
from audit.tables import Table, tables

ROOT = Path(__file__).parents[1]


def chosen(number: int, only: str | None) -> list[Table]:
    """The first tables; or those whose name contains a word."""
    return list(islice(tables(), number)) if only is None else [table for table in tables() if only in table.name]


def code() -> str:
    """Fingerprint of everything that decides a record."""
    digest = hashlib.sha256()
    for folder in ("agf", "problems", "audit"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> int:
    parser = argparse.ArgumentParser(prog="audit", description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tables", type=int, default=400)
    parser.add_argument("--only", default=None)
    parser.add_argument("--alpha", type=float, default=1e-6)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "audit.jsonl")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    version, began = code(), time.perf_counter()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = {}
    if options.out.exists():
        lines = [json.loads(line) for line in options.out.read_text().splitlines()]
        done = {line["name"]: line for line in lines if line["code"] == version and line.get("alpha") == options.alpha}
    wanted = chosen(options.tables, options.only)
    rest = [(table, options.alpha, version) for table in wanted if table.name not in done]
    with options.out.open("w") as handle, ProcessPoolExecutor(options.jobs) as pool:
        for line in done.values():
            handle.write(json.dumps(line, default=_plain) + "\n")
        for number, job in enumerate(as_completed([pool.submit(record, *each) for each in rest]), 1):
            found = job.result()
            done[found["name"]] = found
            handle.write(json.dumps(found, default=_plain) + "\n")
            handle.flush()
            print(f"\r{number}/{len(rest)} {found['name']:40.40s}", end="", file=sys.stderr, flush=True)
    print(f"\r{time.perf_counter() - began:.0f} s{' ' * 50}", file=sys.stderr)
    text = report.text([done[table.name] for table in wanted])
    print(text)
    if options.page:
        report.write(ROOT / "docs" / "accuracy.md", text)
        report.picture(ROOT / "docs" / "accuracy.png", [record for record in done.values() if "failed" not in record])
    return 0


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)


if __name__ == "__main__":
    sys.exit(main())
