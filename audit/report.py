"""The records of an audit as tables of errors, endings and cost, and of how far the error bars hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from audit.measure import MODES

#: A run that leaves more than this fraction of the loss of the zero function above the minimum ended early.
EARLY = 1e-5
BLOCK = re.compile(r"(<!-- audit -->\n).*?(<!-- end -->)", re.DOTALL)

Record = dict[str, Any]


def text(records: list[Record]) -> str:
    """All that the audit prints."""
    whole = [record for record in records if "failed" not in record]
    failed = [f"{record['name']} ({record['failed']})" for record in records if "failed" in record]
    kinds = ["flow", *[mode for mode in MODES if any(mode in record for record in whole)]]
    lines = [
        f"{len(records)} tables, alpha = {whole[0]['alpha']:g}; true flow by scipy, followed to the end on "
        f"{sum(record['reference']['whole'] for record in whole)}.",
        "",
        "Largest error of a half-drop time, per table:",
        *_grid(
            ["", "median", "75 %", "90 %", "95 %", "worst", "below 0.1 %", "below 1 %", "above 5 %", "phantom"],
            [[kind, *_errors(whole, kind)] for kind in kinds],
        ),
        "",
        f"Endings; early: with more than {EARLY:g} L(0) left to lose; cost: gradients over those of the flow:",
        *_grid(
            ["", "early", "cost: median", "95 %", "worst", "in all", "CPU s", "endings"],
            [[kind, *_endings(whole, kind)] for kind in kinds],
        ),
        "",
        f"Theory against an independent recursion: {_theory(whole)}",
    ]
    bars = [(mode, _drops(whole, mode)) for mode in kinds[1:]]
    bars = [(mode, drops) for mode, drops in bars if any(np.isfinite(drop["bar"]) for drop in drops)]
    if bars:
        lines += ["", "Error bars: drops whose true error is below the bar, and how wide bars are:"]
        names = ["", "drops", "times within", "levels within", "errors above 1 %", "bar below 5 x error"]
        lines += _grid(names, [[mode, *_bars(drops)] for mode, drops in bars])
        lines += ["", "Calibration of times: drops by their bar, with the true errors among them:"]
        for mode, drops in bars:
            names = [mode, "drops", "within", "median error", "95 %", "worst"]
            lines += _grid(names, _calibration(drops))
    if failed:
        lines += ["", "Not finished: " + ", ".join(failed)]
    return "\n".join(lines)


def write(page: Path, found: str) -> None:
    """Replace the block of the page that shows the output."""
    before = page.read_text(encoding="utf-8")
    block = f"\\1```text\n{found}\n```\n\\2"
    page.write_text(BLOCK.sub(block, before), encoding="utf-8")


def picture(path: Path, records: list[Record], modes: tuple[str, ...] = ("auto", "agf")) -> None:
    """Every drop by its error bar and its true error, with the share within among drops of like bars."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(modes), figsize=(9, 3.8), sharey=True, layout="constrained")
    line = np.array([1e-4, 10.0])
    for axis, mode in zip(axes, modes, strict=True):
        drops = _drops(records, mode)
        bars = np.clip([drop["bar"] for drop in drops], *line)
        errors = np.clip([_error(drop) for drop in drops], 1e-7, line[1])
        axis.loglog(bars, errors, ".", markersize=3, alpha=0.5)
        axis.loglog(line, line, "k-", linewidth=1)
        axis.set(xlabel="error bar of the half-drop time", title=f"mode {mode}: {np.mean(errors <= bars):.0%} within")
    axes[0].set_ylabel("true error (below 1e-7: there)")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def largest(record: Record, kind: str) -> float:
    """Largest error of one table; NaN where nothing was compared."""
    if kind == "flow":
        return float(record["flow"].get("error", np.nan))
    errors = [abs(drop["error"]) for drop in record[kind]["drops"] if np.isfinite(drop["error"])]
    return float(max(errors, default=np.nan))


def _errors(records: list[Record], kind: str) -> list[str]:
    errors = np.array([largest(record, kind) for record in records])
    errors = errors[np.isfinite(errors)]
    if errors.size == 0:
        return ["-"] * 9
    marks = [_percent(value) for value in np.quantile(errors, [0.5, 0.75, 0.9, 0.95, 1.0])]
    shares = [_percent(float(np.mean(share))) for share in (errors < 1e-3, errors < 1e-2, errors > 5e-2)]
    phantoms = 0
    if kind != "flow":
        phantoms = sum(any(np.isposinf(drop["true"]) for drop in record[kind]["drops"]) for record in records)
    return [*marks, *shares, str(phantoms)]


def _endings(records: list[Record], kind: str) -> list[str]:
    early = sum(record[kind].get("left", 1.0) > EARLY for record in records)
    words = Counter(record[kind]["status"] for record in records)
    pairs = [(record[kind].get("gradients", np.nan), record["flow"].get("gradients", np.nan)) for record in records]
    pairs = [pair for pair in pairs if np.isfinite(pair).all() and pair[1] > 0]
    ratios = np.array([one / other for one, other in pairs])
    costs = [f"{value:.2g}" for value in np.quantile(ratios, [0.5, 0.95, 1.0])]
    total = sum(one for one, _ in pairs) / sum(other for _, other in pairs)
    seconds = sum(record[kind]["seconds"] for record in records)
    said = ", ".join(f"{word} {number}" for word, number in words.most_common())
    return [str(early), *costs, f"{total:.2g}", f"{seconds:.0f}", said]


def _theory(records: list[Record]) -> str:
    errors = np.array([record["theory"]["error"] for record in records])
    others = [
        f"{record['name']}: {record['theory']['status']}" for record in records if record["theory"]["error"] > 1e-6
    ]
    said = f"largest difference {errors[errors <= 1e-6].max(initial=0.0):.1e} on {int(np.sum(errors <= 1e-6))} tables."
    return said + (f" Apart from it: {'; '.join(others[:8])}{' ...' * (len(others) > 8)}." if others else "")


def _drops(records: list[Record], mode: str) -> list[dict[str, float]]:
    return [drop for record in records for drop in record[mode]["drops"] if not np.isnan(drop["true"])]


def _error(drop: dict[str, float]) -> float:
    return np.inf if np.isposinf(drop["true"]) else abs(drop["error"])


def _bars(drops: list[dict[str, float]]) -> list[str]:
    errors, bars = np.array([_error(drop) for drop in drops]), np.array([drop["bar"] for drop in drops])
    levels = np.array([[abs(drop["level_error"]), drop["level_bar"]] for drop in drops])
    levels = levels[np.isfinite(levels[:, 0])]
    large = np.isfinite(errors) & (errors > 1e-2)
    tight = f"{_percent(float(np.mean(bars[large] < 5 * errors[large])))}" if large.any() else "-"
    return [
        str(len(drops)),
        _percent(float(np.mean(errors <= bars))),
        _percent(float(np.mean(levels[:, 0] <= levels[:, 1]))),
        str(int(large.sum())),
        tight,
    ]


def _calibration(drops: list[dict[str, float]]) -> list[list[str]]:
    errors, bars = np.array([_error(drop) for drop in drops]), np.array([drop["bar"] for drop in drops])
    edges = [0.0, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, np.inf]
    rows = []
    for low, high in pairwise(edges):
        inside = (bars >= low) & ((bars < high) | (np.isinf(high) & np.isinf(bars)))
        if inside.any():
            part = errors[inside]
            marks = [_percent(float(value)) for value in (np.median(part), np.quantile(part, 0.95, method="lower"))]
            name = f"bar {_percent(low)} to {_percent(high)}"
            within = _percent(float(np.mean(part <= bars[inside])))
            rows.append([name, str(int(inside.sum())), within, *marks, _percent(float(part.max()))])
    return rows


def _percent(value: float) -> str:
    if not np.isfinite(value):
        return "inf" if np.isposinf(value) else "-"
    return f"{100 * value:.2g} %" if value < 0.995 else f"{100 * value:.0f} %"


def _grid(names: list[str], rows: Iterable[list[str]]) -> list[str]:
    cells = [names, *rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(names))]
    lines = []
    for row in cells:
        parts = [row[0].ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]]
        if len(row[-1]) > 20 or len(names[-1]) > 20 or names[-1] == "endings":
            parts[-1] = row[-1]
        lines.append("  ".join(parts).rstrip())
    return lines
