"""From evidence to an audit of its judges: `audit_judges`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.identity import by_judge
from safemetry.evidence.maps import EvidenceMap
from safemetry.findings import resolved
from safemetry.judges.agreement.against_gold import GoldTable, compare_with_gold
from safemetry.judges.agreement.agreement_table import measure_agreement
from safemetry.judges.agreement.gold import gold_of
from safemetry.judges.card.card import Card, fill_card
from safemetry.judges.card.notes import CardNotes
from safemetry.judges.coding import panel_of
from safemetry.judges.collapse import Collapse, CollapseState, find_collapse
from safemetry.judges.correction.correct import correct
from safemetry.judges.correction.correction_settings import CorrectionSettings
from safemetry.judges.correction.label_plan import LabelPlan, plan_labels
from safemetry.judges.correction.sampling import Sampling
from safemetry.judges.counts import ClassCounts, count_classes
from safemetry.judges.finding import JudgesFinding
from safemetry.judges.latent.dawid_skene import dawid_skene
from safemetry.judges.latent.own_family import own_family
from safemetry.judges.latent.severity import many_facet_severity
from safemetry.judges.movement import PANEL_MAJORITY, measure_movement
from safemetry.judges.noise import measure_noise
from safemetry.judges.panel import NO_VERDICT, Panel
from safemetry.judges.settings import JudgeSettings, in_words
from safemetry.judges.specifications import specification_curves
from safemetry.judges.spread import measure_spread

_HALF: Final = 0.5
_MOSTLY: Final = 0.9
"""A gold judge that labelled a smaller share of what the others judged in common is left out of the
class counts: it would make the common responses few."""


def audit_judges(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    settings: JudgeSettings | None = None,
    notes: CardNotes | None = None,
    developers: Mapping[str, str] | None = None,
    families: Mapping[str, str] | None = None,
    sampling: Sampling | None = None,
    **options: Any,
) -> JudgesFinding:
    """Audit whether the judges of some responses can be believed.

    Parameters
    ----------
    data
        Evidence, or a table with the columns of the judgements table.
    evidence_map
        A map, or a mapping with its entries.
    settings
        Settings; or give their fields as options.
    notes
        What the evidence does not know, for the report card.
    developers
        Target -> who made it.
    families
        Judge -> who made it, to see whether a judge favours its own family.
    sampling
        With which chance responses were chosen for a gold label, see `read_sampling`; None where
        all responses of an intent had the same.
    **options
        Fields of `JudgeSettings`, such as ``gold=("human",)``.

    Raises
    ------
    InputError
        For data or settings that cannot be used, and for judges that have no response in common.
    """
    chosen = settings or JudgeSettings(**options)
    evidence = as_evidence(data, evidence_map)
    panel = panel_of(evidence, success=chosen.success)
    for name in (*chosen.gold, *chosen.humans, *(families or {})):
        panel.place(name)
    counted, said = _without_sparse(panel, (*chosen.gold, *chosen.humans))
    compared, left = _without_sparse(counted, counted.judges, _HALF)
    counts = count_classes(counted)
    collapse = find_collapse(counted, counts, chosen.collapse())
    collapsed = {
        row.judge
        for row in collapse
        if row.target is None
        and row.state is CollapseState.COLLAPSED
        and row.name in panel.classes[: panel.ordered]
    }
    spread = measure_spread(counted, counts, collapsed, level=chosen.level)
    noise = measure_noise(panel, level=chosen.level)
    rng = np.random.default_rng(chosen.seed)
    why: dict[str, str] = {}
    reference = _reference(panel, chosen)
    moves, directions = _movement(panel, reference, chosen.level, why)
    table = measure_agreement(panel, rng, chosen.agreement())
    gold = _gold(panel, chosen, rng, why)
    card = fill_card(
        evidence.identities,
        panel,
        counts=counts,
        accuracy=gold,
        noise=noise,
        spread=spread,
        notes=notes,
        targets=evidence.targets,
        gold=chosen.gold,
        benchmarks=sorted({b for b in evidence.items["benchmark"].to_pylist() if b}),
        level=chosen.level,
    )
    return JudgesFinding(
        settings=resolved(
            {
                **chosen.resolved(),
                "reference": in_words(reference),
                "order": list(panel.classes[: panel.ordered]),
            },
            "not given",
        ),
        warnings=tuple(
            dict.fromkeys(
                (
                    *evidence.warnings,
                    *panel.warnings,
                    *said,
                    *left,
                    *_weighted(sampling),
                    *_few_in_common(counted, counts),
                    *_inferred(collapse),
                    *_unused(card),
                )
            )
        ),
        judges=panel.judges,
        classes=panel.classes,
        ordered=panel.ordered,
        responses=panel.responses,
        common=int(counts.common[0]),
        missing=panel.missing,
        counts=counts.rows(),
        collapse=collapse,
        movement=moves,
        directions=directions,
        spread=spread,
        agreement={
            "pairs": table.pairs,
            "panel": table.panel,
            "gold": gold,
            "why": {**table.why, **({} if gold else {"gold": "no judge is named as gold"})},
        },
        noise=noise,
        corrected=_corrected(panel, chosen, sampling, why),
        labels=_label_plan(panel, chosen, sampling),
        without_gold=_without_gold(
            panel, chosen, (developers or {}, families or {}), _models(evidence), rng
        ),
        specifications=specification_curves(compared, _rubrics(evidence), level=chosen.level),
        card=card,
        why=why,
    )


def _without_sparse(
    panel: Panel, suspects: Sequence[str], least: float = _MOSTLY
) -> tuple[Panel, list[str]]:
    """The panel without those of some judges that judged few of the responses.

    People, of gold or not, are measured by what the others have judged in common, and leave the
    class counts. Any judge is measured by the one that judged most, and leaves the specification
    curve, whose bounds for missing verdicts would be all that is seen of it.
    """
    judged = panel.labels != NO_VERDICT
    people = set(suspects) < set(panel.judges)
    if people:
        others = [name for name in panel.judges if name not in suspects]
        base = panel.select(judges=others).common
    else:
        base = judged[:, int(judged.sum(axis=0).argmax())]
    if not base.any() or len(panel.judges) < 2 or not suspects:
        return panel, []
    sparse = [name for name in suspects if judged[base, panel.place(name)].mean() < least]
    kept = [name for name in panel.judges if name not in sparse]
    if not sparse or not kept:
        return panel, []
    parts = (
        "class counts, the collapse rule, the spread and the specification curve"
        if people
        else "specification curve"
    )
    return panel.select(judges=kept), [
        f"Judge {name!r} labelled a part of the responses only, and is left out of the {parts}."
        for name in sparse
    ]


def _weighted(sampling: Sampling | None) -> list[str]:
    """What the chances of the labels enter, and what they do not."""
    if sampling is None:
        return []
    return [
        (
            "The responses with gold labels were chosen with unequal chances. Corrected rates and "
            "the labels needed take that into account; agreement and accuracy against gold, "
            "movement from gold and the card describe the labelled responses alone."
        )
    ]


def _few_in_common(panel: Panel, counts: ClassCounts) -> list[str]:
    """A warning where counts over common responses leave out most of what was judged."""
    judged = (panel.labels != NO_VERDICT).sum(axis=0)
    common = int(counts.common[0])
    if common >= _HALF * judged.max():
        return []
    each = ", ".join(
        f"{name} {count:,}" for name, count in zip(panel.judges, judged.tolist(), strict=True)
    )
    said = (
        f"Class counts, the collapse rule and the spread are over the {common:,} responses that "
        f"every judge has judged, of {each}."
    )
    return [said]


def _inferred(collapse: Sequence[Collapse]) -> list[str]:
    """A warning for each judge that never gave a class which others give often."""
    found = {
        (row.judge, row.name): row
        for row in reversed(collapse)
        if row.state is CollapseState.CANNOT_EMIT
        and not row.declared
        and not row.missing_labels
        and row.max_count
    }
    return [
        f"{row.judge} never gave {row.name}, which {row.max_judge} gave {row.max_count:,} of "
        f"{row.common:,} times, and the map does not say whether it could: it is taken to be "
        "unable to. If it can, it is collapsed; say so with "
        f"judges: {{{row.judge}: {{classes: [...]}}}} in the map."
        for row in reversed(found.values())
    ]


def _unused(card: Card) -> list[str]:
    """A warning for notes that speak of nothing that is there."""
    if not card.unused:
        return []
    return [f"Notes that name nothing in the evidence were not used: {', '.join(card.unused)}."]


def _reference(panel: Panel, settings: JudgeSettings) -> str | tuple[str, ...]:
    """Two judges have a majority only where they agree, so that nothing would move from it."""
    start = settings.start
    return panel.judges[0] if start == PANEL_MAJORITY and len(panel.judges) == 2 else start


def _movement(
    panel: Panel, reference: str | tuple[str, ...], level: float, why: dict[str, str]
) -> tuple[Any, Any]:
    left = len(panel.judges) - (1 if isinstance(reference, str) else len(reference))
    if len(panel.judges) < 2 or not left:
        reason = "there is one judge" if len(panel.judges) < 2 else "every judge is gold"
        why |= dict.fromkeys(("movement", "directions"), reason)
        return None, None
    return measure_movement(panel, reference, level=level)


def _gold(
    panel: Panel, settings: JudgeSettings, rng: np.random.Generator, why: dict[str, str]
) -> GoldTable | None:
    if not settings.gold:
        return None
    try:
        return compare_with_gold(
            panel,
            settings.gold,
            rng,
            humans=settings.humans,
            pooled=settings.pooled,
            settings=settings.agreement(),
        )
    except InputError as error:
        why["agreement.gold"] = error.problem
        return None


def _corrected(
    panel: Panel, settings: JudgeSettings, sampling: Sampling | None, why: dict[str, str]
) -> Any:
    if not settings.gold:
        if sampling is not None:
            raise InputError(
                "there are sampling probabilities, and no judge is named as gold",
                fix="name whose labels they are with --gold",
            )
        why["corrected"] = "no judge is named as gold"
        return None
    judges = [name for name in panel.judges if name not in {*settings.gold, *settings.humans}]
    if not judges:
        why["corrected"] = "every judge is gold or human"
        return None
    probability = None
    if sampling is not None:
        labelled = gold_of(panel, settings.gold).labels != NO_VERDICT
        probability = sampling.of(panel, labelled)
    return correct(
        panel,
        settings.gold,
        judges=judges,
        probability=probability,
        settings=CorrectionSettings(level=settings.level),
    )


def _label_plan(panel: Panel, settings: JudgeSettings, sampling: Sampling | None) -> LabelPlan:
    """Of the judges that are no people."""
    earlier = None
    if sampling is not None:
        everywhere = np.ones(panel.responses, bool)
        labelled = gold_of(panel, settings.gold).labels != NO_VERDICT
        earlier = sampling.of(panel, everywhere if settings.further else labelled)
    judges = [name for name in panel.judges if name not in settings.humans]
    reference = settings.reference
    return plan_labels(
        panel.select(judges=judges),
        settings.gold,
        np.random.default_rng(settings.seed),
        width=settings.width,
        further=settings.further,
        earlier=earlier,
        judge=reference if reference in {*judges} - {*settings.gold} else None,
        level=settings.level,
    )


def _without_gold(
    panel: Panel,
    settings: JudgeSettings,
    makers: tuple[Mapping[str, str], Mapping[str, str]],
    same_model: Mapping[str, str],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Models of the judges themselves; what cannot be fitted has its reason."""
    developers, families = makers
    why: dict[str, str] = {}
    found: dict[str, Any] = {
        "dawid_skene": dawid_skene(panel, rng, leave_out=settings.gold, same_model=same_model),
        "severity": many_facet_severity(panel, level=settings.level),
        "own_family": None,
    }
    if developers and families:
        found["own_family"] = own_family(panel, families, developers, rng, level=settings.level)
    else:
        why["own_family"] = "who made the targets and the judges is not stated"
    return found | ({"why": why} if why else {})


def _models(evidence: Evidence) -> dict[str, str]:
    """Judge -> its model, where the evidence states one."""
    found = {}
    for name, identities in by_judge(evidence.identities).items():
        models = {identity.model for identity in identities if identity.model}
        if len(models) == 1:
            found[name] = models.pop()
    return found


def _rubrics(evidence: Evidence) -> dict[str, str]:
    """Judge -> digest of its rubric, where it has one."""
    found = {}
    for name, identities in by_judge(evidence.identities).items():
        rubrics = {identity.rubric for identity in identities if identity.rubric}
        if len(rubrics) == 1:
            found[name] = rubrics.pop()
    return found
