"""The study: an append-only directory of evidence that any engine can read.

See ``docs/study.md`` for the layout and for what crashes and concurrent writers do.
"""

# ruff: noqa: S608 - queries hold our own names and quoted literals only

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from safemetry.errors import InputError, SafemetryError
from safemetry.evidence.identity import JudgeIdentity, swap_warnings
from safemetry.evidence.maps import Scale
from safemetry.evidence.schema import CLASSES, NAMES, OUTSIDE, RESPONSE_KEY, SCHEMA_VERSION
from safemetry.evidence.study_commits import (
    FOLDER,
    Accounting,
    Commit,
    Origin,
    commit_files,
    commit_parts,
    commit_path,
    content_digest,
    import_name,
    is_intact,
    live,
    map_content,
    now,
    options_digest,
    program_version,
    publish,
    read_commit,
)
from safemetry.evidence.study_import import (
    INCLUDE_TEXT,
    Import,
    Incoming,
    said_key,
    scratch,
)
from safemetry.evidence.study_tables import PART_FILE, TABLES, Part, listed, literal, scan
from safemetry.evidence.study_tidy import live_files, tidy_query

if TYPE_CHECKING:
    import duckdb

__all__ = ["Accounting", "Committed", "Import", "JudgeRecord", "NewerStudyError", "Study"]

ABOUT: Final = "study.json"
"""The file that makes a directory a study."""

_OTHER_BYTES: Final = "is damaged: its bytes are not those that were written"
_COMMIT_FILE: Final = re.compile(r"^[0-9a-f]{32}\.json$")


class NewerStudyError(InputError):
    """A study of a later layout than this version knows."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of an import.

    Attributes
    ----------
    added
        False where the study held this evidence already.
    commit
        Name of the commit that holds it.
    superseded
        Commits that gave way to it.
    warnings
        Those of the source, and what the study adds to them.
    """

    added: bool
    commit: str
    superseded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JudgeRecord:
    """One identity under which a judge stands in a study, and its scale.

    Attributes
    ----------
    identity
        Everything that makes it that judge.
    scale
        Its classes, the range of its score and the safe end of it.
    commits
        The commits that hold judgements of it.
    """

    identity: JudgeIdentity
    scale: Scale
    commits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Study:
    """An append-only directory of evidence.

    Make one with `create`, `open` or `open_or_create`.

    Attributes
    ----------
    path
        The directory.
    classes, outside
        Class order, and classes outside it; fixed when the study is created.
    created_by
        Version of the program that created it.
    """

    path: Path
    classes: tuple[str, ...]
    outside: tuple[str, ...]
    created_by: str

    # --- opening ---------------------------------------------------------------------------------

    @staticmethod
    def is_study(path: str | Path) -> bool:
        """Whether this is the directory of a study, in whatever state."""
        return (Path(path) / ABOUT).is_file()

    @classmethod
    def refuse_lost(cls, path: str | Path) -> None:
        """Refuse a directory that holds the commits or parts of a study without its `study.json`.

        Raises
        ------
        InputError
            Read as loose tables, its parts would lose their join, corrections and commits.
        """
        folder = Path(path)
        held = [file for table in (FOLDER, "judgements") for file in (folder / table).glob("*.*")]
        is_ours = any(
            PART_FILE.match(f"{file.parent.name}/{file.name}") or _COMMIT_FILE.match(file.name)
            for file in held
        )
        # Asked last: who creates a study publishes `study.json` before any part.
        if is_ours and not cls.is_study(path):
            raise InputError(
                f"looks like a study that lost its {ABOUT}",
                file=str(path),
                fix=f"restore {ABOUT} from a copy (its commits in {FOLDER}/ state the classes), "
                f"then run `safemetry check {path}`",
            )

    @classmethod
    def create(
        cls, path: str | Path, classes: Sequence[str] = CLASSES, outside: Sequence[str] = OUTSIDE
    ) -> Study:
        """Create a study in a new or an empty directory.

        Raises
        ------
        InputError
            Where the directory is a study already, holds other files, or cannot be written.
        """
        if not _publish_about(Path(path), classes, outside):
            raise InputError(
                "there is a study already", file=str(path), fix="open it, or name another directory"
            )
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """Open a study.

        Raises
        ------
        InputError
            Where there is none, its `study.json` is damaged, or a newer version wrote it.
        """
        folder = Path(path).absolute()
        file = folder / ABOUT
        try:
            about = json.loads(file.read_bytes())
            version = int(about["schema"])
            classes, outside = tuple(about["classes"]), tuple(about["outside"])
            created_by = str(about["created_by"])
        except (FileNotFoundError, NotADirectoryError) as error:
            cls.refuse_lost(path)
            raise InputError(
                "is no study (it has no study.json)", file=str(path), fix="import evidence into it"
            ) from error
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})", file=str(file)) from error
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                f"is damaged or cut short ({error})", file=str(file), fix="restore it from a copy"
            ) from error
        if version > SCHEMA_VERSION:
            raise NewerStudyError(
                f"was written by a newer version of safemetry (schema {version})",
                file=str(file),
                fix="upgrade safemetry",
            )
        return cls(folder, classes, outside, created_by)

    @classmethod
    def open_or_create(
        cls, path: str | Path, classes: Sequence[str] = CLASSES, outside: Sequence[str] = OUTSIDE
    ) -> Study:
        """Open a study, or create it where there is none; two writers may both do so at once.

        An existing study keeps its own classes.
        """
        if not cls.is_study(path):
            _publish_about(Path(path), classes, outside)
        return cls.open(path)

    # --- what it holds ---------------------------------------------------------------------------

    def history(self) -> list[Commit]:
        """Every commit, superseded ones too, oldest first.

        Raises
        ------
        InputError
            Where a commit file is damaged, or was read by other classes than `study.json` states:
            the study is then not read at all rather than in part.
        """
        if not (self.path / FOLDER).is_dir():
            raise InputError(
                f"the study lost its folder {FOLDER}/",
                file=str(self.path),
                fix=f"restore it from a copy; {self._advice}",
            )
        commits = [read_commit(path) for path in commit_files(self.path)]
        for commit in commits:
            self._refuse_changed_classes(commit)
        return sorted(commits, key=lambda commit: (commit.recorded, commit.name))

    def commits(self) -> list[Commit]:
        """The commits in force: no other supersedes them. Oldest first.

        Raises
        ------
        InputError
            As `history`, and where a part of one of them is gone.
        """
        return self._in_force(self.history())

    def _in_force(self, history: Sequence[Commit]) -> list[Commit]:
        commits = live(history)
        for commit in commits:
            for part in commit.parts:
                if not (self.path / part.file).is_file():
                    name = commit_path(self.path, commit.name).relative_to(self.path)
                    raise self._damaged(part, f"is gone, though {name.as_posix()} names it")
        return commits

    def _refuse_changed_classes(self, commit: Commit) -> None:
        if commit.classes is None or commit.classes == (self.classes, self.outside):
            return
        classes, outside = commit.classes
        raise InputError(
            f"{ABOUT} states the classes {said_classes(self.classes, self.outside)}, but the study "
            f"holds evidence that was imported under {said_classes(classes, outside)}",
            file=str(self.path / ABOUT),
            fix=f"restore {ABOUT}: classes {json.dumps(classes)}, outside {json.dumps(outside)}; "
            f"{self._advice}",
        )

    @property
    def holds_parts(self) -> bool:
        """Whether any part lies in the study, be it named by a commit or not."""
        return any(True for table in TABLES for _ in (self.path / table).glob("*.parquet"))

    @property
    def _advice(self) -> str:
        return f"run `safemetry check {self.path}`"

    def _damaged(self, part: Part, problem: str) -> InputError:
        return InputError(problem, file=str(self.path / part.file), fix=self._advice)

    @contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Turn an error that a damaged part causes into one that names the part.

        Raises
        ------
        InputError
            Where something fails and the bytes of a part are not those that its commit states.
        """
        try:
            yield
        except SafemetryError:
            raise
        except Exception as error:
            for commit in self.commits():
                for part in commit.parts:
                    if not is_intact(self.path, part):
                        raise self._damaged(part, _OTHER_BYTES) from error
            raise

    def refuse_damage(self) -> None:
        """Refuse a study with a damaged part, its texts aside, before anything counts on it.

        Raises
        ------
        InputError
            Where the bytes of a part are not those that its commit states.
        """
        for commit in self.commits():
            for part in commit.parts:
                if part.table != "texts" and not is_intact(self.path, part):
                    raise self._damaged(part, _OTHER_BYTES)

    @property
    def digest(self) -> str:
        """Digest of the evidence in force, corrections included; equal evidence, equal digest."""
        names = sorted(commit.name for commit in self.commits())
        return content_digest([self.classes, self.outside, names])

    def judges(self) -> list[JudgeRecord]:
        """The identities of the judges, by name; a swapped judge has several."""
        held: defaultdict[str, list[str]] = defaultdict(list)
        for commit in self.commits():
            for part in commit.parts:
                for row in self._judge_rows(part) if part.table == "judges" else ():
                    held[json.dumps(row, sort_keys=True)].append(commit.name)
        records = [_judge_record(json.loads(row), commits) for row, commits in held.items()]
        return sorted(records, key=lambda record: (record.identity.name, record.identity.digest))

    def _judge_rows(self, part: Part) -> list[dict[str, Any]]:
        content = (self.path / part.file).read_bytes()
        if hashlib.sha256(content).hexdigest() != part.sha256:
            raise self._damaged(part, _OTHER_BYTES)
        rows = pq.read_table(pa.BufferReader(content), columns=TABLES["judges"].names)
        return list(rows.to_pylist())

    def table(self, connection: duckdb.DuckDBPyConnection, name: str) -> duckdb.DuckDBPyRelation:
        """One table of the study as written, corrections not applied; lazy.

        Parameters
        ----------
        connection
            The database that runs the query.
        name
            ``judgements, responses, items, targets, judges, corrections`` or ``texts``. Several
            imports may hold equal rows of `items`, `targets` and `judges`.
        """
        rows = scan(name, live_files(self.path, self.commits(), name))
        return connection.sql(f"SELECT {listed(TABLES[name].names)} FROM {rows}")

    def tidy(
        self,
        connection: duckdb.DuckDBPyConnection,
        columns: Sequence[str] = NAMES,
        *,
        distinct: bool = False,
    ) -> duckdb.DuckDBPyRelation:
        """The tidy judgements table, corrections applied; lazy.

        It holds one row for each judgement, in no particular order. A response that nobody judged
        has none; see `unjudged`. The query reads the commits in force now: later ones do not
        change it.

        Parameters
        ----------
        connection
            The database that runs the query.
        columns
            The columns wanted, all by default. A table is joined only if one of them needs it.
        distinct
            Each combination of values once, in place of one row for each judgement.
        """
        query = tidy_query(self.path, self.commits(), columns, distinct=distinct)
        return connection.sql(query)

    def unjudged(
        self, connection: duckdb.DuckDBPyConnection, judge: str | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Responses that a judge was never asked about; lazy.

        A call that gave no verdict is a judgement with a status and a reason, so its response is
        not listed here.

        Parameters
        ----------
        connection
            The database that runs the query.
        judge
            The judge; any judge at all where None.

        Returns
        -------
        duckdb.DuckDBPyRelation
            Columns run, target, item, epoch, status, reason; one row for each response.
        """
        commits = self.commits()
        responses = scan("responses", live_files(self.path, commits, "responses"))
        judgements = scan("judgements", live_files(self.path, commits, "judgements"))
        condition = "true" if judge is None else f"judge = {literal(judge)}"
        key = listed(RESPONSE_KEY)
        return connection.sql(
            f"SELECT {key}, min(status) AS status, min(reason) AS reason FROM {responses} "
            f"ANTI JOIN (SELECT {key} FROM {judgements} WHERE {condition}) USING ({key}) "
            f"GROUP BY {key} ORDER BY {key}"
        )

    # --- what is added ---------------------------------------------------------------------------

    def add(self, source: Import, *, replace: bool = False) -> Committed:
        """Add the judgements of one source.

        The same source, read by the same version of the same reader with the same options, adds
        nothing. One that a newer version of the reader has read takes the place of what the older
        version made of it.

        Parameters
        ----------
        source
            What to add.
        replace
            Also let it take the place of what the same bytes gave with other options or another
            reader, where the two hold the same judgements.

        Raises
        ------
        InputError
            For a class order other than that of the study, rows unaccounted for, an unknown label,
            a judgement that stands twice or that another source has brought already, or an item
            with two intents, or a study with a part that is gone or damaged. Nothing is added
            then.
        """
        with self.naming_damage():
            return self._add(source, replace=replace)

    def _add(self, source: Import, *, replace: bool) -> Committed:
        history = self.history()
        self._refuse_other_classes(source)
        _refuse_vanished_rows(source)
        options = options_digest(map_content(source.evidence_map), source.options)
        held = self._in_force(history)
        for commit in held:
            if _holds(commit, source):
                return Committed(added=False, commit=commit.name, warnings=tuple(source.warnings))
        name, revives = _free_name(source, options, history)
        with scratch() as connection:
            incoming = Incoming(connection, source, name)
            incoming.refuse_unknown_labels((*self.classes, *self.outside))
            incoming.refuse_repeated_keys()
            superseded = self._superseded(incoming, source, held, replace=replace)
            kept = [commit for commit in held if commit.name not in superseded]
            incoming.refuse_mixed_intents(self._intents(kept))
            commit = Commit(
                schema=SCHEMA_VERSION,
                name=name,
                kind="import",
                recorded=now(),
                made_by=program_version(),
                parts=(),
                supersedes=superseded,
                origin=_origin(source, incoming, options, revives),
                warnings=(
                    *source.warnings,
                    *incoming.context_warnings(),
                    *_identity_warnings(incoming.judges(), kept),
                    *_lost_texts(source, held, superseded),
                ),
            )
            added = commit_parts(self.path, commit, incoming.write(self.path))
        return Committed(added, name, superseded if added else (), commit.warnings)

    def _refuse_other_classes(self, source: Import) -> None:
        stated = (source.evidence_map.classes, source.evidence_map.outside)
        if stated != (self.classes, self.outside):
            raise InputError(
                f"the map has the classes {said_classes(*stated)}, but the study was created with "
                f"{said_classes(self.classes, self.outside)}",
                file=source.source,
                fix=f"set classes: [{', '.join(self.classes)}] and outside: "
                f"[{', '.join(self.outside)}] in the map and translate its labels, or import into "
                "another study",
            )

    def _superseded(
        self,
        incoming: Incoming,
        source: Import,
        held: Sequence[Commit],
        *,
        replace: bool,
    ) -> tuple[str, ...]:
        """The commits that give way to this source; keys that others hold are refused."""
        older = {commit.name: commit for commit in held if _is_older_reading(commit, source)}
        gone = {commit.name for commit in held if _gives_way(commit, source)}
        runs = incoming.runs()
        owners = {
            Path(file).name: commit
            for commit in held
            if commit.name not in gone and _may_share_runs(commit, runs)
            for file in commit.files("judgements")
        }
        if not owners:
            return tuple(sorted(gone))
        paths = [self.path / "judgements" / name for name in owners]
        for found in incoming.repeats(scan("judgements", paths)):
            commit = owners[Path(found[-1]).name]
            same_bytes = commit.origin is not None and commit.origin.digest == source.source_digest
            if commit.name not in older and not (replace and same_bytes):
                raise _repeated(source, commit, found, same_bytes=same_bytes)
            gone.add(commit.name)
        return tuple(sorted(gone))

    def _intents(self, commits: Sequence[Commit]) -> str:
        """Query over the intents that the study states and that no correction has changed."""
        items = scan("items", live_files(self.path, commits, "items"))
        corrections = scan("corrections", live_files(self.path, commits, "corrections"))
        return (
            f"SELECT NULL::VARCHAR AS run, item, benchmark, intent FROM {items} "
            f"ANTI JOIN (SELECT item, benchmark FROM {corrections} WHERE field = 'intent') "
            "USING (item, benchmark) WHERE benchmark IS NOT NULL"
        )


def _publish_about(path: Path, classes: Sequence[str], outside: Sequence[str]) -> bool:
    """Make the directory a study; False where it is one already."""
    both = [*classes, *outside]
    if len(classes) < 2 or len(set(both)) != len(both):
        raise InputError(
            "a study needs at least two different classes, least compliant first", file=str(path)
        )
    Study.refuse_lost(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        ours = {ABOUT, FOLDER, *TABLES}
        if any(entry.name not in ours and entry.name[0] != "." for entry in path.iterdir()):
            raise InputError(
                "the directory holds other files and is no study",
                file=str(path),
                fix="name a new directory",
            )
        (path / FOLDER).mkdir(exist_ok=True)
        about = {
            "schema": SCHEMA_VERSION,
            "created_by": program_version(),
            "created": now(),
            "classes": list(classes),
            "outside": list(outside),
        }
        return publish((json.dumps(about, indent=1) + "\n").encode(), path / ABOUT)
    except OSError as error:
        raise InputError(
            f"no study can be created here ({error.strerror})",
            file=str(path),
            fix="name a directory that can be written",
        ) from error


def _judge_record(row: dict[str, Any], commits: Sequence[str]) -> JudgeRecord:
    identity = JudgeIdentity(
        name=row["name"],
        model=row["model"],
        decoding=json.loads(row["decoding"]),
        rubric=row["rubric"],
        parser=row["parser"],
        aggregation=row["aggregation"],
    )
    scale = Scale(
        classes=tuple(row["classes"]) if row["classes"] is not None else None,
        scale_min=row["scale_min"],
        scale_max=row["scale_max"],
        higher_is=row["higher_is"],
    )
    return JudgeRecord(identity, scale, tuple(commits))


def _refuse_vanished_rows(source: Import) -> None:
    if vanished := source.accounting.unaccounted:
        accounting = source.accounting
        raise InputError(
            f"{vanished:,} of {accounting.rows_read:,} rows are unaccounted for "
            f"(converted {accounting.converted:,}, skipped {sum(accounting.skipped.values()):,}, "
            f"failed {accounting.failed:,})",
            file=source.source,
            fix=f"this is a defect of the reader {source.reader!r}: report it",
        )


def _origin(source: Import, incoming: Incoming, options: str, revives: tuple[str, ...]) -> Origin:
    return Origin(
        location=source.source,
        digest=source.source_digest,
        reader=source.reader,
        reader_version=source.reader_version,
        options=options,
        evidence_map=map_content(source.evidence_map),
        other_options=dict(source.options),
        revives=revives,
        accounting=source.accounting,
        judgements=incoming.rows,
        runs=incoming.runs(),
        judges=incoming.judges(),
    )


def _holds(commit: Commit, source: Import) -> bool:
    """Whether a commit holds this source, read alike by the same or a newer reader."""
    origin = commit.origin
    return (
        origin is not None
        and _is_read_alike(origin, source)
        and origin.reader_version >= source.reader_version
        and (INCLUDE_TEXT in origin.other_options or INCLUDE_TEXT not in source.options)
    )


def _gives_way(commit: Commit, source: Import) -> bool:
    """Whether a commit holds the same, read by an older reader or without the texts wanted now."""
    origin = commit.origin
    if origin is None or not _is_read_alike(origin, source):
        return False
    lacks_texts = INCLUDE_TEXT in source.options and INCLUDE_TEXT not in origin.other_options
    behind = source.reader_version - origin.reader_version
    return behind > 0 or (behind == 0 and lacks_texts)


def _is_read_alike(origin: Origin, source: Import) -> bool:
    """Whether the bytes, the reader and every option that decides a judgement are the same."""
    return (origin.digest, origin.reader) == (source.source_digest, source.reader) and (
        _judging(origin.evidence_map, origin.other_options)
        == _judging(map_content(source.evidence_map), source.options)
    )


def _judging(evidence_map: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Digest of the options that decide what a judgement becomes."""
    return options_digest(
        evidence_map, {name: value for name, value in options.items() if name != INCLUDE_TEXT}
    )


def _lost_texts(source: Import, held: Sequence[Commit], superseded: Sequence[str]) -> list[str]:
    """A sentence where what gives way holds texts and what takes its place does not."""
    if INCLUDE_TEXT in source.options or not any(
        commit.files("texts") for commit in held if commit.name in superseded
    ):
        return []
    said = "The texts that an earlier import of this source kept are no longer read"
    return [f"{said}; import it with --include-text to keep them."]


def _is_older_reading(commit: Commit, source: Import) -> bool:
    origin = commit.origin
    return (
        origin is not None
        and (origin.digest, origin.reader) == (source.source_digest, source.reader)
        and origin.reader_version < source.reader_version
    )


def _may_share_runs(commit: Commit, runs: Sequence[str] | None) -> bool:
    """Whether a commit can hold a key of one of these runs; True where they are not listed."""
    if commit.origin is None:
        return False
    return (
        runs is None or commit.origin.runs is None or not set(runs).isdisjoint(commit.origin.runs)
    )


def _free_name(
    source: Import, options: str, history: Sequence[Commit]
) -> tuple[str, tuple[str, ...]]:
    """The name of the new commit, and the commits that it revives itself against."""
    ingredients = (source.source_digest, source.reader, source.reader_version, options)
    name = import_name(*ingredients)
    if name not in {commit.name for commit in history}:
        return name, ()
    revives = tuple(
        sorted(
            commit.name
            for commit in live(history)
            if commit.origin is not None and commit.origin.digest == source.source_digest
        )
    )
    return import_name(*ingredients, revives), revives


def _repeated(
    source: Import, commit: Commit, found: Sequence[Any], *, same_bytes: bool
) -> InputError:
    origin = commit.origin
    held = f"import {commit.name[:8]} of {origin.location}" if origin else commit.name[:8]
    fix = (
        "it is the same file read with another map: use --replace, or undo the change"
        if same_bytes
        else "give this source a run of its own (`run` in the map), or import it into another study"
    )
    return InputError(
        f"the judgement {said_key(found)} is in the study already, from {held}",
        file=source.source,
        row=found[-2],
        fix=fix,
    )


def _identity_warnings(judges: Mapping[str, Sequence[str]], commits: Sequence[Commit]) -> list[str]:
    """Sentences about judges that stand under one name with more than one identity."""
    known: dict[str, set[str]] = {name: set(digests) for name, digests in judges.items()}
    for commit in commits:
        for name, digests in (commit.origin.judges if commit.origin else {}).items():
            if name in known:
                known[name].update(digests)
    return swap_warnings(known)


def said_classes(classes: Sequence[str], outside: Sequence[str]) -> str:
    """A class order in words."""
    order = " < ".join(classes)
    return f"{order} (outside: {', '.join(outside)})" if outside else order
