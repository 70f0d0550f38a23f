"""Every benchmark in one table: ``python -m benchmarks [--size small]``.

Times are medians of alternating repeats in one run; only ratios carry over to another machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import (
    adaptive,
    auditing,
    calibrating,
    counting,
    judging,
    person_fit,
    reading,
    reporting,
    selecting,
    starting,
)
from benchmarks.timing import Row, printed

SIZES = {
    "small": {"rows": 1_000_000, "repeats": 3, "records": 2_000, "samples": 500},
    "full": {"rows": 20_000_000, "repeats": 3, "records": 20_000, "samples": 20_000},
}
PARTS = (
    *("starting", "study", "reading", "inspect", "report", "irt", "construct", "judges"),
    *("forms", "audits"),
)


def main() -> None:
    """Run the benchmarks and print their table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--size", choices=list(SIZES), default="full")
    parser.add_argument(
        "--only",
        action="append",
        choices=["counting", *PARTS],
        help="only this part; may be repeated (study includes counting)",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "safemetry-benchmarks",
        help="folder for the data, made once and used again",
    )
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    asked = parser.parse_args()
    size = SIZES[asked.size]
    asked.cache.mkdir(parents=True, exist_ok=True)
    wanted = set(asked.only or PARTS)
    with_study = "study" in wanted
    if with_study:
        wanted.add("counting")
    parts: dict[str, Callable[[], list[Row]]] = {
        "starting": starting.measure,
        "counting": lambda: counting.measure(
            asked.cache, size["rows"], size["repeats"], study=with_study
        ),
        "reading": lambda: reading.measure(asked.cache, size["records"], size["repeats"]),
        "inspect": lambda: reading.measure_inspect(asked.cache, size["samples"]),
        "report": lambda: reporting.measure(asked.cache, size["repeats"]),
        "irt": lambda: calibrating.measure(size["repeats"]),
        "construct": auditing.measure,
        "judges": judging.measure,
        "forms": lambda: [*selecting.measure(), *adaptive.measure()],
        "audits": person_fit.measure,
    }
    rows: list[Row] = []
    for name, part in parts.items():
        if name in wanted:
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows += part()
    print(printed(rows))
    print(f"\n{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    if asked.json:
        asked.json.write_text(json.dumps([row.to_dict() for row in rows], indent=1))


if __name__ == "__main__":
    main()
