"""The page names every judge that stands behind its numbers."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from safemetry.evidence.evidence import as_evidence
from safemetry.evidence.identity import JudgeIdentity
from safemetry.report import Table, compose_report


def judges(*identities: JudgeIdentity) -> tuple[list[tuple[str, str]], list[str]]:
    """Model and digest of each row of the table of judges, and the limits."""
    rows = {"target": "m", "intent": "harmful", "judge": "j"}
    data = pa.table({name: [value] * 4 for name, value in rows.items()}).append_column(
        "item", pa.array(list("abcd"))
    )
    data = data.append_column("label", pa.array(["comply", "refuse"] * 2))
    part = compose_report(replace(as_evidence(data), identities=identities)).parts["instruments"]
    (table,) = (block for block in part.blocks if isinstance(block, Table))
    return [(str(row[2]), str(row[4])) for row in table.rows], list(part.limits)


def test_each_identity_of_a_swapped_judge_has_a_row():
    one, two = JudgeIdentity("j", model="m1"), JudgeIdentity("j", model="m2")
    rows, limits = judges(two, one, two)
    assert sorted(rows) == [("m1", one.digest), ("m2", two.digest)]
    assert limits == []


def test_a_judge_that_no_source_describes_is_a_limit():
    for identities in ((), (JudgeIdentity("j"),)):
        (row,), (limit,) = judges(*identities)
        assert row[0] == "not stated"
        assert limit.startswith("Which checkpoint, rubric and settings the judge had")
