"""Assertions of promptfoo as judges: what each says of an answer, and what they say together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.readers.fields import encodable
from safemetry.readers.promptfoo_file import id_of, is_text
from safemetry.readers.promptfoo_result import (
    BAD_FORMAT,
    GRADER,
    GRADER_FAILED,
    OK,
    SCORING_FAILED,
    content_digest,
    mapping,
    plugin_of,
    succeeded,
    test_of,
)
from safemetry.readers.source import finite

OVERALL: Final = "pass"
"""Judge of the verdict that promptfoo makes of all assertions of a test."""

REDTEAM: Final = "redteam"
"""Judge of the graders that the plugins of a red team bring along."""

REFUSAL_FLAG: Final = "isRefusal"
"""Judge of what the provider itself says of its response."""

HUMAN: Final = "human"
_OWN_NAMES: Final = frozenset({OVERALL, REDTEAM, REFUSAL_FLAG})

_GRADER_TROUBLE: Final = re.compile(
    r"No output$|No embedding$|Embedding not found$|Could not extract JSON from |"
    r"Could not perform remote |Error parsing output|Invalid select-best verdict|"
    r"Moderation API error|Unknown error fetching |Factuality checker output did not match|"
    r"Invalid category value|Invalid similarity score|Unsupported metric|"
    r"[\w:-]{1,40} produced malformed response|API (?:call |response )?error: |"
    r"Custom function threw error|(?:Python|Ruby) code execution failed|"
    r"(?:Python|JavaScript|Ruby) (?:assertion|script) (?:failed|error)|Webhook error|"
    r"LLM-proposed evaluation |G-Eval (?:[\w-]+ call to|steps response|result) "
)
"""How promptfoo begins the reason of an assertion that it could not evaluate."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one judge says: 1 where the assertion holds, else 0; or why there is no verdict."""

    score: float = 0.0
    outcome: int = OK


@dataclass(frozen=True, slots=True)
class Instrument:
    """An assertion as a judge: what is known of it beyond its name."""

    type: str
    rubric: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class Assertion:
    """One verdict on an answer, under the name of its judge."""

    judge: str
    verdict: Verdict
    instrument: Instrument
    is_safe: bool
    """Whether a pass means, by the semantics of its type, that nothing harmful was said."""


def assertions_of(entry: Mapping[str, Any]) -> list[Assertion]:
    """What each assertion says, once for a judge: of one metric all assertions have to hold."""
    given = mapping(entry.get("gradingResult")).get("componentResults")
    if not isinstance(given, list | None):
        raise InputError(
            "componentResults is no list", column="gradingResult", fix="export it again"
        )
    components = [part for part in given or () if isinstance(part, Mapping)]
    if not components:
        components = [{"assertion": asked} for asked in _asked(entry)]
    judges = _judge_names(components, _own_grader(entry, components))
    merged: dict[str, Assertion] = {}
    for judge, component in zip(judges, components, strict=True):
        new = Assertion(judge, _verdict(component), _instrument(component), _is_safe(component))
        known = merged.get(judge)
        merged[judge] = new if known is None else _both(known, new)
    return list(merged.values())


def _asked(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The assertions that a test declares, sets before their members as in results."""
    declared = test_of(entry).get("assert")
    for asked in declared if isinstance(declared, list) else []:
        if not isinstance(asked, Mapping):
            continue
        yield asked
        members = asked.get("assert")
        if asked.get("type") == "assert-set" and isinstance(members, list):
            yield from (member for member in members if isinstance(member, Mapping))


def _type_of(component: Mapping[str, Any]) -> str:
    kind = mapping(component.get("assertion")).get("type")
    if is_text(kind):
        return encodable(kind, "assertion.type")
    return "assert-set" if _set_of(component) else "assertion"


def _set_of(component: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(component.get("metadata")).get("assertionSet"))


def _own_grader(entry: Mapping[str, Any], components: Sequence[Mapping[str, Any]]) -> str | None:
    """Type of the assertions that are the grader of a red-team plugin; some use `llm-rubric`."""
    plugin = plugin_of(entry)
    if plugin is None or plugin == "xstest":  # whose verdict is rewarded, not safe, when it passes
        return None
    types = [_type_of(component) for component in components]
    return GRADER if any(map(_is_redteam, types)) else "llm-rubric"


def _is_redteam(kind: str) -> bool:
    return kind.startswith(GRADER)


def _judge_names(components: Sequence[Mapping[str, Any]], own_grader: str | None) -> list[str]:
    """A metric names its judge; without one its type does, numbered within the test."""
    seen: Counter[str] = Counter()
    names = []
    for component in components:
        kind = _type_of(component)
        if own_grader is not None and kind.startswith(own_grader):
            names.append(REDTEAM)
            continue
        metric = mapping(component.get("assertion")).get("metric", _set_of(component).get("metric"))
        if is_text(metric):
            name = f"{metric} (metric)" if metric in _OWN_NAMES else metric
        else:
            seen[kind] += 1
            name = kind if seen[kind] == 1 else f"{kind}-{seen[kind]}"
        names.append(encodable(name, "assertion.metric"))
    return names


def _verdict(component: Mapping[str, Any]) -> Verdict:
    metadata = mapping(component.get("metadata"))
    passed, reason = component.get("pass"), component.get("reason")
    incomplete = metadata.get("gradingIncomplete") is True and passed is True
    troubled = isinstance(reason, str) and _GRADER_TROUBLE.match(reason) is not None
    if metadata.get("graderError") is True or incomplete or troubled:
        return Verdict(outcome=GRADER_FAILED)
    if not isinstance(passed, bool):
        return Verdict(outcome=BAD_FORMAT)
    if _counts_for_nothing(component):
        # promptfoo lets an assertion of weight 0 pass whatever it found; its score stays.
        score = finite(component.get("score"))
        if score is None or score not in (0, 1):
            return Verdict(outcome=SCORING_FAILED)
        return Verdict(score)
    return Verdict(float(passed))


def _counts_for_nothing(component: Mapping[str, Any]) -> bool:
    kind = _type_of(component)
    weight = mapping(component.get("assertion")).get("weight")
    return weight == 0 and weight is not False and not _is_redteam(kind) and kind != HUMAN


def _is_safe(component: Mapping[str, Any]) -> bool:
    kind = _type_of(component)
    purpose = mapping(mapping(component.get("assertion")).get("config")).get("purpose")
    return kind in {"moderation", HUMAN} or (kind == "guardrails" and purpose == REDTEAM)


def _instrument(component: Mapping[str, Any]) -> Instrument:
    asked = mapping(component.get("assertion"))
    kind = _type_of(component)
    value = asked.get("value")
    # A red-team grader puts the rubric of the single test, with the time, into its results.
    rubric = None if value is None or _is_redteam(kind) else content_digest(value)
    return Instrument(kind, rubric, id_of(asked.get("provider")))


def _both(one: Assertion, two: Assertion) -> Assertion:
    """Two assertions of one metric: it holds where both do, and fails where one does."""
    verdicts = (one.verdict, two.verdict)
    failed = [v for v in verdicts if v.outcome == OK and v.score < 1]
    unknown = [v for v in verdicts if v.outcome != OK]
    verdict = next(iter([*failed, *unknown, one.verdict]))
    same = one.instrument == two.instrument
    instrument = one.instrument if same else Instrument(one.instrument.type, None, None)
    return Assertion(one.judge, verdict, instrument, one.is_safe and two.is_safe)


def overall_verdict(entry: Mapping[str, Any], assertions: Sequence[Assertion]) -> Verdict:
    """What promptfoo says of the test, unless it hangs on an assertion that was not evaluated."""
    grading = mapping(entry.get("gradingResult"))
    reason = grading.get("reason")
    if isinstance(reason, str) and reason.startswith("Scoring function error"):
        return Verdict(outcome=SCORING_FAILED)
    success = succeeded(entry)
    unknown = [a.verdict for a in assertions if a.verdict.outcome in (GRADER_FAILED, BAD_FORMAT)]
    if not unknown or any(assertion.judge == HUMAN for assertion in assertions):
        return Verdict(float(success))
    failed = any(a.verdict.outcome == OK and a.verdict.score < 1 for a in assertions)
    averaged = finite(test_of(entry).get("threshold")) is not None or "assertScoringFunction" in (
        test_of(entry)
    )
    return Verdict(0.0) if failed and not success and not averaged else unknown[0]


def outcome_behind(path: str, entry: Mapping[str, Any], assertions: Sequence[Assertion]) -> int:
    """Whether a field of a result is what assertions found, or what promptfoo wrote without one."""
    root, _, metric = path.partition(".")
    if root not in {"success", "score", "namedScores", "gradingResult"}:
        return OK
    if not assertions:
        return SCORING_FAILED
    if root == "namedScores":
        weights = mapping(mapping(entry.get("gradingResult")).get("namedScoreWeights"))
        if weights.get(metric) == 0:
            return SCORING_FAILED
        for assertion in assertions:
            if assertion.judge in {metric, f"{metric} (metric)"}:
                return assertion.verdict.outcome
    return overall_verdict(entry, assertions).outcome
