"""Commits: the records that make parts count, each written once, last and whole."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import SCHEMA_VERSION
from safemetry.evidence.study_tables import Part

FOLDER: Final = "imports"
"""Folder of the commit files within a study."""


class _Record(BaseModel):
    """Written once and never changed; keys that a later version adds are passed over."""

    model_config = ConfigDict(frozen=True)


class Accounting(_Record):
    """What became of each row of a source: none may vanish.

    Attributes
    ----------
    rows_read
        Rows of the source, in the unit that the source counts by.
    converted
        Rows that became judgements.
    skipped
        Reason -> rows that carry no judgement by their nature.
    failed
        Rows that should have become judgements and could not.
    """

    rows_read: int = Field(ge=0)
    converted: int = Field(ge=0)
    skipped: dict[str, int] = Field(default_factory=dict)
    failed: int = Field(default=0, ge=0)

    @property
    def unaccounted(self) -> int:
        """Rows read less those converted, skipped and failed; 0 where all is well."""
        return self.rows_read - self.converted - sum(self.skipped.values()) - self.failed


class Origin(_Record):
    """Where imported evidence comes from and how it was read.

    Attributes
    ----------
    location
        The source as the user named it.
    digest
        Digest of its bytes.
    reader, reader_version
        What read it.
    options
        Digest of the map and the other options (size limits left out: they change no judgement).
    evidence_map, other_options
        The options themselves.
    revives
        Superseded commits that this one puts back in force (see `import_name`).
    accounting
        What became of each row.
    judgements
        Number of judgements, which all its parts together must hold.
    runs
        The runs it holds, or None where they are too many to list.
    judges
        Judge -> digests of its identities.
    """

    location: str
    digest: str
    reader: str
    reader_version: int
    options: str
    evidence_map: dict[str, Any]
    other_options: dict[str, Any]
    revives: tuple[str, ...] = ()
    accounting: Accounting
    judgements: int = Field(ge=0)
    runs: tuple[str, ...] | None
    judges: dict[str, tuple[str, ...]]


class Commit(_Record):
    """One addition to a study.

    Attributes
    ----------
    name
        Digest that names the file; for an import, of the source bytes, the reader and its options.
    kind
        ``import`` or ``corrections``.
    recorded, made_by
        When (UTC) and by which version of the program.
    parts
        The files that this commit makes part of the study.
    supersedes
        Commits whose parts are no longer read.
    origin
        Of an import: its source and reader.
    fields, content
        Of corrections: the fields that are corrected, and the digest of the rows.
    warnings
        What a reader of the numbers must know.
    """

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    name: str
    kind: Literal["import", "corrections"]
    recorded: str
    made_by: str
    parts: tuple[Part, ...]
    supersedes: tuple[str, ...] = ()
    origin: Origin | None = None
    fields: tuple[str, ...] = ()
    content: str = ""
    warnings: tuple[str, ...] = ()

    def files(self, table: str) -> tuple[str, ...]:
        """The files of one table, in the order of their rows."""
        return tuple(part.file for part in self.parts if part.table == table)

    @property
    def classes(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Class order and the classes outside it by which an import was read."""
        stated = self.origin.evidence_map if self.origin is not None else {}
        if "classes" not in stated:
            return None
        return tuple(stated["classes"]), tuple(stated.get("outside") or ())

    @property
    def expected_name(self) -> str:
        """The name that follows from the content."""
        if self.origin is None:
            return self.content
        origin = self.origin
        return import_name(
            origin.digest,
            origin.reader,
            origin.reader_version,
            options_digest(origin.evidence_map, origin.other_options),
            origin.revives,
        )


class DamagedCommitError(InputError):
    """A commit file that does not say what was written.

    Attributes
    ----------
    kind
        ``damaged_commit``, ``altered_commit``, ``renamed_commit`` or ``newer_schema``.
    """

    def __init__(self, kind: str, problem: str, file: Path, fix: str) -> None:
        self.kind = kind
        super().__init__(problem, file=str(file), fix=fix)


def now() -> str:
    """The moment in UTC, to the microsecond; such texts sort by time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def program_version() -> str:
    """Version of the program, for the record."""
    return version("safemetry")


def _digest(content: Any, digits: int = 32) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def map_content(evidence_map: EvidenceMap) -> dict[str, Any]:
    """A map as a commit keeps it: all that decides what a judgement becomes."""
    return evidence_map.model_dump(mode="json", exclude={"limits"})


def options_digest(evidence_map: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits over the map and the other options of an import."""
    return _digest([evidence_map, other], 16)


def import_name(
    source_digest: str,
    reader: str,
    reader_version: int,
    options: str,
    revives: Sequence[str] = (),
) -> str:
    """Name of the commit of one source read in one way.

    Where that commit exists already but was superseded, the commits that have to give way to it
    take part in the digest, so that the same evidence can come into force again under a new name.
    """
    return _digest([source_digest, reader, reader_version, options, *revives])


def content_digest(content: Any) -> str:
    """Thirty-two hexadecimal digits over JSON values."""
    return _digest(content)


def commit_path(study: Path, name: str) -> Path:
    """Where a commit lies."""
    return study / FOLDER / f"{name}.json"


def commit_files(study: Path) -> list[Path]:
    """The commit files of a study, in the order of their names."""
    return sorted(path for path in (study / FOLDER).glob("*.json") if path.name[0] != ".")


def is_intact(study: Path, part: Part) -> bool:
    """Whether a part has the bytes that were written; reads all of it."""
    with (study / part.file).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == part.sha256


def commit_parts(study: Path, commit: Commit, parts: Iterable[Part]) -> bool:
    """Write parts and then the commit that makes them count.

    Parameters
    ----------
    study
        The directory of the study.
    commit
        The commit without its parts.
    parts
        The parts; each is written as it is asked for. Where anything fails they are removed.

    Returns
    -------
    bool
        False where another writer has published the same commit first.
    """
    written: list[Part] = []
    try:
        for part in parts:
            written.append(part)  # noqa: PERF402 (the list must grow while parts are written)
        added = write_commit(study, commit.model_copy(update={"parts": tuple(written)}))
    except BaseException:
        if not commit_path(study, commit.name).exists():
            _remove(study, written)
        raise
    if not added:
        _remove(study, written)
    return added


def _remove(study: Path, parts: Iterable[Part]) -> None:
    for part in parts:
        (study / part.file).unlink(missing_ok=True)


def write_commit(study: Path, commit: Commit) -> bool:
    """Publish a commit whose parts are written; False where the same one exists."""
    content = commit.model_dump(mode="json", by_alias=True)
    content["seal"] = _seal(content)
    for folder in sorted({study, *((study / part.file).parent for part in commit.parts)}):
        settle(folder)
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    return publish(text.encode(), commit_path(study, commit.name))


def read_commit(path: Path) -> Commit:
    """Read a commit and verify that it says what was written.

    Raises
    ------
    DamagedCommitError
        Where it is cut short, altered, renamed, or of a newer version of the program.
    """
    fix = "restore the file from a copy, or import the source again"
    try:
        content = json.loads(path.read_bytes())
        schema_version = content["schema"]
        if isinstance(schema_version, int) and schema_version > SCHEMA_VERSION:
            raise DamagedCommitError(
                "newer_schema",
                f"was written by a newer version of safemetry (schema {schema_version})",
                path,
                "upgrade safemetry",
            )
        commit = Commit.model_validate(content)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=str(path)) from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise DamagedCommitError(
            "damaged_commit", f"the commit is damaged or cut short ({said})", path, fix
        ) from error
    if content.pop("seal", None) != _seal(content):
        raise DamagedCommitError("altered_commit", "the commit was altered", path, fix)
    if not path.stem == commit.name == commit.expected_name:
        raise DamagedCommitError(
            "renamed_commit",
            "the name of the commit is not the digest of its source, reader and options",
            path,
            fix,
        )
    return commit


def _seal(content: Mapping[str, Any]) -> str:
    return _digest(content, 64)


def live(commits: Sequence[Commit]) -> list[Commit]:
    """The commits that no other supersedes."""
    gone = {name for commit in commits for name in commit.supersedes}
    return [commit for commit in commits if commit.name not in gone]


def publish(content: bytes, path: Path) -> bool:
    """Create a file at once and whole, or leave the one that is there.

    The content is written and flushed under another name in the same folder and then linked to
    its own: a reader sees the whole file or none, and of two writers one succeeds.

    Returns
    -------
    bool
        False where the file existed.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        created = _link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    settle(path.parent)
    return created


def _link(draft: Path, path: Path) -> bool:
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:
        # A file system without hard links. Renaming is whole too, but does not exclude a second
        # writer in the instant after the question; both would write the same commit.
        if path.exists():
            return False
        draft.replace(path)
    return True


def settle(folder: Path) -> None:
    """Flush the entries of a folder, so that its new files survive a loss of power."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
