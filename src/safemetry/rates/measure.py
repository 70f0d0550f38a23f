"""Rates as claims: `measure_rates`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.rates.counts import CountTable, count_responses
from safemetry.rates.measurement import Measurement
from safemetry.rates.results import RatesFinding
from safemetry.rates.settings import RateSettings, rate_settings


def measure_rates(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    settings: RateSettings | None = None,
    **options: Any,
) -> RatesFinding:
    """Measure how often each target went along, refused, or helped, and how sure that is.

    Parameters
    ----------
    data
        Evidence, or any table that narwhals accepts with the columns of the judgements table.
    evidence_map
        A map, or a mapping with its entries.
    settings
        Settings; or give their fields as options.
    **options
        Fields of `RateSettings`, such as ``by=["category"]`` or ``success="non_refusal"``.

    Raises
    ------
    InputError
        For a table, map or option that cannot be used.
    MixedIntentError
        Where a refusal rate is asked for over harmful and benign items at once.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table(
    ...     {
    ...         "target": ["m"] * 100,
    ...         "item": [str(i) for i in range(100)],
    ...         "label": ["refuse"] * 100,
    ...         "intent": ["harmful"] * 100,
    ...     }
    ... )
    >>> claim = measure_rates(table).find("attack_success_rate")
    >>> claim.events, claim.trials, round(claim.ceiling, 4)
    (0.0, 100.0, 0.0295)
    """
    chosen = settings or rate_settings(options)
    evidence = as_evidence(data, evidence_map)
    rule = chosen.success or evidence.default_rule
    table = count_responses(evidence, rule, by=chosen.by, cluster=chosen.cluster)
    return measure_counts(evidence, table, replace(chosen, success=rule))


def measure_counts(evidence: Evidence, table: CountTable, settings: RateSettings) -> RatesFinding:
    """The rates of a table of counts that was made with the same settings."""
    rule = settings.success or evidence.default_rule
    return Measurement(evidence, settings, rule, table).finding()
