"""A row of the table from observed and simulated statistics."""

from __future__ import annotations

import numpy as np

from safemetry.construct.dif.effects import delta_classes, delta_of_group
from safemetry.construct.dif.mantel_haenszel import DELTA_PER_LOGIT
from safemetry.construct.dif.plan import PlannedRow
from safemetry.construct.dif.result import DifferenceRow, ItemDifference
from safemetry.construct.dif.settings import DifferencesSettings
from safemetry.construct.dif.thresholds import family_threshold, simulated_p_values
from safemetry.construct.dif.undefined import Undefined
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray


def make_row(
    planned: PlannedRow, settings: DifferencesSettings, maxima: FloatArray, at_least: IntArray
) -> DifferenceRow:
    """Compare what was observed with what was simulated.

    Parameters
    ----------
    planned
        The row with its observed statistics.
    settings
        The error rate.
    maxima
        Largest statistic of each of S simulated matrices, shape ``(S,)``.
    at_least
        How many of them have a statistic as large as the observed one, shape ``(J,)``.
    """
    statistic, observed = planned.comparison.statistic, planned.observed
    count = len(maxima)
    threshold = family_threshold(maxima, settings.alpha)
    defined = np.equal(observed.undefined, Undefined.DEFINED)
    size = observed.absolute
    flagged = defined & (size > threshold.value + statistic.tolerance)
    p_values = simulated_p_values(at_least, count)
    item_flagged = defined & (p_values <= settings.alpha)
    largest = float(size[defined].max()) if defined.any() else None
    p_value = None
    if largest is not None:
        reached = np.asarray((maxima >= largest - statistic.tolerance).sum())
        p_value = float(simulated_p_values(reached, count))
    return DifferenceRow(
        headline=planned.headline,
        scope=planned.scope,
        groups=planned.comparison.pair.names,
        method=str(statistic.method),
        matching=str(statistic.matching),
        bands=None if statistic.bands is None else statistic.bands.label,
        smoothing=statistic.smoothing,
        penalty=statistic.penalty,
        prior=planned.prior,
        null=_null(planned),
        simulations=count,
        alpha=settings.alpha,
        flags=int(flagged.sum()),
        item_flags=int(item_flagged.sum()),
        threshold=threshold.value,
        threshold_interval=(threshold.low, threshold.high),
        observed_max=largest,
        p_value=p_value,
        lacking_bands=planned.lacking,
        band_count=None if statistic.bands is None else statistic.bands.size,
        items=_items(planned, flagged, item_flagged, p_values),
    )


def _null(planned: PlannedRow) -> str:
    text = (
        f"1D 2PL fitted to {planned.scope} with {planned.prior} priors; abilities drawn, then "
        "estimated again in each matrix"
    )
    anchored = planned.comparison.tables
    return text if anchored == "score" else f"{text}; {anchored} held fixed"


def _items(
    planned: PlannedRow, flagged: BoolArray, item_flagged: BoolArray, p_values: FloatArray
) -> tuple[ItemDifference, ...]:
    observed = planned.observed
    effect = delta_of_group(observed.value)
    error = None if observed.error is None else DELTA_PER_LOGIT * observed.error
    sizes = delta_classes(effect, error=error, significant=item_flagged)
    found = []
    for place, name in enumerate(planned.items):
        if why := Undefined(int(observed.undefined[place])).why:
            found.append(
                ItemDifference(
                    name, None, None, None, None, flagged=False, item_flagged=False, why=why
                )
            )
            continue
        found.append(
            ItemDifference(
                name,
                float(abs(observed.value[place])),
                float(effect[place]),
                str(sizes[place]),
                float(p_values[place]),
                flagged=bool(flagged[place]),
                item_flagged=bool(item_flagged[place]),
            )
        )
    return tuple(found)
