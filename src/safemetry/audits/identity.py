"""Which known target a target is, and whether it is still what it was."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.audits.fingerprint.agreement import agreement_matrix
from safemetry.audits.fingerprint.answers import answer_counts, informative_items
from safemetry.audits.fingerprint.compare import compare_with_known
from safemetry.audits.fingerprint.rerun_rate import (
    estimated_rate,
    pairs_of_runs,
    rate_of_runs,
)
from safemetry.audits.fingerprint.result import Fingerprint
from safemetry.audits.fingerprint.settings import FingerprintSettings
from safemetry.audits.fingerprint.stream import DriftState, update
from safemetry.audits.past import still_applies
from safemetry.audits.runs import answers_of_runs, over_items
from safemetry.audits.work import AuditWork, some_of
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray
from safemetry.irt.reading import Reading
from safemetry.irt.responses import MISSING, Responses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

BEFORE: Final = "before"
_MOST_IN_MATRIX: Final = 40
_DOUBT: Final = 0.01
"""Chance that each bound of the re-run rate is wrong, of the error rate of the sequential check."""


def runs_of_all(read: Reading, work: AuditWork, **reading: Any) -> tuple[Codes, list[str]]:
    """Answers of each run of each target, shape ``(T, N, J)``."""
    responses = work.responses
    if read.evidence is None:
        return responses.codes[None], []
    codes, said = answers_of_runs(
        read.evidence, responses.targets, responses.items, **still_applies(reading)
    )
    return codes, [] if said is None else [said]


def take_fingerprint(
    work: AuditWork, runs: Codes, earlier: Responses | None, why: dict[str, str]
) -> tuple[Fingerprint | None, list[str]]:
    """The target beside known ones, and beside its own past; and what is assumed for it.

    Parameters
    ----------
    work
        The audit.
    runs
        Answers of each run of each target, shape ``(T, N, J)``.
    earlier
        Earlier answers of the target, one row for each run.
    why
        Takes the reasons of what is unknown.
    """
    chosen, responses = work.settings, work.responses
    fingerprints = chosen.fingerprint()
    said: list[str] = []
    wanted = chosen.references
    names = [name for name in responses.targets if name != work.target]
    if wanted is not None:
        strange = [name for name in wanted if name not in names]
        if strange:
            raise InputError(
                f"there is no known target {strange[0]!r}", fix=f"they are {some_of(names)}"
            )
        names = [name for name in names if name in wanted]
    places = [responses.targets.index(name) for name in names]
    known = runs[:, places]
    if earlier is not None:
        own = over_items(earlier, responses.items)[:, None]
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
    differing, pairs = pairs_of_runs(own[:, 0][:, informative])
    if not pairs:
        return settings, own[:1], []
    rate = estimated_rate(differing, pairs)
    middle = min(max((rate.lower + rate.upper) / 2, 0.005), 0.45)
    said = (
        f"Only {BEFORE} there are several runs: {differing:,} of {pairs:,} pairs of answers to "
        f"informative items differ (98% interval {rate.lower:.1%} to {rate.upper:.1%}), and "
        f"{middle:.1%}, the middle of that, is taken for that of every known target."
    )
    return replace(settings, disagreement=middle), own[:1], [said]


def _deep(codes: Codes, depth: int) -> Codes:
    """Padded to a number of runs."""
    more = np.full((depth - len(codes), *codes.shape[1:]), MISSING, np.int8)
    return np.concatenate([codes, more])


def _clusters(work: AuditWork) -> list[str] | None:
    by = work.settings.clusters
    if by is None or by not in work.properties:
        return None
    items = work.responses.items
    return [
        f"item {item}" if value is None else f"cluster {value}"
        for item, value in zip(items, work.values(by, items), strict=True)
    ]


def run_stream(
    work: AuditWork, own: Codes, earlier: Responses | None, why: dict[str, str]
) -> tuple[DriftState | None, list[str]]:
    """The sequential check over the items in random order."""
    if earlier is None:
        why["stream"] = "no earlier answers"
        return None, []
    before = over_items(earlier, work.responses.items)
    common = _informative(work) & (before != MISSING).any(axis=0)
    if not common.any():
        why["stream"] = "no informative item was answered before and now"
        return None, []
    rng = work.rng("stream")
    past, new = before[:, common].T, own[0, common]
    drift, said = work.settings.drift(), []
    if drift.rate is None and (past != MISSING).sum(axis=1).max() > 1:
        drift = replace(drift, rate=rate_of_runs(past.T, doubt=min(_DOUBT, drift.level / 5)))
    if drift.rate is None:
        drift = replace(drift, direction=True)
        said.append(
            "How often a re-run differs is not known: the sequential check sees a change of "
            "direction only (more refusals, or fewer). Give several earlier runs, or "
            "--disagreement."
        )
    state = DriftState(drift)
    for place in rng.permutation(len(new)).tolist():
        state = update(state, past[place].tolist(), int(new[place]))
    return state, said


def _informative(work: AuditWork) -> BoolArray:
    """Items that tell the other targets apart; all where there are none."""
    others = work.others.codes
    if len(others) < 2:
        return np.ones(len(work.responses.items), bool)
    size = max(int(work.responses.codes.max()), 1) + 1
    found: BoolArray = informative_items(answer_counts(others[None], size))
    return found if found.any() else np.ones_like(found)


def agreements(work: AuditWork, why: dict[str, str]) -> dict[str, Any] | None:
    """Agreement of the target and of those nearest to it, two by two, on informative items.

    Two targets without an informative item in common are no pair.
    """
    responses = work.responses
    if len(responses.targets) < 2:
        why["agreement_matrix"] = "there is one target"
        return None
    codes = responses.codes
    counts = answer_counts(codes[None], max(int(codes.max()), 1) + 1)
    informative = informative_items(counts)
    if not informative.any():
        why["agreement_matrix"] = "no item tells the targets apart"
        return None
    seen = (codes[:, informative] != MISSING).astype(np.int64)
    common = seen @ seen.T
    share = agreement_matrix(counts[:, informative])
    place = int(work.is_target.argmax())
    near = np.argsort(-share[place].filled(-1.0), kind="stable").tolist()
    kept = [place, *(one for one in near if one != place)][:_MOST_IN_MATRIX]
    return {
        "names": [responses.targets[one] for one in kept],
        "items": int(informative.sum()),
        "pairs": [
            {
                "first": responses.targets[one],
                "second": responses.targets[other],
                "agreement": float(share[one, other]),
                "items": int(common[one, other]),
            }
            for one, other in combinations(kept, 2)
            if common[one, other]
        ],
    }
