"""False-positive rates of person fit that are measured and not assumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.fit import LEVEL, PersonFit, person_fit
from safemetry.audits.person_fit.item_draws import draw_items
from safemetry.audits.person_fit.patterns import draw_patterns
from safemetry.errors import InputError
from safemetry.irt.responses import Responses, make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional
from safemetry.rates.intervals import clopper_pearson

_FEWEST_ITEMS: Final = 2


@dataclass(frozen=True)
class AchievedRate:
    """How often a rule flagged targets.

    Parameters
    ----------
    rule
        A statistic; ``any`` for any of them at its own cutoff; ``union`` for the joint rule.
    ability
        True ability of the targets, None for observed ones.
    targets, flagged
        Counts; targets without a value are not counted.
    rate, low, high
        Share, and its exact 95% interval (Clopper & Pearson 1934); None where nothing is counted.
    level
        Stated rate.
    why
        Field -> why it is None.
    """

    rule: str
    ability: float | None
    targets: int
    flagged: int
    rate: float | None
    low: float | None
    high: float | None
    level: float
    why: Mapping[str, str] = field(default_factory=dict)


def rates_at_abilities(
    calibrated: Calibrated,
    abilities: Sequence[float],
    *,
    targets: int = 500,
    rng: np.random.Generator,
    level: float = LEVEL,
    **options: Any,
) -> tuple[AchievedRate, ...]:
    """Rates among simulated targets that fit, at true abilities.

    Each target answers items whose parameters are drawn from what the calibration leaves open.

    Parameters
    ----------
    calibrated
        Items.
    abilities
        True abilities.
    targets
        At each ability, at least 1.
    rng
        Source of randomness.
    level, **options
        As for `person_fit`.
    """
    if targets < 1:
        raise InputError("at least one target is needed")
    found: list[AchievedRate] = []
    parameters = calibrated.parameters
    for ability in abilities:
        drawn = draw_items(calibrated, targets, rng)
        codes = draw_patterns(
            np.full(targets, ability),
            drawn.slopes,
            drawn.intercepts,
            (parameters.lower, parameters.upper),
            rng,
        )
        responses = make_responses(codes.astype(np.int8), items=calibrated.items)
        fits = person_fit(responses, calibrated, level=level, rng=rng, **options)
        found += summarise(fits, ability)
    return tuple(found)


def out_of_sample_rates(
    responses: Responses,
    *,
    rng: np.random.Generator,
    calibrate: Callable[[Responses], Calibrated] | None = None,
    level: float = LEVEL,
    **options: Any,
) -> tuple[AchievedRate, ...]:
    """Rates among observed targets that took no part in the calibration.

    Half of the targets, at random, calibrate the items for the other half, and the reverse. If the
    targets fit the model these are false-positive rates; where they are above the level, either
    targets misfit or one dimension does not describe them (which no cutoff repairs).

    Parameters
    ----------
    responses
        Of 4 or more targets.
    rng
        Source of randomness.
    calibrate
        Makes a calibration of responses; a two-parameter fit by default.
    level, **options
        As for `person_fit`; `order` has a key for each item of `responses`.

    Raises
    ------
    InputError
        For fewer than 4 targets.
    """
    count = len(responses.targets)
    if count < 4:
        raise InputError(f"{count} targets cannot be halved", fix="give 4 or more")
    make = calibrate or two_parameter_items
    second = np.zeros(count, bool)
    second[rng.permutation(count)[: count // 2]] = True
    fits: list[PersonFit] = []
    for held in (second, ~second):
        calibrated = make(responses.select_targets(~held))
        fits += person_fit(
            responses.select_targets(held), calibrated, level=level, rng=rng, **options
        )
    return summarise(fits)


def summarise(fits: Sequence[PersonFit], ability: float | None = None) -> tuple[AchievedRate, ...]:
    """Rates at which targets are flagged, by statistic, by any of them, and by the joint rule."""
    if not fits:
        return ()
    rules: dict[str, list[bool]] = {row.statistic: [] for row in fits[0].rows}
    rules |= {"any": [], "union": []}
    for fit in fits:
        for row in fit.rows:
            if row.value is not None:
                rules[row.statistic].append(row.flagged)
        if fit.union_p_value is not None:
            rules["any"].append(fit.any_flagged)
            rules["union"].append(fit.flagged)
    found = []
    for rule, flags in rules.items():
        low, high = clopper_pearson(sum(flags), len(flags))
        why = {} if ability is not None else {"ability": "the true abilities are unknown"}
        if not flags:
            why |= dict.fromkeys(("rate", "low", "high"), "no target has a value")
        found.append(
            AchievedRate(
                rule,
                ability,
                len(flags),
                sum(flags),
                sum(flags) / len(flags) if flags else None,
                float(low) if flags else None,
                float(high) if flags else None,
                fits[0].level,
                why,
            )
        )
    return tuple(found)


def two_parameter_items(responses: Responses) -> Calibrated:
    """The items that tell these targets apart, calibrated on them.

    Raises
    ------
    InputError
        Where fewer than two do.
    """
    varies = responses.varies
    if varies.sum() < _FEWEST_ITEMS:
        raise InputError(
            f"{int(varies.sum())} items tell these targets apart", fix="add targets that differ"
        )
    return Calibrated.of_fit(fit_unidimensional(responses.select_items(varies)))
