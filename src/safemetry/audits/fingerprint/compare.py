"""Which known target is this: agreement, likelihood and verdict for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.audits.fingerprint.agreement import agreement_interval
from safemetry.audits.fingerprint.answers import answer_counts, answer_shares, informative_items
from safemetry.audits.fingerprint.groups import TargetGroup, separate, target_groups
from safemetry.audits.fingerprint.likelihood import RatioTable
from safemetry.audits.fingerprint.result import Fingerprint, FingerprintRow
from safemetry.audits.fingerprint.roster import Roster, make_roster
from safemetry.audits.fingerprint.settings import FingerprintSettings
from safemetry.audits.fingerprint.verdict import Thresholds, Verdict, thresholds, verdicts
from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray, IntArray
from safemetry.irt.responses import Responses

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST_COMMON = 10
"""Informative items that both must have answered for a verdict."""

_NO_ITEM = "no informative item was answered by both"
_ALONE = "no other known target is told apart from this one"


def fingerprint(
    responses: Responses,
    target: str,
    references: Sequence[str] | None = None,
    *,
    trials: NDArray[np.integer] | None = None,
    clusters: Sequence[str] | None = None,
    level: float = 0.05,
    rng: np.random.Generator,
) -> tuple[FingerprintRow, ...]:
    """The known targets that a target may be, the most likely first.

    Parameters
    ----------
    responses
        One run of N targets on J items, the target under audit among them.
    target
        Name of the target under audit.
    references
        Names of the known targets; all others by default. With `trials` the target itself may be
        one of them: its earlier runs are then held against the run in `responses`.
    trials
        Runs of the known targets, shape ``(T, N, J)``, -1 for missing, in the order of
        `responses`; the rows of the known targets in `responses` are then not used (put that run
        into `trials` too if it is a further one).
    clusters
        Cluster of each item (its behaviour); items are their own by default.
    level
        Error rate of the verdicts, in (0, .5).
    rng
        Source of randomness.

    Returns
    -------
    tuple
        Rows, see `FingerprintRow`; `compare_with_known` gives groups, noise and warnings too.

    Raises
    ------
    InputError
        For unknown names, shapes that do not fit, or fewer than two known targets.

    Examples
    --------
    >>> from safemetry.irt.responses import make_responses
    >>> rng = np.random.default_rng(3)
    >>> codes = rng.integers(0, 2, (6, 80))
    >>> codes[5] = codes[2]
    >>> rows = fingerprint(make_responses(codes), "6", rng=rng)
    >>> rows[0].reference, rows[0].agreement, str(rows[0].verdict), str(rows[1].verdict)
    ('3', 1.0, 'same', 'different')
    """
    names = responses.targets
    unknown = [name for name in (target, *(references or ())) if name not in names]
    if unknown:
        raise InputError(f"there is no target {unknown[0]!r} among the responses")
    wanted = set(references) if references is not None else set(names) - {target}
    places = [place for place, name in enumerate(names) if name in wanted]
    if trials is None:
        if target in wanted:
            raise InputError(
                f"{target!r} cannot be held against the same answers",
                fix="give its earlier runs as `trials`",
            )
        known = responses.codes[None, places]
    else:
        if np.shape(trials)[1:] != responses.codes.shape:
            raise InputError(
                f"trials have the shape {np.shape(trials)} and not runs x {len(names)} x "
                f"{len(responses.items)}"
            )
        known = np.asarray(trials)[:, places]
    return compare_with_known(
        responses.codes[names.index(target)],
        known,
        target=target,
        references=[names[place] for place in places],
        clusters=clusters,
        settings=FingerprintSettings(level=level),
        rng=rng,
    ).rows


def compare_with_known(
    answers: NDArray[np.integer],
    known: NDArray[np.integer],
    *,
    target: str,
    references: Sequence[str],
    clusters: Sequence[str] | None = None,
    settings: FingerprintSettings | None = None,
    rng: np.random.Generator,
) -> Fingerprint:
    """Hold the answers of a target against known targets.

    Parameters
    ----------
    answers
        Of the target under audit: shape ``(J,)``, or ``(T, J)`` for several runs; -1 for missing.
    known
        Of R known targets: shape ``(T, R, J)``, targets with fewer runs padded with -1.
    target, references
        Names.
    clusters
        Cluster of each item; its own by default.
    settings
        Level, noise and alternative.
    rng
        Source of randomness.

    Raises
    ------
    InputError
        For shapes that do not fit, or fewer than two known targets.
    """
    chosen = settings or FingerprintSettings()
    own = np.atleast_2d(np.asarray(answers))
    runs = np.asarray(known)
    names = tuple(references)
    if runs.ndim != 3 or runs.shape[1:] != (len(names), own.shape[1]):
        raise InputError(
            f"known answers have the shape {runs.shape} and not runs x {len(names)} targets x "
            f"{own.shape[1]} items"
        )
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError(
            f"{len(names)} known targets, which must be two at least and have different names",
            fix="hold a target against its own past with the drift check",
        )
    size = max(int(own.max()), int(runs.max()), 1) + 1
    counts = answer_counts(runs, size)
    informative = informative_items(counts, chosen.least_difference)
    unknown = answer_counts(own[:, None], size)[0]
    codes = _cluster_codes(clusters, own.shape[1])[informative]
    counts, unknown = counts[:, informative], unknown[informative]
    if not (unknown.sum() and counts.sum()):
        return _nothing(target, names, chosen, int(informative.sum()))
    rates, noise = _rates(counts, chosen)
    readings = [_reading(names, counts, unknown, chosen, rate, rng) for rate in rates]
    return _result(target, readings, (rates, noise), unknown, codes, chosen)


@dataclass(frozen=True)
class _Reading:
    """The comparison under one re-run disagreement."""

    roster: Roster
    ratios: FloatArray
    limits: Thresholds
    verdicts: tuple[Verdict, ...]
    groups: tuple[TargetGroup, ...]


def _rates(counts: FloatArray, chosen: FingerprintSettings) -> tuple[list[float | None], str]:
    if chosen.disagreement is not None:
        return [chosen.disagreement], "stated"
    if (counts.sum(axis=-1) >= 2).any():
        return [None], "estimated"
    return list(chosen.assumed), "assumed"


def _reading(
    names: tuple[str, ...],
    counts: FloatArray,
    unknown: FloatArray,
    chosen: FingerprintSettings,
    rate: float | None,
    rng: np.random.Generator,
) -> _Reading:
    roster = make_roster(names, counts, population=chosen.population, disagreement=rate)
    separation = separate(roster, chosen.level, chosen.simulations, rng)
    answered = unknown.sum(axis=-1) > 0
    table = RatioTable.of(roster.chances, roster.population, answered)
    shares = answer_shares(unknown)[None, :, 1:].astype(np.float32)
    ratios = table.ratios(shares)[0]
    number = max(int(unknown.sum(axis=-1).max()), 1)
    limits = thresholds(
        roster, table, separation.linked, number, (chosen.level, chosen.simulations), rng
    )
    return _Reading(
        roster, ratios, limits, verdicts(ratios, limits), target_groups(names, separation)
    )


def _result(
    target: str,
    readings: list[_Reading],
    noise: tuple[list[float | None], str],
    unknown: FloatArray,
    clusters: IntArray,
    chosen: FingerprintSettings,
) -> Fingerprint:
    rates, source = noise
    shown = readings[len(readings) // 2]
    roster = shown.roster
    of_group = {name: group.targets for group in shown.groups for name in group.targets}
    equal = (roster.shares * answer_shares(unknown)).sum(axis=-1)
    both = roster.answered & (unknown.sum(axis=-1) > 0)
    made = []
    for place, name in enumerate(roster.names):
        tried = {
            f"{rate:g}": reading.verdicts[place]
            for rate, reading in zip(rates, readings, strict=True)
            if source == "assumed"
        }
        found = set(tried.values()) or {shown.verdicts[place]}
        made.append(
            _row(
                (name, of_group.get(name, (name,))),
                shown,
                place,
                (equal[place, both[place]], clusters[both[place]]),
                (found.pop() if len(found) == 1 else Verdict.CANNOT_TELL, tried),
                chosen.level,
            )
        )
    # A target with hardly an answer in common is neither likely nor unlikely.
    made.sort(
        key=lambda row: (
            row.informative_items < FEWEST_COMMON,
            -(row.log_likelihood_ratio or 0.0),
            -(row.agreement or 0.0),
        )
    )
    return Fingerprint(
        target=target,
        rows=tuple(made),
        groups=shown.groups,
        noise=source,
        disagreement=dict(zip(roster.names, roster.disagreement.tolist(), strict=True)),
        population=roster.population.kind,
        informative_items=len(clusters),
        unlisted=shown.limits.unlisted,
        settings=chosen.resolved(),
        warnings=_warnings(source, rates, shown, chosen),
    )


def _row(
    named: tuple[str, tuple[str, ...]],
    shown: _Reading,
    place: int,
    answers: tuple[FloatArray, IntArray],
    verdict: tuple[Verdict, Mapping[str, Verdict]],
    level: float,
) -> FingerprintRow:
    limits = shown.limits
    equal, clusters = answers
    why = {}
    masked = bool(np.ma.getmaskarray(limits.error_different)[place])
    if masked:
        why["error_different"] = _ALONE
    if not len(equal):
        why |= {"agreement": _NO_ITEM, "interval": _NO_ITEM}
    few = len(equal) < FEWEST_COMMON
    ratio = None if few else float(shown.ratios[place])
    if few:
        why["log_likelihood_ratio"] = (
            f"{len(equal)} informative items were answered by both, fewer than {FEWEST_COMMON}"
        )
    return FingerprintRow(
        reference=named[0],
        agreement=float(equal.mean()) if len(equal) else None,
        interval=agreement_interval(equal, clusters, 1 - level),
        informative_items=len(equal),
        log_likelihood_ratio=ratio,
        verdict=Verdict.CANNOT_TELL if few else verdict[0],
        group=named[1],
        error_same=float(limits.error_same[place]),
        error_different=None if masked else float(limits.error_different[place]),
        recognised=float(limits.recognised[place]),
        by_disagreement=verdict[1],
        why=why,
    )


def _warnings(
    source: str, rates: list[float | None], shown: _Reading, chosen: FingerprintSettings
) -> tuple[str, ...]:
    said = []
    if source == "assumed":
        listed = ", ".join(f"{rate:.0%}" for rate in rates if rate is not None)
        said.append(
            "no known target was run twice: how often a re-run differs is assumed, not known. "
            f"Verdicts stand only where {listed} of the informative items all give them; run one "
            "target twice, or state the rate"
        )
    if shown.limits.unlisted > chosen.level:
        said.append(
            f"a target that is missing from the list would be called the same as a known one with "
            f"a chance of {shown.limits.unlisted:.0%} or more, if the list is missing relatives as "
            "close as those it has: `same` means 'not told apart'"
        )
    if shown.roster.population.kind == "marginal":
        said.append(
            f"{len(shown.roster.names)} known targets are few: other targets are described by item "
            "shares and a general level, and the likelihood ratio is rough"
        )
    return tuple(said)


def _nothing(
    target: str, names: tuple[str, ...], chosen: FingerprintSettings, informative: int
) -> Fingerprint:
    empty = (
        "agreement",
        "interval",
        "log_likelihood_ratio",
        "error_same",
        "error_different",
        "recognised",
    )
    rows = tuple(
        FingerprintRow(
            reference=name,
            agreement=None,
            interval=None,
            informative_items=0,
            log_likelihood_ratio=None,
            verdict=Verdict.CANNOT_TELL,
            group=names,
            error_same=None,
            error_different=None,
            recognised=None,
            why=dict.fromkeys(empty, _NO_ITEM),
        )
        for name in names
    )
    return Fingerprint(
        target=target,
        rows=rows,
        groups=(),
        noise="none",
        disagreement={},
        population="none",
        informative_items=informative,
        unlisted=None,
        settings=chosen.resolved(),
        warnings=("the known targets give (nearly) the same answers, or none were given",),
        why={"unlisted": _NO_ITEM},
    )


def _cluster_codes(clusters: Sequence[str] | None, items: int) -> IntArray:
    if clusters is None:
        return np.arange(items, dtype=np.int64)
    if len(clusters) != items:
        raise InputError(f"clusters are given for {len(clusters)} items of {items}")
    codes: IntArray = np.unique(np.asarray(clusters, str), return_inverse=True)[1].astype(np.int64)
    return codes
