"""What every part of an audit starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from safemetry.audits.settings import AuditSettings
from safemetry.irt.parameters import BoolArray
from safemetry.irt.responses import Responses
from safemetry.tasks import task_generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]


@dataclass(frozen=True)
class AuditWork:
    """What every part of an audit starts from."""

    settings: AuditSettings
    responses: Responses
    target: str
    properties: Mapping[str, Mapping[str, str]]

    def rng(self, part: str) -> np.random.Generator:
        """Random numbers of one part, which do not depend on the others."""
        return task_generator(self.settings.seed, part)

    @property
    def is_target(self) -> BoolArray:
        """Which rows are the target's."""
        return np.array([name == self.target for name in self.responses.targets], bool)

    @property
    def now(self) -> Responses:
        """The target alone."""
        return rows_of(self.responses, self.is_target)

    @property
    def others(self) -> Responses:
        """All others."""
        return rows_of(self.responses, ~self.is_target)

    def values(self, by: str, items: Sequence[str]) -> list[str | None]:
        """A property of items, None where unknown."""
        known = self.properties.get(by, {})
        return [known.get(item) for item in items]


def rows_of(responses: Responses, chosen: BoolArray) -> Responses:
    """The responses of some targets."""
    return replace(
        responses,
        codes=np.ascontiguousarray(responses.codes[chosen]),
        targets=tuple(
            name for name, kept in zip(responses.targets, chosen.tolist(), strict=True) if kept
        ),
        weights=responses.weights[chosen],
    )


def some_of(names: Sequence[str], most: int = 8) -> str:
    """The first names, for a message."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
