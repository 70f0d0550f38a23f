"""The tidy table of a study is the table that was imported, cell for cell."""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safemetry.evidence import schema
from safemetry.evidence.check import check_study
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import KEY, Intent, Reason
from safemetry.evidence.study import Accounting, Import, Study

few = st.sampled_from(["", "1", "001", "é", "a'b", '"', "a,b", "NULL", "\n"])
some = st.none() | few
counts = st.integers(1, 3)


@st.composite
def judgements(draw):
    """Rows with unique keys and one intent for each item; everything else is free."""
    keys = draw(
        st.lists(
            st.tuples(few, few, few, counts, few, counts), unique=True, min_size=1, max_size=25
        )
    )
    intents = draw(st.dictionaries(few, st.sampled_from(Intent)))
    rows = []
    for number, key in enumerate(keys, start=1):
        row = dict(zip(KEY, key, strict=True))
        ok = draw(st.booleans())
        row |= {
            "label": draw(st.sampled_from(["refuse", "comply", "gibberish"])) if ok else None,
            "score": draw(st.none() | st.floats(allow_nan=False)) if ok else None,
            "status": "ok" if ok else draw(st.sampled_from(["missing", "error"])),
            "reason": None if ok else draw(st.none() | st.sampled_from(Reason)),
            "intent": intents.get(row["item"]),
            "turn": draw(st.none() | counts),
            "source_file": draw(some),
            "source_row": number,
        }
        for name in schema.NAMES:
            if name not in row:
                row[name] = draw(some)
        rows.append(row)
    empty = draw(
        st.sets(
            st.sampled_from(
                [
                    "session",
                    "turn",
                    "user_type",
                    "timestamp",
                    "benchmark",
                    "category",
                    "developer",
                    "access",
                ]
            )
        )
    )
    return [row | dict.fromkeys(empty) for row in rows]


def by_key(rows):
    return sorted(rows, key=lambda row: tuple(row[name] for name in KEY))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=judgements(), pieces=st.integers(1, 3))
def test_import_and_join_give_back_the_same_rows(rows, pieces):
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        study = Study.create(Path(folder) / "study")
        for piece in range(pieces):
            part = pa.Table.from_pylist(rows[piece::pieces], schema.JUDGEMENTS)
            study.add(
                Import(
                    judgements=part,
                    source=f"{piece}.csv",
                    source_digest=str(piece),
                    reader="tidy",
                    reader_version=1,
                    accounting=Accounting(rows_read=part.num_rows, converted=part.num_rows),
                    evidence_map=EvidenceMap(),
                )
            )
        table = study.tidy(connection).to_arrow_table()
        assert table.schema.equals(schema.JUDGEMENTS)
        assert by_key(table.to_pylist()) == by_key(rows)
        for name in schema.NAMES:
            alone = study.tidy(connection, (*KEY, name)).to_arrow_table().to_pylist()
            assert [row[name] for row in by_key(alone)] == [row[name] for row in by_key(rows)]
        responses = {tuple(row[name] for name in schema.RESPONSE_KEY) for row in rows}
        assert len(study.unjudged(connection, "nobody").fetchall()) == len(responses)
        assert check_study(study.path) == []
