"""Which categories and which items carry a misfit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from safemetry.audits.person_fit.alignment import align
from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.curves import curves
from safemetry.audits.person_fit.fit import LEVEL
from safemetry.audits.person_fit.null import Ability, Bench
from safemetry.audits.person_fit.reestimation import Method
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, ItemParameters
from safemetry.irt.responses import Responses
from safemetry.rates.paired import holm


@dataclass(frozen=True)
class CategoryMisfit:
    """How far a target departs from its own ability in one category.

    Parameters
    ----------
    target, category
        Names.
    items
        Responses in the category.
    observed, expected
        Sums of the codes, and what the target's ability says.
    value
        Observed less expected, standardised by the mean and the standard deviation among patterns
        that fit: below 0 for fewer rewarded responses than expected.
    p_value, adjusted
        Two-sided by simulation, and by Holm (1979) over the categories of the target.
    flagged
        Whether the adjusted p-value is at most the level.
    why
        Field -> why it is None.
    """

    target: str
    category: str
    items: int
    observed: float
    expected: float
    value: float | None
    p_value: float | None
    adjusted: float | None
    flagged: bool
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ItemMisfit:
    """What one response adds to the misfit of a target.

    Parameters
    ----------
    target, item
        Names.
    code, expected
        The response, and its expectation at the target's ability.
    residual
        (code - expected) / sd.
    log_likelihood
        log P(code) less its expectation: a sum over items is the numerator of l_z.
    """

    target: str
    item: str
    code: int
    expected: float
    residual: float
    log_likelihood: float


def category_misfit(
    responses: Responses,
    calibrated: Calibrated,
    categories: Sequence[str | None],
    *,
    level: float = LEVEL,
    simulations: int = 1000,
    rng: np.random.Generator,
    method: Method = "wle",
    ability: Ability = "estimate",
) -> tuple[CategoryMisfit, ...]:
    """Standardised sum of the residuals in each category, against patterns that fit.

    The ability is estimated from all items, so that the sums depend on one another; the simulated
    patterns carry that.

    Parameters
    ----------
    responses, calibrated, simulations, rng, method, ability
        As for `simulate_null`.
    categories
        Of each item of `responses`; None for items that belong to none.
    level
        Family-wise false-positive rate of a target.

    Raises
    ------
    InputError
        For categories that do not fit, or none at all.
    """
    audited, _ = align(responses, calibrated)
    names, members = members_of(categories, responses, audited.columns)
    bench = Bench(audited, method, simulations, int(rng.integers(2**63)), ability)
    found: list[CategoryMisfit] = []
    for row, target in enumerate(audited.targets):
        seen = bench.seen[row]
        parameters = audited.calibrated.parameters.select(seen)
        inside = members[seen].astype(np.float64)
        count = inside.sum(axis=0).astype(np.int64)
        own = category_sums(
            bench.pattern(row)[None], parameters, bench.theta[row : row + 1], inside
        )
        null = np.concatenate(
            [
                category_sums(block.patterns, parameters, block.theta, inside)[2]
                for block in bench.blocks(row)
            ]
        )
        observed, expected, values = (part[0] for part in own)
        middle = null.mean(axis=0)
        further = np.abs(null - middle) >= np.abs(values - middle) - 1e-6
        p_values = (further.sum(axis=0) + 1) / (len(null) + 1)
        spread = null.std(axis=0)
        known = (count > 0) & (spread > 1e-9)
        standard = (values - middle) / np.where(known, spread, 1.0)
        adjusted = np.ones(len(names))
        adjusted[known] = holm(p_values[known])
        for place, category in enumerate(names):
            sure = bool(known[place])
            why = (
                {}
                if sure
                else dict.fromkeys(("value", "p_value", "adjusted"), _nothing(count[place]))
            )
            found.append(
                CategoryMisfit(
                    target,
                    category,
                    int(count[place]),
                    float(observed[place]),
                    float(expected[place]),
                    float(standard[place]) if sure else None,
                    float(p_values[place]) if sure else None,
                    float(adjusted[place]) if sure else None,
                    sure and bool(adjusted[place] <= level),
                    why,
                )
            )
    return tuple(found)


def item_misfit(
    responses: Responses,
    calibrated: Calibrated,
    target: str,
    *,
    method: Method = "wle",
) -> tuple[ItemMisfit, ...]:
    """The responses of one target, those that are least expected first.

    Parameters
    ----------
    responses, calibrated, method
        As for `simulate_null`.
    target
        Its name.

    Raises
    ------
    InputError
        For an unknown target.
    """
    audited, _ = align(responses, calibrated)
    if target not in audited.targets:
        raise InputError(f"there is no target {target!r} in the responses")
    bench = Bench(audited, method, 1, 0, "estimate")
    row = audited.targets.index(target)
    seen = bench.seen[row]
    codes = audited.codes[row, seen].astype(np.int64)
    if not len(codes):
        return ()
    found = curves(audited.calibrated.parameters.select(seen), bench.theta[row : row + 1])
    expected, spread = found.expected[0], np.sqrt(np.maximum(found.variance[0], 1e-12))
    logs = found.logarithms[:, 0]
    likely = logs[codes, np.arange(len(codes))] - (found.chances[:, 0] * logs).sum(axis=0)
    names = np.array(audited.calibrated.items, object)[seen]
    order = np.argsort(likely, kind="stable")
    return tuple(
        ItemMisfit(
            target,
            str(names[place]),
            int(codes[place]),
            float(expected[place]),
            float((codes[place] - expected[place]) / spread[place]),
            float(likely[place]),
        )
        for place in order
    )


def category_sums(
    patterns: FloatArray | np.ndarray[tuple[int, ...], np.dtype[np.float32]],
    parameters: ItemParameters,
    theta: FloatArray,
    inside: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Observed and expected sums of patterns in each category, and the standardised difference.

    Parameters
    ----------
    patterns, theta
        Shapes ``(R, J)`` and ``(R,)``.
    parameters
        Of the J items.
    inside
        1 where an item belongs to a category, shape ``(J, K)``.

    Returns
    -------
    tuple of numpy.ndarray
        Shape ``(R, K)`` each.
    """
    found = curves(parameters, theta)
    observed = np.asarray(patterns, np.float64) @ inside
    expected = found.expected @ inside
    spread = np.sqrt(np.maximum(found.variance @ inside, 1e-12))
    return observed, expected, (observed - expected) / spread


def members_of(
    categories: Sequence[str | None],
    responses: Responses,
    columns: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
) -> tuple[tuple[str, ...], BoolArray]:
    """Names of the categories, sorted, and which items belong to each, shape ``(J, K)``."""
    if len(categories) != len(responses.items):
        raise InputError(
            f"categories are given for {len(categories)} items of {len(responses.items)}"
        )
    kept = [categories[place] for place in columns.tolist()]
    names = tuple(sorted({name for name in kept if name is not None}))
    if not names:
        raise InputError("no item has a category", fix="give the category of each item")
    return names, np.array([[name == one for one in names] for name in kept], bool)


def _nothing(count: int) -> str:
    return "the target answered no item of it" if count == 0 else "no response has a variance"
