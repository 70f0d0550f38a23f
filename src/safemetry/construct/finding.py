"""What `audit_construct` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from safemetry.construct.dif.result import DifferenceRow
from safemetry.findings import Finding, plain

SOURCES: Final = (
    (
        "Horn, J. L. (1965). A rationale and test for the number of factors in factor analysis. "
        "Psychometrika 30, 179-185."
    ),
    (
        "Nadeau, C. & Bengio, Y. (2003). Inference for the generalization error. Machine Learning "
        "52, 239-281."
    ),
    (
        "Holland, P. W. & Thayer, D. T. (1988). Differential item performance and the "
        "Mantel-Haenszel procedure. In Test Validity, 129-145. Erlbaum."
    ),
    (
        "Swaminathan, H. & Rogers, H. J. (1990). Detecting differential item functioning using "
        "logistic regression procedures. Journal of Educational Measurement 27, 361-370."
    ),
)
_METHODS: Final = {
    "mantel_haenszel": "Mantel-Haenszel",
    "ridge_logistic": "ridge logistic regression",
}
PARTS: Final = (
    "saturation",
    "spectrum",
    "models",
    "departures",
    "comparisons",
    "nesting_failures",
    "factor_correlations",
    "prior_sensitivity",
    "without_domain",
    "by_judge",
    "dif",
    "dif_groups",
    "near_duplicates",
    "verdict",
)


@dataclass(frozen=True, kw_only=True)
class ConstructFinding(Finding):
    """Whether one score measures one thing, and which items differ between groups.

    Parameters
    ----------
    targets, items
        How many targets and informative items were fitted.
    saturation
        Whether the items can be modelled, overall and by benchmark and domain.
    spectrum
        Eigenvalues of the item correlations beside their nulls.
    models
        A row for each candidate model.
    departures
        Pairs of models whose order is not that of published figures.
    comparisons
        Differences between models, split by split.
    nesting_failures
        Models that fit worse than a model they contain; they are not ranked.
    factor_correlations
        Of each structure, and of the best explored model after rotation.
    prior_sensitivity
        Held-out losses with other priors.
    without_domain
        The gain of several dimensions without each domain of the structures.
    by_judge
        The same fits under each judge.
    dif
        Item differences between groups: a row for each choice of method, matching, bands and null.
    dif_groups
        Which groups were compared, and which were too small.
    near_duplicates
        Groups of targets that answer alike and are not independent.
    verdict
        ``single_attribute`` and why.
    why
        Why a part is None.
    """

    command: ClassVar[str] = "construct"
    sources: ClassVar[tuple[str, ...]] = SOURCES

    targets: int
    items: int
    saturation: Any
    spectrum: Any = None
    models: Any = None
    departures: Any = None
    comparisons: Any = None
    nesting_failures: Any = None
    factor_correlations: Any = None
    prior_sensitivity: Any = None
    without_domain: Any = None
    by_judge: Any = None
    dif: Any = None
    dif_groups: Any = None
    near_duplicates: Any = None
    verdict: Any
    why: Mapping[str, str] = field(default_factory=dict)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per model."""
        return plain(self.models) or []

    def own_keys(self) -> dict[str, Any]:
        """The keys of the contract."""
        return {
            "targets": self.targets,
            "items": self.items,
            **{name: plain(getattr(self, name)) for name in PARTS},
            **({"why": dict(self.why)} if self.why else {}),
        }

    def sentence(self) -> str:
        """The verdict, whether the items can be modelled, and how many items differ."""
        said = [self.verdict.why, self.saturation.sentence()]
        said += [found.sentence for found in self.departures or ()]
        said += [
            _as_sentence(found.sentence)
            for found in self.factor_correlations or ()
            if found.rotation == "structure"
        ]
        said += [_as_sentence(found.sentence) for found in self.without_domain or ()]
        said += [
            _differing(row) for row in self.dif or () if row.headline and row.scope == "all items"
        ]
        return " ".join(said)

    def chart(self) -> Any:
        """Held-out log loss of each model, or the eigenvalues where models were not compared."""
        from safemetry.construct.charts import (
            EXPLORED,
            GIVEN,
            ONE_DIMENSION,
            log_loss_chart,
            scree_chart,
        )

        kinds = {"exploratory": EXPLORED, "confirmatory": GIVEN}

        if self.models:
            return log_loss_chart(
                [
                    {
                        "name": row.name,
                        "dims": row.dims,
                        "kind": kinds[row.kind] if row.dims > 1 else ONE_DIMENSION,
                        "mean": row.log_loss.mean,
                        "splits": row.log_loss.splits,
                        "ranked": row.rank is not None,
                    }
                    for row in self.models
                ]
            )
        if self.spectrum is None:
            return None
        found = plain(self.spectrum)
        return scree_chart(found["observed"], {"independent items": found["null_q95"]})


def _as_sentence(said: str) -> str:
    return said[:1].upper() + said[1:]


def _differing(row: DifferenceRow) -> str:
    """How many items differ, of those that could show it."""
    first, second = row.groups
    compared = sum(item.statistic is not None for item in row.items)
    if not compared:
        return f"No item can be compared between {first} and {second}: {row.items[0].why}."
    how = f"{_METHODS.get(row.method, row.method)}, {row.matching}"
    verb = "differs" if row.flags == 1 else "differ"
    if row.lacking_bands and row.band_count is not None and row.shared_bands is not None:
        holds = "holds" if row.shared_bands == 1 else "hold"
        doubt = "; that may be what is left of their difference in ability" if row.flags else ""
        return (
            f"Only {row.shared_bands} of {row.band_count} bands of ability {holds} both {first} "
            f"and {second}: there {row.flags} of the {compared} items that can be compared {verb} "
            f"({how}; {len(row.items)} items in all){doubt}."
        )
    return (
        f"At equal ability {row.flags} of the {compared} items that can be compared {verb} between "
        f"{first} and {second} ({how}; {len(row.items)} items in all)."
    )
