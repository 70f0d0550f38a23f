"""From evidence to an audit of one target: `audit_target`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.audits.finding import QUANTILES, AuditFinding
from safemetry.audits.fingerprint.answers import answer_counts, informative_items
from safemetry.audits.fingerprint.compare import compare_with_known
from safemetry.audits.fingerprint.rerun_rate import rate_of_runs
from safemetry.audits.fingerprint.result import Fingerprint
from safemetry.audits.fingerprint.settings import FingerprintSettings
from safemetry.audits.fingerprint.stream import DriftState, update
from safemetry.audits.person_fit.achieved import AchievedRate, out_of_sample_rates
from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.fit import PersonFit, judge_fit, surrounding_nulls
from safemetry.audits.person_fit.misfit import (
    CategoryMisfit,
    ItemMisfit,
    category_misfit,
    item_misfit,
)
from safemetry.audits.person_fit.null import PersonFitNull
from safemetry.audits.person_fit.selective import Selective, selective_scan_around
from safemetry.audits.runs import answers_of_runs, arranged
from safemetry.audits.settings import FEWEST_OTHERS, AuditSettings
from safemetry.audits.shift.shift import AbilityShift, ability_shift
from safemetry.audits.shift.sides import StoredAbility, stored_ability
from safemetry.audits.shift.union import UnionTest, audit_union
from safemetry.errors import InputError
from safemetry.findings import resolved
from safemetry.irt.parameters import BoolArray, ItemModel
from safemetry.irt.reading import Reading, read_responses
from safemetry.irt.responses import MISSING, Responses
from safemetry.irt.store import StoredCalibration, responses_digest
from safemetry.irt.unidimensional.marginal import fit_unidimensional
from safemetry.tasks import task_generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

BEFORE: Final = "before"
_NO_HISTORY: Final = "neither a stored calibration that knows the target nor earlier answers"
_NO_FIT: Final = "the items are not calibrated"
_MOST_IN_MATRIX: Final = 60
_FEWEST_HALVED: Final = 20


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
            f"there is no target {target!r}", fix=f"the targets are {_some(responses.targets)}"
        )
    work = _Work(chosen, responses, target, properties or {})
    calibrated, why = _calibrated(work, history)
    earlier = _earlier(before, target, graded=graded, **reading)
    _check_common(earlier, responses)
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
    fit = _fit(work, calibrated, why)
    runs, said = _runs(read, work, graded=graded, **reading)
    own = runs[:, int(work.is_target.argmax())]
    past = _past(history, earlier, target)
    shift, union = _shift(work, calibrated, past, own, why)
    found, borrowed = _fingerprint(work, runs, earlier, why)
    stream, drifted = _stream(work, own, earlier, why)
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
        answered=_answered(work, calibrated),
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
        agreement=_agreement(work, why),
        why=why,
    )


@dataclass(frozen=True)
class _Work:
    """What every part of an audit starts from."""

    settings: AuditSettings
    responses: Responses
    target: str
    properties: Mapping[str, Mapping[str, str]]

    def rng(self, part: str) -> np.random.Generator:
        """Random numbers of one part, which do not depend on the others."""
        return task_generator(self.settings.seed, part)

    @property
    def is_target(self) -> BoolArray:
        """Which rows are the target's."""
        return np.array([name == self.target for name in self.responses.targets], bool)

    @property
    def now(self) -> Responses:
        """The target alone."""
        return rows_of(self.responses, self.is_target)

    @property
    def others(self) -> Responses:
        """All others."""
        return rows_of(self.responses, ~self.is_target)

    def values(self, by: str, items: Sequence[str]) -> list[str | None]:
        """A property of items, None where unknown."""
        known = self.properties.get(by, {})
        return [known.get(item) for item in items]


@dataclass(frozen=True)
class _Fitted:
    """Everything about person fit."""

    fit: PersonFit | None = None
    quantiles: Mapping[str, Sequence[float]] = ()  # type: ignore[assignment]
    misfit: Mapping[str, Sequence[CategoryMisfit]] = ()  # type: ignore[assignment]
    items: Sequence[ItemMisfit] = ()
    selective: Mapping[str, Selective] = ()  # type: ignore[assignment]
    out_of_sample: tuple[AchievedRate, ...] | None = None
    remarks: Sequence[str] = ()


def rows_of(responses: Responses, chosen: BoolArray) -> Responses:
    """The responses of some targets."""
    return replace(
        responses,
        codes=np.ascontiguousarray(responses.codes[chosen]),
        targets=tuple(
            name for name, kept in zip(responses.targets, chosen.tolist(), strict=True) if kept
        ),
        weights=responses.weights[chosen],
    )


def _calibrated(
    work: _Work, history: StoredCalibration | None
) -> tuple[Calibrated | None, dict[str, str]]:
    """Calibrated items: those of the history, or from the other targets."""
    if history is not None:
        known = set(history.items) & set(work.responses.items)
        if not known:
            raise InputError(
                "no item of the responses is in the calibration",
                fix="name the calibration of these items",
            )
        return Calibrated.of_calibration(history), {}
    others = work.others
    parts = ("ability", "person_fit", "joint_null_rate", "union", "out_of_sample")
    if len(others.targets) < FEWEST_OTHERS:
        reason = (
            f"{len(others.targets)} other targets are too few to calibrate the items "
            f"({FEWEST_OTHERS} are needed); give a calibration"
        )
        return None, dict.fromkeys(parts, reason)
    codes = others.codes
    lowest = np.where(codes == MISSING, np.int8(127), codes).min(axis=0)
    varies = codes.max(axis=0) > lowest
    if varies.sum() < 2:
        return None, dict.fromkeys(parts, "fewer than 2 items tell the other targets apart")
    return Calibrated.of_fit(fit_unidimensional(others.select_items(varies))), {}


def _answered(work: _Work, calibrated: Calibrated | None) -> int:
    """Responses to calibrated items, or to any where none is."""
    now = work.now
    known = set(now.items if calibrated is None else calibrated.items)
    inside = np.array([item in known for item in now.items], bool)
    return int((now.observed[0] & inside).sum())


def _fit(work: _Work, calibrated: Calibrated | None, why: dict[str, str]) -> _Fitted:
    if calibrated is None:
        return _Fitted(quantiles={}, misfit={}, selective={})
    chosen, now = work.settings, work.now
    known = set(calibrated.items)
    usable = np.array([item in known for item in now.items], bool) & now.observed[0]
    if usable.sum() < 2:
        reason = f"the target answered {int(usable.sum())} calibrated items"
        parts = ("ability", "person_fit", "joint_null_rate", "union", "out_of_sample")
        why |= dict.fromkeys(parts, reason)
        return _Fitted(quantiles={}, misfit={}, selective={})
    order = None if chosen.order is None else _ranks(work.values(chosen.order, now.items))
    null, *around = surrounding_nulls(
        now,
        calibrated,
        statistics=chosen.statistics,
        simulations=chosen.simulations,
        rng=work.rng("person fit"),
        order=order,
    )
    misfit, selective = {}, {}
    for by in chosen.by:
        values = work.values(by, now.items)
        if len({value for value in values if value is not None}) < 1:
            continue
        misfit[by] = category_misfit(
            now,
            calibrated,
            values,
            level=chosen.level,
            simulations=chosen.simulations,
            rng=work.rng(f"misfit {by}"),
        )
        selective[by] = selective_scan_around(
            now,
            calibrated,
            values,
            level=chosen.level,
            simulations=chosen.simulations,
            rng=work.rng(f"selective {by}"),
        )[0]
    return _Fitted(
        judge_fit(null, chosen.level, around)[0],
        _quantiles(null),
        misfit,
        item_misfit(now, calibrated, work.target),
        selective,
        _out_of_sample(work, why),
        null.remarks,
    )


def _ranks(values: Sequence[str | None]) -> list[Any]:
    """Keys to sort by: numbers as numbers; items without a value come last."""
    try:
        numbers = [float("inf") if value is None else float(value) for value in values]
    except ValueError:
        return [("~" * 8 if value is None else value) for value in values]
    return list(numbers)


def _quantiles(null: PersonFitNull) -> dict[str, list[float]]:
    """Quantiles of each statistic among answers that fit, in its own direction."""
    found = {}
    for place, (name, side) in enumerate(zip(null.statistics, null.sides, strict=True)):
        worse = null.null_worse[0, place].astype(np.float64)
        known = worse[np.isfinite(worse)]
        if known.size:
            values = -known if side == "low" else known
            found[name] = np.percentile(values, QUANTILES).tolist()
    return found


def _out_of_sample(work: _Work, why: dict[str, str]) -> tuple[AchievedRate, ...] | None:
    """How often the others are flagged by halves of them."""
    others = work.others
    if len(others.targets) < _FEWEST_HALVED:
        why["out_of_sample"] = (
            f"{len(others.targets)} other targets are too few to be halved "
            f"({_FEWEST_HALVED} are needed)"
        )
        return None
    try:
        return out_of_sample_rates(
            others,
            rng=work.rng("out of sample"),
            level=work.settings.level,
            simulations=min(work.settings.simulations, 500),
            statistics=work.settings.statistics,
        )
    except InputError as error:
        why["out_of_sample"] = error.problem
        return None


# --- history -------------------------------------------------------------------------------------


def _earlier(before: Any, target: str, *, graded: bool, **reading: Any) -> Responses | None:
    """Earlier answers of the target, one row for each run."""
    if before is None:
        return None
    if isinstance(before, list):
        parts = [_earlier(one, target, graded=graded, **reading) for one in before]
        return _joined([part for part in parts if part is not None])
    read = read_responses(before, graded=graded, **reading)
    if target not in read.responses.targets:
        if len(read.responses.targets) != 1:
            raise InputError(
                f"the earlier answers have no target {target!r}",
                fix=f"their targets are {_some(read.responses.targets)}",
            )
        target = read.responses.targets[0]  # the same endpoint under an earlier name
    if read.evidence is None:
        return rows_of(
            read.responses, np.array([name == target for name in read.responses.targets], bool)
        )
    codes, _ = answers_of_runs(
        read.evidence, [target], read.responses.items, graded=graded, **_how(reading)
    )
    runs = codes[:, 0]
    return Responses(
        np.ascontiguousarray(runs), (target,) * len(runs), read.responses.items, np.ones(len(runs))
    )


def _joined(parts: Sequence[Responses]) -> Responses:
    """Runs from several sources, over all their items."""
    items = tuple(dict.fromkeys(item for part in parts for item in part.items))
    rows = [
        arranged(
            rows_of(part, np.arange(len(part.targets)) == row), part.targets[row : row + 1], items
        )
        for part in parts
        for row in range(len(part.targets))
    ]
    codes = np.concatenate(rows)
    return Responses(codes, (parts[0].targets[0],) * len(codes), items, np.ones(len(codes)))


def _check_common(earlier: Responses | None, responses: Responses) -> None:
    if earlier is not None and not set(earlier.items) & set(responses.items):
        raise InputError(
            "no item was answered both before and now",
            fix="items must have the same names: read from several files, or in several "
            f"benchmarks, they are called {responses.items[0]!r} and {earlier.items[0]!r}",
        )


def _how(reading: Mapping[str, Any]) -> dict[str, Any]:
    """What still applies to evidence that was read."""
    return {name: value for name, value in reading.items() if name != "evidence_map"}


def _past(
    history: StoredCalibration | None, earlier: Responses | None, target: str
) -> Responses | StoredAbility | str:
    """What the ability is compared with, or why there is nothing."""
    if earlier is not None:
        return earlier
    if history is None or target not in history.targets:
        return _NO_HISTORY
    try:
        return stored_ability(history, target)
    except InputError as error:
        return error.problem


def _shift(
    work: _Work,
    calibrated: Calibrated | None,
    past: Responses | StoredAbility | str,
    own: Codes,
    why: dict[str, str],
) -> tuple[AbilityShift | None, UnionTest | None]:
    parts = ("ability_shift", "shift_and_fit")
    if isinstance(past, str) or calibrated is None:
        why |= dict.fromkeys(parts, past if isinstance(past, str) else _NO_FIT)
        return None, None
    shift = work.settings.shift()
    known = set(calibrated.items)
    now = work.now
    if isinstance(past, Responses):
        past = past.select_items(np.array([item in known for item in past.items], bool))
        # Earlier answers are single runs, and so are these: a majority of runs is more extreme.
        count = len(own)
        now = Responses(own, (work.target,) * count, now.items, np.ones(count))
    now = now.select_items(np.array([item in known for item in now.items], bool))
    one = rows_of(now, np.arange(len(now.targets)) == 0)
    try:
        found = ability_shift(now, past, calibrated, shift, rng=work.rng("shift"))
        union = audit_union(one, past, calibrated, shift, rng=work.rng("union"))
    except InputError as error:
        why |= dict.fromkeys(parts, error.problem)
        return None, None
    return found, union


# --- identity ------------------------------------------------------------------------------------


def _runs(read: Reading, work: _Work, **reading: Any) -> tuple[Codes, list[str]]:
    """Answers of each run of each target, shape ``(T, N, J)``."""
    responses = work.responses
    if read.evidence is None:
        return responses.codes[None], []
    codes, said = answers_of_runs(
        read.evidence, responses.targets, responses.items, **_how(reading)
    )
    return codes, [] if said is None else [said]


def _fingerprint(
    work: _Work, runs: Codes, earlier: Responses | None, why: dict[str, str]
) -> tuple[Fingerprint | None, list[str]]:
    chosen, responses = work.settings, work.responses
    fingerprints = chosen.fingerprint()
    said: list[str] = []
    wanted = chosen.references
    names = [name for name in responses.targets if name != work.target]
    if wanted is not None:
        strange = [name for name in wanted if name not in names]
        if strange:
            raise InputError(
                f"there is no known target {strange[0]!r}", fix=f"they are {_some(names)}"
            )
        names = [name for name in names if name in wanted]
    places = [responses.targets.index(name) for name in names]
    known = runs[:, places]
    if earlier is not None:
        own = np.stack(
            [
                arranged(
                    rows_of(earlier, np.arange(len(earlier.targets)) == row),
                    earlier.targets[row : row + 1],
                    responses.items,
                )
                for row in range(len(earlier.targets))
            ]
        )
        if chosen.disagreement is None and len(own) > 1 and not _are_repeated(known):
            fingerprints, own, said = _borrowed(fingerprints, known, own)
        depth = max(len(known), len(own))
        known = np.concatenate([_deep(known, depth), _deep(own, depth)], axis=1)
        names.append(f"{work.target} ({BEFORE})")
    if len(names) < 2:
        why |= dict.fromkeys(("fingerprint", "identity"), "fewer than 2 known targets")
        return None, ["With fewer than 2 known targets no fingerprint is taken."]
    own_runs = runs[:, int(work.is_target.argmax())]
    found = compare_with_known(
        own_runs,
        known,
        target=work.target,
        references=names,
        clusters=_clusters(work),
        settings=fingerprints,
        rng=work.rng("fingerprint"),
    )
    return found, said


def _are_repeated(known: Codes) -> bool:
    """Whether any known target has two answers to an item."""
    return bool(((known >= 0).sum(axis=0) > 1).any())


def _borrowed(
    settings: FingerprintSettings, known: Codes, own: Codes
) -> tuple[FingerprintSettings, Codes, list[str]]:
    """The re-run disagreement of the target's own past, for all: nobody else was run twice.

    With one target that is known better than all others, every difference from it would count as
    one between targets.
    """
    size = max(int(known.max()), int(own.max()), 1) + 1
    informative = informative_items(answer_counts(known, size))
    runs = own[:, 0][:, informative]
    try:
        rate = rate_of_runs(runs)
    except InputError:
        return settings, own[:1], []
    middle = min(max((rate.lower + rate.upper) / 2, 0.005), 0.45)
    said = (
        f"Only {BEFORE} there are several runs: their disagreement on informative items, about "
        f"{middle:.1%}, is taken for that of every known target."
    )
    return replace(settings, disagreement=middle), own[:1], [said]


def _deep(codes: Codes, depth: int) -> Codes:
    """Padded to a number of runs."""
    more = np.full((depth - len(codes), *codes.shape[1:]), MISSING, np.int8)
    return np.concatenate([codes, more])


def _clusters(work: _Work) -> list[str] | None:
    by = work.settings.clusters
    if by is None or by not in work.properties:
        return None
    items = work.responses.items
    return [
        f"item {item}" if value is None else f"cluster {value}"
        for item, value in zip(items, work.values(by, items), strict=True)
    ]


def _stream(
    work: _Work, own: Codes, earlier: Responses | None, why: dict[str, str]
) -> tuple[DriftState | None, list[str]]:
    """The sequential check over the items in random order."""
    if earlier is None:
        why["stream"] = "no earlier answers"
        return None, []
    now = work.now
    informative = _informative(work)
    common = [
        item
        for item, kept in zip(now.items, informative.tolist(), strict=True)
        if kept and item in set(earlier.items)
    ]
    if not common:
        why["stream"] = "no informative item was answered before and now"
        return None, []
    rng = work.rng("stream")
    past = np.stack([earlier.codes[:, earlier.items.index(item)] for item in common])
    new = np.array([own[0, now.items.index(item)] for item in common])
    drift, said = work.settings.drift(), []
    if drift.rate is None and (past >= 0).sum(axis=1).max() > 1:
        drift = replace(drift, rate=rate_of_runs(past.T))
    if drift.rate is None:
        drift = replace(drift, direction=True)
        said.append(
            "How often a re-run differs is not known: the sequential check sees a change of "
            "direction only (more refusals, or fewer). Give several earlier runs, or "
            "--disagreement."
        )
    state = DriftState(drift)
    for place in rng.permutation(len(common)).tolist():
        state = update(state, past[place].tolist(), int(new[place]))
    return state, said


def _informative(work: _Work) -> BoolArray:
    """Items that tell the other targets apart; all where there are none."""
    others = work.others.codes
    if len(others) < 2:
        return np.ones(len(work.responses.items), bool)
    size = max(int(work.responses.codes.max()), 1) + 1
    found: BoolArray = informative_items(answer_counts(others[None], size))
    return found if found.any() else np.ones_like(found)


def _agreement(work: _Work, why: dict[str, str]) -> dict[str, Any] | None:
    """Agreement of the target and the others on informative items."""
    responses = work.responses
    if len(responses.targets) < 2:
        why["agreement_matrix"] = "there is one target"
        return None
    codes = responses.codes
    size = max(int(codes.max()), 1) + 1
    informative = informative_items(answer_counts(codes[None], size))
    if not informative.any():
        why["agreement_matrix"] = "no item tells the targets apart"
        return None
    part = codes[:, informative]
    equal = np.zeros((len(part), len(part)))
    seen = (part >= 0).astype(np.float64)
    for code in range(size):
        chosen = (part == code).astype(np.float64)
        equal += chosen @ chosen.T
    both = seen @ seen.T
    share = np.where(both > 0, equal / np.maximum(both, 1), np.nan)
    place = int(work.is_target.argmax())
    nearest = np.argsort(-np.nan_to_num(share[place], nan=-1.0), kind="stable")
    kept = [place, *(one for one in nearest.tolist() if one != place)][:_MOST_IN_MATRIX]
    return {
        "names": [responses.targets[one] for one in kept],
        "items": int(informative.sum()),
        "values": [
            [_share(share[row, column]) if row != column else _SELF for column in kept]
            for row in kept
        ],
    }


_SELF: Final = 1.0
_NOTHING_COMMON: Final = -1.0


def _share(value: float) -> float:
    """An agreement; -1 where two targets have no informative item in common."""
    return float(value) if np.isfinite(value) else _NOTHING_COMMON


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    made = text[:1].upper() + text[1:]
    return made if made.endswith((".", "!", "?")) else f"{made}."
