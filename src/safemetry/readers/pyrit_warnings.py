"""What a reader of the numbers must know about verdicts of PyRIT, in whole sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from safemetry.evidence.maps import EvidenceMap
from safemetry.readers.fields import counted
from safemetry.readers.pyrit_records import NEVER_STARTED, OUTSIDE, UNREAD
from safemetry.readers.pyrit_scorers import Judge, Meaning

_TOLD: Final = {
    "partial": (
        "score",
        "judge what a blocked response held before the block; they stand",
    ),
    "never scored": (
        "verdict",
        "that scorers gave on other results of the same attack are absent; they count as missing",
    ),
    "unscored": (
        "response",
        "in scored conversations have no score of their own; they are in no rate",
    ),
    "of a prompt": ("score", "of prompts and other messages that are no response are left out"),
    "contradicted": (
        "attack result",
        "and the score that decided it disagree; both are kept as they are written",
    ),
}
_FILLED: Final = "filled"


def filled(judge: str, reason: str) -> str:
    """Under which name verdicts are counted that stand for no verdict."""
    return f"{_FILLED}\n{judge}\n{reason}"


def counted_warnings(said: Mapping[str, int], skipped: Mapping[str, int]) -> Iterator[str]:
    """Sentences about verdicts that are not what they seem, and those that are left out.

    Parameters
    ----------
    said
        How often each thing occurred.
    skipped
        Reason -> rows.
    """
    for key, count in sorted(said.items()):
        if key.startswith(_FILLED):
            _, judge, reason = key.split("\n")
            yield (
                f"{judge}: PyRIT wrote {counted(count, 'verdict')} for responses that no scorer "
                f"read; here they are missing ({reason}), and no evidence of safety."
            )
    for key, (what, sentence) in _TOLD.items():
        if said.get(key):
            yield f"{counted(said[key], what)} {sentence}."
    for why in (NEVER_STARTED, UNREAD, OUTSIDE):
        if why in skipped:
            yield f"{counted(skipped[why], 'row')} left out: {why}."


def meaning_warnings(
    used: Mapping[str, Judge],
    floats: Collection[str],
    evidence_map: EvidenceMap,
) -> Iterator[str]:
    """What the format leaves open, and how to say it.

    Parameters
    ----------
    used
        Judges that occur.
    floats
        Those of them that give numbers.
    evidence_map
        What is said already.
    """
    for name, judge in sorted(used.items()):
        is_number = name in floats
        said = evidence_map.scale(name).higher_is is not None or (judge.as_labels and not is_number)
        if judge.meaning is not Meaning.OPEN or said:
            continue
        if is_number:
            yield (
                f"{name}: its class does not fix which end of its score is safe; say so in the "
                f'map: judges: {{"{name}": {{scale_min: 0, scale_max: 1, higher_is: WHICH}}}} '
                "with safer or worse for WHICH."
            )
        elif judge.decided_by is not None:
            yield (
                f"{name}: {judge.decided_by} decided about success, which does not read the "
                "objective or looks for refusals, so success need not mean that the target went "
                f'along; say what it means in the map: judges: {{"{name}": {{labels: '
                "{success: comply, failure: refuse}}} (or the reverse)."
            )
        else:
            yield (
                f"{name}: its class does not fix what true means; say so in the map: judges: "
                f'{{"{name}": {{labels: {{"true": refuse, "false": comply}}}}}} '
                "(or the reverse), or higher_is: worse or safer where it finds a harm."
            )
    if floats:
        yield (
            "PyRIT sets no threshold for scores from 0 to 1; choose one, such as --success "
            "at_least:0.5."
        )
