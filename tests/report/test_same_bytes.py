"""The same evidence makes the same bytes, whatever the order of its rows and the process."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from pages import judgements, table

from safemetry.report import compose_report

FORMS = ("to_html", "to_markdown", "to_json")
TELL = """
import sys
import pyarrow.parquet as pq
from safemetry.report import compose_report
report = compose_report(pq.read_table(sys.argv[1]))
for form in sys.argv[2:]:
    sys.stdout.write(getattr(report, form)())
"""


def written(rows) -> list[str]:
    report = compose_report(table(rows))
    return [getattr(report, form)() for form in FORMS]


def test_two_reports_on_the_same_rows_are_the_same():
    assert written(judgements()) == written(judgements())


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_rows_changes_nothing(seed):
    rows = judgements()
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert written(shuffled) == written(rows)


def test_other_processes_write_the_same(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(table(judgements()), tmp_path / "rows.parquet")
    told = {
        subprocess.run(
            [sys.executable, "-c", TELL, tmp_path / "rows.parquet", *FORMS],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
    assert told != {b""}


def test_other_evidence_makes_another_report():
    rows = judgements(lost=0)
    changed = [{**rows[0], "label": "comply" if rows[0]["label"] == "refuse" else "refuse"}]
    assert written([*changed, *rows[1:]]) != written(rows)
