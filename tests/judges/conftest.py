"""Panels made of codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest

from safemetry.judges.panel import Column, Panel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# A roster after published counts: 18 judges of the same 900 responses. Comply runs from 9 to 223.
COMPLY = (223, 215, 209, 204, 198, 190, 181, 176, 170, 161, 152, 148, 139, 121, 110, 40, 15, 9)
# Non-refusal (comply and evasive) hardly moves: what is missing from comply lies one class lower.
NON_REFUSAL = (
    *(430, 425, 421, 418, 410, 402, 398, 390, 388, 380, 371, 366, 350, 341, 333),
    *(300, 260, 225),
)


def make_panel(
    labels: ArrayLike,
    *,
    classes: Sequence[str] = ("refuse", "evasive", "comply"),
    ordered: int | None = None,
    judges: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    intent: Sequence[str | None] | None = None,
    behaviour: Sequence[str | None] | None = None,
    category: Sequence[str | None] | None = None,
    can_emit: ArrayLike | None = None,
) -> Panel:
    """A panel of labels ``(R, J)``, or of calls ``(C, R, J)``."""
    calls = np.asarray(labels, np.int8)
    calls = calls if calls.ndim == 3 else calls[None]
    _, rows, width = calls.shape
    names = tuple(judges or (f"judge-{place}" for place in range(width)))
    used = np.array(
        [[(calls[:, :, j] == k).any() for k in range(len(classes))] for j in range(width)]
    )

    def column(values: Sequence[str | None] | None) -> Column:
        if values is None:
            return Column((), np.full(rows, -1, np.int64))
        known = tuple(sorted({value for value in values if value is not None}))
        return Column(known, np.array([known.index(v) if v is not None else -1 for v in values]))

    return Panel(
        judges=names,
        classes=tuple(classes),
        ordered=len(classes) if ordered is None else ordered,
        calls=calls,
        can_emit=used if can_emit is None else np.asarray(can_emit, bool),
        declared=np.full(width, can_emit is not None),
        target=column(targets or ["m"] * rows),
        item=Column(tuple(map(str, range(rows))), np.arange(rows)),
        run=Column(("run",), np.zeros(rows, np.int64)),
        epoch=np.ones(rows, np.int64),
        intent=column(intent),
        category=column(category),
        behaviour=column(behaviour),
        missing={name: {} for name in names},
    )


@pytest.fixture
def panel_from() -> Callable[..., Panel]:
    """The maker of panels."""
    return make_panel


@pytest.fixture
def roster() -> Panel:
    """Nested labels: a judge that is stricter says comply to fewer of the same responses."""
    severity = np.random.default_rng(7).permutation(900)
    labels = [
        np.where(severity < comply, 2, np.where(severity < more, 1, 0))
        for comply, more in zip(COMPLY, NON_REFUSAL, strict=True)
    ]
    names = [f"judge-{place:02d}" for place in range(len(COMPLY))]
    return make_panel(np.stack(labels, axis=1), judges=names)
