"""From the records of PyRIT to judgements: verdicts of scorers, outcomes of attacks."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.schema import Status
from safemetry.evidence.success import SuccessRule
from safemetry.readers.conversion import Conversion
from safemetry.readers.pyrit_components import Component, identity_of
from safemetry.readers.pyrit_conversations import Conversation, Conversations
from safemetry.readers.pyrit_records import (
    ERROR_FIELD,
    ERRORS,
    FAILED,
    GRADER_FAILED,
    NEVER_STARTED,
    NO_FORMAT,
    NO_RESPONSE,
    NOT_ATTEMPTED,
    OUT_OF_SCALE,
    RESPONSE,
    SCORING_FAILED,
    Attack,
    Memory,
    Piece,
    Score,
    Why,
)
from safemetry.readers.pyrit_rows import Rows, Verdict
from safemetry.readers.pyrit_scorers import (
    FLOAT_SCALE,
    LABELS,
    OUTCOME,
    TRUE_FALSE,
    Judge,
    Meaning,
    judge_names,
    meaning_of,
    outcome_meaning,
    scale_of,
    shown_class,
    translates,
)
from safemetry.readers.pyrit_warnings import counted_warnings, filled, meaning_warnings
from safemetry.readers.source import Source

_DECIDED: Final = ("success", "failure")
_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*")
_UNSCORED: Final = "response that no scorer scored"


class Judging:
    """Makes judgements of everything that a source holds."""

    def __init__(self, memory: Memory, source: Source, evidence_map: EvidenceMap) -> None:
        self._memory = memory
        self._source = source
        self._map = evidence_map
        self._kept = _kept_errors(evidence_map)
        self._conversations = Conversations(memory, evidence_map)
        self._rows = Rows(memory, self._conversations, source, evidence_map)
        self._said: Counter[str] = Counter()
        self._identities: dict[tuple[str, str, str | None], JudgeIdentity] = {}
        self._used: dict[str, Judge] = {}
        self._floats: dict[str, None] = {}
        self._judges = self._name_judges()
        self._outcomes = self._name_outcomes()

    def conversion(self) -> Conversion:
        """The judgements, and what became of every row."""
        for piece in self._memory.pieces:
            self._take_piece(piece)
        for attack in self._memory.attacks:
            self._take_attack(attack)
        table = self._rows.table()
        if not table.num_rows and not self._memory.failures:
            raise InputError(
                "holds no score and no attack result",
                file=self._source.shown,
                fix="name the memory of a run that scored its responses",
            )
        targets = set(table["target"].to_pylist())
        return Conversion(
            judgements=table,
            rows_read=self._memory.rows,
            skipped=self._memory.skipped,
            failures=sorted(self._memory.failures, key=lambda failure: failure.row or 0),
            warnings=(
                *meaning_warnings(self._used, self._floats, self._map),
                *counted_warnings(self._said, self._memory.skipped),
            ),
            judges=tuple(self._identities.values()),
            scales=self._scales(),
            targets={n: s for n, s in self._conversations.settings.items() if n in targets},
            default_rule=self._default_rule(),
        )

    def judged(self) -> Iterator[tuple[Conversation, int | None, str]]:
        """(conversation, sequence of the response, item) of every response with a judgement."""
        self.conversion()
        yield from self._rows.responses()

    # --- judges -----------------------------------------------------------------------------------

    def _name_judges(self) -> dict[tuple[str, str | None], Judge]:
        """(digest of a scorer, category) -> the judge."""
        scorers: dict[str, Component] = {}
        categories: dict[str, set[str]] = defaultdict(set)
        several: set[str] = set()
        for piece in self._memory.pieces:
            here: dict[str, set[str]] = defaultdict(set)
            for score in self._conversations.scores_of(piece):
                digest = score.scorer.digest
                scorers.setdefault(digest, score.scorer)
                if score.category:
                    here[digest].add(score.category)
            for digest, found in here.items():
                categories[digest] |= found
                if len(found) > 1:
                    several.add(digest)
        used = {
            digest: (scorer, categories[digest], digest in several)
            for digest, scorer in scorers.items()
        }
        return {
            key: self._judge(name, meaning_of(scorers[key[0]]), "true", "false")
            for key, name in judge_names(used).items()
        }

    def _judge(self, name: str, meaning: Meaning, *words: str) -> Judge:
        """A judge; its verdicts are classes where its class or the map makes them so."""
        labelled = meaning in LABELS or translates(self._map, name, *words)
        return Judge(name, meaning, labelled)

    def _name_outcomes(self) -> dict[str | None, Judge]:
        """Digest of the objective scorer -> the judge that its decisions are; None where unknown.

        Attacks that different scorers decided about have different judges, as elsewhere. Where one
        scorer decided about all, results that name none (as failed attacks) are its too.
        """
        decided = [self._decider(attack) for attack in self._memory.attacks]
        scorers = {scorer.digest: scorer for scorer in decided if scorer is not None}
        named = judge_names({digest: (scorer, set(), False) for digest, scorer in scorers.items()})
        judges: dict[str | None, Judge] = {None: self._judge(OUTCOME, Meaning.ANSWER, *_DECIDED)}
        for digest, scorer in scorers.items():
            decided_by = named[digest, None]
            name = OUTCOME if len(scorers) == 1 else f"{OUTCOME}({decided_by})"
            judge = self._judge(name, outcome_meaning(scorer), *_DECIDED)
            judges[digest] = judge._replace(decided_by=shown_class(scorer))
        if len(scorers) == 1:
            judges[None] = judges[next(iter(scorers))]
        return judges

    def _decider(self, attack: Attack) -> Component | None:
        """The scorer that decided about an attack; before 0.14 only its last score names it."""
        score = self._score_by_id.get(attack.last_score or "")
        return attack.scorer or (score.scorer if score else None)

    def _sole_decider(self, attack: Attack) -> str | None:
        """Digest of the one scorer that decided about other results of the same attack."""
        if attack.attack is None:
            return None
        found = self._deciders[attack.attack.digest]
        return next(iter(found)) if len(found) == 1 else None

    @cached_property
    def _deciders(self) -> Mapping[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for attack in self._memory.attacks:
            scorer = self._decider(attack)
            if scorer is not None and attack.attack is not None:
                found[attack.attack.digest].add(scorer.digest)
        return found

    def _scales(self) -> dict[str, Scale]:
        return {
            name: scale_of(judge.meaning)
            for name, judge in self._used.items()
            if not judge.as_labels or name in self._floats
        }

    def _default_rule(self) -> SuccessRule | None:
        """``true`` is what counts where no judge gives classes; numbers have no threshold."""
        if not self._used or any(judge.as_labels for judge in self._used.values()):
            return None
        return None if set(self._used) <= set(self._floats) else SuccessRule("at_least:0.5")

    # --- message pieces ---------------------------------------------------------------------------

    def _take_piece(self, piece: Piece) -> None:
        scores = self._conversations.scores_of(piece)
        conversation = self._conversations.by_id.get(piece.conversation)
        if piece.role != RESPONSE:
            self._said["of a prompt"] += len(scores)
            self._memory.skip(
                "scored message that is no response" if scores else _why_no_response(piece)
            )
        elif self._conversations.is_copy(piece):
            self._memory.skip("copy of a message of another conversation")
        elif conversation is None and piece.conversation in self._conversations.unnamed:
            self._fail(piece.row, piece.conversation)
        elif conversation is None:
            self._memory.skip("response in a conversation of an attacker or a judge")
        elif scores:
            for score in scores:
                self._add_score(conversation, piece, score)
        else:
            self._take_unscored(conversation, piece)

    def _take_unscored(self, conversation: Conversation, piece: Piece) -> None:
        """A response without a score: missing where it ends a conversation that failed."""
        response = conversation.response
        alone = conversation.result is None and response is not None and response.id == piece.id
        why = ERRORS[piece.error] if piece.error not in self._kept else None
        judges = self._siblings(conversation) if alone and why else ()
        for judge in judges:
            self._add(conversation, piece, piece.row, judge, Verdict(why=why))
        if not judges:
            self._said["unscored"] += conversation.result is None
            self._memory.skip(_UNSCORED)

    def _siblings(self, conversation: Conversation) -> Sequence[Judge]:
        """The judges of other conversations of the same attack with the same target."""
        return tuple(self._judges_of_group.get(conversation.group, ()))

    @cached_property
    def _judges_of_group(self) -> Mapping[tuple[str, str | None], dict[Judge, None]]:
        groups: dict[tuple[str, str | None], dict[Judge, None]] = defaultdict(dict)
        for conversation in self._conversations.by_id.values():
            for piece in conversation.result_pieces:
                for score in self._conversations.scores_of(piece):
                    groups[conversation.group].setdefault(self._judge_of(score))
        return groups

    def _judge_of(self, score: Score) -> Judge:
        digest = score.scorer.digest
        return self._judges.get((digest, score.category)) or self._judges[digest, None]

    def _know(self, judge: str, scorer: Component, version: str | None, role: str = "") -> None:
        """Keep the identity of a judge."""
        key = (judge, scorer.digest, scorer.version or version)
        if key not in self._identities:
            identity = identity_of(judge, scorer, version)
            self._identities[key] = replace(identity, parser=f"{identity.parser}{role}")

    def _fail(self, row: int, conversation: str) -> None:
        self._memory.failures.append(
            InputError(
                f"the conversation {conversation[:40]!r} names no target",
                file=self._source.shown,
                row=row,
                column="target_identifier",
                fix="name it in the map (constants: {target: NAME})",
            )
        )

    # --- scores -----------------------------------------------------------------------------------

    def _add_score(self, conversation: Conversation, piece: Piece, score: Score) -> None:
        judge = self._judge_of(score)
        self._know(judge.name, score.scorer, score.version)
        if score.kind == FLOAT_SCALE:
            self._floats[judge.name] = None
        self._add(conversation, piece, piece.row, judge, self._verdict(piece, score, judge))

    def _verdict(self, piece: Piece, score: Score, judge: Judge) -> Verdict:
        why = self._why_unread(piece, score)
        if why is None and score.undetermined:
            why = GRADER_FAILED
        if why is not None:
            if score.value is not None:
                self._said[filled(judge.name, why[1])] += 1
            return Verdict(why=why)
        if score.kind == TRUE_FALSE:
            word = (score.value or "").strip().casefold()
            if word not in {"true", "false"}:
                return Verdict(why=NO_FORMAT if word else GRADER_FAILED)
            return self._said_word(judge, word, {"true": 1.0, "false": 0.0})
        return _number(score)

    def _why_unread(self, piece: Piece, score: Score) -> Why | None:
        """Why a score stands for no verdict on the response, whatever its value."""
        if piece.error in self._kept:
            return None
        why = ERRORS[piece.error]
        unread = score.filler is not None or score.if_blocked
        if why is not None and piece.partial and not unread:
            self._said["partial"] += 1
            return None
        return why or score.filler

    def _said_word(self, judge: Judge, word: str, scores: Mapping[str, float]) -> Verdict:
        """A verdict in words: as a class, or as a number where nothing says what it means."""
        if not judge.as_labels:
            return Verdict(score=scores[word])
        if translates(self._map, judge.name, word) or judge.meaning not in LABELS:
            return Verdict(label=word)
        word = {"success": "true", "failure": "false"}.get(word, word)
        return Verdict(label=LABELS[judge.meaning][word])

    # --- attack results ---------------------------------------------------------------------------

    def _take_attack(self, attack: Attack) -> None:
        conversation = self._conversations.of_result.get(attack.id)
        if conversation is None and attack.outcome == "error":
            self._memory.skip(NEVER_STARTED)
            return
        if conversation is None:
            self._fail(attack.row, attack.conversation)
            return
        response = conversation.response
        self._compare(attack)
        scorer = self._decider(attack)
        judge = self._outcomes[scorer.digest if scorer else self._sole_decider(attack)]
        if scorer is not None:
            self._know(judge.name, scorer, attack.version, role=" as objective scorer")
        verdict = self._outcome_of(attack, response, judge)
        self._add(conversation, response, attack.row, judge, verdict)
        first = self._conversations.by_id.get(attack.conversation) is conversation
        scored = any(self._conversations.scores_of(piece) for piece in conversation.result_pieces)
        if first and not scored:
            why = (ERRORS[response.error] or NOT_ATTEMPTED) if response else NO_RESPONSE
            for judge in self._siblings(conversation):
                self._said["never scored"] += 1
                self._add(conversation, response, attack.row, judge, Verdict(why=why))

    def _outcome_of(self, attack: Attack, response: Piece | None, judge: Judge) -> Verdict:
        why = ERRORS[response.error] if response and response.error not in self._kept else None
        if attack.outcome == "error":
            return Verdict(why=FAILED)
        if attack.outcome == "undetermined":
            return Verdict(why=why or self._why_undetermined(attack, response))
        if why is not None and attack.outcome == "failure" and not (response and response.partial):
            self._said[filled(judge.name, why[1])] += 1
            return Verdict(why=why)
        return self._said_word(judge, attack.outcome, {"success": 1.0, "failure": 0.0})

    def _why_undetermined(self, attack: Attack, response: Piece | None) -> Why:
        if self._decider(attack) is None:
            return NOT_ATTEMPTED
        if response is None:
            return NO_RESPONSE
        score = self._score_by_id.get(attack.last_score or "")
        return GRADER_FAILED if score is not None and score.undetermined else SCORING_FAILED

    def _compare(self, attack: Attack) -> None:
        """Count outcomes that their own last score contradicts."""
        score = self._score_by_id.get(attack.last_score or "")
        if score is None or score.kind != TRUE_FALSE or score.value is None:
            return
        if attack.outcome not in _DECIDED:
            return
        achieved = score.value.strip().casefold() == "true"
        self._said["contradicted"] += achieved != (attack.outcome == "success")

    @cached_property
    def _score_by_id(self) -> Mapping[str, Score]:
        return {score.id: score for score in self._memory.scores}

    def _add(
        self,
        conversation: Conversation,
        piece: Piece | None,
        row: int,
        judge: Judge,
        verdict: Verdict,
    ) -> None:
        self._used[judge.name] = judge
        self._rows.add(conversation, piece, row, judge.name, verdict)


def _number(score: Score) -> Verdict:
    """A score from 0 to 1."""
    if score.value is None:
        return Verdict(why=GRADER_FAILED)
    if score.kind != FLOAT_SCALE or not _NUMBER.fullmatch(score.value):
        return Verdict(why=NO_FORMAT)
    value = float(score.value)
    return Verdict(score=value) if 0 <= value <= 1 else Verdict(why=OUT_OF_SCALE)


def _why_no_response(piece: Piece) -> str:
    return "system prompt" if piece.role in {"system", "developer"} else "message to the model"


def _kept_errors(evidence_map: EvidenceMap) -> frozenset[str]:
    """Words of PyRIT for failed responses whose verdicts the map lets stand."""
    spec = evidence_map.status
    if spec is None or spec.column != ERROR_FIELD:
        return frozenset()
    return frozenset(word for word, why in spec.values.items() if why == Status.OK)
