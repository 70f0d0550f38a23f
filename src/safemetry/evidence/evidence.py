"""Evidence: judgements that passed the border, the items they speak of, and the judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import pyarrow as pa
import pyarrow.compute as pc

from safemetry.errors import InputError
from safemetry.evidence import border, frames
from safemetry.evidence.engine import connect, thread_limit
from safemetry.evidence.identity import (
    JudgeIdentity,
    by_judge,
    swap_warnings,
    without_swap_warnings,
)
from safemetry.evidence.maps import EvidenceMap, Scale, make_map
from safemetry.evidence.naming import near_misses
from safemetry.evidence.schema import ITEM_COLUMNS, JUDGEMENTS, NAMES
from safemetry.evidence.success import SuccessRule

if TYPE_CHECKING:
    import duckdb

ITEM_KEY: Final = ("run", "item")
_CONTEXT: Final = tuple(column.name for column in ITEM_COLUMNS)
CONTEXT_NAMES: Final = (*ITEM_KEY, *_CONTEXT)
JUDGED_WHERE: Final = ("run", "target", "judge")
JudgedWhere = tuple[str, str, str]


@dataclass(frozen=True)
class Evidence:
    """Judgements ready to be counted.

    Parameters
    ----------
    rows
        Lazy frame with the columns of the judgements table.
    items
        One row per run and item, with the item columns (benchmark, category, attack, behaviour,
        pair, intent, language).
    instruments
        The judges that occur, with their scales and what they gave.
    map
        Class order and the rest of the map.
    sources
        Names of what was read.
    warnings
        What a reader of the numbers must know.
    default_rule
        Success rule where the user names none.
    identities
        Parts of each judge's identity, where known; a swapped judge has several.
    judged_by
        Run, target and judge -> digests of the identities that may have judged there; known for
        swapped judges whose sources tell them apart.
    targets
        Target -> its settings, where known.
    threads
        How many threads may work on what the engine has counted.
    """

    rows: nw.LazyFrame[Any]
    items: pa.Table
    instruments: Mapping[str, border.Instrument]
    map: EvidenceMap
    sources: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    default_rule: SuccessRule = field(default_factory=SuccessRule)
    identities: tuple[JudgeIdentity, ...] = ()
    judged_by: Mapping[JudgedWhere, frozenset[str]] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    threads: int = 1

    def filter(self, **values: str | Sequence[str]) -> Evidence:
        """The rows in which every named column has the given value, or one of those given.

        Raises
        ------
        InputError
            For a column that the judgements table does not have, or a value that never occurs.
        """
        rows = self.rows
        for name, value in values.items():
            if name not in NAMES:
                raise InputError(
                    f"there is no column {name!r} to filter by",
                    fix=f"the columns are {', '.join(NAMES)}",
                )
            wanted: list[Any] = [value] if isinstance(value, str) else list(value)
            if not pa.types.is_string(JUDGEMENTS.field(name).type):
                try:
                    wanted = [float(text) for text in wanted]
                except ValueError as error:
                    said = " or ".join(map(repr, wanted))
                    raise InputError(f"column {name!r} holds numbers, not {said}") from error
            rows = rows.filter(nw.col(name).is_in(wanted).fill_null(value=False))
        found = distinct(rows, "judge")
        if not found:
            said = ", ".join(
                f"{name}={value if isinstance(value, str) else ' or '.join(value)}"
                for name, value in values.items()
            )
            raise InputError(f"no row has {said}", fix=self._known_values(values))
        part = replace(
            self,
            rows=rows,
            items=_items(rows),
            instruments={judge: self.instruments[judge] for judge in sorted(found)},
        )
        return _with_own_identities(part) if self.judged_by else part

    def warning_of_swaps(self) -> Evidence:
        """The same with a warning for each judge that has several identities, and no older one."""
        said = swap_warnings(
            {
                name: stated
                for name, stated in by_judge(self.identities).items()
                if name in self.instruments
            }
        )
        return replace(self, warnings=(*without_swap_warnings(self.warnings), *said))

    def _known_values(self, wanted: Iterable[str], most: int = 12) -> str:
        """What the columns of a filter hold, the first of their values."""
        parts = []
        for name in wanted:
            known = distinct(self.rows, name)
            shown = ", ".join(map(repr, known[:most])) or "nothing"
            more = f" and {len(known) - most:,} more" if len(known) > most else ""
            parts.append(f"{name} holds {shown}{more}")
        return "; ".join(parts)

    def only_items(self, items: Sequence[str]) -> Evidence:
        """The rows on the given items."""
        rows = self.rows.filter(nw.col("item").is_in(list(items)))
        return replace(self, rows=rows, items=_items(rows))

    @property
    def targets_seen(self) -> tuple[str, ...]:
        """The targets that occur, sorted."""
        return tuple(distinct(self.rows, "target"))


def _with_own_identities(evidence: Evidence) -> Evidence:
    """The same without the identities of swapped judges that judged none of its rows."""
    told = {judge for *_, judge in evidence.judged_by}
    used: set[str] = set()
    for row in groups(evidence.rows, JUDGED_WHERE).to_pylist():
        used |= evidence.judged_by.get((row["run"], row["target"], row["judge"]), frozenset())
    kept = [one for one in evidence.identities if one.name not in told or one.digest in used]
    return replace(evidence, identities=tuple(kept)).warning_of_swaps()


def distinct(rows: nw.LazyFrame[Any], name: str) -> list[str]:
    """The values of a column, sorted, null left out."""
    return sorted(value for value in groups(rows, [name])[name].to_pylist() if value is not None)


def groups(rows: nw.LazyFrame[Any], columns: Sequence[str]) -> pa.Table:
    """The combinations of values that occur, in no particular order."""
    # A window over every row is what `unique` makes on some engines; grouping is a hash table.
    grouped = rows.group_by(*columns, drop_null_keys=False).agg(nw.len().alias("rows"))
    return grouped.select(*columns).collect("pyarrow").to_arrow()


def as_evidence(
    data: Any,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    *,
    scales: Mapping[str, Scale] | None = None,
    place: border.Place | str = "table",
    connection: duckdb.DuckDBPyConnection | None = None,
) -> Evidence:
    """Evidence from a table: whatever narwhals accepts, or evidence that already is.

    Parameters
    ----------
    data
        A data frame (pandas, Polars, PyArrow, PySpark, Dask, ...), a DuckDB relation, or an
        `Evidence`. Columns as in the judgements table: `target`, `item`, and `label` or `score`
        at least.
    evidence_map
        A map, or a mapping with its entries.
    scales
        Scales that the format of the source fixes; the map overrides them.
    place
        Name of the source for error messages, and the run where there is no column for it.
    connection
        DuckDB connection to count on; a fresh one by default.

    Raises
    ------
    InputError
        Naming row, column and the fix; see `safemetry.evidence.border.admit`. Also where an item
        has two intents, or two values of another item column, or a map is given for evidence that
        was read with another one.
    """
    if isinstance(data, Evidence):
        if evidence_map is not None and make_map(evidence_map) != data.map:
            raise InputError(
                "this evidence was read with a map of its own",
                fix="give the map where the source is read",
            )
        return data
    known = make_map(evidence_map or {})
    engine = connection or connect()
    frame = frames.lazy(data, engine)
    rows, instruments = border.admit(frame, engine, known, scales=scales, place=place)
    name = place if isinstance(place, str) else place.name
    evidence = assemble(rows, instruments, known, sources=(name,))
    missed = near_misses(frame.collect_schema().names(), known)
    return replace(evidence, warnings=(*missed, *evidence.warnings), threads=thread_limit(engine))


def assemble(
    rows: nw.LazyFrame[Any],
    instruments: Mapping[str, border.Instrument],
    evidence_map: EvidenceMap,
    *,
    sources: Sequence[str],
    items: pa.Table | None = None,
) -> Evidence:
    """Evidence from admitted rows, with one consistent context per item.

    `items` holds the different contexts of the rows, where that is known without a pass over them.

    An item that stands under several attacks is a behaviour by this package's words: it is split
    into one item per attack, and the id becomes the behaviour where there is none.

    Raises
    ------
    InputError
        Where an item has two intents, or two values of another item column.
    """
    warnings = []
    items = _items(rows) if items is None else _sorted(items)
    if _repeated(items).num_rows and len(pc.unique(items["attack"])) > 1:
        rows = _split_by_attack(rows)
        items = _items(rows)
        warnings.append(
            "Item ids repeat across attacks: each attack on an id counts as an item of its own, "
            "and the id as the behaviour."
        )
    _refuse_mixed(rows, items)
    return Evidence(
        rows, items, instruments, evidence_map, sources=tuple(sources), warnings=tuple(warnings)
    )


def _items(rows: nw.LazyFrame[Any]) -> pa.Table:
    return _sorted(groups(rows, CONTEXT_NAMES))


def _sorted(items: pa.Table) -> pa.Table:
    return items.sort_by([(name, "ascending") for name in CONTEXT_NAMES])


def _repeated(items: pa.Table) -> pa.Table:
    """Run and item of the items that have more than one context."""
    counts = items.group_by(list(ITEM_KEY)).aggregate([([], "count_all")])
    return counts.filter(pc.greater(counts["count_all"], 1))


def _split_by_attack(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    attacked = ~nw.col("attack").is_null()
    split = nw.concat_str([nw.col("item"), nw.col("attack")], separator=" / ")
    return rows.with_columns(
        nw.when(attacked).then(split).otherwise(nw.col("item")).alias("item"),
        nw.when(nw.col("behaviour").is_null())
        .then(nw.col("item"))
        .otherwise(nw.col("behaviour"))
        .alias("behaviour"),
    ).select(*NAMES)


def _refuse_mixed(rows: nw.LazyFrame[Any], items: pa.Table) -> None:
    """Refuse an item with two contexts, naming a row of the second one."""
    repeated = _repeated(items).sort_by([(name, "ascending") for name in ITEM_KEY])
    if not repeated.num_rows:
        return
    run, item = (repeated[name][0].as_py() for name in ITEM_KEY)
    mine = items.filter(
        pc.and_(pc.equal(items["run"], run), pc.equal(items["item"], item))
    ).to_pylist()
    varying = [name for name in _CONTEXT if len({row[name] for row in mine}) > 1]
    column = "intent" if "intent" in varying else varying[0]
    found = (
        rows.filter((nw.col("run") == run) & (nw.col("item") == item))
        .select(column, "source_file", frames.ROW)
        .sort(frames.ROW)
        .collect("pyarrow")
        .to_arrow()
        .to_pylist()
    )
    second = next((row for row in found if row[column] != found[0][column]), found[0])
    raise InputError(
        f"item {item!r} has {column} {found[0][column]!r} in one row and {second[column]!r} in "
        "another",
        file=second["source_file"],
        row=second[frames.ROW],
        column=column,
        fix="an item has one; give the two prompts different ids",
    )
