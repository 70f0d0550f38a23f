"""Aggregate records of Every Eval Ever: which metrics they report, and what their figures say.

A record never gives a judgement. It says what the metrics of its lines are called, which range
they have and who judged, and its own figures are compared with those of the lines.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from pydantic import ValidationError

from safemetry.errors import InputError
from safemetry.evidence import every_eval_ever as words
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import Scale
from safemetry.evidence.success import SuccessRule
from safemetry.readers.fields import counted, digest_of
from safemetry.readers.source import Source, finite

_INSPECT: Final = ("inspect_ai", "inspect")
"""Names of the library whose results are called ``SCORER:METRIC``; a user may change them."""

_ARGUMENTS: Final = ("temperature", "top_p", "top_k", "max_tokens", "reasoning", "max_attempts")
_WEIGHTS: Final = ("open_weights", "closed_weights")
_TOLERANCE: Final = 5e-4
"""Relative difference that rounding to three digits may make."""
_SPREAD_TOLERANCE: Final = 0.02
"""The same for a standard error, which is shorter."""


@dataclass(frozen=True)
class Result:
    """One metric of a record.

    Parameters
    ----------
    identifier, evaluation
        ``evaluation_result_id`` (None where it is absent) and ``evaluation_name``.
    judge
        Name under which its scores stand in the judgements table.
    metric
        ``metric_config``.
    details
        ``score_details``.
    """

    identifier: str | None
    evaluation: str
    judge: str
    metric: Mapping[str, Any]
    details: Mapping[str, Any]

    @property
    def has_unknown(self) -> bool:
        """Whether a score of -1 stands for none."""
        return self.metric.get("has_unknown_level") is True

    @property
    def in_percent(self) -> bool:
        """Whether the figure of the record is a percentage."""
        return self.metric.get("metric_unit") == "percent"

    @property
    def scale(self) -> Scale:
        """The declared range; which end is safe is not said by ``lower_is_better``."""
        low, high = finite(self.metric.get("min_score")), finite(self.metric.get("max_score"))
        if low is not None and high is not None and low >= high:
            return Scale()
        return Scale(scale_min=low, scale_max=high)

    def __str__(self) -> str:
        return self.identifier or self.evaluation


@dataclass(frozen=True)
class Record:
    """An aggregate record.

    Parameters
    ----------
    source
        Its file.
    content
        The record as it stands.
    """

    source: Source
    content: Mapping[str, Any] = field(repr=False)

    @property
    def evaluation(self) -> str | None:
        """``evaluation_id``."""
        return _text(self.content.get("evaluation_id"))

    @property
    def model(self) -> Mapping[str, Any]:
        """``model_info``."""
        return _object(self.content.get("model_info"))

    @property
    def library(self) -> Mapping[str, Any]:
        """``eval_library``."""
        return _object(self.content.get("eval_library"))

    @property
    def details(self) -> Mapping[str, Any] | None:
        """``detailed_evaluation_results``, or None where there is none."""
        found = self.content.get("detailed_evaluation_results")
        return found if isinstance(found, Mapping) else None

    @property
    def developer(self) -> str | None:
        """Who made the model, as far as the record says."""
        return _text(self.model.get("developer"))

    @property
    def timestamp(self) -> str | None:
        """When the evaluation ran; a count of seconds since 1970 as a date."""
        stated = _text(self.content.get("evaluation_timestamp"))
        try:
            return datetime.fromtimestamp(float(stated or ""), UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            return stated

    @property
    def access(self) -> str | None:
        """Whether the weights are open, where the record says so."""
        stated = _object(self.model.get("additional_details")).get("model_availability")
        return str(stated) if stated in _WEIGHTS else None

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """The metrics, each under the name of its judge."""
        listed = self.content.get("evaluation_results")
        found = [self._result(entry) for entry in listed] if isinstance(listed, list) else []
        # Two metrics of one evaluation under one name are told apart by their identifiers, except
        # where they are statistics of the same scores.
        same = Counter((result.evaluation, result.judge) for result in found)
        return tuple(
            result
            if same[result.evaluation, result.judge] == 1 or self._is_statistic(result.identifier)
            else Result(
                result.identifier,
                result.evaluation,
                str(result),
                result.metric,
                result.details,
            )
            for result in found
        )

    def _result(self, entry: Any) -> Result:
        entry = _object(entry)
        metric = _object(entry.get("metric_config"))
        identifier = _text(entry.get("evaluation_result_id"))
        evaluation = _text(entry.get("evaluation_name")) or ""
        named = _text(metric.get("metric_name")) or _text(metric.get("metric_id"))
        judge = named or identifier or evaluation
        if self._is_statistic(identifier):
            judge = (identifier or "").partition(":")[0]
        details = _object(entry.get("score_details"))
        return Result(identifier, evaluation, judge, metric, details)

    @property
    def is_inspect(self) -> bool:
        """Whether Inspect's converter wrote the record."""
        name, version = self.library.get("name"), self.library.get("version")
        return name in _INSPECT or str(version).startswith(f"{_INSPECT[0]}:")

    def _is_statistic(self, identifier: str | None) -> bool:
        """Whether a result is one that Inspect made of the scores of one scorer."""
        scorer, colon, metric = (identifier or "").partition(":")
        return bool(scorer and colon and metric) and self.is_inspect

    def result_of(self, identifier: str | None, evaluation: str) -> Result | None:
        """The metric that a line belongs to, or None where that is not known."""
        if identifier is not None:
            return next((r for r in self.results if r.identifier == identifier), None)
        found = [r for r in self.results if r.evaluation == evaluation] or list(self.results)
        return found[0] if len(found) == 1 else None

    def identities(self, judges: Sequence[str]) -> Iterator[JudgeIdentity]:
        """Who the judges are, as far as the record says."""
        identities, scales = self._judges
        if scales:
            yield from (identity for identity in identities if identity.name in judges)
            return
        by_judge = {result.judge: result for result in self.results}
        yield from (self._identity(by_judge[judge]) for judge in judges if judge in by_judge)

    def _identity(self, result: Result) -> JudgeIdentity:
        scoring = _object(result.metric.get("llm_scoring"))
        listed = scoring.get("judges")
        models, temperatures = [], set()
        for judge in listed if isinstance(listed, list) else ():
            info = _object(_object(judge).get("model_info"))
            models.append(_text(info.get("id")) or _text(info.get("name")) or "unknown")
            temperatures.add(finite(_object(judge).get("temperature")))
        rubric = _text(scoring.get("input_prompt"))
        name, version = (_text(self.library.get(part)) for part in ("name", "version"))
        parser = " ".join(part for part in (name, version) if part and part != "unknown")
        alike = temperatures.pop() if len(temperatures) == 1 else None
        return JudgeIdentity(
            name=result.judge,
            model=", ".join(models) or None,
            decoding={} if alike is None else {"temperature": alike},
            rubric=digest_of(rubric) if rubric else None,
            parser=parser or None,
            aggregation=_text(scoring.get("aggregation_method")),
        )

    def settings(self) -> dict[str, Any]:
        """Settings of the model; a prompt template is kept as its digest."""
        if (kept := self._kept(self.model, words.SETTINGS)) is not None:
            return dict(_object(kept))
        found: dict[str, list[Any]] = {}
        listed = self.content.get("evaluation_results")
        for entry in listed if isinstance(listed, list) else ():
            generation = _object(_object(entry).get("generation_config"))
            arguments = _object(generation.get("generation_args"))
            for name in _ARGUMENTS:
                value = arguments.get(name)
                if isinstance(value, bool) or finite(value) is not None:
                    found.setdefault(name, []).append(value)
            if template := _text(arguments.get("prompt_template")):
                found.setdefault("prompt_template", []).append(digest_of(template))
        settings = {
            name: values[0] if all(v == values[0] for v in values) else "differs between metrics"
            for name, values in found.items()
        }
        engine = _object(self.model.get("inference_engine"))
        shown = " ".join(filter(None, (_text(engine.get(n)) for n in ("name", "version"))))
        platform = _text(self.model.get("inference_platform"))
        return settings | {
            name: value
            for name, value in (("inference_platform", platform), ("inference_engine", shown))
            if value and value != "unknown"
        }

    # -- what this package wrote into a record ---------------------------------------------------

    def _kept(self, place: Mapping[str, Any], key: str) -> Any:
        text = _object(place.get("additional_details")).get(key)
        if not isinstance(text, str):
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"its {key} is no JSON", file=self.source.shown, fix="export it again"
            ) from error

    @cached_property
    def _judges(self) -> tuple[tuple[JudgeIdentity, ...], Mapping[str, Scale]]:
        identities, scales = [], {}
        try:
            for entry in self._kept(self.library, words.JUDGES) or ():
                scales[entry["name"]] = Scale.model_validate(entry["scale"])
                identities += [JudgeIdentity(**parts) for parts in entry["identities"]]
        except (ValidationError, TypeError, KeyError) as error:
            raise InputError(
                f"its {words.JUDGES} does not describe judges",
                file=self.source.shown,
                fix="export it again",
            ) from error
        return tuple(identities), scales

    @property
    def stated_scales(self) -> Mapping[str, Scale]:
        """Scales with their direction, which only records of this package state."""
        return self._judges[1]

    @property
    def classes(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Class order and classes outside it, of the evidence that the record was made from."""
        kept = self._kept(self.library, words.CLASSES)
        if not (isinstance(kept, list) and len(kept) == 2 and all(map(_is_texts, kept))):
            return None
        return tuple(kept[0]), tuple(kept[1])

    @property
    def default_rule(self) -> SuccessRule | None:
        """The success rule that the evidence implied."""
        stated = _object(self.library.get("additional_details")).get(words.RULE)
        return SuccessRule.parse(stated) if isinstance(stated, str) else None


def parse_record(source: Source) -> Record:
    """Read an aggregate record.

    Raises
    ------
    InputError
        Where it is damaged, is none, or is of a version that the reader does not know.
    """
    content = source.read_json()
    if not isinstance(content, Mapping) or "evaluation_results" not in content:
        raise InputError(
            "is no aggregate record of Every Eval Ever (it has no evaluation_results)",
            file=source.shown,
            fix="name a record, its _samples.jsonl, or their folder",
        )
    version = content.get("schema_version")
    if version not in words.RECORD_VERSIONS:
        raise unknown_version(version, words.RECORD_VERSIONS).at(source.shown)
    return Record(source, content)


def unknown_version(version: Any, known: Sequence[str]) -> InputError:
    """The error for a version of the format that has not been seen."""
    return InputError(
        f"is written by schema version {str(version)[:60]!r} of Every Eval Ever, which this reader "
        f"does not know; it knows {', '.join(known)}",
        column="schema_version",
        fix="convert it to one of these",
    )


# --- comparing figures ----------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """The scores of one metric, as its lines give them."""

    total: float = 0.0
    squares: float = 0.0
    scored: int = 0
    lowest: float = math.inf
    highest: float = -math.inf
    samples: set[str] = field(default_factory=set)
    responses: set[tuple[str, int]] = field(default_factory=set)

    def add(self, score: float, sample: str, epoch: int) -> None:
        """Count one score."""
        self.total += score
        self.squares += score * score
        self.scored += 1
        self.lowest, self.highest = min(self.lowest, score), max(self.highest, score)
        self.samples.add(sample)
        self.responses.add((sample, epoch))

    @property
    def mean(self) -> float:
        """The mean over the lines that have a score."""
        return self.total / self.scored

    def errors(self) -> tuple[float, ...]:
        """The standard error of the mean, with either denominator of the variance."""
        n = self.scored
        spread = max(0.0, self.squares - n * self.mean**2)
        return tuple(math.sqrt(spread / by / n) for by in (n, n - 1) if by > 0)


def disagreements(result: Result, tally: Tally) -> Iterator[str]:
    """Where the figures of a record are not those of its lines, as clauses."""
    if not tally.scored or len(tally.responses) < tally.scored:
        return  # Repeated calls count by majority, which no mean shows.
    score = finite(result.details.get("score"))
    # Scores of sizes beyond reason make sums without an end.
    means = [tally.mean] if math.isfinite(tally.mean) else []
    if result.in_percent:
        means += [100 * mean for mean in means]
    agrees = score is not None and any(_close(score, mean) for mean in means)
    if score is not None and means and not agrees:
        yield (
            f"the record says {score:.6g}, the mean over its "
            f"{counted(tally.scored, 'line')} is {means[-1]:.6g}"
        )
    uncertainty = _object(result.details.get("uncertainty"))
    number = uncertainty.get("num_samples")
    if isinstance(number, int) and number not in {tally.scored, len(tally.samples)}:
        yield (
            f"the record counts {number:,}, the lines hold {counted(len(tally.samples), 'sample')}"
        )
    if not agrees:
        return
    yield from _spread_disagreements(uncertainty, score or 0.0, tally, result)


def _spread_disagreements(
    uncertainty: Mapping[str, Any], score: float, tally: Tally, result: Result
) -> Iterator[str]:
    stated = _object(uncertainty.get("standard_error"))
    error = finite(stated.get("value"))
    is_simple = tally.scored == len(tally.samples) and stated.get("method") in {None, "analytic"}
    if error is not None and is_simple:
        unit = 100 if result.in_percent and not _close(score, tally.mean) else 1
        found = tuple(unit * value for value in tally.errors())
        if found and not any(
            math.isclose(error, value, rel_tol=_SPREAD_TOLERANCE, abs_tol=1e-9) for value in found
        ):
            yield f"the record gives a standard error of {error:.4g}, the lines {found[-1]:.4g}"
    interval = _object(uncertainty.get("confidence_interval"))
    low, high = finite(interval.get("lower")), finite(interval.get("upper"))
    slack = _TOLERANCE * max(1.0, abs(score))
    if low is not None and high is not None and not low - slack <= score <= high + slack:
        yield f"its interval {low:.6g} to {high:.6g} does not hold its score {score:.6g}"


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    """A text that UTF-8 can hold and that says something."""
    if not isinstance(value, str) or not value.strip():
        return None
    return None if any("\ud800" <= letter <= "\udfff" for letter in value) else value


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)
