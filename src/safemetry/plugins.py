"""Parts that this and other packages add through entry points: readers, sections of the report."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

Part = TypeVar("Part")


@dataclass(frozen=True)
class Plugins(Generic[Part]):
    """What the entry points of a group gave.

    Parameters
    ----------
    by_name
        Parts that work, by name: those of this package first, then in the order of their names.
    broken
        Name -> what is wrong, for entry points of other packages that cannot be used. They stop
        nobody who does not ask for them.
    """

    by_name: Mapping[str, Part]
    broken: Mapping[str, str]


def load_plugins(
    group: str, protocol: Any, *, parts: str, taken: Collection[str] = ()
) -> Plugins[Any]:
    """The parts that the entry points of a group name.

    An entry point names a class without parameters, under the `name` that its instances have. A
    name that is taken already is no use to anybody: it could mean either.

    Parameters
    ----------
    group
        Group of entry points.
    protocol
        Runtime-checkable protocol that each part follows.
    parts
        What the protocol asks for, in words.
    taken
        Names that no entry point may have.

    Raises
    ------
    Exception
        Whatever an entry point of this package raises: that is a defect of ours.
    """
    by_name: dict[str, Any] = {}
    broken: dict[str, str] = {}
    # Ours first, so that a name that another package takes too stays ours.
    points = sorted(
        entry_points(group=group), key=lambda point: (not _is_ours(point), point.name, point.value)
    )
    for point in points:
        if point.name in {*taken, *by_name, *broken}:
            broken.setdefault(
                f"{point.name} of {_package(point)}", f"another one is called {point.name!r} too"
            )
            continue
        try:
            by_name[point.name] = _load(point, protocol, parts)
        except Exception as error:
            if _is_ours(point):
                raise
            said = " ".join(str(error).split())[:200]
            broken[point.name] = (
                f"the package {_package(point)} cannot load it ({type(error).__name__}: {said})"
            )
    return Plugins(by_name, broken)


def _is_ours(point: EntryPoint) -> bool:
    return point.value.startswith("safemetry.")


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _load(point: EntryPoint, protocol: Any, parts: str) -> Any:
    part = point.load()()
    if not isinstance(part, protocol):
        msg = f"it lacks {parts}"
        raise TypeError(msg)
    if part.name != point.name:
        msg = f"it calls itself {part.name!r}"
        raise TypeError(msg)
    return part
