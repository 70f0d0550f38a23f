"""Responses and calibrated items side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.curves import Codes
from safemetry.errors import InputError
from safemetry.irt.matching import check_items
from safemetry.irt.parameters import IntArray
from safemetry.irt.responses import Responses

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Audited:
    """Responses of N targets to J calibrated items.

    Parameters
    ----------
    targets
        Names.
    codes
        Shape ``(N, J)``, -1 where missing.
    calibrated
        The same items in the same order.
    columns
        Their positions in the responses that were given, shape ``(J,)``.
    """

    targets: tuple[str, ...]
    codes: Codes
    calibrated: Calibrated
    columns: IntArray

    @property
    def binary(self) -> bool:
        """Whether all items have two categories."""
        return bool(self.calibrated.parameters.intercepts.shape[1] == 1)

    def arranged(self, order: NDArray[np.integer[Any]]) -> Audited:
        """The same with the items in another order."""
        return replace(
            self,
            codes=np.ascontiguousarray(self.codes[:, order]),
            calibrated=self.calibrated.select(order.astype(np.int64)),
            columns=self.columns[order],
        )


def align(responses: Responses, calibrated: Calibrated) -> tuple[Audited, tuple[str, ...]]:
    """Match items by name.

    Returns
    -------
    tuple
        What is audited, and remarks about items that were left out.

    Raises
    ------
    InputError
        Where no item is calibrated, names repeat, or a response is beyond the categories.
    """
    places = {item: place for place, item in enumerate(calibrated.items)}
    for names, what in ((responses.items, "item"), (responses.targets, "target")):
        if len(set(names)) < len(names):
            raise InputError(f"a name of an {what} is repeated in the responses")
    columns = np.array(
        [column for column, item in enumerate(responses.items) if item in places], np.int64
    )
    if not columns.size:
        raise InputError(
            "no item of the responses is calibrated",
            fix="name the items as in the calibration",
        )
    kept = responses.select_items(columns)
    chosen = calibrated.select(np.array([places[item] for item in kept.items], np.int64))
    check_items(kept, chosen.parameters)
    absent = len(responses.items) - len(columns)
    remarks = (
        ()
        if not absent
        else (f"{absent:,} of {len(responses.items):,} items are not calibrated and left out.",)
    )
    return Audited(kept.targets, kept.codes, chosen, columns), remarks
