"""Conversations of PyRIT: which of them were held with a target, and which item each answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from safemetry.evidence.maps import EvidenceMap
from safemetry.readers.pyrit_components import (
    Component,
    attack_name,
    content_digest,
    target_name,
    target_settings,
)
from safemetry.readers.pyrit_records import (
    ASKING,
    NO_ERROR,
    RESPONSE,
    Attack,
    Memory,
    Piece,
    Score,
)
from safemetry.readers.pyrit_scorers import Meaning, meaning_of

_SINGLE_TURN: Final = "single_turn"


@dataclass(frozen=True)
class Conversation:
    """One conversation with a target.

    Parameters
    ----------
    id, target, attack, setup
        Which conversation, with whom, by which attack; `setup` is a digest of all that it is made
        of.
    item, base_item, epoch
        What its last response answers, for the how-manieth time; the base is the item of the
        attack, of which a conversation that it gave up is a branch.
    objective
        Digest of what the attack was after.
    last
        Sequence of the response that counts as its result; None without any.
    pieces
        Its messages, in their order.
    result
        The attack result that it belongs to, if there is one.
    pruned
        Whether the attack gave it up.
    """

    id: str
    target: str
    attack: str | None
    setup: str | None
    item: str
    base_item: str
    epoch: int
    objective: str | None
    last: int | None
    pieces: Sequence[Piece]
    result: Attack | None
    pruned: bool

    def item_of(self, piece: Piece) -> str:
        """The item that a response answers; of an earlier turn the item of that turn."""
        if self.last is None or piece.sequence == self.last:
            return self.item
        return f"{self.item}/turn-{piece.sequence}"

    @property
    def group(self) -> tuple[str, str | None]:
        """What conversations share that the same scorers judge: target and attack."""
        return self.target, self.setup

    @property
    def result_pieces(self) -> Sequence[Piece]:
        """The parts of the response that counts as the result; none where the attack gave it up."""
        if self.pruned:
            return ()
        return [p for p in self.pieces if _is_response(p) and p.sequence == self.last]

    @property
    def response(self) -> Piece | None:
        """The first piece of the response that counts as its result."""
        return next((p for p in self.pieces if _is_response(p) and p.sequence == self.last), None)


class Conversations:
    """The conversations of a source, by their ids, and the targets that they were held with."""

    def __init__(self, memory: Memory, evidence_map: EvidenceMap) -> None:
        self._memory = memory
        self._map = evidence_map
        self._homes = _homes(memory)
        self._pieces: dict[str, list[Piece]] = defaultdict(list)
        for piece in memory.pieces:
            self._pieces[piece.conversation].append(piece)
        for pieces in self._pieces.values():
            pieces.sort(key=lambda piece: piece.sequence)
        self._scores = self._scores_by_piece()
        self._asked = {piece.conversation: piece.target for piece in memory.pieces if piece.target}
        self._asked |= memory.targets
        self._names: dict[str, str] = {}
        self.settings: dict[str, dict[str, object]] = {}
        self._name_targets()
        self._epochs: Counter[tuple[str, str]] = Counter()
        self.categories: dict[str, str] = {}
        self.by_id: dict[str, Conversation] = {}
        self.of_result: dict[str, Conversation] = {}
        self.unnamed: dict[str, None] = {}
        self._place()

    def scores_of(self, piece: Piece) -> Sequence[Score]:
        """The scores of a message piece, each once though copies repeat it."""
        return self._scores.get(piece.id, ())

    # --- scores and their pieces ------------------------------------------------------------------

    def _scores_by_piece(self) -> dict[str, list[Score]]:
        found: dict[str, list[Score]] = defaultdict(list)
        seen: set[str] = set()
        for score in self._memory.scores:
            home = self._homes.get(score.piece or "")
            if home is not None and score.id not in seen:
                seen.add(score.id)
                found[home].append(score)
        return found

    def is_copy(self, piece: Piece) -> bool:
        """Whether a piece repeats one of another conversation, which has its scores."""
        return piece.original != piece.id and self._homes.get(piece.original) != piece.id

    # --- targets ----------------------------------------------------------------------------------

    def _target_of(self, conversation: str, result: Attack | None) -> Component | None:
        return self._asked.get(conversation) or (result.target if result else None)

    def _name_targets(self) -> None:
        """Names of the targets; those that share class and model are told apart by a digest."""
        everyone = [*self._asked.values(), *(a.target for a in self._memory.attacks if a.target)]
        by_name: dict[str, dict[str, Component]] = defaultdict(dict)
        for target in everyone:
            by_name[target_name(target)].setdefault(target.digest, target)
        for name, variants in by_name.items():
            for digest, target in variants.items():
                shown = name if len(variants) == 1 else f"{name}#{digest[:8]}"
                self._names[digest] = shown
                self.settings[shown] = target_settings(target)

    # --- items ------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Place every conversation that an attack or a score shows to be one with a target."""
        for result in self._memory.attacks:
            base = self._placed(result.conversation, result)
            if base is None:
                continue
            self.of_result[result.id] = base
            self.by_id.setdefault(result.conversation, base)
            for number, pruned in enumerate(result.pruned, start=1):
                if pruned in self._pieces and pruned not in self.by_id:
                    self.by_id[pruned] = self._branch(base, pruned, number)
        for conversation, pieces in self._pieces.items():
            if conversation in self.by_id or not self._is_judged(pieces):
                continue
            placed = self._placed(conversation, None)
            if placed is not None:
                self.by_id[conversation] = placed

    def _is_judged(self, pieces: Sequence[Piece]) -> bool:
        """Whether a conversation outside attack results is one with a target.

        Attackers and judges hold conversations too, whose answers nobody scores. Where the source
        lists no attacks, a response that failed is one that could not be scored.
        """
        answers = [piece for piece in pieces if _is_response(piece)]
        if any(self.scores_of(piece) for piece in answers):
            return True
        return not self._memory.attacks and any(p.error != NO_ERROR for p in answers)

    def _placed(self, conversation: str, result: Attack | None) -> Conversation | None:
        pieces = self._pieces.get(conversation, [])
        target = self._target_of(conversation, result)
        name = self._names[target.digest] if target else self._map.constants.get("target")
        if name is None:
            self.unnamed[conversation] = None
            return None
        answers = [piece for piece in pieces if _is_response(piece)]
        ids = {piece.id: piece.sequence for piece in answers}
        decided = ids.get(result.last_response or "") if result else None
        last = decided if decided is not None else max(ids.values(), default=None)
        asked = [p for p in pieces if p.role == ASKING and (last is None or p.sequence < last)]
        attack = result.attack if result else next((p.attack for p in pieces if p.attack), None)
        converters = (result.converters if result else ()) or tuple(
            converter for piece in asked for converter in piece.converters
        )
        shown = attack_name(attack, converters)
        objective = result.objective if result else self._objective_of(answers)
        single = attack is not None and _SINGLE_TURN in attack.module
        key = _item_key(objective, asked, single=single) or conversation
        item = self._mapped("item", result, answers) or (f"{shown}/{key}" if shown else key)
        self._epochs[name, item] += 1
        categories = result.categories if result else ()
        categories = categories or next((p.categories for p in pieces if p.categories), ())
        if categories:
            self.categories.setdefault(item, ", ".join(dict.fromkeys(categories)))
        return Conversation(
            id=conversation,
            target=name,
            attack=shown,
            setup=attack.digest if attack else None,
            item=item,
            base_item=item,
            epoch=self._epochs[name, item],
            objective=objective or _request(asked),
            last=last,
            pieces=pieces,
            result=result,
            pruned=False,
        )

    def _mapped(self, column: str, result: Attack | None, answers: Sequence[Piece]) -> str | None:
        """What the map takes a column from: the attack result, else the responses."""
        path = self._map.columns.get(column)
        if path is None:
            return None
        holders = [result.about if result else {}, *(piece.about for piece in answers)]
        return next((about[path] for about in holders if path in about), None)

    def _objective_of(self, answers: Sequence[Piece]) -> str | None:
        """What most scores name; scorers of refusals name the prompt of their turn instead."""
        scores = [s for piece in answers for s in self.scores_of(piece) if s.objective]
        telling = [s for s in scores if meaning_of(s.scorer) is not Meaning.REFUSAL] or scores
        counts = Counter(score.objective for score in telling)
        return max(counts, key=counts.__getitem__, default=None)

    def _branch(self, base: Conversation, conversation: str, number: int) -> Conversation:
        """A conversation that an attack gave up: an item beside the one that it ended with."""
        pieces = self._pieces[conversation]
        answers = [piece.sequence for piece in pieces if _is_response(piece)]
        return Conversation(
            id=conversation,
            target=base.target,
            attack=base.attack,
            setup=base.setup,
            item=f"{base.item}/pruned-{number}",
            base_item=base.item,
            epoch=base.epoch,
            objective=base.objective,
            last=max(answers, default=None),
            pieces=pieces,
            result=base.result,
            pruned=True,
        )


def _homes(memory: Memory) -> Mapping[str, str]:
    """Piece that scores name -> the one piece that keeps them.

    Copies of a message (a conversation that was branched) repeat its scores. They stay with the
    original, unless the result of an attack ends on a copy.
    """
    ending = {attack.last_response for attack in memory.attacks if attack.last_response}
    homes: dict[str, str] = {}
    for piece in memory.pieces:
        if piece.id == piece.original:
            homes[piece.id] = piece.id
    for piece in memory.pieces:
        if piece.id != piece.original and (piece.id in ending or piece.original not in homes):
            homes[piece.original] = piece.id
        homes.setdefault(piece.id, piece.id)
    return homes


def _is_response(piece: Piece) -> bool:
    return piece.role == RESPONSE


def _request(asked: Sequence[Piece]) -> str | None:
    """Digest of the message that was answered, of all its parts."""
    if not asked:
        return None
    last = asked[-1].sequence
    parts = [piece.request for piece in asked if piece.sequence == last]
    return parts[0] if len(parts) == 1 else content_digest(parts)


def _item_key(objective: str | None, asked: Sequence[Piece], *, single: bool) -> str | None:
    """What makes an item that item.

    The prompt of a single-turn attack is fixed beforehand, and is the item together with what it
    is after. Later prompts react to the target, so there the objective alone is the item.
    """
    request = _request(asked)
    if objective is None:
        return request
    if not single or request is None or request == objective:
        return objective
    return content_digest([objective, request])
