"""garak reports: real ones with their exact totals, and what releases and mishaps make of them."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import Any

import pytest
from conversions import rows, said

from safemetry.errors import InputError
from safemetry.evidence.identity import text_digest
from safemetry.evidence.maps import make_map
from safemetry.evidence.success import SuccessRule
from safemetry.readers.garak import GarakReader
from safemetry.readers.source import Source

SECRET = "sk-not-a-real-key"
SETUP = {
    "entry_type": "start_run setup",
    "_config.version": "0.14.0",
    "transient.run_id": "run-1",
    "transient.starttime_iso": "2026-01-02T03:04:05",
    "plugins.target_type": "openai.OpenAIGenerator",
    "plugins.target_name": "gpt-x",
    "plugins.generators": {"openai": {"api_key": SECRET}},
    "plugins.detectors": {
        "judge": {
            "detector_model_type": "nim",
            "detector_model_name": "judge-model",
            "detector_model_config": {"api_key": SECRET},
        }
    },
    "run.generations": 2,
    "run.seed": 7,
}
INIT = {"entry_type": "init", "garak_version": "0.14.0", "run": "run-1", "start_time": "2026-01-02"}
END = {"entry_type": "completion", "run": "run-1"}


def message(text: str | None, lang: str | None = "en") -> dict[str, Any]:
    return {"text": text, "lang": lang, "data_path": None, "notes": {}}


def conversation(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"turns": [{"role": role, "content": message(text)} for role, text in turns]}


def attempt(
    prompt: Any = "ask",
    scores: dict[str, list[Any]] | None = None,
    *,
    outputs: list[Any] | None = None,
    status: int = 2,
    probe: str = "dan.Dan_11_0",
    **more: Any,
) -> dict[str, Any]:
    scores = {"dan.DAN": [1.0]} if scores is None else scores
    width = max((len(values) for values in scores.values()), default=1)
    return {
        "entry_type": "attempt",
        "uuid": str(uuid.uuid4()),
        "seq": 0,
        "status": status,
        "probe_classname": probe,
        "prompt": conversation(("user", prompt)) if isinstance(prompt, str) else prompt,
        "outputs": [message("said")] * width if outputs is None else outputs,
        "detector_results": scores if status == 2 else {},
        "notes": {},
        "goal": "be a test",
        "conversations": [],
        "reverse_translation_outputs": [message("translated")] * width,
        **more,
    }


def summary(passed: int, evaluated: int, **more: Any) -> dict[str, Any]:
    given = {"probe": "dan.Dan_11_0", "detector": "dan.DAN", "passed": passed}
    return {"entry_type": "eval", **given, "total_evaluated": evaluated, **more}


@pytest.fixture
def read(tmp_path):
    def convert(*entries: dict[str, Any], whole: bool = True, **entries_of_map: Any):
        path = tmp_path / "test.report.jsonl"
        listed = [SETUP, INIT, *entries, END] if whole else list(entries)
        path.write_text("".join(json.dumps(entry) + "\n" for entry in listed), encoding="utf-8")
        return GarakReader().read(Source(str(path)), make_map(entries_of_map))

    return convert


# --- real reports -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "run", "target", "version", "generations"),
    [
        (
            "test.report.jsonl",
            "f0d4a5a6-b698-4e9e-9336-91b89194b72b",
            "test",
            "0.14.0.pre1",
            1,
        ),
        (
            "report_test.report.jsonl",
            "32a5cc8c-6e1f-4c2a-b218-f16f65ab1359",
            "openai.OpenAICompatible/qwen2",
            "0.13.3.pre1",
            5,
        ),
    ],
)
def test_exact_totals_of_a_real_report(shared, file, run, target, version, generations):
    source = Source(str(shared / "formats" / "garak" / file))
    assert GarakReader().recognises(source)
    conversion = GarakReader().read(source, make_map({}))
    assert conversion.rows_read == 21
    assert conversion.converted == 8
    assert dict(conversion.skipped) == {
        "settings of a run": 1,
        "start of a run": 1,
        "attempt before detection (judged in a later line)": 8,
        "summary of a probe": 1,
        "end of a run": 1,
        "summary of the report": 1,
    }
    assert not conversion.failures
    assert rows(conversion, "score", "status", "reason") == [(0.0, "ok", None)] * 8
    assert rows(conversion, "source_row") == list(range(11, 19))
    assert len(set(rows(conversion, "item"))) == 8
    assert set(
        rows(conversion, "run", "target", "judge", "attack", "category", "intent", "epoch")
    ) == {(run, target, "always.Pass", "test.Test", "test", "harmful", 1)}
    assert set(rows(conversion, "language")) == {"en"}
    (judge,) = conversion.judges
    assert judge.parser == f"garak {version}"
    assert conversion.targets[target]["generations"] == generations
    assert conversion.scales["always.Pass"].higher_is == "worse"
    assert conversion.default_rule == SuccessRule("at_least:0.5")
    # Both agree with their own summary, and neither states its threshold.
    assert len(conversion.warnings) == 1
    said(conversion, "does not state eval_threshold")


def test_the_same_prompt_is_the_same_item_in_two_real_runs(shared):
    items = []
    for file in ("test.report.jsonl", "report_test.report.jsonl"):
        source = Source(str(shared / "formats" / "garak" / file))
        items.append(rows(GarakReader().read(source, make_map({})), "item"))
    assert items[0] == items[1]


# --- items, epochs, clusters ------------------------------------------------------------------


def test_outputs_are_epochs_and_detectors_are_judges(read):
    conversion = read(attempt(scores={"dan.DAN": [1.0, 0.0], "mitigation.Prefixes": [0.25, 1]}))
    assert rows(conversion, "epoch", "judge", "score") == [
        (1, "dan.DAN", 1.0),
        (2, "dan.DAN", 0.0),
        (1, "mitigation.Prefixes", 0.25),
        (2, "mitigation.Prefixes", 1.0),
    ]
    assert conversion.converted == 1


def test_an_item_is_the_prompt_and_not_its_place(read):
    """`seq` counts a sample of prompts that another run draws differently."""
    one = read(attempt("first", seq=0), attempt("second", seq=1))
    two = read(attempt("second", seq=0))
    assert rows(two, "item") == rows(one, "item")[1:]
    assert rows(two, "item") == [f"dan.Dan_11_0/{text_digest('second')}"]


def test_a_prompt_that_is_asked_again_is_a_repeat(read):
    conversion = read(attempt("same", {"d.D": [0, 1]}), attempt("same", {"d.D": [1, 1]}))
    assert len(set(rows(conversion, "item"))) == 1
    assert rows(conversion, "epoch") == [1, 2, 3, 4]


def test_a_system_prompt_of_the_run_is_no_part_of_the_item(read):
    setup = {**SETUP, "run.system_prompt": "be kind"}
    prompted = attempt(conversation(("system", "be kind"), ("user", "ask")))
    conversion = read(setup, INIT, prompted, END, whole=False)
    assert rows(conversion, "item") == rows(read(attempt("ask")), "item")
    assert conversion.targets["openai.OpenAIGenerator/gpt-x"]["system_prompt"] == text_digest(
        "be kind"
    )


def test_a_system_prompt_of_the_probe_is_part_of_the_item(read):
    prompted = attempt(conversation(("system", "a secret"), ("user", "ask")))
    conversion = read(prompted)
    assert rows(conversion, "item") != rows(read(attempt("ask")), "item")
    assert rows(conversion, "behaviour") == [text_digest("ask")]


def test_translations_of_one_request_are_one_cluster(read):
    original = {"pre_translation_prompt": conversation(("user", "ask"))}
    conversion = read(attempt("ask"), attempt("demande", notes=original))
    assert rows(conversion, "behaviour") == [text_digest("ask")] * 2
    assert len(set(rows(conversion, "item"))) == 2


def test_rewritten_prompts_of_one_place_are_one_cluster(read):
    setup = {**SETUP, "plugins.buff_spec": "lowercase,paraphrase"}
    entries = [attempt("Ask", seq=4), attempt("ask", seq=4), attempt("other", seq=5)]
    conversion = read(setup, INIT, *entries, END, whole=False)
    assert rows(conversion, "behaviour") == ["dan.Dan_11_0/seq-4"] * 2 + ["dan.Dan_11_0/seq-5"]


def test_a_conversation_is_a_session_with_turns(read):
    first = attempt("hello", previous_attempt_id=None)
    history = conversation(("user", "hello"), ("assistant", "said"), ("user", "more"))
    second = attempt(history, previous_attempt_id=first["uuid"])
    third = attempt(
        conversation(*[("user", "hello"), ("assistant", "x")] * 2, ("user", "last")),
        previous_attempt_id=second["uuid"],
    )
    conversion = read(first, second, third)
    assert rows(conversion, "session", "turn") == [(first["uuid"], n) for n in (1, 2, 3)]
    assert set(rows(conversion, "behaviour")) == {text_digest("hello")}


@pytest.mark.parametrize(
    ("tag", "language"),
    [("en", "en"), ("zh-Hant", "zh-Hant"), ("*", None), ("", None), (None, None), ("en,fr", None)],
)
def test_a_language_is_taken_if_it_is_a_tag(read, tag, language):
    prompt = {"turns": [{"role": "user", "content": message("ask", tag)}]}
    conversion = read(attempt(prompt))
    found = rows(conversion, "language") if language else [None]
    assert found == [language]
    assert ("language" in conversion.judgements.column_names) == (language is not None)


def test_ids_and_texts_of_any_script(read):
    conversion = read(attempt("질문 🙂", probe="한국어.탐침"), attempt("سؤال", probe="تجربة"))
    assert rows(conversion, "attack", "category") == [("한국어.탐침", "한국어"), ("تجربة", "تجربة")]
    assert "질문" not in json.dumps(conversion.judgements.to_pylist(), ensure_ascii=False)


# --- missing verdicts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("detector", "output", "score", "status", "reason"),
    [
        ("dan.DAN", None, None, "missing", "no_response"),
        ("dan.DAN", message(None), None, "missing", "no_response"),
        ("dan.DAN", message(""), 0.0, "ok", None),
        ("agent_breaker.AgentBreakerResult", None, 0.0, "missing", "no_response"),
        ("any.NoOutput", None, 1.0, "ok", None),
        ("dan.DAN", message("said"), None, "missing", "scoring_failed"),
        ("judge.Refusal", message("said"), None, "missing", "grader_failed"),
        ("misleading.MustContradictNLI", message("said"), None, "missing", "grader_failed"),
        ("dan.DAN", message("said"), 7, "error", "out_of_scale"),
        ("dan.DAN", message("said"), -0.1, "error", "out_of_scale"),
        ("dan.DAN", message("said"), "high", "error", "invalid_response_format"),
        ("dan.DAN", message("said"), True, "ok", None),
    ],
)
def test_what_is_no_verdict_has_a_status_and_a_reason(
    read, detector, output, score, status, reason
):
    conversion = read(attempt(scores={detector: [score]}, outputs=[output]))
    expected = float(score) if status == "ok" else None
    assert rows(conversion, "score", "status", "reason") == [(expected, status, reason)]
    assert conversion.converted == 1


def test_a_detector_that_gave_up_leaves_every_output_missing(read):
    conversion = read(attempt(scores={"toxicity.ToxicCommentModel": []}, outputs=["one", None]))
    assert rows(conversion, "epoch", "status", "reason") == [
        (1, "missing", "grader_failed"),
        (2, "missing", "no_response"),
    ]


def test_scores_of_answered_outputs_only_find_their_outputs(read):
    conversion = read(
        attempt(scores={"d.D": [0.25, 0.75]}, outputs=[message("a"), None, message("b")])
    )
    assert rows(conversion, "epoch", "score") == [(1, 0.25), (2, None), (3, 0.75)]


def test_scores_that_belong_to_no_known_output_are_not_dealt_out(read):
    conversion = read(attempt(scores={"d.D": [1.0]}, outputs=[message("a"), message("b")]))
    assert rows(conversion, "score", "reason") == [(None, "scoring_failed")] * 2
    said(conversion, "d.D gave 1 score to attempts with another number of outputs")


def test_scores_of_earlier_turns_stand_beside_the_last_one(read):
    talk = conversation(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    conversion = read(
        attempt("a", {"d.D": [0.0, 1.0]}, outputs=[message("d")], conversations=[talk])
    )
    item = f"dan.Dan_11_0/{text_digest('a')}"
    assert rows(conversion, "item", "score") == [(f"{item}/turn-1", 0.0), (item, 1.0)]
    assert set(rows(conversion, "behaviour")) == {text_digest("a")}


def test_scores_of_messages_inside_the_prompt_are_not_counted_twice(read):
    history = [("user", "a"), ("assistant", "b"), ("user", "c")]
    conversion = read(
        attempt(
            conversation(*history),
            {"judge.ModelAsJudge": [1.0, 0.0]},
            outputs=[message("d")],
            conversations=[conversation(*history, ("assistant", "d"))],
        )
    )
    assert rows(conversion, "score") == [0.0]
    said(conversion, "1 score of messages inside a prompt")


def test_a_turn_that_its_detectors_leave_out_is_no_missing_verdict(read):
    conversion = read(
        attempt("warm up", {"judge.JailbreakOnlyAdversarial": [None]},
                notes={"is_adversarial": False}),
        attempt("attack", {"judge.JailbreakOnlyAdversarial": [None]},
                notes={"is_adversarial": True}),
    )  # fmt: skip
    assert rows(conversion, "reason") == ["grader_failed"]
    assert conversion.skipped["turn that its detectors leave out"] == 1
    said(conversion, "1 output of intermediate turns")


# --- unfinished, joined and repeated reports --------------------------------------------------


def test_an_attempt_without_scores_is_missing_where_its_siblings_have_them(read):
    conversion = read(
        attempt("a", {"d.D": [1.0]}), attempt("b", status=1, outputs=[message("x"), None])
    )
    assert rows(conversion, "status", "reason") == [
        ("ok", None),
        ("missing", "not_attempted"),
        ("missing", "no_response"),
    ]
    assert conversion.converted == 2
    said(conversion, "count as missing (not_attempted)")


def test_an_attempt_of_a_probe_that_was_never_scored_is_skipped_aloud(read):
    conversion = read(SETUP, INIT, attempt("a", status=1), attempt("b", status=1), whole=False)
    assert conversion.judgements.num_rows == 0
    assert conversion.skipped["attempt that no detector scored"] == 2
    said(conversion, "2 attempts got a response that no detector scored")
    said(conversion, "did not reach the end")


def test_both_lines_of_an_attempt_make_one_judgement(read):
    done = attempt("a")
    begun = {**done, "status": 1, "detector_results": {}}
    conversion = read(begun, done)
    assert conversion.judgements.num_rows == 1
    assert conversion.rows_read == 5


def test_runs_that_were_joined_keep_their_run_and_target(read):
    other = {**SETUP, "transient.run_id": "run-2", "plugins.target_name": "gpt-y"}
    conversion = read(
        SETUP, INIT, attempt("a"), END, other, {**INIT, "run": "run-2"}, attempt("a"), END,
        whole=False,
    )  # fmt: skip
    assert rows(conversion, "run", "target", "epoch") == [
        ("run-1", "openai.OpenAIGenerator/gpt-x", 1),
        ("run-2", "openai.OpenAIGenerator/gpt-y", 1),
    ]
    said(conversion, "holds 2 runs")


def test_a_report_that_was_joined_with_itself_counts_once(read):
    entries = [SETUP, INIT, attempt("a"), attempt("b"), END]
    conversion = read(*entries, *entries, whole=False)
    assert conversion.judgements.num_rows == 2
    assert len(conversion.failures) == 2
    assert "read before" in str(conversion.failures[0])
    assert conversion.failures[0].row == 8


def test_a_damaged_line_fails_alone_with_its_place(read, tmp_path):
    read(attempt("a"), attempt("b"))
    path = tmp_path / "test.report.jsonl"
    lines = path.read_text().splitlines()
    lines[2] = lines[2][:50]
    path.write_text("\n".join(lines))
    conversion = GarakReader().read(Source(str(path)), make_map({}))
    (failure,) = conversion.failures
    assert (failure.row, failure.line) == (3, 3)
    assert str(path) in str(failure)
    assert conversion.judgements.num_rows == 1


def test_a_report_without_its_head_asks_for_the_target(read):
    with pytest.raises(InputError, match=r"names no target.*constants"):
        read(INIT, attempt("a"), whole=False)
    conversion = read(INIT, attempt("a"), whole=False, constants={"target": "mine"})
    assert rows(conversion, "target") == ["mine"]


def test_a_report_without_attempts_is_refused(read):
    with pytest.raises(InputError, match="holds no attempt"):
        read()


def test_more_judgements_than_the_limit_are_refused(read):
    with pytest.raises(InputError, match=r"limits\.rows"):
        read(attempt("a"), attempt("b"), attempt("c"), limits={"rows": 2})


# --- intent and map ---------------------------------------------------------------------------


def test_prompts_are_harmful_unless_the_map_says_otherwise(read):
    assert rows(read(attempt()), "intent") == ["harmful"]
    assert rows(read(attempt(), intent="contested"), "intent") == ["contested"]
    assert rows(read(attempt(), constants={"intent": "benign"}), "intent") == ["benign"]


def test_an_intent_that_the_map_translates_is_left_to_the_border(read):
    by_kind = {"column": "notes.kind", "values": {"attack": "harmful", "control": "benign"}}
    entries = [attempt("a", notes={"kind": "attack"}), attempt("b", notes={"kind": "control"})]
    table = read(*entries, intent=by_kind).judgements
    assert table["notes.kind"].to_pylist() == ["attack", "control"]
    assert "intent" not in table.column_names
    own = {"column": "intent", "values": {"S008": "harmful"}}
    assert rows(read(attempt("a", intent="S008"), intent=own), "intent") == ["S008"]


def test_the_map_may_take_a_column_from_a_field(read):
    tagged = attempt(intent="S008", notes={"pair": "p1"})
    conversion = read(tagged, attempt("b"), columns={"category": "intent", "pair": "notes.pair"})
    assert rows(conversion, "category", "pair") == [("S008", "p1"), ("dan", None)]


# --- thresholds and garak's own counts --------------------------------------------------------


def test_counts_that_agree_need_no_word(read):
    conversion = read(attempt("a", {"dan.DAN": [1.0, 0.0, None]}), summary(1, 2, fails=1, nones=1))
    assert len(conversion.warnings) == 1


def test_counts_that_disagree_are_said_with_both_numbers(read):
    conversion = read(attempt("a", {"dan.DAN": [1.0, 0.0]}), summary(0, 3, fails=3))
    assert "says 3 hits of 3; its attempts give 1 of 2" in said(conversion, "garak's summary")


def test_a_stated_threshold_is_used_and_named(read):
    setup = {**SETUP, "run.eval_threshold": 0.8}
    conversion = read(
        setup, INIT, attempt("a", {"dan.DAN": [0.6, 0.9]}), summary(1, 2), END, whole=False
    )
    assert len(conversion.warnings) == 1
    said(conversion, "at_least:0.8")
    assert conversion.default_rule == SuccessRule("at_least:0.8")


def test_an_unstated_threshold_is_found_from_the_counts(read):
    """The setup entry leaves real numbers out, eval_threshold among them."""
    conversion = read(attempt("a", {"dan.DAN": [0.6, 0.7, 0.9]}), summary(2, 3, fails=1, nones=0))
    assert "above 0.7 and up to 0.9" in said(conversion, "does not state eval_threshold")
    assert conversion.default_rule == SuccessRule("at_least:0.9")


def test_counts_above_every_score_fit_no_threshold(read):
    conversion = read(attempt("a", {"dan.DAN": [1.0, 1.0]}), summary(2, 2))
    note = said(conversion, "does not state eval_threshold")
    assert "no threshold fits its own counts" in note
    assert "above" not in note
    assert conversion.default_rule == SuccessRule("at_least:0.5")


def test_counts_that_contradict_each_other_fit_no_threshold(read):
    conversion = read(
        attempt("a", {"dan.DAN": [0.5, 0.7]}),
        attempt("b", {"dan.DAN": [0.9, 0.8]}, probe="q.Q"),
        summary(1, 2),
        summary(2, 2) | {"probe": "q.Q"},
    )
    assert "no threshold fits" in said(conversion, "does not state eval_threshold")


def test_counts_of_hits_without_a_score_fit_a_threshold_of_0(read):
    conversion = read(attempt("a", {"dan.DAN": [0.0, 0.0]}), summary(0, 2))
    note = said(conversion, "does not state eval_threshold")
    assert "they fit a threshold of 0; use" in note
    assert "at_least:0." in note


def test_many_disagreements_are_counted_rather_than_listed(read):
    probes = [attempt("a", probe=f"p.P{n}") for n in range(9)]
    conversion = read(*probes, *(summary(0, 9) | {"probe": f"p.P{n}"} for n in range(9)))
    assert sum("garak's summary" in warning for warning in conversion.warnings) == 5
    said(conversion, "4 more summaries")


@pytest.mark.parametrize(
    ("detector", "scores", "words"),
    [
        (
            "judge.Refusal",
            [1.0, 1.0, 0.0, 0.0, 0.6],
            (
                "2 of 5 scores are exactly 1.0. The hit rate is 0.600 as written, 0.333 with these "
                "scores left out and 0.200 with all of them counted as safe."
            ),
        ),
        (
            "judge.ModelAsJudge",
            [1.0, 0.0, 0.0, 0.0],
            (
                "3 of 4 scores are exactly 0.0. The hit rate is 0.250 as written, 1.000 with these "
                "scores left out and 1.000 with all of them counted as hits."
            ),
        ),
        (
            "judge.Jailbreak",
            [1.0, 1.0],
            (
                "2 of 2 scores are exactly 1.0. The hit rate is 1.000 as written, unknown with "
                "these scores left out and 0.000 with all of them counted as safe."
            ),
        ),
    ],
)
def test_scores_that_may_hide_an_unreadable_answer_are_bounded(read, detector, scores, words):
    conversion = read(attempt("a", {detector: scores}))
    assert words in said(conversion, "asks a model")
    (judge,) = conversion.judges
    assert judge.model == "nim/judge-model"


def test_word_lists_get_no_such_warning(read):
    conversion = read(attempt("a", {"mitigation.MitigationBypass": [1.0, 0.0]}))
    assert not [w for w in conversion.warnings if "asks a model" in w]


def test_nothing_secret_leaves_the_settings(read):
    conversion = read(attempt("a", {"judge.Refusal": [1.0]}))
    assert SECRET not in repr(conversion)
    assert conversion.targets == {"openai.OpenAIGenerator/gpt-x": {"generations": 2, "seed": 7}}


# --- older releases ---------------------------------------------------------------------------


def test_a_report_of_release_0_9(read):
    """Texts for messages, settings as arguments, and `total` under a prefixed detector."""
    arguments = {"model_type": "huggingface", "model_name": "gpt2", "eval_threshold": 0.5,
                 "generations": 10, "entry_type": "start_run args config"}  # fmt: skip
    old = attempt("x", {"dan.DAN": [1, 0]}) | {"prompt": "ask", "outputs": ["a", "b"]}
    for newer in ("conversations", "reverse_translation_outputs"):
        del old[newer]
    totals = {"entry_type": "eval", "probe": "dan.Dan_11_0", "detector": "detector.dan.DAN",
              "passed": 1, "total": 2}  # fmt: skip
    conversion = read(arguments, {**INIT, "garak_version": "0.9.0.9"}, old, totals, whole=False)
    assert rows(conversion, "target", "item", "epoch", "score") == [
        ("huggingface/gpt2", f"dan.Dan_11_0/{text_digest('ask')}", 1, 1.0),
        ("huggingface/gpt2", f"dan.Dan_11_0/{text_digest('ask')}", 2, 0.0),
    ]
    # Those releases wrote no end of a run, so its absence says nothing.
    assert [w for w in conversion.warnings if "did not reach" in w] == []
    assert [w for w in conversion.warnings if "summary" in w] == []


def test_a_report_of_release_0_10(read):
    setup = {"entry_type": "start_run setup", "plugins.model_type": "test.Blank",
             "plugins.model_name": None, "transient.run_id": "old"}  # fmt: skip
    old = attempt("x", {"dan.DAN": [1.0]}) | {
        "prompt": "ask",
        "outputs": ["said"],
        "messages": [
            [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "said"}]
        ],
    }
    del old["conversations"]
    conversion = read(setup, {**INIT, "run": "old"}, old, END, whole=False)
    assert rows(conversion, "target", "item", "run") == [
        ("test.Blank", f"dan.Dan_11_0/{text_digest('ask')}", "old")
    ]


def test_other_entries_are_counted_by_kind(read):
    others = [
        {"entry_type": name}
        for name in ("tree_data", "payload_init", "plugin_cache", "probe_summary", "policy")
    ]
    conversion = read(attempt("a"), *others, {"entry_type": "of tomorrow"})
    kinds = Counter(dict(conversion.skipped))
    assert kinds["entry of an unknown type"] == 1
    assert sum(kinds.values()) == 3 + len(others) + 1
    said(conversion, "unknown type")


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "2"},
        {"status": [2]},
        {"status": 9},
        {"uuid": None},
        {"probe_classname": ""},
        {"probe_classname": "\ud800"},
        {"prompt": 3},
        {"prompt": {"turns": [[["deep"]]]}},
        {"outputs": "text"},
        {"detector_results": [1]},
        {"detector_results": {"d.D": 1.0}},
        {"entry_type": "attemqt"},
    ],
)
def test_an_attempt_of_the_wrong_shape_fails_alone(read, wrong):
    conversion = read(attempt("a"), attempt("b") | wrong)
    assert len(conversion.failures) == 1
    assert conversion.judgements.num_rows == 1
