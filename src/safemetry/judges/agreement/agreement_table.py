"""How far the judges of a panel agree: each two of them, and all together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

import numpy as np

from safemetry.judges.agreement.agreement_figures import (
    AgreementSettings,
    pair_figures,
    panel_figures,
)
from safemetry.judges.agreement.agreement_sums import choices
from safemetry.judges.agreement.bootstrap import MOST_UNITS, distinct
from safemetry.judges.agreement.coefficients import Scale
from safemetry.judges.agreement.figure import Figure
from safemetry.judges.agreement.strata import ALL, Stratum, by_intent, divided
from safemetry.judges.panel import Panel

_UNITS_OF_PARTS: Final = 1024
"""There are many parts; their standard errors have a relative error of 2.2%, that of the draws."""


@dataclass(frozen=True)
class PairAgreement:
    """Agreement of two judges.

    Parameters
    ----------
    intent, by, value
        The responses, as in `strata.Stratum`.
    first, second
        The judges.
    n
        Responses with a verdict of both.
    outside_order
        Responses among them with a class outside the order, which the coefficients of ordered
        classes (linear, quadratic, AC2) leave out.
    coefficients
        By name: ``raw``, ``cohen``, ``cohen_linear``, ``cohen_quadratic``, ``gwet_ac1``,
        ``gwet_ac2``.
    """

    intent: str
    by: str
    value: str
    first: str
    second: str
    n: int
    outside_order: int
    coefficients: Mapping[str, Figure]


@dataclass(frozen=True)
class PanelAgreement:
    """Agreement of all judges.

    Parameters
    ----------
    intent, by, value
        The responses, as in `strata.Stratum`.
    judges
        Number of judges.
    n
        Responses with at least two verdicts.
    clusters
        Independent units that hold them.
    outside_order
        Verdicts with a class outside the order, which the coefficients of ordered classes (ordinal,
        interval, AC2) leave out.
    coefficients
        By name: ``raw``, ``fleiss``, ``krippendorff_nominal``, ``krippendorff_ordinal``,
        ``krippendorff_interval``, ``gwet_ac1``, ``gwet_ac2``.
    intraclass
        Intraclass correlations of the positions in the class order, by form (``icc1`` ...
        ``icc3k``, see `intraclass`), of the responses that every judge placed in the order.
    """

    intent: str
    by: str
    value: str
    judges: int
    n: int
    clusters: int
    outside_order: int
    coefficients: Mapping[str, Figure]
    intraclass: Mapping[str, Figure]


@dataclass(frozen=True)
class AgreementTable:
    """Agreement between judges.

    Parameters
    ----------
    pairs
        For each two judges, over all responses and by intent.
    panel
        For all judges together, also by the properties of the settings.
    why
        Why there is neither.
    """

    pairs: tuple[PairAgreement, ...] = ()
    panel: tuple[PanelAgreement, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)


def measure_agreement(
    panel: Panel, rng: np.random.Generator, settings: AgreementSettings | None = None
) -> AgreementTable:
    """Agreement of each two judges and of all together, with cluster-bootstrap intervals.

    The coefficients of a pair use the classes that either of the two can emit, those of the panel
    the classes that any judge can.

    Parameters
    ----------
    panel
        The verdicts.
    rng
        Decides the resamples.
    settings
        See `AgreementSettings`.
    """
    chosen = settings or AgreementSettings()
    if len(panel.judges) < 2:
        return AgreementTable(why=dict.fromkeys(["pairs", "panel"], "agreement needs two judges"))
    intents = list(by_intent(panel))
    everything = Stratum(ALL, ALL, ALL, np.arange(panel.responses))
    pairs: list[PairAgreement] = []
    together: list[PanelAgreement] = []
    for stratum in (everything, *(intents if len(intents) > 1 else ())):
        # With one intent its responses are all there are: the figures are the same.
        alone = stratum is everything and len(intents) == 1
        names = [ALL, intents[0].intent] if alone else [stratum.intent]
        found = _pairs(panel, stratum, rng, chosen)
        pairs += [replace(row, intent=name) for name in names for row in found]
        parts = [stratum, *divided(panel, stratum, chosen.by)]
        whole = [_together(panel, part, rng, chosen) for part in parts]
        together += [replace(row, intent=name) for name in names for row in whole]
    return AgreementTable(tuple(pairs), tuple(together))


def _pairs(
    panel: Panel, stratum: Stratum, rng: np.random.Generator, settings: AgreementSettings
) -> list[PairAgreement]:
    places = list(combinations(range(len(panel.judges)), 2))
    found = pair_figures(
        panel.labels[stratum.rows],
        panel.cluster[stratum.rows],
        {both: Scale.of(panel.can_emit[list(both)], panel.ordered) for both in places},
        (len(panel.classes), panel.ordered),
        rng,
        settings,
    )
    rows = []
    for (one, other), table, coefficients in zip(
        places, found.tables, found.coefficients, strict=True
    ):
        n, in_order = table.sum(), table[: panel.ordered, : panel.ordered].sum()
        rows.append(
            PairAgreement(
                intent=stratum.intent,
                by=stratum.by,
                value=stratum.value,
                first=panel.judges[one],
                second=panel.judges[other],
                n=int(n),
                outside_order=int(n - in_order),
                coefficients=coefficients,
            )
        )
    return rows


def _together(
    panel: Panel, stratum: Stratum, rng: np.random.Generator, settings: AgreementSettings
) -> PanelAgreement:
    labels, cluster = panel.labels[stratum.rows], panel.cluster[stratum.rows]
    several = choices(labels, len(panel.classes)).sum(0) > 1
    found = panel_figures(
        labels,
        cluster,
        Scale.of(panel.can_emit, panel.ordered),
        (len(panel.classes), panel.ordered),
        rng,
        settings,
        MOST_UNITS if stratum.by == ALL else _UNITS_OF_PARTS,
    )
    return PanelAgreement(
        intent=stratum.intent,
        by=stratum.by,
        value=stratum.value,
        judges=len(panel.judges),
        n=int(several.sum()),
        clusters=distinct(cluster[several]),
        outside_order=int((labels >= panel.ordered).sum()),
        coefficients=found.coefficients,
        intraclass=found.intraclass,
    )
