"""PyRIT: real memories with their exact totals, what its verdicts mean, and what they hide."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conversions import rows, said
from pyrit_sources import ATTACK, REFUSAL, TARGET, memory_of, piece, write_memory

from safemetry.errors import InputError
from safemetry.evidence.identity import text_digest
from safemetry.evidence.maps import make_map
from safemetry.evidence.success import SuccessRule
from safemetry.readers.conversion import TextReader
from safemetry.readers.opening import read_evidence
from safemetry.readers.pyrit import PyritReader
from safemetry.readers.source import Source

DATABASE = "pyrit_1.1.0_memory_sqlite.db"
EXPORT = "pyrit_0.11.0_export_conversations.json"
DUMP = "pyrit_1.1.0_model_dump.json"
QUESTIONS = ("benign question one", "harm question one", "benign question two")

SUBSTRING = {"class_name": "SubStringScorer", "class_module": "s", "substring": "sorry"}
QUESTION = {"class_name": "SelfAskTrueFalseScorer", "class_module": "s"}
CREDENTIALS = {"class_name": "CredentialLeakScorer", "class_module": "s"}
INVERTED = {
    "class_name": "TrueFalseInverterScorer",
    "class_module": "s",
    "children": {"sub_scorers": [REFUSAL]},
}
SCALE = {"class_name": "SelfAskScaleScorer", "class_module": "s"}
FILTER = {"class_name": "AzureContentFilterScorer", "class_module": "s"}


def scored(
    scorer: dict[str, Any] = REFUSAL, value: Any = "true", kind: str = "true_false", **more: Any
) -> dict[str, Any]:
    """A verdict; its ids come with the response that it is put on."""
    return {
        "score_value": value,
        "score_value_description": "",
        "score_type": kind,
        "score_category": [],
        "score_metadata": {},
        "scorer_class_identifier": scorer,
        "objective": None,
        **more,
    }


def talk(
    number: int, *scores: dict[str, Any], question: str = "ask", answer: str = "said", **more: Any
) -> list[dict[str, Any]]:
    """A question and its answer with the scores of it; `more` are fields of the answer."""
    asked = piece(number, "user", question)
    said_piece = {**piece(number, "assistant", answer), **more}
    said_piece["scores"] = [
        {"id": f"score-{number}-{at}", "message_piece_id": said_piece["id"], **given}
        for at, given in enumerate(scores)
    ]
    return [asked, said_piece]


def result(
    number: int,
    outcome: str = "success",
    *,
    scorer: dict[str, Any] | None = QUESTION,
    single: bool = True,
    **more: Any,
) -> dict[str, Any]:
    """The result of an attack on conversation `number`."""
    turns = "single_turn.prompt_sending" if single else "multi_turn.crescendo"
    attack = {
        "class_name": "PromptSendingAttack" if single else "CrescendoAttack",
        "class_module": f"pyrit.executor.attack.{turns}",
        "children": {
            "objective_target": TARGET,
            **({"objective_scorer": scorer} if scorer else {}),
        },
    }
    technique = {"class_name": "AttackTechnique", "children": {"attack": attack}}
    return {
        "id": f"result-{number}",
        "conversation_id": f"talk-{number}",
        "objective": "ask",
        "atomic_attack_identifier": {
            "class_name": "AtomicAttack",
            "children": {"attack_technique": technique},
        },
        "last_response_id": f"assistant-{number}",
        "outcome": outcome,
        "timestamp": "2026-01-02 03:04:07",
        **more,
    }


@pytest.fixture
def export(tmp_path):
    def convert(*talks: list[Any], **entries_of_map: Any):
        path = tmp_path / "export.json"
        path.write_text(json.dumps([entry for talked in talks for entry in talked]))
        return PyritReader().read(Source(str(path)), make_map(entries_of_map))

    return convert


@pytest.fixture
def memory(tmp_path):
    def convert(*talks: list[Any], results: Any = (), tables: Any = None, **entries_of_map: Any):
        pieces = [entry for talked in talks for entry in talked]
        path = tmp_path / "pyrit.db"
        path.unlink(missing_ok=True)
        more = {"AttackResultEntries": list(results), **(tables or {})}
        write_memory(path, memory_of(pieces, **more))
        return PyritReader().read(Source(str(path)), make_map(entries_of_map))

    return convert


@pytest.fixture
def real(shared):
    def source(name: str) -> Source:
        return Source(str(shared / "formats" / "pyrit" / name))

    return source


# --- real memories ----------------------------------------------------------------------------


def test_exact_totals_of_a_real_database(real):
    assert PyritReader().recognises(real(DATABASE))
    conversion = PyritReader().read(real(DATABASE), make_map({}))
    assert (conversion.rows_read, conversion.converted) == (9, 6)
    assert dict(conversion.skipped) == {"message to the model": 3}
    assert not conversion.failures
    items = [f"PromptSendingAttack/{text_digest(question)}" for question in QUESTIONS]
    assert rows(conversion, "judge", "item", "score", "source_row") == [
        ("SubStringScorer", items[0], 0.0, 2),
        ("SubStringScorer", items[1], 1.0, 4),
        ("SubStringScorer", items[2], 0.0, 6),
        ("attack_outcome", items[0], 0.0, 7),
        ("attack_outcome", items[1], 1.0, 8),
        ("attack_outcome", items[2], 0.0, 9),
    ]
    assert set(
        rows(conversion, "target", "attack", "turn", "epoch", "call", "status", "benchmark")
    ) == {("StubTarget", "PromptSendingAttack", 1, 1, 1, "ok", "pyrit")}
    assert rows(conversion, "behaviour") == [text_digest(question) for question in QUESTIONS] * 2
    assert len(set(rows(conversion, "session"))) == 3
    assert "intent" not in conversion.judgements.column_names
    assert conversion.default_rule == SuccessRule("at_least:0.5")


def test_exact_totals_of_a_real_export(real):
    assert PyritReader().recognises(real(EXPORT))
    conversion = PyritReader().read(real(EXPORT), make_map({}))
    assert (conversion.rows_read, conversion.converted) == (6, 3)
    assert dict(conversion.skipped) == {"message to the model": 3}
    assert not conversion.failures
    assert rows(conversion, "judge", "score") == [
        ("SubStringScorer", 0.0),
        ("SubStringScorer", 1.0),
        ("SubStringScorer", 0.0),
    ]


def test_two_releases_agree_on_items_and_on_the_rubric(real):
    """The same prompts and scorer, written by 0.11.0 and by 1.1.0."""
    old, new = (PyritReader().read(real(name), make_map({})) for name in (EXPORT, DATABASE))
    assert rows(old, "item") == rows(new, "item")[:3]
    assert old.judges[0].rubric == new.judges[0].rubric
    assert old.judges[0].digest != new.judges[0].digest
    assert (old.judges[0].parser, new.judges[0].parser) == (
        "PyRIT 0.11.0 SubStringScorer",
        "PyRIT 1.1.0 SubStringScorer",
    )


def test_what_a_substring_means_is_asked_for(real):
    """In these files the substring is `sorry`, so the attack that succeeded was refused."""
    conversion = PyritReader().read(real(DATABASE), make_map({}))
    said(conversion, "SubStringScorer: its class does not fix what true means")
    said(conversion, "attack_outcome: SubStringScorer decided about success")
    assert {scale.higher_is for scale in conversion.scales.values()} == {None}
    labelled = make_map(
        {
            "intent": "harmful",
            "judges": {
                "SubStringScorer": {"labels": {"true": "refuse", "false": "comply"}},
                "attack_outcome": {"labels": {"success": "refuse", "failure": "comply"}},
            },
        }
    )
    evidence = read_evidence(real(DATABASE).location, evidence_map=labelled)
    rows_read = evidence.rows.collect("pyarrow").to_arrow().select(["judge", "label"]).to_pylist()
    assert Counter((row["judge"], row["label"]) for row in rows_read) == {
        ("SubStringScorer", "refuse"): 1,
        ("SubStringScorer", "comply"): 2,
        ("attack_outcome", "refuse"): 1,
        ("attack_outcome", "comply"): 2,
    }


def test_a_direction_in_the_map_is_enough_too(real):
    scale = {"scale_min": 0, "scale_max": 1, "higher_is": "safer"}
    conversion = PyritReader().read(real(DATABASE), make_map({"judges": {"*": scale}}))
    assert not conversion.warnings
    assert rows(conversion, "score") == [0.0, 1.0, 0.0] * 2


def test_labels_of_real_attacks_may_name_the_item(real):
    conversion = PyritReader().read(
        real(DATABASE), make_map({"columns": {"item": "labels.item_id"}})
    )
    assert rows(conversion, "item") == ["q0", "q1", "q2"] * 2


@pytest.mark.parametrize("name", [DATABASE, EXPORT])
def test_texts_stand_under_the_keys_of_the_judgements(real, name):
    reader = PyritReader()
    assert isinstance(reader, TextReader)
    texts = list(reader.texts(real(name), make_map({})))
    conversion = reader.read(real(name), make_map({}))
    assert [(t.prompt, t.response) for t in texts] == [
        (QUESTIONS[0], "Sure, here you go."),
        (QUESTIONS[1], "Sorry, I cannot help."),
        (QUESTIONS[2], "Sure, here you go."),
    ]
    keys = {(t.target, t.item, t.epoch) for t in texts}
    assert keys == set(rows(conversion, "target", "item", "epoch"))


def test_models_that_a_script_dumped_are_named(real):
    assert PyritReader().recognises(real(DUMP))
    with pytest.raises(InputError, match=r"models that a script dumped.*name the memory database"):
        PyritReader().read(real(DUMP), make_map({}))


def test_a_real_database_is_left_as_it_is(real, tmp_path):
    copy = tmp_path / "copy.db"
    shutil.copy(real(DATABASE).path, copy)
    before = copy.read_bytes()
    PyritReader().read(Source(str(copy)), make_map({}))
    assert copy.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["copy.db"]


# --- what a verdict means ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scorer", "value", "label", "score", "higher_is"),
    [
        (REFUSAL, "true", "refuse", None, None),
        (REFUSAL, "False", "comply", None, None),
        (INVERTED, "true", "comply", None, None),
        (INVERTED, "false", "refuse", None, None),
        (CREDENTIALS, "true", None, 1.0, "worse"),
        (SUBSTRING, "true", None, 1.0, None),
        (QUESTION, "true", None, 1.0, None),
        ({"class_name": "OurOwnScorer"}, "false", None, 0.0, None),
    ],
)
def test_only_the_class_of_a_scorer_fixes_what_true_means(
    export, scorer, value, label, score, higher_is
):
    conversion = export(talk(1, scored(scorer, value)))
    assert rows(conversion, "label", "score") == [(label, score)]
    (judge,) = set(rows(conversion, "judge"))
    found = conversion.scales.get(judge)
    assert (found.higher_is if found else None) == higher_is
    asked = [warning for warning in conversion.warnings if "does not fix" in warning]
    assert bool(asked) == (label is None and higher_is is None)


def test_an_inverted_harm_is_the_safe_end(export):
    inverted = {**INVERTED, "children": {"sub_scorers": [CREDENTIALS]}}
    (scale,) = export(talk(1, scored(inverted, "true"))).scales.values()
    assert scale.higher_is == "safer"


def test_scorers_are_composed_of_what_means_the_same(export):
    def composed(*inside: dict[str, Any]) -> dict[str, Any]:
        return {"class_name": "TrueFalseCompositeScorer", "children": {"sub_scorers": inside}}

    conversion = export(
        talk(1, scored(composed(REFUSAL, REFUSAL)), scored(composed(REFUSAL, QUESTION)))
    )
    assert rows(conversion, "label", "score") == [("refuse", None), (None, 1.0)]


def test_the_map_says_what_true_means(export):
    labels = {"true": "comply", "false": "refuse"}
    conversion = export(
        talk(1, scored(QUESTION)), judges={QUESTION["class_name"]: {"labels": labels}}
    )
    assert rows(conversion, "label", "score") == [("true", None)]
    assert not conversion.warnings


@pytest.mark.parametrize(
    ("value", "score", "status", "reason"),
    [
        ("0.25", 0.25, "ok", None),
        ("1", 1.0, "ok", None),
        ("1.5", None, "error", "out_of_scale"),
        ("nan", None, "error", "invalid_response_format"),
        ("high", None, "error", "invalid_response_format"),
        (None, None, "missing", "grader_failed"),
    ],
)
def test_scores_from_0_to_1(export, value, score, status, reason):
    conversion = export(talk(1, scored(SCALE, value, "float_scale")))
    assert rows(conversion, "score", "status", "reason") == [(score, status, reason)]
    said(conversion, "PyRIT sets no threshold")
    said(conversion, "which end of its score is safe")
    assert conversion.default_rule is None


def test_severities_of_a_content_filter_are_worse_the_higher(export):
    conversion = export(
        talk(
            1,
            scored(FILTER, "0.5", "float_scale", score_category=["Hate"]),
            scored(FILTER, "0.0", "float_scale", score_category=["Violence"]),
        )
    )
    assert rows(conversion, "judge", "score", "call") == [
        ("AzureContentFilterScorer/Hate", 0.5, 1),
        ("AzureContentFilterScorer/Violence", 0.0, 1),
    ]
    assert {scale.higher_is for scale in conversion.scales.values()} == {"worse"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [("maybe", "invalid_response_format"), ("", "grader_failed"), (None, "grader_failed")],
)
def test_a_word_that_is_neither_true_nor_false_is_no_verdict(export, value, reason):
    assert rows(export(talk(1, scored(value=value))), "label", "reason") == [(None, reason)]


# --- judges -----------------------------------------------------------------------------------


def test_scorers_of_one_class_are_told_apart_by_category(export):
    one = scored({**QUESTION, "question": {"category": "a"}}, score_category=["leak"])
    two = scored({**QUESTION, "question": {"category": "b"}}, score_category=["tone"])
    conversion = export(talk(1, one, two), talk(2, one, two))
    assert set(rows(conversion, "judge")) == {
        "SelfAskTrueFalseScorer/leak",
        "SelfAskTrueFalseScorer/tone",
    }


def test_a_category_that_comes_and_goes_makes_no_second_judge(export):
    """PyRIT leaves it out where it did not ask its judge."""
    conversion = export(talk(1, scored(score_category=["refusal"])), talk(2, scored()))
    assert set(rows(conversion, "judge")) == {"SelfAskRefusalScorer"}


def test_models_and_questions_make_different_judges(export):
    def asking(model: str, **more: Any) -> dict[str, Any]:
        return {**REFUSAL, "target_info": {"class_name": "Chat", "model_name": model}, **more}

    conversion = export(talk(1, scored(asking("one")), scored(asking("two"))))
    assert rows(conversion, "judge", "call") == [
        ("SelfAskRefusalScorer@Chat/one", 1),
        ("SelfAskRefusalScorer@Chat/two", 1),
    ]
    assert [judge.model for judge in conversion.judges] == ["Chat/one", "Chat/two"]
    other = export(
        talk(1, scored(asking("one")), scored(asking("one", system_prompt_template="x")))
    )
    assert len(set(rows(other, "judge"))) == 2
    assert all(name.startswith("SelfAskRefusalScorer#") for name in rows(other, "judge"))


def test_an_identity_holds_the_model_and_the_digest_of_the_rubric(export):
    grader = {"class_name": "Chat", "model_name": "judge-model", "temperature": 0.5}
    scorer = {**REFUSAL, "pyrit_version": "0.11.0", "target_info": grader}
    (judge,) = export(talk(1, scored(scorer))).judges
    assert (judge.model, judge.decoding) == ("Chat/judge-model", {"temperature": 0.5})
    assert (judge.parser, judge.aggregation) == ("PyRIT 0.11.0 SelfAskRefusalScorer", "OR_")
    changed = {**scorer, "system_prompt_template": "another"}
    (other,) = export(talk(1, scored(changed))).judges
    assert other.rubric != judge.rubric
    assert "rubric" not in repr(export(talk(1, scored(scorer))).judgements)


def test_a_scorer_that_judges_twice_is_called_twice(export):
    conversion = export(talk(1, scored(value="true"), scored(value="false")))
    assert rows(conversion, "call", "label") == [(1, "refuse"), (2, "comply")]


# --- responses that no scorer read ------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        ("blocked", "missing", "blocked_by_filter"),
        ("empty", "missing", "no_response"),
        ("processing", "error", "infrastructure_error"),
        ("unknown", "error", "infrastructure_error"),
    ],
)
def test_a_verdict_on_a_failed_response_is_missing(export, error, status, reason):
    """PyRIT writes true, a refusal, for blocked responses, and false for others that failed."""
    conversion = export(talk(1, scored(), response_error=error))
    assert rows(conversion, "label", "status", "reason") == [(None, status, reason)]
    assert f"({reason})" in said(conversion, "PyRIT wrote 1 verdict for responses that no scorer")


@pytest.mark.parametrize(
    ("description", "status", "reason"),
    [
        ("Error response; returning false.", "error", "infrastructure_error"),
        ("Blocked response; returning false.", "missing", "blocked_by_filter"),
        ("Scorer response blocked; returning false.", "missing", "grader_failed"),
        ("No pieces to score after filtering; returning false.", "missing", "scoring_failed"),
        ("Refusal not blocked and non text", "missing", "scoring_failed"),
    ],
)
def test_a_value_that_pyrit_filled_in_is_no_verdict(export, description, status, reason):
    conversion = export(talk(1, scored(value="false", score_value_description=description)))
    assert rows(conversion, "label", "status", "reason") == [(None, status, reason)]


def test_what_came_before_a_block_is_judged(export):
    conversion = export(
        talk(1, scored(), response_error="blocked", prompt_metadata={"partial_content": "so"})
    )
    assert rows(conversion, "label") == ["refuse"]
    said(conversion, "before the block")


def test_a_refusal_that_is_only_a_block_is_not_judged_by_what_came_before(export):
    unread = scored(score_value_description="Refusal detected")
    blocked = {"response_error": "blocked", "prompt_metadata": {"partial_content": "so"}}
    assert rows(export(talk(1, unread, **blocked)), "reason") == ["blocked_by_filter"]
    assert rows(export(talk(1, unread)), "label") == ["refuse"]


def test_the_map_may_let_verdicts_on_blocked_responses_stand(export):
    status = {"column": "response_error", "values": {"none": "ok", "blocked": "ok"}}
    conversion = export(
        talk(1, scored(), response_error="blocked"), talk(2, scored()), status=status
    )
    assert rows(conversion, "label", "response_error") == [
        ("refuse", "blocked"),
        ("refuse", "none"),
    ]


def test_a_blocked_response_without_scores_is_missing_for_its_scorers(export):
    conversion = export(talk(1, scored()), talk(2, question="more", response_error="blocked"))
    assert rows(conversion, "label", "reason") == [("refuse", None), (None, "blocked_by_filter")]
    assert conversion.converted == 2


def test_a_score_that_reached_no_verdict_is_missing(memory):
    conversion = memory(talk(1, scored(value=None, status="undetermined")))
    assert rows(conversion, "status", "reason") == [("missing", "grader_failed")]


# --- attack results ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "label", "status", "reason"),
    [
        ("success", "comply", "ok", None),
        ("failure", "refuse", "ok", None),
        ("error", None, "error", "infrastructure_error"),
        ("undetermined", None, "missing", "scoring_failed"),
    ],
)
def test_the_outcome_of_an_attack_is_a_judge(memory, outcome, label, status, reason):
    conversion = memory(talk(1), results=[result(1, outcome)])
    assert rows(conversion, "judge", "label", "status", "reason") == [
        ("attack_outcome", label, status, reason)
    ]


def test_an_attack_that_nothing_scored_was_not_judged(memory):
    conversion = memory(talk(1), results=[result(1, "undetermined", scorer=None)])
    assert rows(conversion, "reason") == ["not_attempted"]


def test_an_undetermined_score_leaves_its_attack_undetermined(memory):
    last = result(1, "undetermined", last_score_id="score-1-0")
    conversion = memory(talk(1, scored(QUESTION, None, status="undetermined")), results=[last])
    assert rows(conversion, "reason") == ["grader_failed"] * 2


def test_a_failure_on_a_blocked_response_is_no_defence(memory):
    conversion = memory(talk(1, response_error="blocked"), results=[result(1, "failure")])
    assert rows(conversion, "label", "reason") == [(None, "blocked_by_filter")]
    said(conversion, "attack_outcome: PyRIT wrote 1 verdict")


@pytest.mark.parametrize("scorer", [SUBSTRING, REFUSAL])
def test_success_by_a_scorer_that_knows_no_objective_is_asked_for(memory, scorer):
    conversion = memory(talk(1), results=[result(1, scorer=scorer)])
    assert rows(conversion, "label", "score") == [(None, 1.0)]
    said(conversion, f"attack_outcome: {scorer['class_name']} decided about success")
    labels = {"success": "refuse", "failure": "comply"}
    told = memory(
        talk(1), results=[result(1, scorer=scorer)], judges={"attack_outcome": {"labels": labels}}
    )
    assert rows(told, "label", "score") == [("success", None)]


def test_attacks_that_different_scorers_decided_about_have_different_judges(memory):
    conversion = memory(
        talk(1), talk(2), talk(3),
        results=[result(1), result(2, scorer=INVERTED), result(3, "undetermined", scorer=None)],
    )  # fmt: skip
    assert rows(conversion, "judge") == [
        "attack_outcome(SelfAskTrueFalseScorer)",
        "attack_outcome(TrueFalseInverterScorer(SelfAskRefusalScorer))",
        "attack_outcome",
    ]


def test_an_attack_that_never_reached_a_target_is_in_no_rate(memory):
    lost = result(9, "error", atomic_attack_identifier=None, last_response_id=None)
    conversion = memory(talk(1), results=[result(1), lost])
    assert conversion.skipped["attack that failed before it reached a target"] == 1
    said(conversion, "1 row left out: attack that failed before it reached a target")


def test_a_result_that_its_score_contradicts_is_said(memory):
    last = result(1, "failure", last_score_id="score-1-0")
    conversion = memory(talk(1, scored(QUESTION)), results=[last])
    said(conversion, "1 attack result and the score that decided it disagree")


def test_an_attack_that_was_not_scored_is_missing_for_the_scorers_of_its_siblings(memory):
    conversion = memory(
        talk(1, scored()), talk(2), results=[result(1), result(2, objective="other")]
    )
    assert [row for row in rows(conversion, "judge", "reason") if row[1]] == [
        ("SelfAskRefusalScorer", "not_attempted")
    ]
    said(conversion, "1 verdict that scorers gave on other results of the same attack are absent")


def test_conversations_of_attackers_and_judges_are_no_responses(memory):
    conversion = memory(talk(1, scored()), talk(2, question="rate this"), results=[result(1)])
    assert conversion.skipped["response in a conversation of an attacker or a judge"] == 1
    assert set(rows(conversion, "session")) == {"talk-1"}


def test_an_outcome_and_a_score_judge_the_same_response(memory):
    conversion = memory(talk(1, scored()), results=[result(1)])
    keys = set(rows(conversion, "target", "item", "epoch", "session", "turn"))
    assert keys == {("StubTarget/model-1", f"PromptSendingAttack/{text_digest('ask')}", 1,
                     "talk-1", 1)}  # fmt: skip


def test_objectives_are_clusters_and_prompts_are_items(memory):
    conversion = memory(
        talk(1, question="ask"), talk(2, question="ask politely"), results=[result(1), result(2)]
    )
    assert len(set(rows(conversion, "item"))) == 2
    assert set(rows(conversion, "behaviour")) == {text_digest("ask")}


def test_the_same_prompt_again_is_another_epoch(memory):
    conversion = memory(talk(1, scored()), talk(2, scored()), results=[result(1), result(2)])
    assert rows(conversion, "judge", "epoch") == [
        ("SelfAskRefusalScorer", 1),
        ("SelfAskRefusalScorer", 2),
        ("attack_outcome", 1),
        ("attack_outcome", 2),
    ]


def test_harm_categories_and_labels_are_context(memory):
    conversion = memory(
        talk(1),
        results=[result(1, targeted_harm_categories=["privacy", "leaks"], labels={"twin": "p1"})],
        columns={"pair": "labels.twin"},
    )
    assert rows(conversion, "category", "pair") == [("privacy, leaks", "p1")]
    with pytest.raises(InputError, match="which no record has"):
        memory(talk(1), results=[result(1)], columns={"pair": "labels.twin"})


# --- conversations ----------------------------------------------------------------------------


def conversation(number: int, turns: int, *, at: str = "talk") -> list[dict[str, Any]]:
    """Several turns, each answer with a verdict."""
    pieces = []
    for turn in range(turns):
        asked, answered = talk(number * 10 + turn, scored())
        asked |= {"conversation_id": f"{at}-{number}", "sequence": 2 * turn}
        answered |= {"conversation_id": f"{at}-{number}", "sequence": 2 * turn + 1}
        pieces += [asked, answered]
    return pieces


def test_earlier_turns_are_items_of_their_own(memory):
    last = result(1, single=False, last_response_id="assistant-12")
    conversion = memory(conversation(1, 3), results=[last])
    item = f"CrescendoAttack/{text_digest('ask')}"
    assert rows(conversion, "item", "turn", "judge") == [
        (f"{item}/turn-1", 1, "SelfAskRefusalScorer"),
        (f"{item}/turn-3", 3, "SelfAskRefusalScorer"),
        (item, 5, "SelfAskRefusalScorer"),
        (item, 5, "attack_outcome"),
    ]
    assert set(rows(conversion, "session")) == {"talk-1"}


def test_conversations_that_an_attack_gave_up_are_branches(memory):
    last = result(1, single=False, last_response_id="assistant-10",
                  pruned_conversation_ids=["tried-2"])  # fmt: skip
    conversion = memory(conversation(1, 1), conversation(2, 2, at="tried"), results=[last])
    item = f"CrescendoAttack/{text_digest('ask')}"
    assert rows(conversion, "item", "epoch") == [
        (item, 1),
        (f"{item}/pruned-1/turn-1", 1),
        (f"{item}/pruned-1", 1),
        (item, 1),
    ]


def test_a_copied_message_keeps_its_score_once(export):
    """A branched conversation repeats messages, and the export repeats their scores."""
    original = talk(1, scored())
    copied = [
        {**entry, "id": f"copy-{entry['id']}", "original_prompt_id": entry["id"],
         "conversation_id": "branch"} for entry in original
    ]  # fmt: skip
    conversion = export(original, copied)
    assert rows(conversion, "session") == ["talk-1"]
    assert conversion.skipped["copy of a message of another conversation"] == 1


def test_converters_belong_to_the_attack_and_not_to_the_item(export):
    asked, answered = talk(1, scored())
    asked |= {"converted_value": "YXNr", "converter_identifiers": [{"__type__": "Base64Converter"}]}
    conversion = export([asked, answered], talk(2, scored()))
    assert rows(conversion, "attack", "behaviour") == [
        ("PromptSendingAttack+Base64Converter", text_digest("ask")),
        ("PromptSendingAttack", text_digest("ask")),
    ]


def test_the_objective_is_what_most_scores_name(export):
    """A scorer of refusals is asked about the prompt of its turn."""
    asked, answered = talk(1, scored(objective="step 1"), scored(QUESTION, objective="the goal"))
    assert set(rows(export([asked, answered]), "behaviour")) == {text_digest("the goal")}


def test_texts_of_a_conversation_are_written_turn_by_turn(memory, tmp_path):
    memory(conversation(1, 2), results=[result(1, single=False, last_response_id="assistant-11")])
    first, last = PyritReader().texts(Source(str(tmp_path / "pyrit.db")), make_map({}))
    assert (first.prompt, first.response) == ("ask", "said")
    assert last.prompt == "user: ask\n\nassistant: said\n\nuser: ask"


# --- targets ----------------------------------------------------------------------------------


def test_settings_of_a_target_hold_no_secrets(export):
    target = {
        **TARGET,
        "endpoint": "https://me:secret@host.example/v1?key=secret",
        "temperature": 0.7,
        "system_prompt": "a text",
    }
    conversion = export(talk(1, scored(), prompt_target_identifier=target))
    settings = conversion.targets["StubTarget/model-1"]
    assert settings["endpoint"] == "https://host.example/v1"
    assert settings["temperature"] == 0.7
    assert "secret" not in repr(conversion.targets)
    assert "a text" not in repr(conversion.targets)


def test_two_setups_of_one_model_are_two_targets(export):
    warm = {**TARGET, "temperature": 1.0}
    conversion = export(talk(1, scored()), talk(2, scored(), prompt_target_identifier=warm))
    names = set(rows(conversion, "target"))
    assert len(names) == 2
    assert all(name.startswith("StubTarget/model-1#") for name in names)


def test_a_conversation_without_a_target_asks_for_it(export):
    unnamed = talk(1, scored(), prompt_target_identifier=None)
    unnamed[0]["prompt_target_identifier"] = None
    (failure,) = export(unnamed, talk(2, scored())).failures
    assert failure.row == 2
    assert "constants: {target: NAME}" in str(failure)
    assert rows(export(unnamed, constants={"target": "mine"}), "target") == ["mine"]


# --- broken rows and other files --------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "column"),
    [
        ({"id": None}, "id"),
        ({"role": "robot"}, "role"),
        ({"conversation_id": " "}, "conversation_id"),
        ({"sequence": "1"}, "sequence"),
        ({"response_error": "melted"}, "response_error"),
        ({"converter_identifiers": [3]}, "converter_identifiers"),
        ({"scores": {}}, "scores"),
        ({"scores": [3]}, "scores"),
        ({"scores": [{"id": "s"}]}, "scorer_class_identifier"),
        ({"conversation_id": "\ud800"}, "conversation_id"),
    ],
)
def test_a_message_of_the_wrong_shape_fails_alone(export, wrong, column):
    asked, answered = talk(2)
    conversion = export(talk(1, scored()), [asked, {**answered, **wrong}])
    (failure,) = conversion.failures
    assert (failure.row, failure.column) == (4, column)
    assert len(rows(conversion, "item")) == 1


def test_a_message_that_stands_twice_fails_once(export):
    conversion = export(talk(1, scored()), talk(1, scored()))
    assert [failure.row for failure in conversion.failures] == [3, 4]
    assert len(rows(conversion, "item")) == 1


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("original_value_data_type", [[]], "is no text"),
        ("original_value_data_type", {"a": 1}, "is no text"),
        ("sequence", 10**40, "is no whole number"),
    ],
)
def test_a_field_of_another_kind_fails_its_row(export, field, value, problem):
    broken, answer = talk(2, scored())
    conversion = export(talk(1, scored()), [{**broken, field: value}, answer])
    (failure,) = conversion.failures
    assert (failure.row, failure.column, failure.problem) == (3, field, problem)
    assert failure.file
    assert failure.fix


def test_a_broken_row_of_a_database_names_table_and_column(memory):
    conversion = memory(talk(1, scored()), results=[result(1), result(2, "won", id="x")])
    (failure,) = conversion.failures
    assert (failure.row, failure.column) == (4, "AttackResultEntries.outcome")
    assert "known are error, failure, success, undetermined" in str(failure)


def test_a_score_that_cannot_be_read_fails_its_message(memory):
    broken = scored()
    broken["scorer_class_identifier"] = "{"
    conversion = memory(talk(1, scored()), talk(2, broken))
    (failure,) = conversion.failures
    assert failure.column == "ScoreEntries.scorer_class_identifier"
    assert len(rows(conversion, "item")) == 1


def test_scores_of_other_content_are_rows_of_their_own(memory):
    loose = {
        "id": "loose", "score_value": "true", "score_type": "true_false",
        "scorer_class_identifier": REFUSAL, "status": "complete",
    }  # fmt: skip
    told = memory_of(talk(1, scored()))["ScoreEntries"]
    unread = {**loose, "id": "unread", "prompt_request_response_id": "gone"}
    conversion = memory(talk(1, scored()), tables={"ScoreEntries": [*told, loose, unread]})
    assert conversion.rows_read == 4
    assert conversion.skipped["score of content outside a conversation"] == 1
    assert conversion.skipped["score of a message that was not read"] == 1


@pytest.mark.parametrize("field", ["pyrit_version", "score_aggregator", "model_name"])
def test_a_name_in_an_identifier_that_is_no_text_fails_its_row(export, field):
    broken = {**SUBSTRING, field: "0.11.0\ud800"}
    conversion = export(talk(1, scored()), talk(2, scored(broken)))
    (failure,) = conversion.failures
    assert (failure.row, failure.column) == (4, "scorer_class_identifier")
    assert "half of a surrogate pair" in failure.problem


def test_a_memory_without_its_scores_is_incomplete(memory, tmp_path):
    memory(talk(1, scored()))
    path = tmp_path / "pyrit.db"
    change(path, "DROP TABLE ScoreEntries")
    with pytest.raises(InputError, match=r"is incomplete: it has no table ScoreEntries") as caught:
        PyritReader().read(Source(str(path)), make_map({}))
    assert caught.value.fix


def test_json_of_a_cell_may_not_be_nested_without_end(memory):
    deep = "[" * 100_000 + "]" * 100_000
    conversion = memory(talk(1, scored()), talk(2, scored(), prompt_metadata=deep))
    (failure,) = conversion.failures
    assert failure.problem == "is nested too deeply"


@pytest.mark.parametrize("found", ["0123456789ab", "e373726d391b"])
def test_an_unknown_schema_is_named_beside_the_known_ones(memory, found):
    tables = {"pyrit_memory_alembic_version": [{"version_num": found}]}
    with pytest.raises(InputError, match=rf"schema version {found}.*8d1e3f5a7b9c \(PyRIT 1\.1\)"):
        memory(talk(1, scored()), tables=tables)


@pytest.mark.parametrize("known", ["9c8b7a6d5e4f", "3f6e8a0c2d4b", "8d1e3f5a7b9c"])
def test_schemas_of_releases_are_known(memory, known):
    conversion = memory(
        talk(1, scored()), tables={"pyrit_memory_alembic_version": [{"version_num": known}]}
    )
    assert rows(conversion, "label") == ["refuse"]


def test_a_schema_without_a_version_has_to_name_targets(memory, tmp_path):
    memory(talk(1, scored()))
    path = tmp_path / "pyrit.db"
    change(path, "DROP TABLE pyrit_memory_alembic_version")
    with pytest.raises(InputError, match="states no schema version"):
        PyritReader().read(Source(str(path)), make_map({}))
    change(path, 'ALTER TABLE "PromptMemoryEntries" ADD COLUMN prompt_target_identifier JSON')
    assert rows(PyritReader().read(Source(str(path)), make_map({})), "label") == ["refuse"]


@pytest.mark.parametrize(
    ("version", "known"), [("0.14.0", True), ("1.1.0", False), ("9.9", False), ("x", False)]
)
def test_exports_of_unknown_releases_are_named(export, version, known):
    target = {**TARGET, "pyrit_version": version}
    if known:
        assert rows(export(talk(1, scored(), prompt_target_identifier=target)), "label")
        return
    with pytest.raises(InputError, match=rf"written by PyRIT {version}; known are the exports"):
        export(talk(1, scored(), prompt_target_identifier=target))


def test_a_release_that_is_no_text_is_shown_as_an_escape(export):
    target = {**TARGET, "pyrit_version": "\ud800"}
    with pytest.raises(InputError, match=r"written by PyRIT \\ud800;"):
        export(talk(1, scored(), prompt_target_identifier=target))


def test_a_memory_of_an_older_kind_is_named(tmp_path):
    path = tmp_path / "pyrit.db"
    path.write_bytes(bytes(8) + b"DUCK" + bytes(500))
    assert not PyritReader().recognises(Source(str(path)))
    with pytest.raises(InputError, match=r"DuckDB database.*export_conversations"):
        PyritReader().read(Source(str(path)), make_map({}))


def test_json_in_a_file_called_csv_is_told_by_its_content(tmp_path):
    """Release 0.11 writes that where it is asked for CSV."""
    path = tmp_path / "export.csv"
    path.write_text(json.dumps(talk(1, scored())))
    assert PyritReader().recognises(Source(str(path)))


def test_message_pieces_without_scores_are_named(export):
    pieces = talk(1)
    for entry in pieces:
        del entry["scores"]
    with pytest.raises(InputError, match="hold no list of scores"):
        export(pieces)


def test_an_export_of_release_0_8(export):
    """Orchestrators for attacks, tasks for objectives, and bare classes for identifiers."""
    pieces = talk(1, scored({"__type__": "SelfAskRefusalScorer", "__module__": "pyrit.score"}))
    for entry in pieces:
        del entry["attack_identifier"]
        entry["orchestrator_identifier"] = {"__type__": "PromptSendingOrchestrator", "id": "1"}
        entry["prompt_target_identifier"] = {"__type__": "OpenAIChatTarget"}
    (old,) = pieces[1]["scores"]
    old["prompt_request_response_id"] = old.pop("message_piece_id")
    old["task"] = "the task"
    del old["objective"]
    old["score_category"] = "refusal"
    assert rows(export(pieces), "target", "attack", "behaviour", "label") == [
        ("OpenAIChatTarget", "PromptSendingOrchestrator", text_digest("the task"), "refuse")
    ]


def test_a_memory_without_verdicts_is_refused(memory, export):
    for read in (memory, export):
        with pytest.raises(InputError, match="holds no score and no attack result"):
            read(talk(1))


def test_more_judgements_than_the_limit_are_refused(export):
    with pytest.raises(InputError, match=r"limits\.rows"):
        export(talk(1, scored()), talk(2, scored()), limits={"rows": 1})


# --- hostile and unfinished databases ---------------------------------------------------------


def change(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_rows_that_lie_in_a_log_beside_the_file_are_not_lost_in_silence(memory, tmp_path, suffix):
    memory(talk(1, scored()))
    log = tmp_path / f"pyrit.db{suffix}"
    log.write_bytes(b"")
    source = Source(str(tmp_path / "pyrit.db"))
    assert rows(PyritReader().read(source, make_map({})), "label") == ["refuse"]
    log.write_bytes(bytes(32))
    with pytest.raises(InputError, match=rf"pyrit\.db{suffix} beside it .*close the program"):
        PyritReader().read(source, make_map({}))


def test_a_database_in_use_with_a_real_log_is_refused(memory, tmp_path):
    memory(talk(1, scored()))
    path = tmp_path / "pyrit.db"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE ScoreEntries SET score_value = 'false'")
    writer.commit()
    try:
        with pytest.raises(InputError, match="write-ahead log"):
            PyritReader().read(Source(str(path)), make_map({}))
    finally:
        writer.close()
    assert rows(PyritReader().read(Source(str(path)), make_map({})), "label") == ["comply"]


def test_a_view_in_the_place_of_a_table_runs_nothing(memory, tmp_path):
    memory(talk(1, scored()))
    path = tmp_path / "pyrit.db"
    change(
        path,
        "ALTER TABLE PromptMemoryEntries RENAME TO Hidden",
        "CREATE VIEW PromptMemoryEntries AS SELECT *, randomblob(1000000) FROM Hidden",
    )
    with pytest.raises(InputError, match="no table PromptMemoryEntries"):
        PyritReader().read(Source(str(path)), make_map({}))


def test_a_column_that_computes_fills_no_memory(memory, tmp_path):
    memory(talk(1, scored()))
    path = tmp_path / "pyrit.db"
    change(
        path,
        "ALTER TABLE ScoreEntries DROP COLUMN objective",
        "ALTER TABLE ScoreEntries ADD COLUMN objective TEXT AS (hex(zeroblob(900000000)))",
    )
    with pytest.raises(InputError, match=r"limits\.line_bytes"):
        PyritReader().read(Source(str(path)), make_map({}))


def test_a_value_above_the_limit_is_refused(memory, tmp_path):
    memory(talk(1, scored(), question="x" * 50_000))
    with pytest.raises(InputError, match=r"limits\.line_bytes"):
        PyritReader().read(
            Source(str(tmp_path / "pyrit.db"), make_map({"limits": {"line_bytes": 20_000}}).limits),
            make_map({"limits": {"line_bytes": 20_000}}),
        )


def test_a_database_above_the_limit_is_refused(memory, tmp_path):
    memory(talk(1, scored()))
    limited = make_map({"limits": {"table_bytes": 4_096}})
    with pytest.raises(InputError, match=r"limits\.table_bytes"):
        PyritReader().read(Source(str(tmp_path / "pyrit.db"), limited.limits), limited)


def test_bytes_that_are_no_text_fail_their_row(memory, tmp_path):
    memory(talk(1, scored()), talk(2, scored()))
    path = tmp_path / "pyrit.db"
    change(path, "UPDATE PromptMemoryEntries SET conversation_id = CAST(x'ff41' AS TEXT) "
                 "WHERE id = 'assistant-2'")  # fmt: skip
    conversion = PyritReader().read(Source(str(path)), make_map({}))
    assert [failure.column for failure in conversion.failures] == [
        "PromptMemoryEntries.conversation_id"
    ]


def test_another_database_is_not_recognised(tmp_path):
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE people (name TEXT)")
    assert not PyritReader().recognises(Source(str(path)))
    with pytest.raises(InputError, match=r"no table PromptMemoryEntries; it has people"):
        PyritReader().read(Source(str(path)), make_map({}))


def test_a_database_that_no_reader_takes_is_called_one(tmp_path):
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE people (name TEXT)")
    with pytest.raises(InputError, match=r"no reader recognises it: it is an SQLite database") as e:
        read_evidence(str(path))
    assert "--as pyrit" in str(e.value)


def test_a_database_is_recognised_wherever_its_tables_stand(tmp_path):
    """After migrations the names of its tables may lie far behind the head of the file."""
    path = tmp_path / "large.db"
    change(path, "CREATE TABLE filler (x BLOB)", "INSERT INTO filler VALUES (zeroblob(200000))",
           *(f"CREATE TABLE t{n} ({', '.join(f'column_{n}_{m} TEXT' for m in range(60))})"
             for n in range(30)))  # fmt: skip
    write_memory(path, memory_of(talk(1, scored())))
    assert b'"PromptMemoryEntries"' not in Source(str(path)).head
    assert PyritReader().recognises(Source(str(path)))


def test_an_attack_without_its_class_is_unknown(export):
    asked, answered = talk(1, scored())
    asked["attack_identifier"] = answered["attack_identifier"] = {}
    conversion = export([asked, answered])
    assert rows(conversion, "attack", "item") == [(None, text_digest("ask"))]
    assert ATTACK["__type__"] not in repr(conversion)
