"""Runs of garak reports: what they say of themselves, and where their attempts differ from it."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.success import SuccessRule
from safemetry.readers.fields import counted, digest_of
from safemetry.readers.garak_attempt import bad_line, text_of
from safemetry.readers.source import finite

DEFAULT_THRESHOLD: Final = 0.5
"""garak's ``eval_threshold`` where a report does not state it: a score this high is a hit."""

SETUP_TYPES: Final = frozenset({"start_run setup", "start_run args config", "config"})

_UNREADABLE_ANSWER: Final = {
    "judge.ModelAsJudge": 0.0,
    "judge.Refusal": 1.0,
    "judge.RefusalOnlyAdversarial": 1.0,
    "judge.Jailbreak": 1.0,
    "judge.JailbreakOnlyAdversarial": 1.0,
}
"""Detectors that ask a model -> the score garak (0.10 to 0.17.1) writes for an unreadable answer.

A rating that is not found counts as 1 of 10, which is below every cutoff, hence 0.0; a yes / no
that is not found counts as yes, hence 1.0.
"""
_TARGET_SETTINGS: Final = {
    "generations": ("run.generations", "generations"),
    "seed": ("run.seed", "seed"),
    "target_lang": ("run.target_lang",),
    "deprefix": ("run.deprefix", "deprefix"),
    "buffs": ("plugins.buff_spec", "buffs"),
}
"""The settings that are carried out; the setup entry may hold keys and passwords besides them."""

_SHOWN: Final = 5


@dataclass(slots=True)
class Tally:
    """The scores of one detector on one probe, as garak counts them."""

    scores: array[float] = field(default_factory=lambda: array("d"))
    nones: int = 0

    def hits(self, threshold: float) -> int:
        """Scores that count as a hit."""
        return int(np.count_nonzero(np.asarray(self.scores) >= threshold))


@dataclass(frozen=True, slots=True)
class Summary:
    """garak's own count of one detector on one probe."""

    fails: int
    evaluated: int
    nones: int | None


@dataclass(slots=True)
class Run:
    """The run that a stretch of the report belongs to."""

    name: str | None = None
    target: str | None = None
    version: str | None = None
    started: str | None = None
    threshold: float | None = None
    system_prompt: str | None = None
    buffed: bool = False
    says_its_end: bool = True
    begun: bool = False
    ended: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    detectors: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    tallies: defaultdict[tuple[str, str], Tally] = field(default_factory=lambda: defaultdict(Tally))
    summaries: dict[tuple[str, str], Summary] = field(default_factory=dict)

    def learn_setup(self, entry: Mapping[str, Any]) -> None:
        """Take what is needed of the setup entry, and nothing else of it."""
        kind = _first_text(entry, "plugins.target_type", "plugins.model_type", "model_type")
        name = _first_text(entry, "plugins.target_name", "plugins.model_name", "model_name")
        self.target = "/".join(part for part in (kind, name) if part) or None
        self.name = self.name or _first_text(entry, "transient.run_id")
        self.started = self.started or _first_text(entry, "transient.starttime_iso")
        self.version = self.version or _first_text(entry, "_config.version")
        self.threshold = finite(first_of(entry, "run.eval_threshold", "eval_threshold"))
        self.buffed = bool(first_of(entry, "plugins.buff_spec", "buffs"))
        self.says_its_end = entry["entry_type"] == "start_run setup"
        self.system_prompt = _first_text(entry, "run.system_prompt", "system_prompt")
        detectors = entry.get("plugins.detectors")
        self.detectors = detectors if isinstance(detectors, Mapping) else {}
        for ours, names in _TARGET_SETTINGS.items():
            value = first_of(entry, *names)
            if isinstance(value, bool | int) or (isinstance(value, str) and _is_text(value)):
                self.settings[ours] = value
        if self.system_prompt:
            self.settings["system_prompt"] = digest_of(self.system_prompt)

    def learn_start(self, entry: Mapping[str, Any]) -> None:
        """Take what the init entry says."""
        self.begun = True
        self.name = _first_text(entry, "run") or self.name
        self.version = _first_text(entry, "garak_version") or self.version
        self.started = _first_text(entry, "start_time") or self.started

    def judge(self, detector: str) -> JudgeIdentity:
        """Identity of a detector, with its model where the settings name one."""
        module, _, name = detector.partition(".")
        stated = self.detectors.get(module)
        stated = stated if isinstance(stated, Mapping) else {}
        own = stated.get(name)
        parts: dict[str, Any] = {**stated, **(own if isinstance(own, Mapping) else {})}
        model = "/".join(
            str(parts[part])
            for part in ("detector_model_type", "detector_model_name", "detector_model_path")
            if isinstance(parts.get(part), str)
        )
        return JudgeIdentity(
            name=detector,
            model=model or None,
            parser=f"garak {self.version}" if self.version else "garak",
        )


def first_of(entry: Mapping[str, Any], *names: str) -> Any:
    """The first of several fields that is there: releases name them differently."""
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _first_text(entry: Mapping[str, Any], *names: str) -> str | None:
    value = first_of(entry, *names)
    return value if isinstance(value, str) and value.strip() and _is_text(value) else None


def _is_text(value: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def summary_of(entry: Mapping[str, Any]) -> tuple[tuple[str, str], Summary]:
    """An eval entry; before 0.14 it says `total` and no `fails`, and once prefixed detectors."""
    probe, detector = text_of(entry, "probe"), text_of(entry, "detector")
    passed, evaluated, nones = (
        value if isinstance(value, int) else None
        for value in (
            entry.get("passed"),
            first_of(entry, "total_evaluated", "total"),
            entry.get("nones"),
        )
    )
    if passed is None or evaluated is None:
        raise bad_line("the summary of a probe lacks its counts")
    key = (probe, detector.removeprefix("detector."))
    return key, Summary(fails=evaluated - passed, evaluated=evaluated, nones=nones)


def run_warnings(runs: Sequence[Run]) -> Iterator[str]:
    """What one must know of garak's own counting, in whole sentences."""
    if len(runs) > 1:
        yield (
            f"The report holds {len(runs)} runs, one after the other; each keeps its own run "
            "id and target."
        )
    yield from _threshold_warnings(runs)
    yield from _summary_warnings(runs)
    yield from _model_judge_warnings(runs)
    stopped = sum(run.says_its_end and not run.ended for run in runs)
    if stopped:
        yield (
            f"{counted(stopped, 'run')} of this report did not reach the end: probes that are "
            "missing from it were not tried, which says nothing about them."
        )


def _threshold_warnings(runs: Sequence[Run]) -> Iterator[str]:
    """Which score garak takes for a hit, and that the user has to say so."""
    for threshold in sorted({run.threshold for run in runs if run.threshold is not None}):
        yield (
            f"garak counted a score of {threshold:g} or more as a hit (eval_threshold); the "
            f"success rule at_least:{threshold:g} counts the same."
        )
    unstated = [run for run in runs if run.threshold is None]
    if not unstated:
        return
    bounds = fitting_threshold(unstated)
    if bounds is None:
        yield (
            "The report does not state eval_threshold, and no threshold fits its own counts; "
            f"garak's default counts a score of {DEFAULT_THRESHOLD:g} or more as a hit, as the "
            f"success rule at_least:{DEFAULT_THRESHOLD:g} does."
        )
    elif bounds[0] < DEFAULT_THRESHOLD <= bounds[1]:
        yield (
            f"The report does not state eval_threshold; garak's default counts a score of "
            f"{DEFAULT_THRESHOLD:g} or more as a hit, as the success rule "
            f"at_least:{DEFAULT_THRESHOLD:g} does."
        )
    else:
        above, up_to = bounds
        fitting = f"above {above:g} and up to {up_to:g}" if above < up_to else f"of {up_to:g}"
        yield (
            f"The report does not state eval_threshold, and its own counts do not fit garak's "
            f"default of {DEFAULT_THRESHOLD:g}: they fit a threshold {fitting}; use a success rule "
            f"in that range, such as at_least:{up_to:g}."
        )


def implied_rule(runs: Sequence[Run]) -> SuccessRule | None:
    """The success rule that counts as garak did, where all runs counted alike."""
    stated = {run.threshold for run in runs if run.threshold is not None}
    unstated = [run for run in runs if run.threshold is None]
    if unstated:
        bounds = fitting_threshold(unstated)
        default_fits = bounds is None or bounds[0] < DEFAULT_THRESHOLD <= bounds[1]
        stated.add(DEFAULT_THRESHOLD if bounds is None or default_fits else bounds[1])
    return SuccessRule(f"at_least:{stated.pop()!r}") if len(stated) == 1 else None


def fitting_threshold(runs: Sequence[Run]) -> tuple[float, float] | None:
    """(above, up to): the thresholds under which every summary of garak fits its scores.

    None where none on the scale fits them all; the whole scale where no summary can be compared.
    """
    above, up_to = -np.inf, np.inf
    for run in runs:
        for key, summary in run.summaries.items():
            scores = (
                np.sort(np.asarray(run.tallies[key].scores))[::-1] if key in run.tallies else ()
            )
            if len(scores) != summary.evaluated or not 0 <= summary.fails <= len(scores):
                continue
            if summary.fails < len(scores):
                above = max(above, float(scores[summary.fails]))
            if summary.fails > 0:
                up_to = min(up_to, float(scores[summary.fails - 1]))
    # Where nothing passed or nothing failed, one end is the end of the scale.
    up_to = min(up_to, 1.0)
    return (max(above, 0.0), up_to) if above < up_to else None


def _summary_warnings(runs: Sequence[Run]) -> Iterator[str]:
    """Where garak's own summaries and its attempts disagree."""
    disagreements = [said for run in runs for said in _disagreements(run)]
    yield from disagreements[:_SHOWN]
    if len(disagreements) > _SHOWN:
        yield (
            f"{counted(len(disagreements) - _SHOWN, 'more summary', 'more summaries')} of garak "
            "disagree with the attempts of this report."
        )


def _disagreements(run: Run) -> Iterator[str]:
    threshold = DEFAULT_THRESHOLD if run.threshold is None else run.threshold
    for key, summary in run.summaries.items():
        tally = run.tallies.get(key, Tally())
        hits, evaluated = tally.hits(threshold), len(tally.scores)
        nones = summary.nones is not None and summary.nones != tally.nones
        if (hits, evaluated) == (summary.fails, summary.evaluated) and not nones:
            continue
        stated = f"{summary.fails:,} hits of {summary.evaluated:,}"
        found = f"{hits:,} of {evaluated:,}"
        if nones:
            stated += f" and {summary.nones:,} without a score"
            found += f" and {tally.nones:,} without a score"
        yield (
            f"garak's summary of {key[0]} under {key[1]} says {stated}; its attempts give {found} "
            f"at a threshold of {threshold:g}."
        )


def _model_judge_warnings(runs: Sequence[Run]) -> Iterator[str]:
    """What the hit rate is with and without scores that may stand for an unreadable answer."""
    scores: dict[str, list[tuple[np.ndarray[Any, Any], float]]] = {}
    for run in runs:
        threshold = DEFAULT_THRESHOLD if run.threshold is None else run.threshold
        for (_, detector), tally in run.tallies.items():
            if detector in _UNREADABLE_ANSWER and len(tally.scores):
                scores.setdefault(detector, []).append((np.asarray(tally.scores), threshold))
    for detector, parts in sorted(scores.items()):
        filler = _UNREADABLE_ANSWER[detector]
        total = sum(len(part) for part, _ in parts)
        hits = sum(int(np.count_nonzero(part >= threshold)) for part, threshold in parts)
        suspect = sum(int(np.count_nonzero(part == filler)) for part, _ in parts)
        if suspect:
            yield _model_judge_warning(detector, filler, total, hits, suspect)


def _model_judge_warning(detector: str, filler: float, total: int, hits: int, suspect: int) -> str:
    is_hit = filler > 0
    rest_hits = hits - suspect if is_hit else hits
    turned = rest_hits if is_hit else hits + suspect
    without = f"{rest_hits / (total - suspect):.3f}" if total > suspect else "unknown"
    return (
        f"{detector} asks a model, and garak writes {filler:.1f} where the model's answer cannot "
        f"be read (releases 0.10 to 0.17.1 at least): {suspect:,} of {total:,} scores are exactly "
        f"{filler:.1f}. The hit rate is {hits / total:.3f} as written, {without} with these scores "
        f"left out and {turned / total:.3f} with all of them counted as "
        f"{'safe' if is_hit else 'hits'}."
    )
