"""Journals of modelbench, the runner of MLCommons AILuminate (``journal-run-TIME.jsonl.zst``).

A journal is a stream of events. It is replayed (`safemetry.readers.modelbench_replay`), and each
prompt gives one judgement for each judge of its test: every annotator, and the measurement that the
test makes of them.

docs/readers-modelbench.md says what becomes of each entry and why.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.schema import BY_NAME, Intent, Reason, Status
from safemetry.evidence.success import SuccessRule
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.fields import counted
from safemetry.readers.modelbench_journal import (
    ANSWERED,
    FAILED,
    OVERRULED,
    QUEUED,
    TARGET_FAILED,
    UNKNOWN,
    Tally,
    TestName,
    decode,
    is_journal,
    opened,
)
from safemetry.readers.modelbench_replay import (
    GRADER_FAILED,
    MEASUREMENT,
    Replay,
    Sent,
    Verdict,
    item_of,
    message_of,
    text_or_none,
)
from safemetry.readers.source import Source

_SAFE: Final = Scale(scale_min=0, scale_max=1, higher_is="safer")
_SHOWN: Final = 5
_UNREACHED: Final = (Status.ERROR, Reason.INFRASTRUCTURE_ERROR)
_NEVER: Final = (Status.MISSING, Reason.NOT_ATTEMPTED)


class ModelBenchReader:
    """Reads the journal of a modelbench run, plain or compressed with zstd."""

    name = "modelbench"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the first line is the first entry of a journal."""
        return is_journal(source)

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert a journal, entry by entry.

        Raises
        ------
        InputError
            Where the file is no journal, is damaged as a whole, or holds no prompt.
        """
        return _Judgements(source, _replayed(source, evidence_map)).conversion()

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """Prompt and response of each item, once it is answered; unanswered ones come last."""
        journal = _replayed(source, evidence_map)
        judged = _Judgements(source, journal).judged_items()
        lines = opened(source)
        prompts: dict[tuple[str, str], str | None] = {}
        for number, line in lines.read_lines():
            try:
                entry = lines.read_json_line(number, line, decode)
                message = message_of(entry)
                if message not in {QUEUED, ANSWERED}:
                    continue
                target, item = journal.target_of(entry), item_of(entry)
            except InputError:
                continue  # `read` tells of it
            if (target, item) not in judged:
                continue
            if message == QUEUED:
                prompts[target, item] = text_or_none(entry.get("prompt_text"))
            elif (target, item) in prompts:
                prompt = prompts.pop((target, item))
                response = text_or_none(entry.get("response_text"))
                yield ResponseText(journal.run, target, item, 1, prompt, response)
        for (target, item), prompt in prompts.items():
            yield ResponseText(journal.run, target, item, 1, prompt, None)


def _replayed(source: Source, evidence_map: EvidenceMap) -> Replay:
    if source.is_folder:
        raise InputError(
            "is a folder, a modelbench journal is one file",
            file=source.shown,
            fix="name the journal-run-*.jsonl.zst inside it",
        )
    journal = Replay(source, evidence_map)
    lines = opened(source)
    for number, line in lines.read_lines():
        journal.add(lines, number, line)
    return journal


class _Judgements:
    """What a replayed journal says, as judgements."""

    def __init__(self, source: Source, replay: Replay) -> None:
        self._source = source
        self._replay = replay

    def conversion(self) -> Conversion:
        """The judgements, once the last entry is taken."""
        if not self._replay.sent:
            damaged = (
                f" ({counted(len(self._replay.failures), 'line')} failed)"
                if self._replay.failures
                else ""
            )
            raise InputError(
                f"holds no prompt that was sent to a target{damaged}",
                file=self._source.shown,
                fix="name the journal of a run that reached its first prompt",
            )
        tallies, queued = self._tallies()
        said: Counter[str] = Counter()
        rows = [row for sent in self._replay.sent.values() for row in self._rows_of(sent, said)]
        rows.sort(key=lambda row: row["source_row"])
        table: pa.Table = _table(rows)
        used = {row["source_row"] for row in rows}
        skipped = Counter(
            reason
            for number, reason in enumerate(self._replay.reasons, start=1)
            if reason is not None and number not in used
        )
        judged = dict.fromkeys(row["judge"] for row in rows)
        targets = dict.fromkeys(row["target"] for row in rows)
        disagreements = list(
            self._replay.summaries.disagreements(tallies, queued, self._replay.suts)
        )
        return Conversion(
            judgements=table,
            rows_read=self._replay.row,
            skipped=skipped,
            failures=tuple(self._replay.failures),
            warnings=(*self._warnings(said), *_shortened(disagreements)),
            judges=tuple(self._identities(judged)),
            scales=dict.fromkeys(judged, _SAFE),
            targets={
                target: dict(self._replay.settings) for target in targets if self._replay.settings
            },
            default_rule=SuccessRule("at_least:1"),
        )

    def judged_items(self) -> set[tuple[str, str]]:
        """(target, item) of the prompts that have a judgement."""
        return {
            (sent.target, sent.item)
            for sent in self._replay.sent.values()
            if not self._replay.speaks.isdisjoint(self._replay.judges[sent.test])
        }

    def _tallies(self) -> tuple[dict[tuple[str, str], Tally], Counter[tuple[str, str]]]:
        """The measurements as modelbench counts them, and the prompts sent, by target and test."""
        tallies: defaultdict[tuple[str, str], Tally] = defaultdict(Tally)
        queued: Counter[tuple[str, str]] = Counter()
        for sent in self._replay.sent.values():
            key = (sent.target, sent.test)
            queued[key] += 1
            measured = sent.verdicts.get(MEASUREMENT)
            if measured is not None and measured.score is not None and FAILED not in sent.happened:
                tallies[key].measured += 1
                tallies[key].safe += measured.score
        return dict(tallies), queued

    def _rows_of(self, sent: Sent, said: Counter[str]) -> Iterator[dict[str, Any]]:
        """One row for each judge of the test that says anywhere whether a response is safe."""
        judges = [judge for judge in self._replay.judges[sent.test] if judge in self._replay.speaks]
        said["empty"] += sent.empty
        said["overruled"] += OVERRULED in sent.happened
        said["unjudged"] += not judges
        said["failed"] += FAILED in sent.happened
        name = TestName.of(sent.test)
        context = {
            "run": self._replay.run,
            "target": sent.target,
            "item": sent.item,
            "benchmark": self._replay.summaries.benchmark_of(sent.test),
            "category": name.hazard or self._replay.summaries.hazard_of(sent.test),
            "attack": name.attack,
            "behaviour": sent.behaviour,
            "intent": str(Intent.HARMFUL) if name.elicits else None,
            "language": name.language,
            "timestamp": sent.time,
            "source_file": self._source.name,
        }
        for judge in judges:
            verdict = self._verdict(sent, judge, said)
            status, reason = verdict.outcome
            yield {
                **context,
                "judge": judge,
                "score": verdict.score,
                "status": str(status),
                "reason": None if reason is None else str(reason),
                "source_row": verdict.row,
            }

    def _verdict(self, sent: Sent, judge: str, said: Counter[str]) -> Verdict:
        verdict = sent.verdicts.get(judge)
        if verdict is None:
            return self._absent(sent, judge, said)
        if judge != MEASUREMENT or verdict.score is None:
            return verdict
        given = [
            known.score
            for name, known in sent.verdicts.items()
            if name != MEASUREMENT and name in self._replay.speaks
        ]
        if given and all(score is None for score in given) and not sent.empty:
            said["measured without a verdict"] += 1
            return Verdict(verdict.row, GRADER_FAILED)
        # modelbench leaves an item out of its scores where any of its annotators failed.
        return Verdict(verdict.row, GRADER_FAILED) if FAILED in sent.happened else verdict

    def _absent(self, sent: Sent, judge: str, said: Counter[str]) -> Verdict:
        """The status of a response that a judge of the test did not grade."""
        if TARGET_FAILED in sent.happened:
            return Verdict(sent.row, _UNREACHED)
        ensemble = sent.verdicts.get(judge.rpartition("/")[0])
        if ensemble is not None:
            return Verdict(ensemble.row, GRADER_FAILED)
        said["unanswered" if ANSWERED not in sent.happened else f"ungraded {judge}"] += 1
        return Verdict(sent.row, _NEVER)

    def _identities(self, judged: Mapping[str, None]) -> Iterator[JudgeIdentity]:
        """One identity an annotator, and one measurement for each set of annotators."""
        for judge in judged:
            if judge != MEASUREMENT:
                yield JudgeIdentity(name=judge, parser="modelbench")
        combined = {
            ", ".join(sorted(judge for judge in judges if judge != MEASUREMENT))
            for judges in self._replay.judges.values()
            if MEASUREMENT in judges and MEASUREMENT in judged
        }
        for annotators in sorted(combined):
            aggregation = f"modelbench, of {annotators}" if annotators else "modelbench"
            yield JudgeIdentity(name=MEASUREMENT, aggregation=aggregation)

    # --- what the reader of the numbers must know ---------------------------------------------

    def _warnings(self, said: Counter[str]) -> Iterator[str]:
        if not any(
            self._replay.messages[end] for end in ("finished run", "finished calibration run")
        ):
            how = (
                " (an exception stopped it)"
                if self._replay.messages["exception stopping run"]
                else ""
            )
            yield (
                f"The run did not reach its end{how}: prompts that are missing from this journal "
                "were not tried, which says nothing about them."
            )
        silent = {
            j for judges in self._replay.judges.values() for j in judges
        } - self._replay.speaks
        if silent:
            yield (
                f"Left out: {', '.join(sorted(silent))}, which never "
                f"{'says' if len(silent) == 1 else 'say'} whether a response is safe (is_safe)."
            )
        if said["unjudged"]:
            yield f"{counted(said['unjudged'], 'prompt')} belong to tests that nothing graded."
        if said["empty"]:
            yield (
                f"{counted(said['empty'], 'response')} of the targets are empty; modelbench counts "
                f"them as safe, {said['overruled']:,} of them against its annotators."
            )
        if said["measured without a verdict"]:
            yield (
                f"{counted(said['measured without a verdict'], 'item')} have a measurement but no "
                "valid verdict of any annotator; modelbench counts them, here they are missing "
                "(grader_failed)."
            )
        if said["failed"]:
            yield (
                f"{counted(said['failed'], 'item')} failed in the run and are in none of "
                "modelbench's scores; their measurements are missing here too."
            )
        if said["unanswered"]:
            yield (
                f"{counted(said['unanswered'], 'verdict')} are missing (not_attempted), since the "
                "target gave no response that the journal records."
            )
        for key, count in sorted(said.items()):
            if key.startswith("ungraded "):
                yield (
                    f"{key.removeprefix('ungraded ')} never graded {counted(count, 'response')}, "
                    "though it is a judge of the test; they are missing (not_attempted)."
                )
        if unknown := self._replay.messages[UNKNOWN]:
            yield (
                f"{counted(unknown, 'entry', 'entries')} of an unknown kind were skipped; this "
                "reader knows the journals of November 2024 to 2026, which state no version."
            )


def _shortened(sentences: list[str]) -> list[str]:
    more = len(sentences) - _SHOWN
    if more <= 0:
        return sentences
    return [*sentences[:_SHOWN], f"{counted(more, 'more figure')} of the journal differ."]


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {
        name: pa.array([row[name] for row in rows], column.type)
        for name, column in BY_NAME.items()
        if name in {"target", "item", "score", "reason"}
        or any(row.get(name) is not None for row in rows)
    }
    return pa.table(columns)
