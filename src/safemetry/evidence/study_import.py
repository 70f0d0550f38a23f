"""One source on its way into a study: what is refused, and the parts that are written."""

# ruff: noqa: S608 - queries hold our own names and quoted literals only

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.engine import connect
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.schema import (
    ITEM_COLUMNS,
    JUDGEMENTS,
    KEY,
    NAMES,
    RESPONSE_COLUMNS,
    RESPONSE_KEY,
    TARGET_COLUMNS,
    Reason,
)
from safemetry.evidence.study_commits import Accounting
from safemetry.evidence.study_tables import (
    PART_ROWS,
    ROW_GROUP_ROWS,
    TABLES,
    Part,
    identifier,
    listed,
    literal,
    typed_null,
    write_part,
)

if TYPE_CHECKING:
    import duckdb

ITEM_CONTEXT: Final = tuple(column.name for column in ITEM_COLUMNS)
RESPONSE_CONTEXT: Final = tuple(column.name for column in RESPONSE_COLUMNS)
TARGET_CONTEXT: Final = tuple(column.name for column in TARGET_COLUMNS)

ITEM_NAMES: Final = ("item", *ITEM_CONTEXT)
TARGET_NAMES: Final = ("run", "target", *TARGET_CONTEXT)
"""What a row of the tables `items` and `targets` says; its key is the `number` of it."""

INCLUDE_TEXT: Final = "include_text"
"""Option of an import that keeps texts; it changes no judgement."""

WITHOUT_RESPONSE: Final = (
    Reason.NO_RESPONSE,
    Reason.NOT_ATTEMPTED,
    Reason.BLOCKED_BY_FILTER,
    Reason.INFRASTRUCTURE_ERROR,
)
"""Reasons that say that the target gave no response, whoever was to judge it."""

ITEM_IDENTITY: Final = "item, benchmark, CASE WHEN benchmark IS NULL THEN run END"
"""What makes an item that item: its benchmark and id, or its run and id where none is known."""


@dataclass(frozen=True)
class Import:
    """The judgements of one source, ready for a study.

    Parameters
    ----------
    judgements
        The tidy judgements table, validated and typed as `schema.JUDGEMENTS`.
    source
        The source as the user named it.
    source_digest
        Digest of its bytes.
    reader, reader_version
        What read it; the version rises whenever the same bytes give other judgements.
    accounting
        What became of each row.
    evidence_map
        The map it was read with.
    options
        Further options that decide what a judgement becomes; JSON values.
    judges
        Identities that the source states; a judge without one is recorded by its name.
    scales
        Judge -> its scale, where it is not that of the map.
    targets
        Target -> its settings.
    warnings
        What a reader of the numbers must know.
    responses
        Responses that nobody judged: the response key, and any other columns of the table
        `responses`.
    texts
        Texts to keep, if the user asks for them: the response key, `prompt` and `response`, a few
        rows at a time. They are read while the study is written; those of responses that have no
        judgement here, and all but the first of one response, are left out.
    """

    judgements: pa.Table
    source: str
    source_digest: str
    reader: str
    reader_version: int
    accounting: Accounting
    evidence_map: EvidenceMap = field(default_factory=EvidenceMap)
    options: Mapping[str, Any] = field(default_factory=dict)
    judges: Sequence[JudgeIdentity] = ()
    scales: Mapping[str, Scale] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    responses: pa.Table | None = None
    texts: Iterable[pa.RecordBatch] | None = None


@contextmanager
def scratch() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database of its own, within the memory limit, that keeps the order of rows."""
    with connect() as connection:
        connection.execute("SET preserve_insertion_order = true")
        yield connection


class Incoming:
    """A source laid out as the tables of a study, in a database of its own.

    Parameters
    ----------
    connection
        The database.
    source
        What is imported.
    commit
        Name of the commit; response keys are unique to it.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, source: Import, commit: str) -> None:
        self._connection = connection
        self._source = source
        self._commit = commit
        self._table = _typed(source)
        connection.register("incoming", self._table)
        connection.execute(
            f"CREATE TEMP TABLE contexts AS SELECT DISTINCT run, item, {listed(ITEM_CONTEXT)} "
            "FROM incoming"
        )
        self._identities = _identities(source, self._values("judge"))

    def _query(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()

    def _values(self, column: str) -> list[Any]:
        rows = self._query(f"SELECT DISTINCT {identifier(column)} FROM incoming ORDER BY 1")
        return [row[0] for row in rows]

    @property
    def rows(self) -> int:
        """Number of judgements."""
        return int(self._table.num_rows)

    def runs(self, limit: int = 1000) -> tuple[str, ...] | None:
        """The runs of the source, or None where they are too many to list."""
        runs = self._values("run")
        return tuple(runs) if len(runs) <= limit else None

    def judges(self) -> dict[str, tuple[str, ...]]:
        """Judge -> digests of its identities."""
        return {
            name: tuple(identity.digest for identity in stated)
            for name, stated in self._identities.items()
        }

    # --- what is refused -------------------------------------------------------------------------

    def refuse_unknown_labels(self, known: Sequence[str]) -> None:
        """Refuse a label that is no class of the study."""
        for label in self._values("label"):
            if label is not None and label not in known:
                raise InputError(
                    f"unknown label {label!r}",
                    file=self._source.source,
                    row=self._first_row(f"label = {literal(label)}"),
                    column="label",
                    fix=f"the classes of the study are {', '.join(known)}",
                )

    def refuse_repeated_keys(self) -> None:
        """Refuse two judgements with one key."""
        found = self._query(
            f"SELECT {listed(KEY)}, max(source_row) AS row FROM ({suspects('incoming', KEY)}) "
            f"GROUP BY {listed(KEY)} HAVING count(*) > 1 ORDER BY row LIMIT 1"
        )
        if found:
            raise InputError(
                f"the judgement {said_key(found[0])} stands more than once",
                file=self._source.source,
                row=found[0][-1],
                fix="number repeated responses in `epoch` and repeated calls in `call`, "
                "or remove the repetition",
            )

    def refuse_mixed_intents(self, known: str) -> None:
        """Refuse an item with two intents.

        Parameters
        ----------
        known
            Query over the items of the study: run, item, benchmark, intent.
        """
        intents = (
            f"SELECT {ITEM_IDENTITY} AS run, intent, true AS here FROM contexts"
            f" UNION SELECT {ITEM_IDENTITY}, intent, false FROM ({known})"
        )
        found = self._query(
            f"SELECT item, benchmark, list(DISTINCT intent ORDER BY intent) FROM ({intents}) "
            "WHERE intent IS NOT NULL GROUP BY item, benchmark, run "
            "HAVING count(DISTINCT intent) > 1 AND bool_or(here) ORDER BY ALL LIMIT 1"
        )
        if found:
            item, benchmark, stated = found[0]
            where = f" of benchmark {benchmark!r}" if benchmark is not None else ""
            raise InputError(
                f"item {item!r}{where} has more than one intent ({', '.join(stated)})",
                file=self._source.source,
                row=self._first_row(f"item = {literal(item)} AND intent IS NOT NULL"),
                column="intent",
                fix="an item has one intent: correct the source or the map, or give the twin "
                "an id of its own and join the two in `pair`",
            )

    def _first_row(self, condition: str) -> int | None:
        found = self._query(f"SELECT min(source_row) FROM incoming WHERE {condition}")
        row: int | None = found[0][0]
        return row

    def repeats(self, held: str) -> list[tuple[Any, ...]]:
        """Keys that the study holds already, one example for each file that holds some.

        Parameters
        ----------
        held
            Query over the judgements of the study, with `filename`.

        Returns
        -------
        list of tuple
            The key, the row of this source, and the file.
        """
        return self._query(
            f"SELECT {', '.join(f'arg_min(i.{name}, i.source_row)' for name in KEY)}, "
            f"min(i.source_row), h.filename FROM incoming i JOIN {held} h USING ({listed(KEY)}) "
            "GROUP BY h.filename ORDER BY h.filename"
        )

    def context_warnings(self) -> list[str]:
        """Sentences about items, responses and targets that the source describes in two ways."""
        said = []
        for what, rows, identity, names in (
            ("items", "contexts", ITEM_IDENTITY, ITEM_CONTEXT[1:]),
            ("responses", "incoming", listed(RESPONSE_KEY), RESPONSE_CONTEXT),
            ("targets", "incoming", "run, target", TARGET_CONTEXT),
        ):
            for name in names:
                if self._table.column(name).null_count == self.rows:
                    continue
                (count,) = self._query(
                    f"SELECT count(*) FROM (SELECT 1 FROM {rows} GROUP BY {identity} "
                    f"HAVING count(DISTINCT {identifier(name)}) > 1)"
                )[0]
                if count:
                    said.append(
                        f"{count:,} {what} have more than one {name}; each judgement keeps "
                        "its own, so counts by it may hold one of them twice."
                    )
        return said

    # --- what is written -------------------------------------------------------------------------

    def write(self, study: Path) -> Iterator[Part]:
        """Write the parts, one after the other."""
        judges = _judge_rows(self._source, self._identities)
        yield from self._write(study, "judges", judges.to_batches())
        yield from self._write_query(study, "items", self._keep("items", self._items()))
        yield from self._write_query(study, "targets", self._keep("targets", self._targets()))
        responses = self._responses()
        if self._response_context:
            responses = self._keep("responses", responses)
        yield from self._write_query(study, "responses", responses)
        yield from self._write_query(study, "judgements", self._judgements())
        if self._source.texts is not None:
            yield from self._write(study, "texts", self._texts(self._source.texts))

    def _write(self, study: Path, table: str, batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
        """Write the rows of one table in parts of limited size."""
        rest = iter(batches)
        for first in rest:
            yield write_part(study, table, self._commit, _up_to_a_part(first, rest))

    def _write_query(self, study: Path, table: str, query: str) -> Iterator[Part]:
        yield from self._write(
            study, table, self._connection.sql(query).to_arrow_reader(ROW_GROUP_ROWS)
        )

    def _texts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The texts of judged responses, each response once."""
        # A number for each response: the keys of many take more room than that.
        keys = self._table.select(RESPONSE_KEY).group_by(RESPONSE_KEY).aggregate([])
        wanted = {key for batch in keys.to_batches(ROW_GROUP_ROWS) for key in _numbers(batch)}
        for batch in batches:
            kept = []
            for number in _numbers(batch):
                kept.append(number in wanted)
                wanted.discard(number)
            if any(kept):
                yield batch.filter(pa.array(kept))

    def _keep(self, table: str, query: str) -> str:
        """Keep the rows of one table for the join with the judgements."""
        self._query(f"CREATE TEMP TABLE {table}_out AS {query}")
        return f"FROM {table}_out"

    def _judgements(self) -> str:
        identities = {
            name: stated[0].digest if len(stated) == 1 else None
            for name, stated in self._identities.items()
        }
        self._connection.register(
            "identities",
            pa.table(
                {
                    "judge": pa.array(list(identities), pa.string()),
                    "judge_identity": pa.array(list(identities.values()), pa.string()),
                }
            ),
        )
        joins = [
            _same("items_out", ITEM_NAMES),
            _same("targets_out", TARGET_NAMES),
            "LEFT JOIN identities ON identities.judge = incoming.judge",
        ]
        response_key = typed_null(pa.int64())
        if self._response_context:
            joins.append(_same("responses_out", (*RESPONSE_KEY, *self._response_context)))
            response_key = "responses_out.response_key"
        own = [name for name in TABLES["judgements"].names if name in NAMES]
        return (
            f"SELECT {listed(own, 'incoming.')}, judge_identity, item_key, target_key, "
            f"{response_key} AS response_key FROM incoming {' '.join(joins)}"
        )

    @property
    def _response_context(self) -> tuple[str, ...]:
        """The columns about responses that hold a value."""
        return tuple(
            name for name in RESPONSE_CONTEXT if self._table.column(name).null_count < self.rows
        )

    def _items(self) -> str:
        return (
            f"SELECT {number(ITEM_NAMES)} AS item_key, * "
            f"FROM (SELECT DISTINCT {listed(ITEM_NAMES)} FROM contexts)"
        )

    def _targets(self) -> str:
        settings = pa.table(
            {
                "name": pa.array(list(self._source.targets), pa.string()),
                "settings": pa.array(
                    [
                        json.dumps(dict(stated), sort_keys=True, default=str)
                        for stated in self._source.targets.values()
                    ],
                    pa.string(),
                ),
            }
        )
        self._connection.register("target_settings", settings)
        return (
            f"SELECT {number(TARGET_NAMES)} AS target_key, t.*, s.settings "
            f"FROM (SELECT DISTINCT {listed(TARGET_NAMES)} FROM incoming) t "
            "LEFT JOIN target_settings s ON s.name = t.target"
        )

    def _responses(self) -> str:
        names = (*RESPONSE_KEY, *self._response_context)
        never = ", ".join(literal(reason) for reason in WITHOUT_RESPONSE)
        given = f"bool_or(reason IS NULL OR reason NOT IN ({never}))"
        query = (
            f"SELECT {listed(names)}, CASE WHEN {given} THEN 'ok' ELSE 'missing' END AS status, "
            f"CASE WHEN {given} THEN NULL ELSE min(reason) END AS reason "
            f"FROM incoming GROUP BY {listed(names)}"
        )
        if self._source.responses is not None:
            self._connection.register(
                "stated", _typed_responses(self._source.responses, self._source.source)
            )
            query += (
                f" UNION ALL BY NAME SELECT DISTINCT ON ({listed(RESPONSE_KEY)}) "
                f"{listed((*RESPONSE_KEY, *RESPONSE_CONTEXT, 'status', 'reason'))} "
                f"FROM stated ANTI JOIN incoming USING ({listed(RESPONSE_KEY)})"
            )
        key = typed_null(pa.int64())
        if self._response_context:
            key = number((*RESPONSE_KEY, *self._response_context), literal(self._commit))
        empty = pa.Table.from_pylist([], TABLES["responses"])
        self._connection.register("no_response", empty.drop_columns(["response_key"]))
        return f"SELECT *, {key} AS response_key FROM (FROM no_response UNION ALL BY NAME {query})"


def _up_to_a_part(
    first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Batches until they make up one part."""
    rows = first.num_rows
    yield first
    while rows < PART_ROWS and (batch := next(rest, None)) is not None:
        rows += batch.num_rows
        yield batch


def _numbers(batch: pa.RecordBatch) -> Iterator[int]:
    """A number for the response of each row, the same for the same response."""
    columns = (batch.column(name).to_pylist() for name in RESPONSE_KEY)
    return map(hash, zip(*columns, strict=True))


def suspects(rows: str, names: Sequence[str]) -> str:
    """Query over the few rows that may share their key with another.

    Grouping by a number instead of six texts keeps it small; the caller compares the texts.
    """
    key = f"hash({listed(names)})"
    return (
        f"SELECT * FROM {rows} WHERE {key} IN "
        f"(SELECT {key} FROM {rows} GROUP BY ALL HAVING count(*) > 1)"
    )


def said_key(values: Sequence[Any]) -> str:
    """The key of a judgement as a message shows it."""
    pairs = zip(KEY, values, strict=False)
    return "(" + ", ".join(f"{name} {value!r}" for name, value in pairs) + ")"


def number(names: Sequence[str], *more: str) -> str:
    """A 63-bit digest of columns, in SQL.

    It says the same on every machine and in every version, and JSON tells an unknown from an
    empty text and one column from the next. Joins take the item with it, so that two contexts
    can be confused only if they belong to one item id and share 63 bits.
    """
    columns = ", ".join((*more, *(identifier(name) for name in names)))
    return f"(md5_number_lower(json_array({columns})::VARCHAR) >> 1)::BIGINT"


def _same(table: str, names: Sequence[str]) -> str:
    """Join of `incoming` with a table on equal values, where two unknowns are equal."""
    equal = " AND ".join(
        f"{table}.{identifier(name)} IS NOT DISTINCT FROM incoming.{identifier(name)}"
        for name in names
    )
    return f"LEFT JOIN {table} ON {equal}"


def _typed(source: Import) -> pa.Table:
    """The judgements with exactly the columns of the tidy table, keys complete."""
    table = source.judgements
    if absent := [name for name in NAMES if name not in table.column_names]:
        raise InputError(f"the judgements lack the columns {', '.join(absent)}", file=source.source)
    table = table.select(NAMES).cast(JUDGEMENTS)
    for name in (*KEY, "status"):
        if table.column(name).null_count:
            raise InputError(
                "a judgement without a value",
                file=source.source,
                column=name,
                fix="every judgement has a run, target, item, epoch, judge, call and status",
            )
    return table


def _typed_responses(stated: pa.Table, source: str) -> pa.Table:
    """Responses that nobody judged, with every column; a status not stated is ok."""
    columns = {}
    for column in TABLES["responses"]:
        if column.name in stated.column_names:
            columns[column.name] = stated.column(column.name).cast(column.type)
        elif column.name in RESPONSE_KEY:
            raise InputError(
                "the responses lack a column of their key", file=source, column=column.name
            )
        else:
            value = "ok" if column.name == "status" else None
            columns[column.name] = pa.array([value] * stated.num_rows, column.type)
    return pa.table(columns)


def _identities(source: Import, judges: Sequence[str]) -> dict[str, list[JudgeIdentity]]:
    """Judge -> its identities: those stated, else its name alone."""
    found: defaultdict[str, list[JudgeIdentity]] = defaultdict(list)
    for identity in source.judges:
        if identity.digest not in [known.digest for known in found[identity.name]]:
            found[identity.name].append(identity)
    for name in judges:
        if name not in found:
            found[name].append(JudgeIdentity(name))
    return dict(sorted(found.items()))


def _judge_rows(source: Import, identities: Mapping[str, list[JudgeIdentity]]) -> pa.Table:
    rows = []
    for name, stated in identities.items():
        scale = source.scales.get(name) or source.evidence_map.scale(name)
        rows += [
            {
                "name": name,
                "identity": identity.digest,
                "model": identity.model,
                "decoding": json.dumps(dict(identity.decoding), sort_keys=True, default=str),
                "rubric": identity.rubric,
                "parser": identity.parser,
                "aggregation": identity.aggregation,
                "classes": scale.classes,
                "scale_min": scale.scale_min,
                "scale_max": scale.scale_max,
                "higher_is": scale.higher_is,
            }
            for identity in stated
        ]
    return pa.Table.from_pylist(rows, TABLES["judges"])
