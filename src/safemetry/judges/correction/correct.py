"""What the rate probably is: a judge's rate corrected by labels on a part of the responses.

For each judge, boundary and intent there are three estimates: the labels alone, prediction-powered
inference, and Rogan-Gladen. Intents are never pooled, since a judge errs differently on attacks and
on plain prompts; over all intents there is a sum of their estimates, weighted by their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError
from safemetry.judges.agreement.gold import gold_of
from safemetry.judges.agreement.strata import Stratum, by_intent
from safemetry.judges.correction.corrected_rates import (
    Correction,
    Part,
    corrected_rates,
)
from safemetry.judges.correction.correction_settings import CorrectionSettings
from safemetry.judges.panel import NO_VERDICT, Panel
from safemetry.judges.spread import boundaries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


def correct(
    panel: Panel,
    gold: Sequence[str],
    *,
    judges: Sequence[str] | None = None,
    probability: FloatArray | None = None,
    settings: CorrectionSettings | None = None,
) -> tuple[Correction, ...]:
    """Correct the rates of judges by gold labels on some or all of the responses.

    Parameters
    ----------
    panel
        The verdicts, among them those of the gold judges.
    gold
        One judge, or several whose majority is gold. They need not have judged everything, but what
        they judged was chosen by chance: all responses of an intent alike, or with `probability`.
    judges
        Whose rates; by default all that are not gold.
    probability
        With which each response of the panel was chosen for a gold label, shape ``(R,)``, in
        (0, 1]; None where every response of an intent had the same chance.
    settings
        See `CorrectionSettings`.

    Raises
    ------
    InputError
        For a judge that is not in the panel, no judge left, or impossible probabilities.
    """
    chosen = settings or CorrectionSettings()
    found = gold_of(panel, gold)
    names = [name for name in panel.judges if name not in gold] if judges is None else list(judges)
    if not names or set(names) & set(gold):
        raise InputError("there is no judge to correct beside gold", fix="name fewer as gold")
    places = [panel.place(name) for name in names]
    _check(probability, panel.responses)
    strata = [(one, _clusters(panel, one, chosen)) for one in by_intent(panel)]
    rows: list[Correction] = []
    for name, place in zip(names, places, strict=True):
        for boundary, first in boundaries(panel.classes, panel.ordered):
            over = np.arange(first, panel.ordered)
            parts = [
                _part(
                    (name, boundary),
                    stratum,
                    cluster,
                    panel.labels[:, place],
                    found.labels,
                    over,
                    probability,
                )
                for stratum, cluster in strata
            ]
            rows += corrected_rates(parts, chosen)
    return tuple(rows)


def _check(probability: FloatArray | None, responses: int) -> None:
    if probability is None:
        return
    if (
        np.shape(probability) != (responses,)
        or not ((np.asarray(probability) > 0) & (np.asarray(probability) <= 1)).all()
    ):
        raise InputError(
            "sampling probabilities are one a response, over 0 and at most 1",
            fix="give the chance with which each was chosen to be labelled",
        )


def _clusters(
    panel: Panel, stratum: Stratum, settings: CorrectionSettings
) -> NDArray[np.int64] | None:
    """Clusters of the responses of a stratum, None where no two are in one."""
    if not settings.clustered or settings.population == "fixed":
        return None
    found = panel.cluster[stratum.rows]
    return found if (np.bincount(found) > 1).any() else None


def _part(
    named: tuple[str, str],
    stratum: Stratum,
    cluster: NDArray[np.int64] | None,
    said: NDArray[np.int8],
    gold: NDArray[np.int8],
    over: NDArray[np.int64],
    probability: FloatArray | None,
) -> Part:
    judged = said[stratum.rows] != NO_VERDICT
    rows = stratum.rows[judged]
    labels = np.where(gold[rows] == NO_VERDICT, np.nan, np.isin(gold[rows], over))
    return Part(
        *named,
        stratum.intent,
        labels,
        np.isin(said[rows], over).astype(np.float64),
        None if probability is None else np.asarray(probability, np.float64)[rows],
        None if cluster is None else cluster[judged],
    )
