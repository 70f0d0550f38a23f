"""From evidence to an audit of the construct: `audit_construct`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from safemetry.construct.audited import left_out, read_audited
from safemetry.construct.dif.audit import audit_differences
from safemetry.construct.dif.duplicates import near_duplicates
from safemetry.construct.dif.result import DifferencesAudit
from safemetry.construct.dif.settings import DifferencesSettings
from safemetry.construct.dimensions.by_judge import ByJudge, by_judge
from safemetry.construct.dimensions.comparison import ModelComparison, compare_models
from safemetry.construct.dimensions.correlations import FactorCorrelations, factor_correlations
from safemetry.construct.dimensions.domains import DomainFollowUp, drop_one_domain
from safemetry.construct.dimensions.models import CandidateModel, candidate_models
from safemetry.construct.dimensions.prior_sensitivity import PriorRow, prior_sensitivity
from safemetry.construct.dimensions.published import departures
from safemetry.construct.dimensions.verdict import judge_dimensionality
from safemetry.construct.dimensions.verdict_rule import (
    CANNOT_TELL,
    SUPPORTED,
    Verdict,
    VerdictSettings,
)
from safemetry.construct.finding import ConstructFinding
from safemetry.construct.saturation import Saturation, measure_saturation
from safemetry.construct.settings import ConstructSettings
from safemetry.construct.spectra.spectrum import measure_spectrum
from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.success import SuccessRule
from safemetry.irt.multidimensional.crossvalidation import split_responses
from safemetry.irt.priors import ItemPriors, LogNormal, Normal
from safemetry.irt.responses import Responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional

SPECTRUM_PRIORS: Final[Mapping[str, ItemPriors]] = {
    "a ~ LogNormal(0, 0.5), d ~ Normal(0, 1)": ItemPriors(
        slope=LogNormal(0.0, 0.5), intercept=Normal(0.0, 1.0)
    ),
    "default": ItemPriors(),
}
"""Priors of the fit behind the null of one dimension, which decide how large its second eigenvalue
gets: on helm_safety/harmbench 26 with the first and 49 with the second, where 59 is observed."""
FEWEST_TARGETS: Final = 10
FEWEST_ITEMS: Final = 10
MOST_DOMAINS: Final = 12
"""With more domains leaving out each of them costs more than the comparison itself."""


def audit_construct(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
    judge: str | None = None,
    settings: ConstructSettings | None = None,
    **options: Any,
) -> ConstructFinding:
    """Audit whether one score measures one thing, and which items differ between groups.

    Parameters
    ----------
    data
        `Responses` with codes 0 and 1, a `ResponseMatrix`, evidence, or a table with the columns of
        the judgements table.
    evidence_map
        A map, or a mapping with its entries.
    success, judge
        Which outcome counts, and whose verdict; see `response_matrix`. Where the evidence holds
        other judges too, the fits are repeated under each.
    settings
        Settings; or give their fields as options.
    **options
        Fields of `ConstructSettings`, such as ``restarts=5``.

    Raises
    ------
    InputError
        For data, settings, a structure or groups that cannot be used.
    """
    chosen = settings or ConstructSettings(**options)
    responses, of_judges, benchmarks, warnings = read_audited(data, evidence_map, success, judge)
    audit = _Audit(responses, chosen)
    held = responses.select_items(responses.varies)
    structures = audit.structures(held)
    audit.check_names()
    saturation = measure_saturation(responses, chosen.structures or None, benchmarks)
    parts = audit.parts(held, structures, of_judges)
    verdict = _with_saturation(parts["verdict"], saturation)
    said = [*warnings, *audit.warnings]
    said += left_out(responses, held)
    return ConstructFinding(
        settings=chosen.resolved(),
        warnings=tuple(dict.fromkeys(said)),
        targets=len(held.targets),
        items=len(held.items),
        saturation=saturation,
        why=audit.why,
        **{**parts, "verdict": verdict},
    )


# --- the parts -----------------------------------------------------------------------------------


@dataclass
class _Audit:
    """The parts of one audit; what cannot be computed has its reason in `why`."""

    responses: Responses
    settings: ConstructSettings
    why: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    unfitted: dict[str, str] = field(default_factory=dict)

    def structures(self, held: Responses) -> dict[str, dict[str, str]]:
        """The dimension of each item that varies; structures that cannot be fitted are left out.

        Raises
        ------
        InputError
            For a structure that leaves an item without a dimension.
        """
        kept = {}
        there = set(self.responses.items)
        for name, loads_on in self.settings.structures.items():
            without = [item for item in held.items if item not in loads_on]
            if without and len(without) == len(held.items):
                raise InputError(
                    f"structure {name!r} gives none of the {len(held.items):,} items a dimension",
                    fix="its column is empty, or its keys are no items of the matrix",
                )
            if without:
                raise InputError(
                    f"structure {name!r} gives {len(without):,} of {len(held.items):,} items no "
                    f"dimension, the first is {without[0]!r}",
                    fix="give every item one, or leave those out with --filter",
                )
            self._say_what_is_elsewhere(name, loads_on)
            found = {item: loads_on[item] for item in held.items}
            sizes = Counter(found.values())
            sizes.update({loads_on[item]: 0 for item in loads_on if item in there})
            small = [f"{dimension} {count}" for dimension, count in sizes.items() if count < 2]
            if len(sizes) < 2:
                self._left_unfitted(name, "it has one dimension")
            elif small:
                reason = f"dimensions with fewer than 2 items that vary: {', '.join(small)}"
                self._left_unfitted(name, reason)
            else:
                kept[name] = found
        return kept

    def _left_unfitted(self, name: str, reason: str) -> None:
        self.unfitted[name] = reason
        self.warnings.append(f"Structure {name!r} was not fitted: {reason}.")

    def _say_what_is_elsewhere(self, name: str, loads_on: Mapping[str, str]) -> None:
        """Dimensions without any item of the matrix are those of other data, and ignored."""
        here = {loads_on[item] for item in self.responses.items if item in loads_on}
        elsewhere = sorted(set(loads_on.values()) - here)
        if elsewhere:
            self.warnings.append(
                f"Structure {name!r} has no item of the matrix in {_few(elsewhere)}: ignored."
            )

    def _no_structure(self) -> str:
        """Why no structure takes part."""
        said = [f"structure {name!r} was not fitted ({why})" for name, why in self.unfitted.items()]
        return "; ".join(said) or "no structure was given"

    def parts(
        self,
        held: Responses,
        structures: Mapping[str, Mapping[str, str]],
        of_judges: Mapping[str, Responses],
    ) -> dict[str, Any]:
        """Every part but the saturation."""
        found: dict[str, Any] = {"spectrum": self._spectrum(held)}
        reason = _too_small(held)
        if reason:
            unknown = (
                *("models", "departures", "comparisons", "nesting_failures"),
                "factor_correlations",
            )
            self.why |= dict.fromkeys((*unknown, "prior_sensitivity", "without_domain"), reason)
            found["verdict"] = Verdict(
                single_attribute=CANNOT_TELL,
                why=f"Cannot tell: {reason}.",
                null_sets=self.settings.null_sets,
            )
        else:
            found |= self._dimensions(held, structures)
        found["by_judge"] = self._by_judge(of_judges, structures)
        found |= self._differences(held, structures)
        return found

    def _spectrum(self, held: Responses) -> Mapping[str, Any] | None:
        """The spectrum, with the null of one dimension under two priors of its fit."""
        chosen = self.settings
        if len(held.items) < 2:
            self.why["spectrum"] = f"{len(held.items)} items vary"
            return None
        try:
            found = {
                name: measure_spectrum(
                    held,
                    replicates=chosen.replicates,
                    percentile=chosen.percentile,
                    seed=chosen.seed,
                    correlation=chosen.correlation,
                    one_dimension=fit_unidimensional(held, priors=priors, errors=False),
                    tasks=chosen.tasks("spectra"),
                )
                for name, priors in SPECTRUM_PRIORS.items()
            }
        except InputError as error:
            self.why["spectrum"] = error.problem
            return None
        first, *others = found.items()
        self.warnings += first[1].warnings
        return {
            **first[1].to_dict(),
            "one_dimension_prior": first[0],
            "other_priors": [
                {
                    "prior": name,
                    "null_q95_one_dimension": other.to_dict()["null_q95_one_dimension"],
                    "exceed_one_dimension": other.exceed_one_dimension,
                }
                for name, other in others
            ],
        }

    def _dimensions(
        self, held: Responses, structures: Mapping[str, Mapping[str, str]]
    ) -> dict[str, Any]:
        """The comparison of models, the verdict and what is asked of them next."""
        chosen = self.settings
        models = candidate_models(held.items, structures, max_dims=chosen.max_dims)
        several = any(model.dimensions > 1 for model in models)
        table = compare_models(
            held,
            models,
            splits=chosen.splits,
            share=chosen.share,
            restarts=chosen.restarts,
            seed=chosen.seed,
            tasks=chosen.tasks("models"),
        )
        self.warnings += table.warnings
        verdict = (
            judge_dimensionality(
                held,
                models,
                VerdictSettings(
                    splits=chosen.splits,
                    share=chosen.share,
                    null_sets=chosen.null_sets,
                    seed=chosen.seed,
                ),
                known=table.losses,
                failed={failure.nesting for failure in table.nesting_failures},
                tasks=chosen.tasks("verdict"),
            )
            if several
            else Verdict(
                single_attribute=CANNOT_TELL,
                why=self._nothing_of_several(),
                null_sets=chosen.null_sets,
            )
        )
        mine = {row.name: row.log_loss.mean for row in table.models}
        unknown = [name for name in chosen.published if name not in mine]
        if unknown:
            self.warnings.append(f"No model is called {', '.join(unknown)}.")
        return {
            "models": table.models,
            "departures": departures(mine, chosen.published),
            "comparisons": table.comparisons,
            "nesting_failures": table.nesting_failures,
            "factor_correlations": self._correlations(table),
            "prior_sensitivity": self._priors(held, table, models),
            "without_domain": self._without_domain(held, structures),
            "verdict": verdict,
        }

    def _nothing_of_several(self) -> str:
        if self.unfitted:
            return (
                "Cannot tell: there is no model of several dimensions to compare, because "
                f"{self._no_structure()}, and none is explored."
            )
        return "Cannot tell: no model of several dimensions was asked for."

    def _correlations(self, table: ModelComparison) -> tuple[FactorCorrelations, ...]:
        """Of every structure, and of the best explored model of several dimensions."""
        explored = [row for row in table.models if row.kind == "exploratory" and row.dims > 1]
        names = [row.name for row in table.models if row.kind == "confirmatory"]
        if explored:
            # A fit that failed the nesting check is looked at only where all of them did.
            best = min(explored, key=lambda row: (row.rank is None, row.log_loss.mean))
            names.append(best.name)
        found = tuple(
            factor_correlations(table.fit(name), seed=self.settings.seed) for name in names
        )
        if not found:
            self.why["factor_correlations"] = "no model has several dimensions"
        return found

    def _priors(
        self, held: Responses, table: ModelComparison, models: tuple[CandidateModel, ...]
    ) -> tuple[PriorRow, ...]:
        chosen = self.settings
        masks = split_responses(held, splits=chosen.splits, share=chosen.share, seed=chosen.seed)
        several = next((model for model in models if model.name == table.best_several), None)
        return prior_sensitivity(held, masks, several, tasks=chosen.tasks("priors"))

    def _without_domain(
        self, held: Responses, structures: Mapping[str, Mapping[str, str]]
    ) -> tuple[DomainFollowUp, ...] | None:
        few = {
            name: held_by
            for name, held_by in structures.items()
            if len(set(held_by.values())) <= MOST_DOMAINS
        }
        if not few:
            self.why["without_domain"] = (
                f"every structure has more than {MOST_DOMAINS} domains"
                if structures
                else self._no_structure()
            )
            return None
        chosen = self.settings
        return drop_one_domain(
            held,
            few,
            splits=chosen.splits,
            share=chosen.share,
            restarts=min(2, chosen.restarts),
            seed=chosen.seed,
            tasks=chosen.tasks("domains"),
        )

    def _by_judge(
        self, of_judges: Mapping[str, Responses], structures: Mapping[str, Mapping[str, str]]
    ) -> ByJudge | None:
        if not of_judges:
            self.why["by_judge"] = (
                "one judge gave all verdicts that this rule can read, so whether it made a factor "
                "cannot be told"
            )
            return None
        chosen = self.settings
        found = by_judge(
            of_judges,
            next(iter(structures.values()), None),
            splits=chosen.splits,
            share=chosen.share,
            seed=chosen.seed,
            tasks=chosen.tasks("judges"),
        )
        self.warnings.append(found.sentence)
        return found

    def _differences(
        self, held: Responses, structures: Mapping[str, Mapping[str, str]]
    ) -> dict[str, Any]:
        chosen = self.settings
        duplicates = near_duplicates(held, chosen.clusters or None) if held.items else None
        if duplicates is None:
            self.why["near_duplicates"] = "no item varies"
        elif duplicates.groups or duplicates.why:
            self.warnings.append(duplicates.sentence())
        if not chosen.groups:
            self.why |= dict.fromkeys(("dif", "dif_groups"), "no groups were given")
            return {"near_duplicates": duplicates}
        rows: list[Any] = []
        compared: list[dict[str, Any]] = []
        reasons: list[str] = []
        for name, groups in chosen.groups.items():
            try:
                found = self._differences_between(held, groups, structures, name)
            except InputError as error:
                reasons.append(error.problem)
                self.warnings.append(f"Items were not compared by {name}: {error.problem}.")
                continue
            rows += found.rows
            compared.append(_groups(name, found))
            self.warnings += found.warnings
            self.warnings += found.not_compared(name)
        if not compared:
            self.why |= dict.fromkeys(("dif", "dif_groups"), "; ".join(dict.fromkeys(reasons)))
            return {"near_duplicates": duplicates}
        return {"dif": tuple(rows), "dif_groups": compared, "near_duplicates": duplicates}

    def check_names(self) -> None:
        """Look at the names of groupings and families before anything is fitted.

        Raises
        ------
        InputError
            For a grouping or families without a single target.
        """
        for name, groups in self.settings.groups.items():
            self._check_names(f"grouping {name!r}", "group", groups)
        if self.settings.clusters:
            self._check_names("the column of families", "family", self.settings.clusters)

    def _check_names(self, what: str, kind: str, given: Mapping[str, str]) -> None:
        """Say which targets have no entry, and which entries are no target."""
        targets = self.responses.targets
        named = {name for name, value in given.items() if value}
        if not named:
            raise InputError(
                f"{what} gives no target a {kind}",
                fix="its column is empty: fill it, or name another as FILE:COL",
            )
        without = [name for name in targets if name not in named]
        if len(without) == len(targets):
            raise InputError(
                f"{what} names none of the {len(targets):,} targets",
                fix="its keys, in a file the column target or model, are the names of the targets",
            )
        subject = f"{what[:1].upper()}{what[1:]}"
        if without:
            self.warnings.append(
                f"{subject} gives {len(without):,} of {len(targets):,} targets no {kind}: "
                f"{_few(without)}."
            )
        unknown = sorted(named - set(targets))
        if unknown:
            verb = "name that is no target" if len(unknown) == 1 else "names that are no targets"
            self.warnings.append(f"{subject} has {len(unknown):,} {verb}: {_few(unknown)}.")

    def _differences_between(
        self,
        held: Responses,
        groups: Mapping[str, str],
        structures: Mapping[str, Mapping[str, str]],
        name: str,
    ) -> DifferencesAudit:
        chosen = self.settings
        return audit_differences(
            held,
            groups,
            structure=next(iter(structures.values()), None),
            cluster=chosen.clusters or None,
            settings=DifferencesSettings(
                simulations=chosen.simulations,
                alpha=chosen.level,
                minimum_group=chosen.minimum_group,
                seed=chosen.seed,
            ),
            tasks=chosen.tasks(f"item differences by {name}"),
        )


def _groups(name: str, found: DifferencesAudit) -> dict[str, Any]:
    return {
        "grouping": name,
        "compared": found.compared,
        "refused": found.refused,
        "ungrouped": found.ungrouped,
        "skipped": found.skipped,
        "settings": found.settings,
    }


def _few(names: Sequence[str], most: int = 6) -> str:
    """The first names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _too_small(held: Responses) -> str:
    targets, items = held.codes.shape
    if targets >= FEWEST_TARGETS and items >= FEWEST_ITEMS:
        return ""
    return (
        f"{targets} targets and {items} items that tell them apart; {FEWEST_TARGETS} of each is "
        "the least on which models can be compared"
    )


def _with_saturation(verdict: Verdict, saturation: Saturation) -> Verdict:
    """Saturated items cannot support one attribute: they hardly could have shown another."""
    if verdict.single_attribute != SUPPORTED or saturation.modelable:
        return verdict
    return replace(
        verdict,
        single_attribute=CANNOT_TELL,
        why="Cannot tell: one dimension explains what there is, but the items are saturated.",
    )
