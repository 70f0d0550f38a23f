"""Examples: what a few of the responses that went wrong were, where the user asks for texts."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar, Final

from safemetry.findings import Finding
from safemetry.report.blocks import Block, Excerpt, Fold, Text, excerpt, name_of
from safemetry.report.context import CutText, CutTexts, ReportContext
from safemetry.report.examples import (
    MOST_OF_A_TARGET,
    OVER_REFUSAL,
    VIOLATION,
    Example,
    pick_examples,
)
from safemetry.report.section import Part

NOTICE: Final = "This report holds texts of prompts and responses; handle it with care."
CHARACTERS: Final = 4_000
"""A text is cut after so many characters."""
TEXTS: Final = 400
BYTES: Final = 1_500_000
"""What all texts together may take in the page; each may take an equal share of it."""

_WORDS: Final = {VIOLATION: "violation", OVER_REFUSAL: "over-refusal"}
_REASONS: Final = 5


@dataclass(frozen=True, kw_only=True)
class ExamplesFinding(Finding):
    """The examples, with their texts as far as they are shown.

    Parameters
    ----------
    examples
        One mapping for each: ``kind, benchmark, target, judge, run, item, epoch, verdict``, and
        ``prompt`` and ``response``, cut, with the number of characters left out; None where there
        is no such text.
    """

    command: ClassVar[str] = "examples"

    examples: tuple[Mapping[str, Any], ...]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per example."""
        return self.examples

    def sentence(self) -> str:
        """How many there are."""
        return f"{len(self.examples):,} examples of responses that went wrong."


class ExamplesSection:
    """For each target some violations and over-refusals with their texts, folded."""

    name = "examples"
    order = 700

    def make(self, context: ReportContext) -> Part | None:
        """The examples, or why there are none; nothing unless texts may be shown."""
        if not context.settings.include_text:
            return None
        examples, untouched = pick_examples(
            context.evidence, context.rule, context.boards, TEXTS // 2
        )
        if not examples:
            return Part(
                title="Examples",
                blocks=[Text("No judged response went wrong, so there is no example.")],
            )
        texts = context.texts_of([example.key for example in examples], CHARACTERS)
        reasons = _reasons(context)
        if not texts:
            return Part(
                title="Examples",
                blocks=[Text("No text of a response that went wrong can be shown."), *reasons],
            )
        shown = _shown(examples, texts)
        blocks: list[Block] = [Text(_explained(untouched))]
        without = sum(example.key not in texts for example in examples)
        if without:
            blocks += [
                Text(f"The sources hold no text of {without:,} of the {len(examples):,} examples."),
                *reasons,
            ]
        return Part(
            title="Examples",
            blocks=[*blocks, *_folds(shown)],
            findings=[_finding(shown)],
            notices=[NOTICE],
        )


@dataclass(frozen=True, slots=True)
class _Shown:
    """An example and its texts as they are shown."""

    example: Example
    prompt: Excerpt | None
    response: Excerpt | None


def _explained(untouched: int) -> str:
    violations, over_refusals = MOST_OF_A_TARGET[VIOLATION], MOST_OF_A_TARGET[OVER_REFUSAL]
    said = (
        f"For each target up to {violations} responses to harmful items that were violations under "
        f"its leading judge (the one that sees the most failures), and up to {over_refusals} "
        "benign items that it did not help with. They are taken at equal distances from such "
        "items in the order of their ids, so the same evidence gives the same examples; "
        f"they are no sample from which a rate could be read. The page holds at most {TEXTS:,} "
        f"texts and {BYTES / 1e6:g} MB of them; each is cut after {CHARACTERS:,} characters, or "
        "earlier where its share of that is less."
    )
    if untouched:
        said += f" {untouched:,} targets with lower ceilings are left out for that reason."
    return said


def _reasons(context: ReportContext) -> list[Block]:
    """Why texts are absent."""
    if context.texts is None:
        return [Text("No texts were read for this report.")]
    known: Sequence[str] = getattr(context.texts, "without", ())
    more = len(known) - _REASONS
    return [
        *(Text(name_of(why, 300)) for why in known[:_REASONS]),
        *([Text(f"{more:,} more sources gave none.")] if more > 0 else []),
    ]


def _shown(
    examples: Sequence[Example], texts: Mapping[tuple[str, str, str, int], CutTexts]
) -> list[_Shown]:
    held = [texts.get(example.key, CutTexts(None, None)) for example in examples]
    number = sum((text.prompt is not None) + (text.response is not None) for text in held)
    share = BYTES // max(1, number)
    return [
        _Shown(
            example,
            _fitting("Prompt", text.prompt, share),
            _fitting("Response", text.response, share),
        )
        for example, text in zip(examples, held, strict=True)
    ]


def _fitting(title: str, text: CutText | None, share: int) -> Excerpt | None:
    """A text as it is shown, cut until the page gives it no more than so many bytes."""
    if text is None:
        return None
    kept = text.text
    while (size := len(html.escape(excerpt(title, kept).text).encode())) > share:
        kept = kept[: len(kept) * share // size]
    left_out = text.left_out + len(text.text) - len(kept)
    total = len(text.text) + text.left_out
    return replace(excerpt(title, kept, left_out), title=f"{title}, {total:,} characters")


def _folds(shown: Sequence[_Shown]) -> Iterator[Fold]:
    """A fold for each target."""
    several_runs = len({one.example.key[0] for one in shown}) > 1
    benchmarks = {one.example.benchmark for one in shown}

    def place(one: _Shown) -> tuple[str | None, str, str]:
        return one.example.benchmark, one.example.target, one.example.judge

    for (benchmark, target, judge), group in groupby(shown, place):
        mine = list(group)
        title = f"{name_of(target)} under {name_of(judge)}"
        if len(benchmarks) > 1:
            title += f" in {name_of(benchmark or 'the unnamed benchmark')}"
        counts = {kind: sum(one.example.kind == kind for one in mine) for kind in _WORDS}
        listed = ", ".join(_counted(number, kind) for kind, number in counts.items() if number)
        blocks = [block for one in mine for block in _blocks(one, several_runs=several_runs)]
        yield Fold(f"{title}: {listed}", tuple(blocks))


def _counted(number: int, kind: str) -> str:
    return f"{number:,} {_WORDS[kind]}{'' if number == 1 else 's'}"


def _blocks(one: _Shown, *, several_runs: bool) -> Iterator[Block]:
    run, _, item, epoch = one.example.key
    where = [f"run {name_of(run)}"] if several_runs else []
    where += [f"epoch {epoch:,}"] if epoch != 1 else []
    at = f" ({', '.join(where)})" if where else ""
    kind = _WORDS[one.example.kind].capitalize()
    yield Text(f"{kind}, item {name_of(item)}{at}: {name_of(one.example.verdict, 300)}")
    texts = [text for text in (one.prompt, one.response) if text is not None]
    yield from texts or (Text("The sources hold no text of it."),)


def _finding(shown: Sequence[_Shown]) -> ExamplesFinding:
    return ExamplesFinding(
        settings={
            "of_each_target": dict(MOST_OF_A_TARGET),
            "texts": TEXTS,
            "bytes": BYTES,
            "characters": CHARACTERS,
        },
        examples=tuple(map(_record, shown)),
    )


def _record(one: _Shown) -> dict[str, Any]:
    example = one.example
    run, target, item, epoch = example.key
    texts = {"prompt": one.prompt, "response": one.response}
    absent = {name: "the source holds none" for name, text in texts.items() if text is None}
    if example.benchmark is None:
        absent["benchmark"] = "not stated"
    record: dict[str, Any] = {
        "kind": example.kind,
        "benchmark": example.benchmark,
        "target": target,
        "judge": example.judge,
        "run": run,
        "item": item,
        "epoch": epoch,
        "verdict": example.verdict,
        **{name: text.text if text else None for name, text in texts.items()},
        "left_out": {name: text.left_out for name, text in texts.items() if text},
    }
    return {**record, **({"why": absent} if absent else {})}
