"""Verification of a study: that it says what was written into it, and that it hangs together."""

# ruff: noqa: S608 - queries hold our own names and quoted literals only

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from safemetry.errors import InputError
from safemetry.evidence.schema import KEY, NAMES, RESPONSE_KEY, Intent, Reason, Status
from safemetry.evidence.study import ABOUT, NewerStudyError, Study, said_classes
from safemetry.evidence.study_commits import (
    FOLDER,
    Commit,
    DamagedCommitError,
    commit_files,
    is_intact,
    live,
    read_commit,
)
from safemetry.evidence.study_import import (
    ITEM_IDENTITY,
    ITEM_NAMES,
    TARGET_NAMES,
    number,
    said_key,
    scratch,
    suspects,
)
from safemetry.evidence.study_tables import TABLES, Part, listed, literal, scan
from safemetry.evidence.study_tidy import LEVELS, live_files, tidy_query

if TYPE_CHECKING:
    import duckdb

NOTES: Final = frozenset({"orphan"})
"""Kinds that do no harm: the evidence is complete without what they name."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a study.

    Attributes
    ----------
    kind
        A word that stands for the problem; see ``docs/study.md``.
    file
        The file, within the study.
    detail
        What is wrong, with an example and the number of cases.
    fix
        What to do about it.
    """

    kind: str
    file: str
    detail: str
    fix: str

    @property
    def is_note(self) -> bool:
        """Whether the evidence is sound in spite of it."""
        return self.kind in NOTES


_RESTORE: Final = "restore the file from a copy, or remove its commit and import the source again"
_AGAIN: Final = "remove the commit and import the source again"


def check_study(path: str | Path) -> list[Problem]:
    """Verify a study.

    Files first: each commit says what was written, each part has the digest, the rows and the
    columns that its commit states, and no file lies about that no commit names. Then what the
    commits in force say, as far as their files are sound: keys are unique, every judgement has
    its response, item, target and judge, every word is known, items have one intent, and
    corrections point to something.

    Parameters
    ----------
    path
        The directory of the study.

    Returns
    -------
    list of Problem
        Empty for a sound study. An orphan is a note (`Problem.is_note`).
    """
    folder = Path(path).absolute()
    try:
        study = Study.open(folder)
    except InputError as error:
        kind = "damaged_study" if Study.is_study(folder) else "missing_study"
        if isinstance(error, NewerStudyError):
            kind = "newer_schema"
        return [Problem(kind, ABOUT, error.problem, error.fix or _RESTORE)]
    commits, problems = _commits(study)
    problems += _changed_classes(study, commits)
    unsound: set[str] = set()
    for commit in commits:
        found = [*_accounting(commit), *_parts(study, commit)]
        problems += found
        if any(problem.kind not in {"accounting", "row_total"} for problem in found):
            unsound.add(commit.name)
    # Where a commit cannot be read, the files that it names look like orphans but are not.
    if not any(problem.file.startswith(f"{FOLDER}/") for problem in problems):
        problems += _lost_commits(study, commits) or _orphans(study, commits)
    with scratch() as connection:
        sound = [commit for commit in live(commits) if commit.name not in unsound]
        content = _Content(study, sound, connection)
        problems += content.problems()
        # What a correction refers to may lie in the files that cannot be read.
        if not unsound and len(commits) == len(commit_files(study.path)):
            problems += content.idle_corrections()
    return problems


# --- files ---------------------------------------------------------------------------------------


def _commits(study: Study) -> tuple[list[Commit], list[Problem]]:
    commits, problems = [], []
    for path in commit_files(study.path):
        try:
            commits.append(read_commit(path))
        except InputError as error:
            kind = error.kind if isinstance(error, DamagedCommitError) else "damaged_commit"
            problems.append(
                Problem(kind, f"{FOLDER}/{path.name}", error.problem, error.fix or _RESTORE)
            )
    names = {path.stem for path in commit_files(study.path)}
    problems += [
        Problem(
            "missing_commit",
            _file(commit),
            f"it supersedes {name}, which is not in the study",
            "restore the file from a copy; no figure depends on it",
        )
        for commit in commits
        for name in commit.supersedes
        if name not in names
    ]
    return commits, problems


def _changed_classes(study: Study, commits: Sequence[Commit]) -> Iterator[Problem]:
    """A class order in `study.json` that is not the one by which the evidence was read."""
    stated = (study.classes, study.outside)
    read_by = [commit.classes for commit in commits if commit.classes is not None]
    other = [found for found in read_by if found != stated]
    for classes, outside in other[:1]:
        yield Problem(
            "changed_classes",
            ABOUT,
            f"it states the classes {said_classes(*stated)}, but {len(other):,} imports were made "
            f"under {said_classes(classes, outside)}",
            f"restore it from a copy: classes {json.dumps(classes)}, outside {json.dumps(outside)}",
        )


def _lost_commits(study: Study, commits: Sequence[Commit]) -> list[Problem]:
    """Parts without any import that names them: most likely evidence that must not be deleted."""
    has_folder = (study.path / FOLDER).is_dir()
    if has_folder and any(commit.origin for commit in live(commits)):
        return []
    if has_folder and not study.holds_parts:
        return []
    parts = sum(1 for table in TABLES for _ in (study.path / table).glob("*.parquet"))
    return [
        Problem(
            "lost_commits",
            f"{FOLDER}/",
            f"{parts:,} parts lie in the study and no import names them: its commits are lost, or "
            "the first import was cut off or is still running"
            if parts
            else "the folder is gone",
            f"restore {FOLDER}/ from a copy and keep the parts until then; where the first import "
            "was cut off, import its source again",
        )
    ]


def _file(commit: Commit) -> str:
    return f"{FOLDER}/{commit.name}.json"


def _accounting(commit: Commit) -> Iterator[Problem]:
    if commit.origin is None:
        return
    accounting = commit.origin.accounting
    if accounting.unaccounted:
        yield Problem(
            "accounting",
            _file(commit),
            f"{accounting.unaccounted:,} of {accounting.rows_read:,} rows of "
            f"{commit.origin.location} are unaccounted for",
            _AGAIN,
        )
    held = sum(part.rows for part in commit.parts if part.table == "judgements")
    if held != commit.origin.judgements:
        yield Problem(
            "row_total",
            _file(commit),
            f"{commit.origin.judgements:,} judgements were imported, its parts hold {held:,}",
            _AGAIN,
        )


def _parts(study: Study, commit: Commit) -> Iterator[Problem]:
    for part in commit.parts:
        path = study.path / part.file
        if not path.is_file():
            yield Problem(
                "missing_part", part.file, f"{_file(commit)} names it, but it is gone", _RESTORE
            )
            continue
        if not is_intact(study.path, part):
            yield Problem(
                "changed_part", part.file, "its bytes are not those that were written", _RESTORE
            )
            continue
        yield from _inside(path, part)


def _inside(path: Path, part: Part) -> Iterator[Problem]:
    try:
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
    except (OSError, pa.ArrowException) as error:
        yield Problem("unreadable_part", part.file, str(error).splitlines()[0], _RESTORE)
        return
    if metadata.num_rows != part.rows:
        yield Problem(
            "row_total",
            part.file,
            f"its commit states {part.rows:,} rows, it holds {metadata.num_rows:,}",
            _RESTORE,
        )
    for column in TABLES[part.table]:
        at = schema.get_field_index(column.name)
        if at < 0:
            yield Problem("schema", part.file, f"the column {column.name!r} is absent", _AGAIN)
        elif not schema.field(at).type.equals(column.type):
            yield Problem(
                "schema",
                part.file,
                f"the column {column.name!r} is {schema.field(at).type}, not {column.type}",
                _AGAIN,
            )


def _orphans(study: Study, commits: Sequence[Commit]) -> Iterator[Problem]:
    named = {part.file for commit in commits for part in commit.parts}
    drafts = list(study.path.glob(f".{ABOUT}.*"))
    drafts += [path for path in (study.path / FOLDER).glob("*") if path.suffix != ".json"]
    lying = [path for table in TABLES for path in sorted((study.path / table).glob("*"))]
    for path in [*drafts, *lying]:
        file = path.relative_to(study.path).as_posix()
        if file not in named:
            yield Problem(
                "orphan",
                file,
                "no commit names it: an import was cut off here, or is still running",
                "import its source again, or restore its commit, if the study should hold it; "
                "then delete it if no import is running: nothing reads it",
            )


# --- content -------------------------------------------------------------------------------------


class _Content:
    """What the commits in force say together."""

    def __init__(
        self, study: Study, commits: Sequence[Commit], connection: duckdb.DuckDBPyConnection
    ) -> None:
        self._study = study
        self._commits = commits
        self._connection = connection
        # By the imports, as `study.json` may have been altered.
        self._classes = next(
            (commit.classes for commit in commits if commit.classes), (study.classes, study.outside)
        )
        self._owner = {
            Path(part.file).name: part.file for commit in commits for part in commit.parts
        }

    def problems(self) -> Iterator[Problem]:
        """What is wrong with the evidence."""
        yield from self._repeated_keys()
        for commit in self._commits:
            yield from self._coverage(commit)
            yield from self._words(commit)
        yield from self._mixed_intents()

    def _rows(self, table: str, commits: Sequence[Commit] | None = None) -> str:
        chosen = self._commits if commits is None else commits
        return scan(table, live_files(self._study.path, chosen, table))

    def _query(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()

    def _repeated_keys(self) -> Iterator[Problem]:
        key = listed(KEY)
        repeated = self._query(
            f"SELECT {key}, list(DISTINCT filename ORDER BY filename), count(*) OVER () "
            f"FROM ({suspects(self._rows('judgements'), KEY)}) GROUP BY {key} "
            f"HAVING count(*) > 1 ORDER BY {key} LIMIT 1"
        )
        for row in repeated:
            files = [self._owner[Path(name).name] for name in row[-2]]
            yield Problem(
                "repeated_key",
                files[0],
                f"{row[-1]:,} judgements stand more than once, the first is {said_key(row)}"
                + (f", also in {', '.join(files[1:])}" if len(files) > 1 else ""),
                "remove the commit of one of the two and import its source again",
            )

    def _coverage(self, commit: Commit) -> Iterator[Problem]:
        """Every judgement has what it refers to, in its own commit."""
        judgements = self._rows("judgements", [commit])
        for kind, table, own, other in (
            ("missing_response", "responses", RESPONSE_KEY, RESPONSE_KEY),
            ("missing_item", "items", ("item", "item_key"), ("item", "item_key")),
            ("missing_target", "targets", ("target_key",), ("target_key",)),
            ("unknown_judge", "judges", ("judge",), ("name",)),
        ):
            # Numbers in place of texts keep the join small.
            equal = f"hash({listed(other, 'o.')}) = hash({listed(own, 'j.')})"
            lost = self._query(
                f"SELECT {listed(KEY, 'j.')}, j.filename, count(*) OVER () FROM {judgements} j "
                f"ANTI JOIN {self._rows(table, [commit])} o ON {equal} "
                f"ORDER BY {listed(KEY, 'j.')} LIMIT 1"
            )
            for row in lost:
                yield Problem(
                    kind,
                    self._owner[Path(row[-2]).name],
                    f"{row[-1]:,} judgements have no row in {table}, the first is {said_key(row)}",
                    _AGAIN,
                )
        if commit.files("texts"):
            yield from self._orphan_texts(commit)
        yield from self._ambiguous_contexts(commit)
        yield from self._altered_contexts(commit)

    def _orphan_texts(self, commit: Commit) -> Iterator[Problem]:
        """Every text has its response, in its own commit."""
        key = listed(RESPONSE_KEY)
        orphans = self._query(
            f"SELECT {key}, filename, count(*) OVER () FROM {self._rows('texts', [commit])} "
            f"ANTI JOIN {self._rows('responses', [commit])} USING ({key}) ORDER BY {key} LIMIT 1"
        )
        for row in orphans:
            place = ", ".join(
                f"{name} {value!r}" for name, value in zip(RESPONSE_KEY, row, strict=False)
            )
            yield Problem(
                "orphan_text",
                self._owner[Path(row[-2]).name],
                f"{row[-1]:,} texts have no row in responses, the first is ({place})",
                _AGAIN,
            )

    def _altered_contexts(self, commit: Commit) -> Iterator[Problem]:
        """Rows that several imports share say the same in each of them."""
        for table, key, names in (
            ("items", "item_key", ITEM_NAMES),
            ("targets", "target_key", TARGET_NAMES),
        ):
            altered = self._query(
                f"SELECT filename, count(*) FROM {self._rows(table, [commit])} "
                f"WHERE {key} <> {number(names)} GROUP BY filename"
            )
            for name, count in altered:
                yield Problem(
                    "altered_context",
                    self._owner[Path(name).name],
                    f"in {count:,} rows {key} is not the digest of the row",
                    _AGAIN,
                )

    def _ambiguous_contexts(self, commit: Commit) -> Iterator[Problem]:
        """No judgement finds two rows of a table and so stands twice in the tidy table."""
        for table, key in (
            ("responses", "item, response_key"),
            ("items", "item, item_key"),
            ("targets", "target_key"),
        ):
            column = key.rpartition(" ")[2]
            double = self._query(
                f"SELECT any_value(filename) FROM {self._rows(table, [commit])} "
                f"WHERE {column} IS NOT NULL GROUP BY {key} HAVING count(*) > 1 LIMIT 1"
            )
            for (name,) in double:
                yield Problem(
                    "repeated_context",
                    self._owner[Path(name).name],
                    f"rows of {table} share one {column}",
                    _AGAIN,
                )

    def _words(self, commit: Commit) -> Iterator[Problem]:
        corrections = self._rows("corrections", [commit])
        for table, column, words in (
            ("judgements", "label", (*self._classes[0], *self._classes[1])),
            ("judgements", "status", tuple(Status)),
            ("judgements", "reason", tuple(Reason)),
            ("items", "intent", tuple(Intent)),
        ):
            allowed = ", ".join(literal(word) for word in words)
            found = self._query(
                f"SELECT any_value(filename), word, count(*) FROM "
                f"(SELECT filename, {column} AS word FROM {self._rows(table, [commit])} UNION ALL "
                f"SELECT filename, value FROM {corrections} WHERE field = {literal(column)}) "
                f"WHERE word NOT IN ({allowed}) GROUP BY word ORDER BY word"
            )
            for name, word, count in found:
                yield Problem(
                    f"unknown_{column}",
                    self._owner[Path(name).name],
                    f"{count:,} rows hold the {column} {word!r}",
                    f"known are {', '.join(words)}; import the source again with a map for it",
                )

    def _mixed_intents(self) -> Iterator[Problem]:
        tidy = tidy_query(self._study.path, self._commits, ("run", "item", "benchmark", "intent"))
        mixed = self._query(
            f"SELECT item, benchmark, list(DISTINCT intent ORDER BY intent), count(*) OVER () FROM "
            f"(SELECT DISTINCT {ITEM_IDENTITY} AS run, intent FROM ({tidy})) "
            "GROUP BY item, benchmark, run HAVING count(DISTINCT intent) > 1 ORDER BY ALL LIMIT 1"
        )
        for item, benchmark, intents, count in mixed:
            yield Problem(
                "mixed_intent",
                "items",
                f"{count:,} items have more than one intent, the first is item {item!r} of "
                f"benchmark {benchmark!r} ({', '.join(intents)})",
                "correct the intent (safemetry correct), or import under another benchmark",
            )

    def idle_corrections(self) -> Iterator[Problem]:
        """Corrections of something that the study does not hold."""
        corrections = self._rows("corrections")
        columns = tuple(name for name in NAMES if name in {*KEY, "benchmark"})
        tidy = tidy_query(self._study.path, self._commits, columns)
        for level in LEVELS:
            if not set(level.fields) & {name for c in self._commits for name in c.fields}:
                continue
            known = {name: f"t.{name}" for name in level.key}
            if level.name == "item":
                known["run"] = "CASE WHEN t.benchmark IS NULL THEN t.run END"
            equal = " AND ".join(
                f"c.{name} IS NOT DISTINCT FROM {value}" for name, value in known.items()
            )
            fields = ", ".join(literal(name) for name in level.fields)
            idle = self._query(
                f"SELECT c.filename, c.field, {listed(level.key, 'c.')}, count(*) OVER () "
                f"FROM {corrections} c ANTI JOIN ({tidy}) t ON {equal} "
                f"WHERE c.field IN ({fields}) AND c.implied_by IS NULL "
                f"ORDER BY ALL LIMIT 1"
            )
            for name, field, *key, count in idle:
                place = ", ".join(
                    f"{column} {value!r}"
                    for column, value in zip(level.key, key, strict=True)
                    if value is not None
                )
                yield Problem(
                    "idle_correction",
                    self._owner[Path(name).name],
                    f"{count:,} corrections fit nothing in the study, the first is of {field} "
                    f"at {place}",
                    "correct the row under its present key, or restore the import it belonged to",
                )
