"""Counting: labels and full claims over Parquet and over a corrected study, against SQL.

The peer is DuckDB SQL as one would write it for the occasion, with the same memory limit, which
trusts every cell. It makes the same numbers: labels by group, or responses by majority of their
calls, counted by group, cluster and reason. Intervals, scopes and JSON are ours alone.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

from benchmarks.timing import Row, command_row, compare, run_command

BY = ("category", "attack")

LABELS = "SELECT category, attack, judge, label, status, reason, count(*) FROM {rows} GROUP BY ALL"

CLAIMS = """
WITH responses AS (
    SELECT run, target, item, epoch, judge, count(*) AS calls,
        count(label) FILTER (status = 'ok') AS valid,
        count(*) FILTER (status = 'ok' AND label = 'comply') AS successes,
        count(*) FILTER (status = 'ok' AND label IN ('refuse', 'evasive')) AS refusals,
        min(reason) AS why
    FROM {rows} GROUP BY ALL
), items AS (
    SELECT run, item, any_value(category) AS category, any_value(attack) AS attack,
        any_value(behaviour) AS behaviour, any_value(intent) AS intent
    FROM {items} GROUP BY run, item
)
SELECT target, judge, category, attack, intent, coalesce(behaviour, item) AS cluster,
        CASE WHEN valid = 0 THEN coalesce(why, 'unstated')
             WHEN 2 * successes = valid THEN 'tied' END AS reason,
        count(*) AS responses, sum(calls) AS calls,
        count(*) FILTER (valid > 0 AND 2 * successes <> valid) AS judged,
        count(*) FILTER (2 * successes > valid) AS success,
        count(*) FILTER (2 * refusals > valid AND 2 * successes <> valid) AS refused,
        count(*) FILTER (successes > 0 AND successes < valid) AS disagreed
    FROM responses JOIN items USING (run, item) GROUP BY ALL
"""

CORRECTED = """(
    SELECT j.run, j.target, j.item, j.epoch, j.judge, j.call, coalesce(c.value, j.label) AS label,
        j.status, j.reason
    FROM read_parquet('{study}/judgements/*.parquet') AS j
    LEFT JOIN (
        SELECT run, target, item, epoch, judge, call, arg_max(value, "when") AS value
        FROM read_parquet('{study}/corrections/*.parquet') WHERE field = 'label' GROUP BY ALL
    ) AS c USING (run, target, item, epoch, judge, call)
)"""
CORRECTED_ITEMS = """(
    SELECT DISTINCT 'simulated' AS run, item, category, attack, behaviour, intent
    FROM read_parquet('{study}/items/*.parquet')
)"""


def sql(query: str) -> Any:
    """The result of a query as an Arrow table, from a database of its own."""
    import duckdb

    from safemetry.evidence.engine import DEFAULT_MEMORY

    with duckdb.connect(
        config={"memory_limit": DEFAULT_MEMORY, "preserve_insertion_order": False}
    ) as connection:
        return connection.sql(query).to_arrow_table()


def peer(job: str, path: str) -> Any:
    """The peer of a job."""
    if job == "labels":
        return sql(LABELS.format(rows=f"'{path}'"))
    if job == "claims":
        return sql(CLAIMS.format(rows=f"'{path}'", items=f"'{path}'"))
    return sql(
        CLAIMS.format(rows=CORRECTED.format(study=path), items=CORRECTED_ITEMS.format(study=path))
    )


def ours(job: str, path: str) -> Any:
    """A job from the file or study to the result."""
    from safemetry import count_labels, measure_rates, read_evidence
    from safemetry.evidence.engine import connect

    if job == "labels":
        return count_labels(connect().read_parquet(path))
    return measure_rates(read_evidence(path), by=BY)


def counts(path: str) -> Any:
    """The table of counts alone, from the file."""
    from safemetry import read_evidence
    from safemetry.evidence.success import SuccessRule
    from safemetry.rates.counts import count_responses

    return count_responses(read_evidence(path), SuccessRule(), by=BY)


def make_table(folder: Path, rows: int) -> Path:
    """The simulated file, made once."""
    from safemetry.simulate import simulate_large

    path = folder / f"judgements_{rows}.parquet"
    if not path.exists():
        simulate_large(path, rows)
    return path


def make_study(folder: Path, table: Path, corrections: int = 1000) -> tuple[Path, Row | None]:
    """A study of the file with corrected labels, made once; and how long its import took."""
    study = folder / f"study_{table.stem}"
    if (study / "ready").exists():
        return study / "study", None
    command = [sys.executable, "-m", "safemetry.cli", "import", str(table)]
    wall, used, peak = run_command([*command, "--into", str(study / "study"), "--quiet"])
    rows = sql(
        f"SELECT run, target, item, epoch, judge, call FROM '{table}' WHERE label = 'refuse' "
        f"ORDER BY hash(item, target, epoch, judge, call) LIMIT {corrections}"
    )
    fixes = study / "fixes.csv"
    with fixes.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*rows.column_names, "field", "value"])
        writer.writerows([*row.values(), "label", "evasive"] for row in rows.to_pylist())
    command = [sys.executable, "-m", "safemetry.cli", "correct", str(study / "study"), str(fixes)]
    run_command([*command, "--by", "benchmark", "--why", "to measure", "--quiet"])
    (study / "ready").touch()
    job = f"import {table.stem.partition('_')[2]} rows into a study"
    return study / "study", Row(job, wall, ours_cpu=used, peak=peak)


def _alone(job: str, path: Path, who: str) -> float:
    """Peak memory of a job in a process of its own."""
    return run_command([sys.executable, "-m", "benchmarks.counting", who, job, str(path)])[2]


def measure(folder: Path, rows: int, repeats: int, *, study: bool = True) -> list[Row]:
    """The rows of the table about counting."""
    from safemetry import count_labels, measure_rates, read_evidence

    table = make_table(folder, rows)
    path = str(table)
    said = f"{rows // 1_000_000}M rows"
    evidence = read_evidence(path)
    found = []

    peaks = (_alone("labels", table, "ours"), _alone("labels", table, "peer"))
    found += [
        compare(
            f"label counts, {said}, evidence open",
            lambda: count_labels(evidence),
            lambda: peer("labels", path),
            repeats,
        ),
        compare(
            f"label counts, {said}, from the file",
            lambda: ours("labels", path),
            lambda: peer("labels", path),
            repeats,
            peaks=peaks,
        ),
    ]
    peaks = (_alone("claims", table, "ours"), _alone("claims", table, "peer"))
    found += [
        compare(
            f"response counts, {said}, with opening",
            lambda: counts(path),
            lambda: peer("claims", path),
            repeats,
        ),
        compare(
            f"claims, {said}, evidence open",
            lambda: measure_rates(evidence, by=BY),
            lambda: peer("claims", path),
            repeats,
        ),
        compare(
            f"claims, {said}, with opening",
            lambda: ours("claims", path),
            lambda: peer("claims", path),
            repeats,
            peaks=peaks,
        ),
    ]
    report = folder / "rates.json"
    command = [sys.executable, "-m", "safemetry.cli", "rates", path, "--by", ",".join(BY)]
    found.append(
        command_row(
            f"`safemetry rates`, {said}, to JSON",
            [*command, "--json", str(report), "--quiet"],
            max(1, repeats // 2),
        )
    )
    if study:
        place, imported = make_study(folder, table)
        found += [imported] if imported else []
        peaks = (_alone("study", place, "ours"), _alone("study", place, "peer"))
        found.append(
            compare(
                f"claims, study of {said} with corrections, with opening",
                lambda: ours("study", str(place)),
                lambda: peer("study", str(place)),
                repeats,
                peaks=peaks,
            )
        )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One job once, to see its peak memory.")
    parser.add_argument("who", choices=["ours", "peer"])
    parser.add_argument("job", choices=["labels", "claims", "study"])
    parser.add_argument("path")
    asked = parser.parse_args()
    {"ours": ours, "peer": peer}[asked.who](asked.job, asked.path)
