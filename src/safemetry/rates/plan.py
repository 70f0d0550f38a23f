"""How many trials a statement needs, and whether items or repeats buy more: `plan_trials`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow.compute as pc

from safemetry.errors import InputError, MixedIntentError
from safemetry.evidence.evidence import as_evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.outcomes import refuse_duplicates, responses
from safemetry.evidence.success import Aggregation, SuccessRule
from safemetry.findings import Finding, plain, resolved
from safemetry.rates import components as parts
from safemetry.rates.codes import Codes
from safemetry.rates.planning import repeats_plan, trials_for_ceiling

_REPEATS = (1, 2, 3, 5, 10)


@dataclass(frozen=True, kw_only=True)
class PlanFinding(Finding):
    """Trials that a ceiling needs.

    Parameters
    ----------
    trials
        Fewest independent trials.
    projected
        Events at the ceiling over the volume; None where no volume was given.
    """

    command: ClassVar[str] = "plan"
    sources: ClassVar[tuple[str, ...]] = (
        "Clopper, C. J. & Pearson, E. S. (1934). Biometrika 26, 404-413.",
    )

    trials: int
    ceiling: float
    failures: int
    confidence: float
    projected: float | None = None
    why: Mapping[str, str]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row."""
        return [self.own_keys()]

    def sentence(self) -> str:
        """The plan in words."""
        seen = {0: "no failure", 1: "one failure"}.get(self.failures, f"{self.failures} failures")
        said = (
            f"{self.trials:,} independent trials with {seen} show at {100 * self.confidence:g}% "
            f"confidence that the failure rate is at most {100 * self.ceiling:g}%"
        )
        if self.projected is not None:
            said += f", which is up to {self.projected:,.0f} failures at that volume"
        return said + "."


def plan_trials(
    ceiling: float, *, failures: int = 0, confidence: float = 0.95, volume: float | None = None
) -> PlanFinding:
    """Plan the fewest independent trials after which a failure rate is known to be low enough.

    Parameters
    ----------
    ceiling
        Failure rate to stay under, in (0, 1).
    failures
        Failures that may happen in the trials, 0 or more.
    confidence
        One-sided, in (0, 1).
    volume
        Requests to project the ceiling onto.

    Raises
    ------
    InputError
        For impossible parameters.

    Examples
    --------
    >>> plan_trials(0.001).trials, plan_trials(0.001, failures=1).trials
    (2995, 4742)
    """
    if volume is not None and not 0 < volume < math.inf:
        raise InputError(f"volume {volume:g} is not a positive number of requests")
    try:
        trials = trials_for_ceiling(ceiling, failures, confidence)
    except ValueError as error:
        raise InputError(str(error)) from error
    return PlanFinding(
        settings=resolved(
            {
                "ceiling": ceiling,
                "failures": failures,
                "confidence": confidence,
                "volume": volume,
            }
        ),
        trials=trials,
        ceiling=ceiling,
        failures=failures,
        confidence=confidence,
        projected=None if volume is None else ceiling * volume,
        why={"projected": "no volume was given"} if volume is None else {},
    )


@dataclass(frozen=True, kw_only=True)
class ComponentsFinding(Finding):
    """Where the variance of an outcome lies, and how precise plans of repeats would be."""

    command: ClassVar[str] = "plan"

    components: parts.VarianceComponents
    plans: tuple[Mapping[str, Any], ...]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per plan."""
        return [plain(plan) for plan in self.plans]

    def sentence(self) -> str:
        """What the largest component is."""
        known = {
            name: value
            for name, value in plain(self.components).items()
            if isinstance(value, float) and name != "total"
        }
        if not known or not self.components.total:
            reasons = dict.fromkeys(self.components.why.values())
            return f"The variance cannot be divided: {'; '.join(reasons) or 'it is zero'}."
        largest = max(known, key=known.__getitem__)
        share = known[largest] / sum(known.values())
        return f"{share:.0%} of the variance lies in {_in_words(largest, self.components.merged)}."


_WORDS: Final = {
    "target": "target (how targets differ over all items)",
    "item": "item (how items differ for all targets)",
    "target_item": "target x item (which items are hard for which target)",
    "epoch": "epoch (how responses of one target to one item differ)",
}


def _in_words(component: str, merged: Mapping[str, str]) -> str:
    """A component and what it is; the residual holds what the design could not tell apart."""
    if component != "residual":
        return _WORDS.get(component, component.replace("_", " x "))
    within = {name for name, container in merged.items() if container == "residual"}
    if "target_item" in within:
        return "residual (target x item, and what repeats would show)"
    if "item" in within:
        return "residual (how items differ, and what repeats would show)"
    return "residual (how responses of one target to one item differ)"


def plan_repeats(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
    epochs: Sequence[int] = _REPEATS,
) -> ComponentsFinding:
    """Divide the variance of outcomes, and weigh more items against more repeats.

    Parameters
    ----------
    data
        Evidence or a table.
    evidence_map
        A map, or a mapping with its entries.
    success
        Success rule; the default of the evidence where None.
    epochs
        Responses per item to plan for, each 1 or more; the number of responses stays as it is.

    Raises
    ------
    InputError
        Where no response was judged, a number of responses is under 1, or there are several judges
        whose verdicts the rule does not make one.
    MixedIntentError
        Where items of several intents were judged.
    """
    for repeats in epochs:
        if repeats < 1:
            raise InputError(f"{repeats} responses per item are no plan", fix="count from 1")
    evidence = as_evidence(data, evidence_map)
    rule = SuccessRule.parse(success) if success else evidence.default_rule
    frame, warnings = responses(evidence, rule, by=("intent",))
    table = (
        frame.filter(nw.col("judged") == 1)
        .select("run", "target", "item", "epoch", "judge", "success", "irregular", "intent")
        .collect("pyarrow")
        .to_arrow()
    )
    if not table.num_rows:
        raise InputError("no response was judged", file=", ".join(evidence.sources))
    if table["irregular"].to_numpy().any():
        refuse_duplicates(evidence)
    _refuse_pooled(table, rule)
    codes = {name: Codes.of(table[name]).codes for name in ("target", "item", "judge")}
    run, epoch = Codes.of(table["run"]), Codes.of(table["epoch"])
    found = parts.variance_components(
        table["success"].to_numpy().astype(np.float64),
        codes["target"],
        codes["item"],
        run.codes * len(epoch.values) + epoch.codes,
        codes["judge"],
    )
    per_target = table.num_rows / (len(np.unique(codes["target"])) * len(np.unique(codes["judge"])))
    return ComponentsFinding(
        settings={"success": str(rule), "epochs": tuple(epochs), "sources": evidence.sources},
        warnings=(*evidence.warnings, *warnings),
        components=found,
        plans=tuple(_plan(found, per_target, repeats) for repeats in epochs),
    )


def _refuse_pooled(table: Any, rule: SuccessRule) -> None:
    """Refuse outcomes of which a rate would be made of more than one thing."""
    judges = sorted(map(str, pc.unique(table["judge"]).to_pylist()))
    if rule.aggregation is Aggregation.EACH and len(judges) > 1:
        shown = ", ".join(judges[:6]) + (f" and {len(judges) - 6} more" if len(judges) > 6 else "")
        raise InputError(
            f"the outcomes come from {len(judges)} judges ({shown}), and how they differ is no "
            "part of the precision of a rate by one",
            fix=f"choose one with --filter judge=NAME, or use --success {rule.boundary}/majority",
        )
    intents = sorted(set(pc.unique(table["intent"]).to_pylist()) - {None})
    if len(intents) > 1:
        raise MixedIntentError(
            f"a plan over {' and '.join(intents)} items pools different rates; plan for one, with "
            "--filter intent=harmful"
        )


def _plan(found: parts.VarianceComponents, responses_each: float, repeats: int) -> dict[str, Any]:
    items = max(1, round(responses_each / repeats))
    result = repeats_plan(found, [items], [repeats])
    error = None if result.standard_error is None else float(result.standard_error[0])
    plan = {"items": items, "epochs": repeats, "standard_error": error}
    return plan | {"why": {} if error is not None else {"standard_error": result.why}}
