"""Which coefficients are shown, and the classes that each of them looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.judges.agreement.tables import (
    Disagreement,
    PanelSums,
    agreement_weights,
    cohen,
    fleiss,
    gwet,
    krippendorff,
    raw_disagreement,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

OF_PAIRS: Final = ("raw", "cohen", "cohen_linear", "cohen_quadratic", "gwet_ac1", "gwet_ac2")
OF_PANELS: Final = (
    "raw",
    "fleiss",
    "krippendorff_nominal",
    "krippendorff_ordinal",
    "krippendorff_interval",
    "gwet_ac1",
    "gwet_ac2",
)
OF_ORDERED: Final = frozenset(
    {
        "cohen_linear",
        "cohen_quadratic",
        "krippendorff_ordinal",
        "krippendorff_interval",
        "gwet_ac2",
    }
)
"""Coefficients that know how far apart classes are; classes outside the order have no place."""


@dataclass(frozen=True)
class Scale:
    """Classes that some judges had to choose from.

    Parameters
    ----------
    classes
        Positions of all of them, rising, shape ``(q,)``.
    ordered
        Positions of those in the order, shape ``(o,)``; also their values.
    """

    classes: IntArray
    ordered: IntArray

    @classmethod
    def of(cls, can_emit: BoolArray, ordered: int) -> Scale:
        """The classes that any of the judges can emit.

        Parameters
        ----------
        can_emit
            Shape ``(n, K)``.
        ordered
            How many of the K classes are in the order.
        """
        classes = np.flatnonzero(can_emit.any(axis=0))
        return cls(classes, classes[classes < ordered])


def pair_disagreements(tables: FloatArray, scale: Scale) -> Disagreement:
    """The coefficients `OF_PAIRS` of pairs of judges with one scale.

    Parameters
    ----------
    tables
        Pair tables over all K classes, shape ``(..., K, K)``.
    scale
        The classes to look at.

    Returns
    -------
    Arrays of shape ``(..., 6)``. Responses with a class outside the order do not enter the
    coefficients of ordered classes.
    """
    whole = tables[..., scale.classes[:, None], scale.classes]
    ordered = tables[..., scale.ordered[:, None], scale.ordered]
    sums, ordered_sums = PanelSums.of_pair(whole), PanelSums.of_pair(ordered)
    linear, quadratic, ranks = (
        agreement_weights(name, scale.ordered) for name in ("linear", "quadratic", "ordinal")
    )
    return _stacked(
        [
            raw_disagreement(sums),
            cohen(whole),
            cohen(ordered, linear),
            cohen(ordered, quadratic),
            gwet(sums),
            gwet(ordered_sums, ranks),
        ]
    )


def panel_disagreements(sums: PanelSums, ordered: PanelSums, scale: Scale) -> Disagreement:
    """The coefficients `OF_PANELS` of a panel.

    Parameters
    ----------
    sums
        Of all verdicts, over all K classes.
    ordered
        Of the verdicts in the order alone, over the classes of the order.
    scale
        The classes to look at.

    Returns
    -------
    Arrays of shape ``(..., 7)``.
    """
    whole, part = sums.only(scale.classes), ordered.only(scale.ordered)
    return _stacked(
        [
            raw_disagreement(whole),
            fleiss(whole),
            krippendorff(whole, "nominal"),
            krippendorff(part, "ordinal"),
            krippendorff(part, "interval", scale.ordered),
            gwet(whole),
            gwet(part, agreement_weights("ordinal", scale.ordered)),
        ]
    )


def _stacked(parts: Sequence[Disagreement]) -> Disagreement:
    return Disagreement(
        np.stack([part.observed for part in parts], -1),
        np.stack([part.expected for part in parts], -1),
    )
