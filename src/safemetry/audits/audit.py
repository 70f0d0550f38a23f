"""From evidence to an audit of one target: `audit_target`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safemetry.audits.finding import AuditFinding
from safemetry.audits.fitted import answered_items, calibrate_others, fit_target
from safemetry.audits.identity import (
    agreements,
    run_stream,
    runs_of_all,
    take_fingerprint,
)
from safemetry.audits.past import check_common, earlier_answers, past_ability, shift_and_union
from safemetry.audits.settings import AuditSettings
from safemetry.audits.work import AuditWork, some_of
from safemetry.errors import InputError
from safemetry.findings import resolved
from safemetry.irt.parameters import ItemModel
from safemetry.irt.reading import read_responses
from safemetry.irt.store import StoredCalibration, responses_digest


def audit_target(
    data: Any,
    target: str,
    *,
    history: StoredCalibration | None = None,
    before: Any = None,
    properties: Mapping[str, Mapping[str, str]] | None = None,
    settings: AuditSettings | None = None,
    **reading: Any,
) -> AuditFinding:
    """Audit one target: person fit, shift of the ability, fingerprint, and drift from its past.

    Parameters
    ----------
    data
        `Responses`, a `ResponseMatrix`, evidence, or a table with the columns of the judgements
        table, of the target and of others.
    target
        Its name.
    history
        A calibration of the items, in which the target may have an ability; without it the items
        are calibrated on the other targets.
    before
        Earlier answers of the target, data of any of these kinds.
    properties
        Property -> item -> value.
    settings
        See `AuditSettings`.
    **reading
        ``evidence_map``, ``success`` and ``judge``, see `read_responses`.

    Raises
    ------
    InputError
        For an unknown target, or data that cannot be used.
    """
    chosen = settings or AuditSettings()
    graded = history is not None and history.model is ItemModel.GRADED
    read = read_responses(data, graded=graded, **reading)
    responses = read.responses
    if target not in responses.targets:
        raise InputError(
            f"there is no target {target!r}", fix=f"the targets are {some_of(responses.targets)}"
        )
    work = AuditWork(chosen, responses, target, properties or {})
    calibrated, why = calibrate_others(work, history)
    earlier = earlier_answers(before, target, graded=graded, **reading)
    check_common(earlier, responses)
    warnings = [*read.warnings]
    if earlier is not None and earlier.targets[0] != target:
        warnings.append(
            f"The earlier answers are of {earlier.targets[0]!r}, and are taken for those of "
            f"{target!r}."
        )
    if history is not None and target in history.targets:
        warnings.append(
            f"{target} is one of the targets that the items were calibrated on: it pulled the "
            "items towards its own answers, and misfit is harder to see."
        )
    fit = fit_target(work, calibrated, why)
    runs, said = runs_of_all(read, work, graded=graded, **reading)
    own = runs[:, int(work.is_target.argmax())]
    past = past_ability(history, earlier, target)
    shift, union = shift_and_union(work, calibrated, past, own, why)
    found, borrowed = take_fingerprint(work, runs, earlier, why)
    stream, drifted = run_stream(work, own, earlier, why)
    said += borrowed
    parts = (fit.remarks, shift.warnings if shift else (), found.warnings if found else ())
    warnings += [*said, *drifted, *(_sentence(text) for part in parts for text in part)]
    return AuditFinding(
        settings=resolved(
            {"responses": responses_digest(responses), "target": target, **chosen.resolved()},
            "not given",
        ),
        warnings=tuple(dict.fromkeys(warnings)),
        target=target,
        items=len(responses.items) if calibrated is None else len(calibrated.items),
        answered=answered_items(work, calibrated),
        fit=fit.fit,
        null_quantiles=fit.quantiles,
        misfit=fit.misfit,
        misfit_items=fit.items,
        categories=work.properties.get(chosen.by[0], {}) if chosen.by else {},
        selective=fit.selective,
        shift=shift,
        union=union,
        fingerprint=found,
        stream=stream,
        out_of_sample=fit.out_of_sample,
        agreement=agreements(work, why),
        why=why,
    )


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    made = text[:1].upper() + text[1:]
    return made if made.endswith((".", "!", "?")) else f"{made}."
