"""What every part of an audit starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from safemetry.audits.settings import AuditSettings
from safemetry.irt.parameters import BoolArray
from safemetry.irt.responses import Responses
from safemetry.tasks import task_generator


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
        return self.responses.select_targets(self.is_target)

    @property
    def others(self) -> Responses:
        """All others."""
        return self.responses.select_targets(~self.is_target)

    def values(self, by: str, items: Sequence[str]) -> list[str | None]:
        """A property of items, None where unknown."""
        known = self.properties.get(by, {})
        return [known.get(item) for item in items]


def some_of(names: Sequence[str], most: int = 8) -> str:
    """The first names, for a message."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
