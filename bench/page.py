"""The report as a page, from its rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.report import word

Json = Mapping[str, Any]

TITLES: dict[str, str] = {
    "likes_counter": "this project",
    "quix": "Quix Streams",
    "bytewax": "Bytewax",
    "pathway": "Pathway",
    "faust": "Faust-streaming",
    "datastream_process": "PyFlink DataStream, process mode",
    "datastream_thread": "PyFlink DataStream, thread mode",
    "kafka_streams": "Kafka Streams",
    "redis_consumer": "consumer with Redis",
    "cassandra_lwt": "row under a lock (LWT)",
    "redis_incr": "Redis INCR",
    "redis_sharded_incr": "sharded INCR",
    "write_behind": "write-behind buffer",
    "bloom_incr": "Bloom filter, INCR",
    "set_incr": "Redis SET, INCR",
}
# Ever longer parts of the plan, and what the step that each adds is called.
_STEPS = (
    ("raw", "read"),
    ("parse", "validate"),
    ("dedup", "dedup"),
    ("count", "count"),
    ("publish", "publish"),
    ("store", "store"),
)
_LOAD = 0.7
_P99_MS, _PAGES_PER_S, _TAPS_PER_S = 25, 1_000, 1_500
_ALONE_SHARE, _TWICE, _TEN_TIMES, _VIRAL_SHARE, _STATE_SHARE = 0.35, 2.0, 10.0, 0.9, 0.7
_PYTHON = ("pathway", "quix", "bytewax", "faust", "datastream_process", "datastream_thread", "redis_consumer")


def of_section(rows: Iterable[Json], section: str) -> list[Json]:
    """The rows of a section, in their order."""
    return [row for row in rows if row["section"] == section]


def title(row: Json) -> str:
    """What people call a row's name."""
    name = str(row["name"])
    return TITLES.get(name, name)


def steps(rows: Sequence[Json]) -> list[tuple[str, float]]:
    """What each step adds to an event's cost.

    Args:
        rows: Of the section "limits".

    Returns:
        (step, µs per event), the time between two events at the rates with it and without it. Of each the fastest run,
        which the machine has disturbed least: the difference of two medians is mostly noise.
    """
    rates = {row["name"]: row["max"] for row in rows}
    costs = [(title, 1e6 / rates[name]) for name, title in _STEPS if rates.get(name)]
    before = [0.0, *(cost for _, cost in costs)]
    return [(title, cost - earlier) for (title, cost), earlier in zip(costs, before, strict=False)]


def page(rows: Sequence[Json]) -> str:
    """The whole page, Markdown."""
    parts = [_HEAD, _measured_on(rows), _targets(rows)]
    parts += [text(of_section(rows, name)) for name, text in _SECTIONS.items() if of_section(rows, name)]
    return "\n\n".join(part for part in parts if part) + "\n"


_HEAD = """# Benchmarks

`make bench` measures all sections and writes this page, its plots and [report.json](report.json); `ARGS="--only
skew,latency"` measures some sections again. The result of every run of the whole plan is compared with the true
counts, content by content, before its rate is taken. Parts of the plan and state alone throw their rows away (`exact`
is null), latency checks its probes, and the ladder has designs that are wrong. Each figure is the median of its runs,
with the slowest and the fastest. The broker and the stores run beside what is measured, on the same cores. A JVM
compiles a new plan while it runs, so this job's rates are of a log after its first quarter; peers have counted a
primer. Sections are measured at different times on a machine whose speed changes: compare within a section."""


def _measured_on(rows: Sequence[Json]) -> str:
    """Machines, versions and commits; usually one."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        it = row["measured_on"]
        line = (
            f"{it['cores']} cores ({it['processor']}), {it['memory_gib']} GiB; Python {it['python']},"
            f" apache-flink {it['apache_flink']}; commit {it['commit']}"
        )
        lines.setdefault(line, []).append(row["section"])
    return "\n".join(f"- {line}: {', '.join(dict.fromkeys(names))}" for line, names in lines.items())


def _targets(rows: Sequence[Json]) -> str:
    limits = {row["name"]: row["events_per_s"] for row in of_section(rows, "limits")}
    peers = {row["name"]: row["events_per_s"] or 0.0 for row in of_section(rows, "peers")}
    skews = {row["workload"]: row["events_per_s"] for row in of_section(rows, "skew")}
    state = {row["registers"]: row["events_per_s"] for row in of_section(rows, "state")}
    wanted: list[tuple[str, float, float, str]] = []
    if limits.get("publish") and limits.get("parse"):
        wanted += [
            ("durable, without the stores", limits["publish"], 100_000, "events/s"),
            ("over reading and validating alone", limits["publish"] / limits["parse"], _ALONE_SHARE, "ratio"),
        ]
    if limits.get("store"):
        wanted.append(("durable, both stores written", limits["store"], 70_000, "events/s"))
    others = {name: rate for name, rate in peers.items() if name != "likes_counter" and rate}
    if ours := peers.get("likes_counter"):
        for what, names, target in (("peer", others, _TWICE), ("in Python", others.keys() & _PYTHON, _TEN_TIMES)):
            if best := max(sorted(names), key=lambda name: others[name], default=None):
                wanted.append((f"over the best {what} ({TITLES[best]})", ours / others[best], target, "ratio"))
    if {"one video takes 100 %", "Zipf 1.2"} <= skews.keys():
        viral = skews["one video takes 100 %"] / skews["Zipf 1.2"]
        wanted.append(("all on one video, over Zipf 1.2", viral, _VIRAL_SHARE, "ratio"))
    if len(state) > 1:
        wanted.append(
            (
                f"dedup at {max(state) / 1e6:.0f} M registers, over {min(state) / 1e6:.0f} M",
                state[max(state)] / state[min(state)],
                _STATE_SHARE,
                "ratio",
            )
        )
    wanted += _serving_targets(of_section(rows, "serving"))
    body = [
        (name, _figure(value, unit), _figure(target, unit), "yes" if value >= target else "no")
        for name, value, target, unit in wanted
    ]
    return "## Targets\n\n" + table(("", "measured", "target", "met"), body) if body else ""


def _serving_targets(rows: Sequence[Json]) -> list[tuple[str, float, float, str]]:
    wanted: list[tuple[str, float, float, str]] = []
    quick = [row["events_per_s"] for row in rows if row["name"] == "counts of 21" and row["p99_ms"] < _P99_MS]
    if quick:
        wanted.append((f"pages of 21 counts, p99 under {_P99_MS} ms", max(quick), _PAGES_PER_S, "a second"))
    if taps := [row["events_per_s"] for row in rows if row["name"] == "taps"]:
        wanted.append(("taps acknowledged by Kafka", max(taps), _TAPS_PER_S, "a second"))
    return wanted


def _figure(value: float, unit: str) -> str:
    return f"{value:.2f}" if unit == "ratio" else f"{value:,.0f} {unit}"


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table; the first column is text, the others are figures."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(cells) + " |" for cells in body)])


def _rate(row: Json) -> tuple[str, str]:
    if not row["events_per_s"]:
        return "-", "-"
    return f"{row['events_per_s']:,.0f}", f"{row['min']:,.0f} to {row['max']:,.0f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _peers(rows: Sequence[Json]) -> str:
    ordered = sorted(rows, key=lambda row: -(row["events_per_s"] or 0))
    body = [
        (
            title(row),
            *_rate(row),
            _number(row.get("events")),
            word(row["exact"]),
            word(row["survives_kill"]),
            _number(row["off_by"]),
        )
        for row in ordered
    ]
    notes = "\n".join(f"- {title(row)}: {row['notes']}" for row in ordered)
    head = ("", "events/s", "min to max", "events in its log", "exact", "exact after two kill -9", "wrong by")
    return f"""## Peers

The same Kafka topic, the same semantics (the latest of a user's events on a content counts, whatever the order;
likes and dislikes by content), durable state, the same cores, the broker beside. Each is written as its own users
would ([programs](peers/programs)), with its durability on. A peer's rate is from when the log becomes visible until the
last count is, start-up and a primer left out; this project's is from the first quarter of its log until all of it is
counted and checkpointed. Kafka Streams and this project, whose JVMs compile what they run, have each counted 1.5
million events before, the two modes of DataStream fewer, for they are slow in Python; every run has a process of its
own. Logs are of one kind, each as long as suits who counts it.

{table(head, body)}

![peers](plots/peers.svg)

{notes}"""


def _limits(rows: Sequence[Json]) -> str:
    body = [(row["name"], *_rate(row)) for row in rows]
    costs = [(name, f"{cost:.1f}") for name, cost in steps(rows)]
    return f"""## Limits

Ever longer parts of the same plan on the same log of millions of events: bytes from Kafka (raw), validated events
(parse), registers (dedup), totals (count), totals through Python into `content-counts` (publish), and into both stores
(store). Reading bytes alone is over in seconds, so its figure is rough. Parts run in another JVM than the whole plan,
so publishing may seem to cost less than nothing. What a step adds is the difference between the
fastest runs with it and without it, which the machine has disturbed least.

{table(("part of the plan", "events/s", "min to max"), body)}

{table(("step", "µs per event that it adds"), costs)}

![limits](plots/limits.svg)"""


def _scale(rows: Sequence[Json]) -> str:
    body = [(row["name"], *_rate(row), f"{row['cpu_us_per_event']:.1f}") for row in rows]
    cost_us = rows[-1]["cpu_us_per_event"]
    slope = rows[-1]["cpu_us_per_event"] / rows[0]["cpu_us_per_event"]
    return f"""## Scale

{table(("", "events/s", "min to max", "CPU µs per event"), body)}

The stores are left out; the processor time is the job's, planning included, not the broker's. With two subtasks an
event takes {slope:.2f} times the processor time that it takes with one. Taken as the same on every further core,
500 K events/s need 500,000 times {cost_us:.1f} µs = {0.5 * cost_us:.1f} cores for the job, or
{0.5 * cost_us / _LOAD:.0f} at {_LOAD:.0%} load. What the model leaves out: the network between task managers, which one
machine does not have. What it need not fear: the hottest content. Its last aggregation gets at most one row for each
subtask and bundle, so its work grows with the number of bundles, not with that content's taps.

![scale](plots/scale.svg)"""


def _skew(rows: Sequence[Json]) -> str:
    return f"""## Skew

Both stores written. Where one video takes a share of all events, producers spread it over the partitions.

{table(("", "events/s", "min to max"), [(row["workload"], *_rate(row)) for row in rows])}

![skew](plots/skew.svg)"""


def _state(rows: Sequence[Json]) -> str:
    body = [(row["workload"], *_rate(row)) for row in rows]
    return f"""## State

Dedup and counting alone, every event a register of its own, made by Flink's generator so that Kafka and validation
do not hide what state costs. {rows[-1]["bytes_per_register"]:.0f} bytes per register in the checkpoint. The spread is
over three slices of two million events of one run: those from 1 to 7 million registers, from 4 to 10, and from 44 to
50. Progress is heard of at checkpoints, so a single slice may seem much faster or slower than it was.

{table(("", "events/s", "min to max"), body)}

![state](plots/state.svg)"""


def _latency(rows: Sequence[Json]) -> str:
    body = [
        (
            f"{row['events_per_s']:,.0f}",
            *(f"{row[f'{name}_s']:.2f} ({row[f'{name}_max_s']:.2f})" for name in ("p50", "p95", "p99")),
        )
        for row in rows
    ]
    return f"""## Latency

Seconds from handing an event to the producer until both stores answer its count, with windows and checkpoints of
5 s; median of the runs, the worst of them in brackets.

{table(("other events/s", "p50", "p95", "p99"), body)}

![latency](plots/latency.svg)"""


def _ladder(rows: Sequence[Json]) -> str:
    body = [
        (
            title(row),
            row["workload"],
            *_rate(row),
            f"{row['writes_per_event']:.2f}",
            f"{row['staleness_median_s']:.2f}",
            _number(row["off_by"]),
            _number(row["events"]),
            _number(row["lost_on_kill"]),
            _number(row["gained_on_kill"]),
        )
        for row in rows
    ]
    head = (
        "",
        "workload",
        "events/s",
        "min to max",
        "writes per event",
        "stale s",
        "wrong by",
        "of",
        "lost by kill",
        "gained by kill",
    )
    return f"""## The ladder of designs

What engineers argue about, on the real stores; [explained](../docs/designs.md).

{table(head, body)}

![ladder](plots/ladder.svg)"""


def _serving(rows: Sequence[Json]) -> str:
    body = [
        (
            row["name"],
            row["workload"],
            *_rate(row),
            *(f"{row[name]:.1f}" if name in row else "-" for name in ("p50_ms", "p99_ms")),
            f"{row['over_bare']:.2f}" if "over_bare" in row else "-",
        )
        for row in rows
    ]
    head = ("", "workload", "a second", "min to max", "p50 ms", "p99 ms", "over the bare client")
    return f"""## Serving

`likes serve`, one worker, with wrk beside it: each connection asks again once it is answered. A page is 21 contents at
random; the bare client reads the same 21 hashes from Redis in one pipeline and does nothing else. A tap is answered
once Kafka has it on all in-sync replicas and the user's row is written. Counts are compared with the truth over HTTP
before, and acknowledged taps with the length of the log after each run.

{table(head, body)}

![serving](plots/serving.svg)"""


_SECTIONS = {
    "peers": _peers,
    "limits": _limits,
    "skew": _skew,
    "state": _state,
    "scale": _scale,
    "latency": _latency,
    "ladder": _ladder,
    "serving": _serving,
}
