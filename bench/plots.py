"""The plots of the report, drawn from its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from bench.page import TITLES, Json, of_section, steps, title

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

_OURS, _OTHER, _LOSES, _GREY = "#1b6ca8", "#8fb8d4", "#d98a6a", "#2b2b2b"
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 14,
    "svg.hashsalt": "likes",  # the same rows give the same file
    "svg.fonttype": "none",
    "figure.constrained_layout.use": True,
}
_THOUSANDS = FuncFormatter(lambda value, _: f"{value / 1_000:,.0f} K" if value else "0")


def draw(rows: Sequence[Json], folder: Path) -> None:
    """Write a plot for each section that has rows.

    Args:
        rows: Of report.json.
        folder: Gets `<section>.svg`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_STYLE):
        for section, plot in _PLOTS.items():
            if found := [row for row in of_section(rows, section) if row["events_per_s"]]:
                plot(found)
                plt.savefig(folder / f"{section}.svg", metadata={"Date": None})
                plt.close()


def _bars(axes: Axes, rows: Sequence[Json], labels: Sequence[str], colours: Sequence[str]) -> None:
    """Horizontal bars from the top down, with whiskers from the slowest run to the fastest."""
    rates = [row["events_per_s"] for row in rows]
    below = [rate - row["min"] for rate, row in zip(rates, rows, strict=True)]
    above = [row["max"] - rate for rate, row in zip(rates, rows, strict=True)]
    places = range(len(rows), 0, -1)
    axes.barh(places, rates, color=colours, height=0.7, xerr=(below, above), ecolor=_GREY, capsize=2)
    axes.set_yticks(list(places), labels)
    axes.tick_params(left=False)
    for place, row in zip(places, rows, strict=True):
        axes.annotate(
            f"{row['events_per_s']:,.0f}", (row["max"], place), xytext=(6, 0), textcoords="offset points", va="center"
        )
    axes.xaxis.set_major_formatter(_THOUSANDS)
    axes.set_xlabel("events per second")
    axes.margins(x=0.12)


def _peers(rows: Sequence[Json]) -> None:
    ordered = sorted(rows, key=lambda row: -row["events_per_s"])
    colours = [
        _OURS if row["name"] == "likes_counter" else _OTHER if row["survives_kill"] else _LOSES for row in ordered
    ]
    _, axes = plt.subplots(figsize=(8, 4.2))
    _bars(axes, ordered, [title(row) for row in ordered], colours)
    axes.set_title("Counting durably on the same two cores")
    if _LOSES in colours:
        handles = [Patch(color=_OTHER, label="exact after kill -9"), Patch(color=_LOSES, label="wrong after kill -9")]
        axes.legend(handles=handles, frameon=False, loc="lower right")


def _limits(rows: Sequence[Json]) -> None:
    figure, axes = plt.subplots(figsize=(8, 3.2))
    left = 0.0
    found = steps(rows)
    shades = plt.colormaps["Blues"]([0.25 + 0.6 * index / max(1, len(found) - 1) for index in range(len(found))])
    for (name, cost_us), shade in zip(found, shades, strict=True):
        axes.barh(0, max(0.0, cost_us), left=left, color=shade, height=0.5, label=f"{name}  {cost_us:.1f}")
        left += max(0.0, cost_us)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("µs per event, all cores together taken as one")
    axes.set_title("What an event costs, step by step")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)


def _skew(rows: Sequence[Json]) -> None:
    _, axes = plt.subplots(figsize=(8, 3.6))
    _bars(axes, rows, [row["workload"] for row in rows], [_OURS] * len(rows))
    axes.set_title("From even to viral, both stores written")


def _scale(rows: Sequence[Json]) -> None:
    _, axes = plt.subplots(figsize=(8, 1.9))
    _bars(axes, rows, [row["name"] for row in rows], [_OURS] * len(rows))
    axes.set_title("Subtasks of each operator")


def _state(rows: Sequence[Json]) -> None:
    _, axes = plt.subplots(figsize=(8, 3.4))
    sizes = [row["registers"] / 1e6 for row in rows]
    rates = [row["events_per_s"] for row in rows]
    spread = ([row["events_per_s"] - row["min"] for row in rows], [row["max"] - row["events_per_s"] for row in rows])
    axes.errorbar(sizes, rates, yerr=spread, color=_OURS, marker="o", capsize=3, ecolor=_GREY)
    axes.set_ylim(0)
    axes.set_xlabel("million registers in state")
    axes.set_ylabel("events per second")
    axes.yaxis.set_major_formatter(_THOUSANDS)
    axes.set_title("Dedup and counting as state grows")


def _latency(rows: Sequence[Json]) -> None:
    _, axes = plt.subplots(figsize=(8, 3.4))
    rates = [row["events_per_s"] for row in rows]
    for quantile, colour in (("p99", _LOSES), ("p95", _OTHER), ("p50", _OURS)):
        axes.plot(rates, [row[f"{quantile}_s"] for row in rows], color=colour, marker="o", label=quantile)
    axes.set_ylim(0)
    axes.set_xlabel("events per second")
    axes.xaxis.set_major_formatter(_THOUSANDS)
    axes.set_ylabel("seconds")
    axes.legend(frameon=False)
    axes.set_title("From event to readable in both stores")


def _ladder(rows: Sequence[Json]) -> None:
    names = list(dict.fromkeys(row["name"] for row in rows))
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    figure, (speed, loss) = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True)
    places = {name: len(names) - index for index, name in enumerate(names)}
    for offset, workload, colour in zip((0.18, -0.18), workloads, (_OURS, _OTHER), strict=False):
        found = [row for row in rows if row["workload"] == workload]
        at = [places[row["name"]] + offset for row in found]
        speed.barh(at, [row["events_per_s"] for row in found], height=0.34, color=colour, label=workload)
        wrong = [1e6 * (row["off_by"] or 0) / row["events"] for row in found]
        loss.barh(at, wrong, height=0.34, color=colour)
        for place, value in zip(at, wrong, strict=True):
            loss.annotate(
                f"{value:,.0f}" if value else "exact",
                (value, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
            )
    speed.set_yticks(list(places.values()), [TITLES.get(name, name) for name in places])
    speed.set_xscale("log")
    speed.set_xlabel("events per second, logarithmic")
    figure.legend(*speed.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    speed.set_title("How fast")
    loss.set_xscale("symlog", linthresh=100)
    loss.set_xlabel("wrong per million events, without a failure")
    loss.margins(x=0.15)
    loss.set_title("How wrong")


def _serving(rows: Sequence[Json]) -> None:
    _, (reads, taps) = plt.subplots(1, 2, figsize=(10, 3.6))
    for axes, name, what in ((reads, "counts of 21", "Pages of 21 counts"), (taps, "taps", "Taps")):
        found = [row for row in rows if row["name"] == name]
        rates = [row["events_per_s"] for row in found]
        for quantile, colour in (("p99", _LOSES), ("p50", _OURS)):
            axes.plot(rates, [row[f"{quantile}_ms"] for row in found], color=colour, marker="o", label=quantile)
        for row in found:
            axes.annotate(
                f"{row['connections']:.0f}",
                (row["events_per_s"], row["p99_ms"]),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                color=_GREY,
            )
        axes.set_xlim(0)
        axes.set_ylim(0)
        axes.set_xlabel("answered a second, by connections")
        axes.set_ylabel("ms")
        axes.legend(frameon=False)
        axes.set_title(what)


_PLOTS: dict[str, Callable[[Sequence[Any]], None]] = {
    "peers": _peers,
    "limits": _limits,
    "skew": _skew,
    "scale": _scale,
    "state": _state,
    "latency": _latency,
    "ladder": _ladder,
    "serving": _serving,
}
