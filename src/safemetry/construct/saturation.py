"""Whether a benchmark still tells its targets apart, and so can be modelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from safemetry.construct.spectra.correlation import check_binary
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray
from safemetry.irt.responses import Responses

MINORITY: Final = 5
"""Fewest responses of the rarer kind for an item to be informative."""

SHARE: Final = 0.5
"""Smallest share of informative items for a set of items to be modelable."""

_QUANTILES: Final = {"q05": 5, "q25": 25, "median": 50, "q75": 75, "q95": 95}


@dataclass(frozen=True)
class ItemRest:
    """Correlations of items with the rest of their set.

    Parameters
    ----------
    quantiles
        ``q05``, ``q25``, ``median``, ``q75`` and ``q95`` over the items that have one.
    known
        Items that have one.
    negative_items
        Names of the items that correlate negatively: better targets do worse there.
    """

    quantiles: Mapping[str, float]
    known: int
    negative_items: tuple[str, ...]


@dataclass(frozen=True)
class SaturationRow:
    """How much a set of items tells about the targets.

    Parameters
    ----------
    name
        Of the benchmark or domain; ``all`` for all items.
    items, targets, responses
        How many; targets are those with at least one response in the set, as weighted.
    pass_rate
        Share of 1 among the responses.
    zero_variance_items
        Names of items on which all targets agree, or that nobody answered.
    ceiling_targets, ceiling_share
        Targets whose every response is 1: how many, and which share.
    informative_items
        How many items have at least `minority` responses of the rarer kind.
    item_rest
        Item-rest correlations; None where no item has one.
    effective_items
        Sum over items of 4 p (1 - p), p being the pass rate: how many items with pass rate .5 have
        the same outcome variance. That is also the Rasch information p (1 - p) of the items for a
        target that passes them at these rates (Lord 1980, chapter 5), in units of the largest, 1/4.
        Between 0 and `items`.
    minority, share
        Settings of the verdict.
    """

    name: str
    items: int
    targets: float
    responses: float
    pass_rate: float | None
    zero_variance_items: tuple[str, ...]
    ceiling_targets: float
    ceiling_share: float | None
    informative_items: int
    item_rest: ItemRest | None
    effective_items: float
    minority: int = MINORITY
    share: float = SHARE

    @property
    def modelable(self) -> bool:
        """Whether at least `share` of all items have `minority` rarer responses or more."""
        return self.informative_items >= self.share * self.items

    def sentence(self) -> str:
        """The verdict in words, with its numbers."""
        verdict = "can be modelled" if self.modelable else "cannot be modelled"
        rate = "unknown" if self.pass_rate is None else f"{self.pass_rate:.1%}"
        return (
            f"The items of {self.name!r} {verdict}: {self.informative_items:,} of {self.items:,} "
            f"have {self.minority} or more responses of the rarer kind, where {self.share:.0%} are "
            f"needed; pass rate {rate}, {len(self.zero_variance_items):,} items without variance, "
            f"{self.ceiling_targets:g} of {self.targets:g} targets at the ceiling."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with `why` beside those that are unknown."""
        rest = self.item_rest
        why = {}
        if self.pass_rate is None:
            why = dict.fromkeys(("pass_rate", "ceiling_share"), "no responses")
        if rest is None:
            why["item_rest"] = "no two items vary over the targets that answered both"
        found: dict[str, Any] = {
            "name": self.name,
            "modelable": self.modelable,
            "items": self.items,
            "targets": self.targets,
            "responses": self.responses,
            "pass_rate": self.pass_rate,
            "zero_variance": len(self.zero_variance_items),
            "zero_variance_items": list(self.zero_variance_items),
            "ceiling_targets": self.ceiling_targets,
            "ceiling_share": self.ceiling_share,
            "informative_items": self.informative_items,
            "item_rest": None
            if rest is None
            else {
                **rest.quantiles,
                "known": rest.known,
                "negative": len(rest.negative_items),
                "negative_items": list(rest.negative_items),
            },
            "effective_items": self.effective_items,
            "sentence": self.sentence(),
        }
        return {**found, **({"why": why} if why else {})}


@dataclass(frozen=True)
class Saturation:
    """Saturation of all items, of each benchmark, and of each domain of each structure.

    Parameters
    ----------
    overall
        All items together.
    benchmarks
        A row for each benchmark, in the order of the items.
    domains
        Name of a structure -> a row for each of its dimensions.
    """

    overall: SaturationRow
    benchmarks: tuple[SaturationRow, ...]
    domains: Mapping[str, tuple[SaturationRow, ...]]

    @property
    def modelable(self) -> bool:
        """Whether the items, taken together, can be modelled."""
        return self.overall.modelable

    def sentence(self) -> str:
        """The verdict in words, with the sets that differ from it."""
        rows = [*self.benchmarks, *(row for rows in self.domains.values() for row in rows)]
        against = [row.name for row in rows if row.modelable != self.modelable]
        said = self.overall.sentence()
        if not against:
            return said
        verdict = "cannot" if self.modelable else "can"
        return f"{said} On their own {', '.join(map(repr, against))} {verdict} be modelled."

    def to_dict(self) -> dict[str, Any]:
        """The row of all items, with rows of benchmarks and domains and the settings."""
        return {
            **self.overall.to_dict(),
            "minority": self.overall.minority,
            "share": self.overall.share,
            "benchmarks": [row.to_dict() for row in self.benchmarks],
            "domains": [
                {"structure": structure, **row.to_dict()}
                for structure, rows in self.domains.items()
                for row in rows
            ],
            "sentence": self.sentence(),
        }


def measure_saturation(
    responses: Responses,
    domains: Mapping[str, Mapping[str, str]] | None = None,
    benchmarks: Mapping[str, str] | None = None,
    *,
    minority: int = MINORITY,
    share: float = SHARE,
) -> Saturation:
    """Pass rates, ceilings, item-rest correlations and informative items, and a plain verdict.

    Parameters
    ----------
    responses
        Outcomes 0 and 1 of N targets to *all* J items, also those that do not vary; any pattern of
        missing cells.
    domains
        Name of a structure -> item -> its dimension; items that a structure leaves out are in none
        of its rows.
    benchmarks
        Item -> its benchmark.
    minority
        Fewest responses of the rarer kind for an item to be informative, at least 1.
    share
        Smallest share of informative items, in (0, 1].

    Raises
    ------
    InputError
        For settings out of range, outcomes other than 0 and 1, or a mapping that names no item of
        the responses.

    Examples
    --------
    >>> from safemetry.irt.responses import make_responses
    >>> found = measure_saturation(make_responses([[1, 1], [1, 0], [1, 1]]), minority=1)
    >>> found.modelable, found.overall.zero_variance_items, found.overall.ceiling_targets
    (True, ('1',), 2.0)
    """
    if minority < 1 or not 0 < share <= 1:
        raise InputError(
            f"{minority} rarer responses in a share {share:g} of items are no rule",
            fix="use at least 1 response and a share above 0, at most 1",
        )
    check_binary(responses, "saturation")

    def rows(kind: str, loads_on: Mapping[str, str]) -> tuple[SaturationRow, ...]:
        labels = [loads_on.get(item) or "" for item in responses.items]
        names = [name for name in dict.fromkeys(labels) if name]
        if not names:
            raise InputError(f"{kind} names none of the {len(labels)} items")
        return tuple(
            _row(name, responses, np.array([label == name for label in labels]), minority, share)
            for name in names
        )

    everything = np.ones(len(responses.items), bool)
    return Saturation(
        overall=_row("all", responses, everything, minority, share),
        benchmarks=rows("the column of benchmarks", benchmarks) if benchmarks else (),
        domains={
            name: rows(f"structure {name!r}", loads_on)
            for name, loads_on in (domains or {}).items()
        },
    )


def item_rest_correlations(responses: Responses) -> FloatArray:
    """Pearson correlation of each item with the rest of its set, shape ``(J,)``; NaN if unknown.

    The rest of target i without item j is the mean of x_ik - p_k over its other responses, p_k
    being the pass rate of item k: with complete data a linear function of the rest score (Henrysson
    1963), and where cells are missing free of the difficulty of the items that i happened to
    answer. Items that do not vary are left out.

    Parameters
    ----------
    responses
        Outcomes 0 and 1, missing cells allowed; weights count.
    """
    found = np.full(len(responses.items), np.nan)
    ones, counts = _tally(responses)
    varies = (ones > 0) & (ones < counts)
    kept = responses.select_items(varies)
    if len(kept.items) < 2:
        return found
    seen = kept.observed.astype(np.float64)
    values = np.where(kept.observed, kept.codes, 0).astype(np.float64)
    deviations = (values - ones[varies] / counts[varies]) * seen
    others = seen.sum(axis=1, keepdims=True) - seen
    rest = (deviations.sum(axis=1, keepdims=True) - deviations) / np.maximum(others, 1.0)
    found[varies] = _column_correlations(values, rest, seen * (others > 0) * kept.weights[:, None])
    return found


def _column_correlations(first: FloatArray, second: FloatArray, weights: FloatArray) -> FloatArray:
    """Weighted correlation of each pair of columns, NaN where one does not vary."""
    with np.errstate(divide="ignore", invalid="ignore"):
        total = weights.sum(axis=0)
        x = first - (weights * first).sum(axis=0) / total
        y = second - (weights * second).sum(axis=0) / total
        spread_x, spread_y = (weights * x * x).sum(axis=0), (weights * y * y).sum(axis=0)
        found: FloatArray = (weights * x * y).sum(axis=0) / np.sqrt(spread_x * spread_y)
    found[~(np.minimum(spread_x, spread_y) > 1e-12 * total)] = np.nan
    return found


def _row(
    name: str, responses: Responses, chosen: BoolArray, minority: int, share: float
) -> SaturationRow:
    part = responses.select_items(chosen)
    observed = part.observed
    ones, counts = _tally(part)
    rarer = np.minimum(ones, counts - ones)
    answered = observed.any(axis=1)
    perfect = answered & ~(observed & (part.codes == 0)).any(axis=1)
    targets, ceiling = float(part.weights[answered].sum()), float(part.weights[perfect].sum())
    rates = ones / np.maximum(counts, np.finfo(float).tiny)
    return SaturationRow(
        name=name,
        items=len(part.items),
        targets=targets,
        responses=float(counts.sum()),
        pass_rate=float(ones.sum() / counts.sum()) if targets else None,
        zero_variance_items=_names(part, rarer == 0),
        ceiling_targets=ceiling,
        ceiling_share=ceiling / targets if targets else None,
        informative_items=int((rarer >= minority).sum()),
        item_rest=_item_rest(part),
        effective_items=float((4 * rates * (1 - rates)).sum()),
        minority=minority,
        share=share,
    )


def _tally(responses: Responses) -> tuple[FloatArray, FloatArray]:
    """Weighted number of ones and of responses of each item, shape ``(J,)``."""
    weights = responses.weights
    return weights @ (responses.codes == 1), weights @ responses.observed


def _item_rest(part: Responses) -> ItemRest | None:
    correlations = item_rest_correlations(part)
    known = correlations[np.isfinite(correlations)]
    if not known.size:
        return None
    cuts = np.percentile(known, list(_QUANTILES.values()))
    quantiles = {name: float(cut) for name, cut in zip(_QUANTILES, cuts, strict=True)}
    # A rounding error is no contradiction.
    return ItemRest(quantiles, int(known.size), _names(part, correlations < -1e-12))


def _names(part: Responses, chosen: BoolArray) -> tuple[str, ...]:
    return tuple(name for name, kept in zip(part.items, chosen, strict=True) if kept)
