"""`make bench`: every section of the report, or some of them again.

    .venv/bin/python -m bench --only peers,skew --runs 3

Writes bench/report.json after each section, and from it bench/report.md and the plots beside it; sections that were
left out keep the rows that they have. Starts a stack of its own in a temporary folder and removes it. What peers need
is installed below the user's cache folder at the first run, about 1.7 GB. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import machine, page, plots, sections
from bench.harness import at_least, names_of, own_stack, save, tell
from bench.ladder.run import run_ladder
from bench.peers.contenders import compare
from bench.serving import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.counting import Bench
    from bench.harness import HasJson


_HERE = Path(__file__).parent
_SECTIONS: dict[str, Callable[[Bench, int], Iterator[HasJson]]] = {
    "limits": sections.limits,
    "scale": sections.scale,
    "skew": sections.skew,
    "latency": sections.latency,
    "ladder": run_ladder,
    "peers": compare,
    "state": sections.registers,
    "serving": serving,
}


def main() -> None:
    """Run sections, or only draw what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = list(_SECTIONS)
    parser.add_argument("--only", type=names_of(known), default=known, help=f"of {', '.join(known)}, with commas")
    parser.add_argument("--runs", type=at_least(1), default=3, help="of each figure")
    parser.add_argument("--draw", action="store_true", help="only make page and plots again, from the rows there are")
    parser.add_argument("--out", type=Path, default=_HERE, help="the folder for report.json, report.md and plots")
    parser.add_argument(
        "--take", type=Path, help="rows that bench.peers or bench.ladder wrote with --json, and no others"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    save(arguments.out / "report.json", _rows(arguments.out))  # before anything is measured that could not be kept
    if arguments.take:
        save(arguments.out / "report.json", with_rows(_rows(arguments.out), json.loads(arguments.take.read_text())))
    elif not arguments.draw:
        if "serving" in arguments.only and shutil.which("wrk") is None:
            parser.error("serving needs wrk: apt-get install wrk, or brew install wrk; --only leaves it out")
        with own_stack() as bench:
            for name in arguments.only:
                _measure(bench, name, arguments.runs, arguments.out)
    rows = _rows(arguments.out)
    plots.draw(rows, arguments.out / "plots")
    (arguments.out / "report.md").write_text(page.page(rows), encoding="utf-8")
    tell(f"see {arguments.out / 'report.md'}")


def _measure(bench: Bench, name: str, runs: int, out: Path) -> None:
    began = time.monotonic()
    measured_on = machine.describe()
    found: list[dict[str, object]] = []
    for row in _SECTIONS[name](bench, runs):
        found.append(row.as_json() | {"measured_on": measured_on})
        save(out / "report.json", with_rows(_rows(out), found))
    save(out / "report.json", [*(other for other in _rows(out) if other["section"] != name), *found])
    tell(f"{name}: {time.monotonic() - began:.0f} s")


def with_rows(rows: list[dict[str, object]], new: list[dict[str, object]]) -> list[dict[str, object]]:
    """Rows with others in the place of those of the same name and workload; what has no place comes last."""

    def key(row: dict[str, object]) -> tuple[object, ...]:
        return row["section"], row["name"], row["workload"]

    replaced = {key(row): row for row in new}
    kept = [replaced.pop(key(row), row) for row in rows]
    return [*kept, *replaced.values()]


def _rows(out: Path) -> list[dict[str, object]]:
    path = out / "report.json"
    rows: list[dict[str, object]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return rows


if __name__ == "__main__":
    main()
