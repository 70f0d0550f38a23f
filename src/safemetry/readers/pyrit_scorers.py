"""What the verdicts of PyRIT's scorers mean, and under which names they judge.

A scorer says ``true`` or ``false``, or a number from 0 to 1. Only its class can fix what that
means: ``true`` of a refusal scorer is a refusal, ``true`` of a substring scorer is a substring.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.readers.pyrit_components import Component, grader_of, sub_scorers

OUTCOME: Final = "attack_outcome"
"""The judge that gives the outcome of each attack; with its scorer where there are several."""

TRUE_FALSE: Final = "true_false"
FLOAT_SCALE: Final = "float_scale"


class Meaning(Enum):
    """What ``true``, or a score near 1, says about a response."""

    REFUSAL = auto()
    ANSWER = auto()
    HARM = auto()
    NO_HARM = auto()
    OPEN = auto()


LABELS: Final[Mapping[Meaning, Mapping[str, str]]] = {
    Meaning.REFUSAL: {"true": "refuse", "false": "comply"},
    Meaning.ANSWER: {"true": "comply", "false": "refuse"},
}
"""The classes of scorers whose ``true`` and ``false`` are classes."""

_INVERSE: Final = {
    Meaning.REFUSAL: Meaning.ANSWER,
    Meaning.ANSWER: Meaning.REFUSAL,
    Meaning.HARM: Meaning.NO_HARM,
    Meaning.NO_HARM: Meaning.HARM,
    Meaning.OPEN: Meaning.OPEN,
}
_OF_CLASS: Final = {
    "SelfAskRefusalScorer": Meaning.REFUSAL,
    **dict.fromkeys(
        (
            "AnthraxKeywordScorer",
            "AzureContentFilterScorer",
            "CredentialLeakScorer",
            "FentanylKeywordScorer",
            "GandalfScorer",
            "InsecureCodeScorer",
            "LDAPInjectionOutputScorer",
            "MarkdownInjectionScorer",
            "MethKeywordScorer",
            "NerveAgentKeywordScorer",
            "OpenRedirectOutputScorer",
            "PackageHallucinationScorer",
            "PathTraversalOutputScorer",
            "PlagiarismScorer",
            "RobloxPiiScorer",
            "SQLInjectionOutputScorer",
            "SSRFOutputScorer",
            "SSTIOutputScorer",
            "ShellCommandOutputScorer",
            "SystemPromptExtractionScorer",
            "XSSOutputScorer",
            "XXEOutputScorer",
        ),
        Meaning.HARM,
    ),
}
_WRAPPERS: Final = frozenset({"FloatScaleThresholdScorer", "TrueFalseCompositeScorer"})
_MATCHERS: Final = frozenset(
    {
        "DecodingScorer",
        "QuestionAnswerScorer",
        "RegexScorer",
        "StaticPromptInjectionScorer",
        "SubStringScorer",
    }
)
"""Scorers that look for a text and never see the objective of an attack."""

_READS_RESPONSE: Final = {"LlamaGuardScorer": "Agent", "ShieldGemmaScorer": "chatbot"}
"""Scorers that judge a prompt or a response -> the role that is the response."""


def meaning_of(scorer: Component) -> Meaning:
    """What the class of a scorer fixes about its verdicts."""
    inside = [meaning_of(part) for part in sub_scorers(scorer)]
    if scorer.name == "TrueFalseInverterScorer" and len(inside) == 1:
        return _INVERSE[inside[0]]
    if scorer.name in _WRAPPERS:
        return inside[0] if inside and len(set(inside)) == 1 else Meaning.OPEN
    if scorer.name in _READS_RESPONSE:
        role = scorer.params.get("message_role")
        return Meaning.HARM if role == _READS_RESPONSE[scorer.name] else Meaning.OPEN
    return _OF_CLASS.get(scorer.name, Meaning.OPEN)


def outcome_meaning(scorer: Component | None) -> Meaning:
    """What the success of an attack says about the response, by the scorer that decided it.

    An attack succeeds where its objective scorer says ``true``. A scorer that only looks for a text
    does not know the objective, and one that looks for refusals counts them as successes.
    """
    if scorer is None:
        return Meaning.ANSWER
    if any(part.name in _MATCHERS for part in scorer.walk()):
        return Meaning.OPEN
    reversed_ = meaning_of(scorer) in {Meaning.REFUSAL, Meaning.NO_HARM}
    return Meaning.OPEN if reversed_ else Meaning.ANSWER


def translates(evidence_map: EvidenceMap, judge: str, *words: str) -> bool:
    """Whether the map says what the words of a judge mean."""
    known = {**evidence_map.labels, **evidence_map.scale(judge).labels}
    return any(word in known for word in words)


def scale_of(meaning: Meaning) -> Scale:
    """Range and direction of a score, as far as the class of its scorer fixes them."""
    if meaning is Meaning.HARM:
        return Scale(scale_min=0, scale_max=1, higher_is="worse")
    if meaning is Meaning.NO_HARM:
        return Scale(scale_min=0, scale_max=1, higher_is="safer")
    return Scale(scale_min=0, scale_max=1)


class Judge(NamedTuple):
    """A scorer under its name.

    Parameters
    ----------
    name
        Name of the judge.
    meaning
        What its class fixes.
    as_labels
        Whether its verdicts are classes.
    decided_by
        For outcomes of attacks, the class of the scorer that decided.
    """

    name: str
    meaning: Meaning
    as_labels: bool
    decided_by: str | None = None


# --- names ----------------------------------------------------------------------------------------

Variant = tuple[Component, str | None]
"""A scorer, and the harm category that it scored where it scores several."""


def judge_names(
    used: Mapping[str, tuple[Component, set[str], bool]],
) -> dict[tuple[str, str | None], str]:
    """(digest of a scorer, category) -> name of the judge.

    A class that occurs once is its own name. Several scorers of one class are told apart by their
    category, else by the model that they ask, else by their digest.

    Parameters
    ----------
    used
        Digest of a scorer -> the scorer, its categories, and whether it gives one score for each
        of them.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for digest, (scorer, _, _) in used.items():
        groups[shown_class(scorer)].append(digest)
    names: dict[tuple[str, str | None], str] = {}
    for shown, digests in groups.items():
        suffixes = _suffixes(digests, used)
        for digest in digests:
            _, categories, several = used[digest]
            name = shown + suffixes[digest]
            names[digest, None] = name
            for category in sorted(categories):
                names[digest, category] = f"{name}/{category}" if several else name
    return names


def _suffixes(
    digests: list[str], used: Mapping[str, tuple[Component, set[str], bool]]
) -> dict[str, str]:
    if len(digests) == 1:
        return {digests[0]: ""}

    def category(digest: str) -> str | None:
        _, categories, several = used[digest]
        return f"/{next(iter(categories))}" if len(categories) == 1 and not several else None

    def model(digest: str) -> str | None:
        asked = grader_of(used[digest][0])
        return f"@{asked}" if asked else None

    ways: Iterable[Callable[[str], str | None]] = (category, model)
    for way in ways:
        found = {digest: way(digest) for digest in digests}
        told = {digest: said for digest, said in found.items() if said is not None}
        if len(told) == len(digests) == len(set(told.values())):
            return told
    return {digest: f"#{digest[:8]}" for digest in digests}


def shown_class(scorer: Component) -> str:
    """The class of a scorer, with those that it is made of."""
    inside = ", ".join(shown_class(part) for part in sub_scorers(scorer))
    return f"{scorer.name}({inside})" if inside else scorer.name
