"""Where the runs of a HELM output lie: one run folder, or a tree of suites, local or behind a URL.

HELM writes each run into a folder ``benchmark_output/runs/SUITE/RUN/`` with ``run_spec.json``. A
server of such a tree need not list its folders, so the index files that ``helm-summarize`` leaves
beside the runs are asked first.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from safemetry.errors import InputError, SafemetryError
from safemetry.evidence.maps import Limits
from safemetry.extras import require
from safemetry.readers.source import Source

RUN_SPEC: Final = "run_spec.json"
STATE: Final = "scenario_state.json"
PREDICTIONS: Final = "display_predictions.json"
INSTANCES: Final = "instances.json"
PER_INSTANCE: Final = "per_instance_stats.json"
STATS: Final = "stats.json"

SUITES_INDEX: Final = "runs_to_run_suites.json"
SPECS_INDEX: Final = "run_specs.json"

_MARKS: Final = {
    RUN_SPEC: b'"adapter_spec"',
    STATE: b'"adapter_spec"',
    PER_INSTANCE: b'"instance_id"',
}
"""Files that make a folder a run, and a key that HELM writes near their beginning."""

_DEPTH: Final = 6
_ENTRIES: Final = 500_000
_SNIFFED: Final = 2_000
_LISTINGS: Final = 10_000
_LISTINGS_SNIFFED: Final = 20
_ABSENT: Final = {403, 404, 410}
"""HTTP answers that stand for an absent file; a bucket that lists nothing says 403 for it."""
_FILE_ENDINGS: Final = (
    ".json",
    ".jsonl",
    ".csv",
    ".tsv",
    ".parquet",
    ".eval",
    ".zip",
    ".gz",
    ".db",
    ".sqlite",
    ".txt",
)


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run.

    Parameters
    ----------
    location
        Path or URL.
    run
        Name of the run in the evidence.
    limits
        Size limits.
    """

    location: str
    run: str
    limits: Limits

    def source(self, name: str) -> Source:
        """One file of the folder."""
        return Source(_join(self.location, name), self.limits)

    def document(self, name: str) -> Any | None:
        """One JSON file of the folder, or None where it is absent; NaN is kept as a float."""
        return _document(self.source(name))

    def fits(self, name: str) -> bool:
        """Whether a file is within the limit for documents, as far as its size is known."""
        size = _size(self.source(name))
        return size is None or size <= self.limits.document_bytes


@dataclass(frozen=True)
class Found:
    """The runs of a source.

    Parameters
    ----------
    runs
        In the order of their names.
    is_tree
        Whether the source is a tree of runs rather than one run.
    links
        Links to folders outside the tree, which are not followed.
    """

    runs: Sequence[RunFolder]
    is_tree: bool
    links: int = 0


def find_runs(source: Source) -> Found:
    """Every run folder of a source.

    Raises
    ------
    InputError
        Where there is none, or the tree is larger than a benchmark output can be.
    """
    if source.is_remote:
        return _remote_runs(source)
    if not source.path.exists():
        raise InputError("no such file or folder", file=source.location)
    if not source.is_folder:
        raise InputError(
            "is no HELM run folder", file=source.location, fix="give the folder that holds the file"
        )
    if is_run_folder(source.path):
        run = source.path.name or source.path.resolve().name
        return Found([RunFolder(source.location, run, source.limits)], is_tree=False)
    walk = _Walk(source.path, _ENTRIES)
    folders = sorted(walk.run_folders())
    if walk.exhausted:
        raise InputError(
            f"holds more than {_ENTRIES:,} files and folders",
            file=source.location,
            fix="give the folder of one suite (benchmark_output/runs/SUITE)",
        )
    if not folders:
        raise InputError(
            f"holds no HELM run (a folder with {RUN_SPEC})",
            file=source.location,
            fix="give a run folder, or the benchmark_output folder above it",
        )
    root = source.path.resolve().name
    names = _run_names([(root, *folder.relative_to(source.path).parts) for folder in folders])
    runs = [
        RunFolder(str(folder), name, source.limits)
        for folder, name in zip(folders, names, strict=True)
    ]
    return Found(runs, is_tree=True, links=walk.links)


def looks_like_helm(source: Source) -> bool:
    """Whether a folder or URL holds HELM runs, from a bounded look at it."""
    if source.is_remote:
        return _remote_looks_like_helm(source)
    if not source.is_folder:
        return False
    if is_run_folder(source.path):
        return True
    return next(_Walk(source.path, _SNIFFED).run_folders(), None) is not None


def is_run_folder(folder: Path) -> bool:
    """Whether a local folder has one of the files of a run, by a key that HELM writes into it."""
    return any(_has_mark(folder / name, mark) for name, mark in _MARKS.items())


def _has_mark(path: Path, mark: bytes) -> bool:
    try:
        return path.is_file() and mark in Source(str(path)).head
    except (InputError, OSError):
        return False


class _Walk:
    """A breadth-first walk that follows no links to folders and stops after so many entries."""

    def __init__(self, root: Path, most: int) -> None:
        self.root = root
        self.left = most
        self.links = 0
        self.exhausted = False

    def run_folders(self) -> Iterator[Path]:
        queue = deque([(self.root, 0)])
        inside = self.root.resolve()
        while queue and not self.exhausted:
            folder, depth = queue.popleft()
            if depth and is_run_folder(folder):
                yield folder
            elif depth < _DEPTH:
                queue.extend((below, depth + 1) for below in self._folders(folder, inside))

    def _folders(self, folder: Path, inside: Path) -> list[Path]:
        try:
            with os.scandir(folder) as listing:
                entries = list(islice(listing, self.left + 1))
        except OSError as error:
            raise InputError(
                f"cannot be read ({error.strerror or error})", file=str(folder)
            ) from error
        self.left -= len(entries)
        if self.left < 0:
            self.exhausted = True
            return []
        found = []
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                found.append(Path(entry.path))
            elif entry.is_symlink() and entry.is_dir():
                # HELM itself leaves a link `latest` to a suite of the same tree, read there anyway.
                self.links += not Path(entry.path).resolve().is_relative_to(inside)
        return found


def _run_names(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """``SUITE/RUN``, or the path below the root where two runs would share that name."""
    short = ["/".join(path[-2:]) for path in paths]
    times = Counter(short)
    return [
        name if times[name] == 1 else "/".join(path[1:])
        for name, path in zip(short, paths, strict=True)
    ]


# --- documents ----------------------------------------------------------------------------------


def _join(location: str, name: str) -> str:
    return f"{location.rstrip('/')}/{name}" if "://" in location else str(Path(location) / name)


def _document(source: Source) -> Any | None:
    text = _remote_text(source) if source.is_remote else _local_text(source)
    return None if text is None else source.parse_json(text, constant=float)


def _local_text(source: Source) -> str | None:
    if not source.path.exists():
        return None
    if not source.path.is_file():
        raise InputError("is not a regular file", file=source.location)
    return source.read_text()


def _remote_text(source: Source) -> str | None:
    """The text behind a URL, or None where there is nothing or a web page in its place."""
    try:
        text = source.read_text()
    except SafemetryError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise
    except Exception as error:
        # Every file system of fsspec has errors of its own.
        if getattr(error, "status", None) in _ABSENT:
            return None
        raise InputError(
            f"cannot be read ({type(error).__name__})", file=source.location
        ) from error
    return None if text.lstrip()[:1] == "<" else text


def _size(source: Source) -> int | None:
    if source.is_remote:
        try:
            files, path = require("fsspec").core.url_to_fs(source.location)
            size = files.info(path).get("size")
        except SafemetryError:
            raise
        except Exception:  # noqa: BLE001 - as above; the read that follows says what is wrong
            return None
        return size if isinstance(size, int) else None
    return source.size if source.path.is_file() else None


# --- behind a URL -------------------------------------------------------------------------------


def _remote_runs(source: Source) -> Found:
    base = source.location.rstrip("/")
    if _document(Source(_join(base, RUN_SPEC), source.limits)) is not None:
        return Found([RunFolder(base, _last(base), source.limits)], is_tree=False)
    urls = sorted(set(_indexed(source) or _listed(base, _LISTINGS)))
    if not urls:
        raise InputError(
            f"gives neither {RUN_SPEC} nor {SUITES_INDEX} nor {SPECS_INDEX} nor a listing of its "
            "folders",
            file=source.location,
            fix="give the URL of a run folder (.../benchmark_output/runs/SUITE/RUN) or of a suite "
            "that helm-summarize has written",
        )
    parts = [tuple(unquote(part) for part in url.split("/")) for url in urls]
    runs = [
        RunFolder(url, name, source.limits)
        for url, name in zip(urls, _run_names(parts), strict=True)
    ]
    return Found(runs, is_tree=True)


def _last(url: str) -> str:
    return unquote(url.rpartition("/")[2])


def _indexed(source: Source) -> list[str]:
    """Run folders that the index files of a suite or a release name."""
    base = source.location.rstrip("/")
    above, _, _ = base.rpartition("/")
    suites = _document(Source(_join(base, SUITES_INDEX), source.limits))
    if isinstance(suites, dict) and all(isinstance(suite, str) for suite in suites.values()):
        if _last(above) == "releases":
            # A release has no runs of its own: they lie in the suites that it is made of.
            root = f"{above.rpartition('/')[0]}/runs"
            return [
                _join(root, f"{_as_url(base, suite)}/{_as_url(base, run)}")
                for run, suite in suites.items()
            ]
        return [_join(base, _as_url(base, run)) for run in suites]
    specs = _document(Source(_join(base, SPECS_INDEX), source.limits))
    if isinstance(specs, list):
        names = [spec.get("name") for spec in specs if isinstance(spec, dict)]
        return [_join(base, _as_url(base, name)) for name in names if isinstance(name, str)]
    return []


def _as_url(base: str, name: str) -> str:
    return quote(name, safe=":=,@+;!$'()*~") if base.startswith(("http://", "https://")) else name


def _listed(base: str, most: int) -> list[str]:
    """Run folders below a URL whose file system can list, looking into at most so many folders."""
    files, root = require("fsspec").core.url_to_fs(base)
    queue = deque([(root, 0)])
    found = []
    while queue and most > 0:
        folder, depth = queue.popleft()
        most -= 1
        below = _listing(files, folder)
        names = {entry["name"].rstrip("/").rpartition("/")[2] for entry in below}
        if RUN_SPEC in names and depth:
            found.append(str(files.unstrip_protocol(folder)).rstrip("/"))
        elif depth < _DEPTH:
            queue.extend(
                (entry["name"], depth + 1) for entry in below if entry.get("type") == "directory"
            )
    return found


def _listing(files: Any, folder: str) -> list[dict[str, Any]]:
    try:
        entries = files.ls(folder, detail=True)
    except Exception:  # noqa: BLE001 - a server that lists nothing answers in many ways
        return []
    here = folder.rstrip("/")
    return [entry for entry in entries if entry["name"].rstrip("/").startswith(f"{here}/")]


def _remote_looks_like_helm(source: Source) -> bool:
    base = source.location.rstrip("/")
    if base.lower().endswith(_FILE_ENDINGS):
        return False
    marks = {RUN_SPEC: b'"adapter_spec"', SPECS_INDEX: b'"adapter_spec"', SUITES_INDEX: b"model="}
    if any(mark in _remote_head(_join(base, name)) for name, mark in marks.items()):
        return True
    return bool(_listed(base, _LISTINGS_SNIFFED))


def _remote_head(url: str) -> bytes:
    try:
        head = Source(url).head
    except SafemetryError as error:
        if isinstance(error, InputError):
            return b""
        raise
    except Exception:  # noqa: BLE001 - every file system of fsspec has errors of its own
        return b""
    return b"" if head.lstrip()[:1] == b"<" else head
