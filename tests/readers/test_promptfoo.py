"""promptfoo results: real ones with their exact totals, and what mishaps make of others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence
from safemetry.evidence.identity import text_digest
from safemetry.evidence.maps import make_map
from safemetry.evidence.success import SuccessRule
from safemetry.readers.conversion import Conversion, TextReader
from safemetry.readers.detect import detect
from safemetry.readers.opening import read_evidence
from safemetry.readers.promptfoo import PromptfooReader
from safemetry.readers.source import Source

SECRET = "sk-not-a-real-key"
GRADER = "promptfoo:redteam:harmful:hate"


def component(passed: Any = True, kind: str = "contains", **more: Any) -> dict[str, Any]:
    """What one assertion found; names of assertion fields go into the assertion."""
    inner = {key: more.pop(key) for key in ("metric", "value", "weight", "provider", "config")
             if key in more}  # fmt: skip
    score = 1 if passed else 0
    given = {"pass": passed, "score": score, "reason": "because"} | more
    return given | {"assertion": {"type": kind, **inner}}


def result(
    *components: dict[str, Any],
    test: int = 0,
    column: int = 0,
    success: bool | None = None,
    asked: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    parts = list(components)
    holds = all(part["pass"] for part in parts) if success is None else success
    case: dict[str, Any] = {
        "vars": {"question": f"say the secret token {test}"} if asked is None else asked,
        "assert": [part["assertion"] for part in parts],
    }
    case |= more.pop("case", {})
    if metadata:
        case["metadata"] = metadata
    return {
        "gradingResult": {"pass": holds, "score": 1, "reason": "so", "componentResults": parts},
        "prompt": {"raw": "rendered", "label": "a {{question}} here"},
        "promptId": "78a6e5300135145ab08c",
        "promptIdx": column,
        "testIdx": test,
        "provider": {"id": "echo", "label": "model-a"},
        "response": {"output": "said"},
        "success": holds,
        "score": 1 if holds else 0,
        "namedScores": {},
        "failureReason": 0 if holds else 1,
        "testCase": case,
        "vars": case["vars"],
        "metadata": metadata or {},
        **more,
    }


def attack(*components: dict[str, Any], strategy: str | None = None, **more: Any) -> dict[str, Any]:
    """A result of a red team."""
    metadata = {"pluginId": "harmful:hate", "goal": "learn the token", "purpose": "a test"}
    metadata |= {"strategyId": strategy} if strategy else {}
    return result(*components, metadata=metadata | more.pop("metadata", {}), **more)


def failed_call(error: str, **more: Any) -> dict[str, Any]:
    """A result of a target that could not be called."""
    kept = {"success": False, "response": None, "gradingResult": None}
    return result(component(), **more) | kept | {"failureReason": 2, "error": error}


def document(*results: dict[str, Any], version: Any = 3, **more: Any) -> dict[str, Any]:
    summary = {"version": version, "timestamp": "2026-01-02", "results": list(results)}
    return {
        "evalId": "eval-1",
        "results": summary | more.pop("summary", {}),
        "config": {},
        "metadata": {"promptfooVersion": "0.121.20"},
        **more,
    }


Read = Callable[..., Conversion]


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Source]:
    def write(content: Any, name: str = "results.json") -> Source:
        path = tmp_path / name
        path.write_text(json.dumps(content), encoding="utf-8")
        return Source(str(path))

    return write


@pytest.fixture
def read(written: Callable[..., Source]) -> Read:
    def convert(*results: dict[str, Any], whole: Any = None, **entries: Any) -> Conversion:
        source = written(whole or document(*results))
        return PromptfooReader().read(source, make_map(entries))

    return convert


def rows(conversion: Conversion, *names: str) -> list[Any]:
    listed = conversion.judgements.select(list(names)).to_pylist()
    return [tuple(row.values()) if len(names) > 1 else row[names[0]] for row in listed]


def judged(conversion: Conversion) -> dict[str, Any]:
    """Judge -> its score, or the reason why it has none, of a single result."""
    found = rows(conversion, "judge", "score", "reason")
    return {judge: reason if score is None else score for judge, score, reason in found}


def said(conversion: Conversion, words: str) -> str:
    found = [warning for warning in conversion.warnings if words in warning]
    assert len(found) == 1, list(conversion.warnings)
    return found[0]


# --- real files -------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["output_v_local_echo.json", "output.jsonl"])
def test_exact_totals_of_a_real_evaluation(shared, file):
    source = Source(str(shared / "formats" / "promptfoo" / file))
    reader = PromptfooReader()
    assert reader.recognises(source)
    assert detect(source, make_map({})).name == "promptfoo"
    conversion = reader.read(source, make_map({}))
    assert (conversion.rows_read, conversion.converted) == (12, 12)
    assert not conversion.skipped
    assert not conversion.failures
    assert Counter(rows(conversion, "judge", "score", "status")) == {
        ("pass", 1.0, "ok"): 4,
        ("pass", 0.0, "ok"): 8,
        ("compliance", 1.0, "ok"): 8,
        ("compliance", 0.0, "ok"): 4,
        ("no_refusal", 1.0, "ok"): 4,
        ("no_refusal", 0.0, "ok"): 8,
        ("isRefusal", 0.0, "ok"): 12,
    }
    columns = {"78a6e5300135", "df5990ff83eb"}
    assert set(rows(conversion, "target")) == {f"model-{m}/{p}" for m in "ab" for p in columns}
    items = set(rows(conversion, "item"))
    assert {item.partition("/")[0] for item in items} == {"benign-1", "benign-2", "harmful-1"}
    assert len(items) == 3
    assert set(rows(conversion, "epoch")) == {1}
    assert set(rows(conversion, "source_row")) == set(range(1, 13))
    assert "intent" not in conversion.judgements.column_names
    assert {scale.higher_is for scale in conversion.scales.values()} == {None}
    assert conversion.default_rule == SuccessRule("at_least:0.5")


def test_the_two_real_files_hold_the_same(shared):
    folder = shared / "formats" / "promptfoo"
    one, two = (
        PromptfooReader().read(Source(str(folder / name)), make_map({}))
        for name in ("output_v_local_echo.json", "output.jsonl")
    )
    names = ("target", "item", "epoch", "judge", "score")
    assert sorted(rows(one, *names)) == sorted(rows(two, *names))
    assert set(rows(one, "run")) == {"eval-vYY-2026-11-29T19:53:43"}
    assert "run" not in two.judgements.column_names
    said(two, "nothing says whether they are all")
    # The document agrees with its own totals.
    assert [w for w in one.warnings if "promptfoo counted" in w or "totals" in w] == []


def test_the_texts_of_a_real_file_have_the_keys_of_its_judgements(shared):
    for name in ("output_v_local_echo.json", "output.jsonl"):
        source = Source(str(shared / "formats" / "promptfoo" / name))
        reader = PromptfooReader()
        assert isinstance(reader, TextReader)
        texts = list(reader.texts(source, make_map({})))
        conversion = reader.read(source, make_map({}))
        keys = [(text.target, text.item, text.epoch) for text in texts]
        assert keys == list(dict.fromkeys(rows(conversion, "target", "item", "epoch")))
        assert texts[0].prompt == texts[0].response == "Item b1: is water wet? yes"
        assert texts[1].prompt == "Please answer. Item b1: is water wet? yes"


def test_the_display_table_is_refused_and_says_what_to_name(shared):
    source = Source(str(shared / "formats" / "promptfoo" / "output.csv"))
    assert not PromptfooReader().recognises(source)
    with pytest.raises(InputError, match=r"display table.*results\.json"):
        PromptfooReader().read(source, make_map({}))


def test_a_real_file_becomes_evidence_once_the_map_says_what_a_pass_means(shared):
    path = str(shared / "formats" / "promptfoo" / "output_v_local_echo.json")
    by_category = {
        "column": "testCase.metadata.category",
        "values": {"benign": "benign", "harmful": "harmful"},
    }
    evidence: Evidence = read_evidence(
        path,
        evidence_map={
            "columns": {"item": "vars.item_id", "pair": "metadata.pair"},
            "intent": by_category,
            "label_columns": {"gradingResult.pass": "pass"},
            "labels": {"True": "comply", "False": "refuse"},
        },
    )
    table = evidence.rows.collect("pyarrow").to_arrow().to_pylist()
    found = {(row["item"], row["intent"], row["pair"], row["label"]) for row in table}
    assert found == {
        ("b1", "benign", "p1", "comply"),
        ("h1", "harmful", "p1", "refuse"),
        ("b2", "benign", "p2", "refuse"),
    }


# --- targets, items, epochs -------------------------------------------------------------------


def test_a_label_names_the_target_before_the_id(read):
    one = read(result(component()))
    assert rows(one, "target") == ["model-a"]
    two = read(result(component(), provider={"id": "openai:x", "label": ""}))
    assert rows(two, "target") == ["openai:x"]
    three = read(result(component(), provider="openai:x"))
    assert rows(three, "target") == ["openai:x"]


def test_several_prompts_of_one_provider_are_several_targets(read):
    """A column of promptfoo's table is what its user compares: a provider under a prompt."""
    strict = {"prompt": {"raw": "rendered", "label": "strict"}, "promptId": "abc"}
    conversion = read(
        result(component()),
        result(component(), column=1, **strict),
        result(component(), column=2, provider={"id": "echo", "label": "model-b"}, **strict),
    )
    assert rows(conversion, "target") == ["model-a/78a6e5300135", "model-a/strict", "model-b"]
    assert len(set(rows(conversion, "item"))) == 1


def test_the_text_of_a_prompt_is_no_name(read):
    texts = ["say the secret", "{{question}}", "rendered"]
    conversion = read(
        *(
            result(component(), column=at, prompt={"raw": "rendered", "label": text}, promptId=None)
            for at, text in enumerate(texts)
        )
    )
    for text in texts:
        assert text not in json.dumps(conversion.judgements.to_pylist())
    assert len(set(rows(conversion, "target"))) == 3


def test_equal_providers_are_told_apart_by_their_order(read):
    same = [result(component(), column=at) for at in (0, 1)]
    conversion = read(*reversed(same))
    assert sorted(rows(conversion, "target", "source_row")) == [("model-a", 2), ("model-a#2", 1)]
    said(conversion, "label for each provider")


def test_prompts_become_items_where_the_map_names_the_target(read):
    other = {"prompt": {"raw": "rendered", "label": "strict"}}
    listed = [result(component()), result(component(), column=1, **other)]
    for entries in ({"columns": {"target": "provider.id"}}, {"constants": {"target": "mine"}}):
        conversion = read(*listed, **entries)
        assert set(rows(conversion, "target")) == {"echo" if "columns" in entries else "mine"}
        ends = [item.rpartition("/")[2] for item in rows(conversion, "item")]
        assert ends == ["78a6e5300135", "strict"]


def test_repeats_of_a_test_are_epochs_of_an_item(read):
    """`--repeat` gives each repeat a `testIdx` of its own."""
    asked = {"question": "the same"}
    conversion = read(
        *(result(component(), test=n, asked=asked) for n in (2, 0)),
        result(component(), test=1, asked={"question": "another"}),
        result(component(), test=2, column=1, asked=asked, provider="model-b"),
    )
    assert rows(conversion, "epoch") == [2, 1, 1, 2]
    assert len(set(rows(conversion, "item"))) == 2


def test_tests_that_differ_in_their_assertions_only_are_two_items(read):
    asked = {"question": "the same"}
    conversion = read(
        result(component(value="yes"), test=0, asked=asked),
        result(component(value="no"), test=1, asked=asked),
    )
    assert set(rows(conversion, "epoch")) == {1}
    first, second = rows(conversion, "item")
    assert first.partition("/assert-")[0] == second.partition("/assert-")[0]
    assert first != second


def test_an_item_is_the_test_and_not_its_place(read):
    one = read(result(component(), test=0, asked={"a": 1, "b": 2}))
    two = read(result(component(), test=9, asked={"b": 2, "a": 1}))
    assert rows(one, "item") == rows(two, "item")


def test_a_description_stands_in_the_item_if_it_is_a_name(read):
    named = read(result(component(), case={"description": "benign-1"}))
    assert rows(named, "item")[0].startswith("benign-1/")
    prose = read(result(component(), case={"description": "asks for the secret token"}))
    assert rows(prose, "item")[0].startswith("test/")


def test_tests_whose_variables_were_stripped_are_not_thrown_together(read):
    conversion = read(*(result(component(), test=n, asked={}) for n in (0, 1)))
    assert rows(conversion, "item", "epoch") == [("test-0", 1), ("test-1", 1)]


def test_the_same_cell_twice_fails_aloud(read):
    conversion = read(result(component()), result(component()))
    assert conversion.judgements.num_rows == 1
    (failure,) = conversion.failures
    assert (failure.row, failure.column) == (2, "testIdx")
    assert "read before" in str(failure)


# --- judges -----------------------------------------------------------------------------------


def test_a_single_assertion_is_the_verdict_of_its_test(read):
    assert judged(read(result(component(kind="llm-rubric")))) == {"pass": 1.0}


def test_assertions_beside_each_other_are_judges_of_their_own(read):
    conversion = read(
        result(
            component(metric="tone"), component(passed=False), component(), component(passed=False)
        )
    )
    assert judged(conversion) == {
        "pass": 0.0, "tone": 1.0, "contains": 0.0, "contains-2": 1.0, "contains-3": 0.0,
    }  # fmt: skip
    said(conversion, "choose one judge")


def test_a_judge_has_all_its_rows_once_it_has_one_beside_another(read):
    conversion = read(
        result(component(metric="tone"), test=0),
        result(component(metric="tone"), component(), test=1),
    )
    assert Counter(rows(conversion, "judge")) == {"pass": 2, "tone": 2, "contains": 1}


def test_a_threshold_makes_the_test_say_something_else_than_its_assertion(read):
    lenient = result(component(passed=False), success=True, case={"threshold": 0})
    assert judged(read(lenient)) == {"pass": 1.0, "contains": 0.0}


def test_of_one_metric_all_assertions_have_to_hold(read):
    conversion = read(
        result(component(metric="tone"), component(passed=False, metric="tone"), component())
    )
    assert judged(conversion)["tone"] == 0.0


def test_members_of_a_set_follow_their_set(read):
    whole = {"pass": True, "score": 0.5, "reason": "so", "componentResults": []}
    whole["metadata"] = {"assertionSet": {"type": "assert-set", "metric": "either"}}
    entry = result(component(), component(passed=False), success=True)
    entry["gradingResult"]["componentResults"].insert(0, whole)
    assert judged(read(entry)) == {"pass": 1.0, "either": 1.0, "contains": 1.0, "contains-2": 0.0}


def test_an_assertion_of_weight_zero_has_the_verdict_of_its_score(read):
    """promptfoo lets it pass whatever it found."""
    weightless = [component(True, score=score, weight=0) for score in (0, 1, 0.5)]
    found = judged(read(result(*weightless)))
    assert found == {
        "pass": 1.0, "contains": 0.0, "contains-2": 1.0, "contains-3": "scoring_failed",
    }  # fmt: skip


def test_what_the_provider_says_of_its_response_is_kept(read):
    refused = {"output": "no", "isRefusal": True}
    conversion = read(result(component(), response=refused), result(component(), test=1))
    flags = [row for row in rows(conversion, "judge", "score") if row[0] == "isRefusal"]
    assert flags == [("isRefusal", 1.0)]
    assert conversion.scales["isRefusal"].higher_is is None


def test_a_metric_does_not_take_the_name_of_another_judge(read):
    conversion = read(result(component(metric="pass"), component(passed=False)))
    assert judged(conversion) == {"pass": 0.0, "pass (metric)": 1.0, "contains": 0.0}


def test_a_test_without_an_assertion_passes_nothing(read):
    conversion = read(result(component()), result(test=1))
    assert conversion.skipped == {"test without an assertion": 1}
    assert conversion.judgements.num_rows == 1


def test_a_judge_is_its_rubric_model_and_release(read):
    grader = {"id": "openai:judge", "config": {"apiKey": SECRET}}
    rubric = {"kind": "llm-rubric", "value": "is it polite?", "provider": grader}
    conversion = read(result(component(**rubric), component()))
    judge = next(judge for judge in conversion.judges if judge.name == "llm-rubric")
    assert (judge.model, judge.parser) == ("openai:judge", "promptfoo 0.121.20 llm-rubric")
    assert judge.rubric == text_digest(json.dumps("is it polite?"))
    assert SECRET not in repr(conversion)
    assert "polite" not in repr(conversion)


# --- red teams --------------------------------------------------------------------------------


def test_a_red_team_is_judged_by_its_graders(read):
    conversion = read(
        attack(component(kind=GRADER, metric="Hate"), test=0),
        attack(component(False, kind=GRADER, metric="Hate"), test=1, strategy="base64"),
    )
    described = ("judge", "score", "category", "attack", "intent")
    assert rows(conversion, *described) == [
        ("redteam", 1.0, "harmful:hate", "basic", "harmful"),
        ("redteam", 0.0, "harmful:hate", "base64", "harmful"),
    ]
    assert conversion.scales["redteam"].higher_is == "safer"
    assert set(rows(conversion, "behaviour")) == {text_digest("learn the token")}
    assert not conversion.warnings


def test_a_red_team_is_known_by_its_graders_where_metadata_were_stripped(read):
    conversion = read(result(component(kind=GRADER)))
    assert rows(conversion, "judge", "category", "intent") == [
        ("redteam", "harmful:hate", "harmful")
    ]
    assert "attack" not in conversion.judgements.column_names


def test_a_slow_answer_is_no_successful_attack(read):
    """The overall verdict of a red-team test fails with any assertion that the user adds."""
    conversion = read(attack(component(kind=GRADER), component(passed=False, kind="latency")))
    assert judged(conversion) == {"redteam": 1.0, "pass": 0.0, "latency": 0.0}
    assert conversion.scales["pass"].higher_is is None


@pytest.mark.parametrize(
    ("beside", "direction"),
    [
        ({"kind": "moderation"}, "safer"),
        ({"kind": "human"}, "safer"),
        ({"kind": "guardrails", "config": {"purpose": "redteam"}}, "safer"),
        ({"kind": "guardrails"}, None),
        ({"kind": "contains"}, None),
    ],
)
def test_the_verdict_of_a_red_team_test_is_safer_where_all_of_it_is(read, beside, direction):
    conversion = read(attack(component(kind=GRADER), component(**beside)))
    assert conversion.scales["pass"].higher_is == direction


def test_a_plugin_may_grade_with_a_rubric(read):
    entry = attack(component(kind="llm-rubric", metric="DoNotAnswer"))
    assert judged(read(entry)) == {"redteam": 1.0}


@pytest.mark.parametrize(("label", "intent"), [("safe", "benign"), ("unsafe", "harmful")])
def test_xstest_asks_for_answers_too(read, label, intent):
    metadata = {"pluginId": "xstest", "label": label}
    conversion = read(attack(component(kind="llm-rubric", metric="XSTest"), metadata=metadata))
    assert rows(conversion, "judge", "intent") == [("pass", intent)]
    assert conversion.scales["pass"].higher_is is None


def test_rewritten_attacks_share_their_request(read):
    told = {"metadata": {"goal": None, "originalText": "the token"}}
    conversion = read(
        attack(component(kind=GRADER), test=0, asked={"prompt": "the token"},
               metadata={"goal": None}),
        attack(component(kind=GRADER), test=1, asked={"prompt": "dGhl"}, strategy="base64", **told),
    )  # fmt: skip
    assert set(rows(conversion, "behaviour")) == {text_digest("the token")}
    assert len(set(rows(conversion, "item"))) == 2


def test_a_red_team_passes_an_empty_output_and_we_do_not(read):
    empty = [
        attack(test=n, success=True, case={"assert": [{"type": GRADER}]}, response=response)
        | {"gradingResult": None}
        for n, response in enumerate([{}, None])
    ]
    graded = [
        attack(component(kind=GRADER), test=n, response={"output": output})
        for n, output in enumerate([" ", "{}"], 2)
    ]
    conversion = read(*empty, *graded)
    assert rows(conversion, "judge", "score", "reason") == [("redteam", None, "no_response")] * 4
    assert said(conversion, "without an output passed").startswith("4 results")


def test_an_empty_object_may_be_an_answer_outside_a_red_team(read):
    assert judged(read(result(component(kind="is-json"), response={"output": "{}"}))) == {
        "pass": 1.0
    }


def test_grading_that_broke_off_is_no_defence(read):
    broken = component(kind=GRADER, metadata={"gradingIncomplete": True})
    assert judged(read(attack(broken))) == {"redteam": "grader_failed"}
    found = component(False, kind=GRADER, metadata={"gradingIncomplete": True})
    assert judged(read(attack(found))) == {"redteam": 0.0}


def test_the_map_overrules_the_intent(read):
    entry = attack(component(kind=GRADER))
    assert rows(read(entry, intent="contested"), "intent") == ["contested"]
    assert rows(read(entry, constants={"intent": "benign"}), "intent") == ["benign"]


# --- statuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": {"graderError": True}, "reason": "API error: 401 for the grader"},
        {"reason": "No output"},
        {"reason": "Could not extract JSON from llm-rubric response"},
        {"reason": "Could not perform remote grading: Error: fetch failed"},
        {"reason": "Error parsing output: Unexpected token"},
        {"reason": "llm-rubric produced malformed response: x"},
        {"reason": "Factuality checker output did not match expected format: no"},
        {"reason": "Custom function threw error: x is not defined\nStack Trace: ..."},
    ],
)
def test_a_grader_that_failed_gives_no_verdict(read, broken):
    """promptfoo writes a failed assertion, and the test fails with it."""
    conversion = read(result(component(False, kind="llm-rubric", **broken)))
    assert judged(conversion) == {"pass": "grader_failed"}
    assert rows(conversion, "status") == ["error"]
    assert said(conversion, "a grader failed").startswith("In 1 result ")


def test_a_verdict_stands_beside_a_failed_grader_only_if_it_does_not_hang_on_it(read):
    trouble = component(False, kind="llm-rubric", metadata={"graderError": True})
    assert judged(read(result(trouble, component(False))))["pass"] == 0.0
    assert judged(read(result(trouble, component())))["pass"] == "grader_failed"
    averaged = result(trouble, component(False), case={"threshold": 0.5})
    assert judged(read(averaged))["pass"] == "grader_failed"


@pytest.mark.parametrize("reason", ["No output mentions the token", "The API error: was handled"])
def test_a_reason_that_sounds_like_trouble_is_a_verdict(read, reason):
    assert judged(read(result(component(False, kind="llm-rubric", reason=reason)))) == {"pass": 0.0}


def test_a_person_overrules_a_failed_grader(read):
    trouble = component(False, kind=GRADER, metadata={"graderError": True})
    conversion = read(attack(trouble, component(kind="human"), success=True))
    assert judged(conversion) == {"redteam": "grader_failed", "human": 1.0, "pass": 1.0}


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        ("API error: 500", "error", "infrastructure_error"),
        ("Evaluation timed out after 10ms", "error", "infrastructure_error"),
        ("400: the prompt triggered the content_filter", "missing", "blocked_by_filter"),
    ],
)
def test_a_call_that_failed_is_no_failed_test(read, error, status, reason):
    conversion = read(failed_call(error), result(component(), component(), test=1))
    found = {row for row in rows(conversion, "judge", "status", "reason") if row[1] != "ok"}
    assert found == {(judge, status, reason) for judge in ("pass", "contains")}


def test_an_error_after_the_answer_is_one_of_the_grader(read):
    entry = failed_call("TypeError") | {"response": {"output": "said"}}
    assert judged(read(entry)) == {"pass": "grader_failed"}


def test_releases_that_state_no_failure_reason_are_read(read):
    entry = failed_call("API error")
    del entry["failureReason"]
    assert judged(read(entry)) == {"pass": "infrastructure_error"}


def test_a_result_whose_grading_was_stripped_is_no_verdict(read):
    conversion = read(result(component()) | {"gradingResult": None})
    assert judged(conversion) == {"pass": "scoring_failed"}
    said(conversion, "The grading of 1 result")


def test_a_pass_that_is_no_truth_value_is_an_error_of_format(read):
    conversion = read(result(component("yes"), component(), success=True))
    assert judged(conversion)["contains"] == "invalid_response_format"


# --- totals -----------------------------------------------------------------------------------


def test_totals_that_disagree_are_said_with_both_numbers(read):
    metrics = {"testPassCount": 1, "testFailCount": 0, "testErrorCount": 0}
    summary = {
        "stats": {"successes": 2, "failures": 0, "errors": 0},
        "prompts": [{"provider": "model-a", "metrics": metrics}],
    }
    listed = [result(component()), failed_call("down", test=1)]
    conversion = read(whole=document(*listed, summary=summary))
    assert "2 passed, 0 failed and 0 with an error" in said(conversion, "promptfoo counted")
    assert "give 1 passed, 0 failed and 1 with an error" in said(conversion, "of column 1 say")


def test_totals_that_agree_need_no_word(read):
    summary = {"stats": {"successes": 1, "failures": 1, "errors": 1}}
    listed = [result(component()), result(component(False), test=1), failed_call("down", test=2)]
    assert not read(whole=document(*listed, summary=summary)).warnings


def test_settings_of_a_target_are_its_numbers_and_no_keys(read):
    providers = [{"id": "echo", "label": "model-a",
                  "config": {"temperature": 0.5, "apiKey": SECRET}}]  # fmt: skip
    conversion = read(whole=document(result(component()), config={"providers": providers}))
    assert conversion.targets == {"model-a": {"temperature": 0.5, "prompt": "78a6e5300135"}}
    assert SECRET not in repr(conversion)


# --- what the map asks for --------------------------------------------------------------------


def test_fields_that_the_map_names_are_judges(read):
    entry = result(component(metric="tone", score=0.4), namedScores={"tone": 0.4})
    asked = {"namedScores.tone": "tone", "response.finishReason": "ending"}
    entry["response"]["finishReason"] = "stop"
    conversion = read(entry, label_columns=asked)
    assert rows(conversion, "judge", "score", "label") == [("tone", 0.4, None),
                                                           ("ending", None, "stop")]  # fmt: skip
    assert not conversion.scales


def test_a_field_that_a_failed_grader_wrote_is_no_verdict(read):
    trouble = component(False, metric="tone", metadata={"graderError": True})
    weightless = component(metric="free", weight=0)
    entry = result(trouble, weightless, namedScores={"tone": 0, "free": 0})
    entry["gradingResult"]["namedScoreWeights"] = {"tone": 1, "free": 0}
    fields = {"namedScores.tone": "a", "namedScores.free": "b", "success": "c", "nothing": "d"}
    assert judged(read(entry, label_columns=fields)) == {
        "a": "grader_failed", "b": "scoring_failed", "c": "grader_failed", "d": "scoring_failed",
    }  # fmt: skip


def test_a_verdict_column_in_the_map_is_answered_with_the_right_entry(read):
    with pytest.raises(InputError, match="label_columns"):
        read(result(component()), columns={"score": "score"})


def test_context_comes_from_any_field(read):
    entry = result(component(), metadata={"topic": "tokens", "pair": "p1"})
    conversion = read(entry, columns={"category": "metadata.topic", "pair": "metadata.pair"})
    assert rows(conversion, "category", "pair") == [("tokens", "p1")]


def test_an_intent_that_the_map_translates_is_left_to_the_border(read):
    spec = {"column": "vars.kind", "values": {"x": "harmful"}}
    table = read(result(component(), asked={"kind": "x"}), intent=spec).judgements
    assert table["vars.kind"].to_pylist() == ["x"]


# --- other versions and damage ----------------------------------------------------------------


@pytest.mark.parametrize(("version", "shown"), [(2, "version 2"), (4, "version 4"), ("3", "unkn")])
def test_another_version_is_named(read, version, shown):
    with pytest.raises(InputError, match=rf"{shown}.*that is read is 3"):
        read(whole=document(result(component()), version=version))


def test_an_old_document_is_recognised_so_that_it_can_be_named(written):
    old = {"results": {"version": 2, "timestamp": "x", "results": [], "stats": {}, "table": {}}}
    assert PromptfooReader().recognises(written(old))


@pytest.mark.parametrize(
    "foreign",
    [
        {"results": {"arc": {"acc": 1}}, "versions": {"arc": 1}},
        {"version": 2, "eval": {}, "results": {"total_samples": 3}},
        {"results": []},
        {"overview": {}, "test_cases": []},
    ],
)
def test_results_of_other_tools_are_not_recognised(written, foreign):
    assert not PromptfooReader().recognises(written(foreign))


def test_a_first_line_longer_than_the_head_is_recognised(written):
    talkative = component(reason="x" * 100_000)
    for entry in (result(talkative), result(component(), response={"output": "x" * 100_000})):
        assert PromptfooReader().recognises(written({"cost": 0, **entry}, "results.jsonl"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"testIdx": None},
        {"testIdx": True},
        {"promptIdx": -1},
        {"provider": None},
        {"provider": {"id": "\ud800"}},
        {"success": "yes"},
        {"failureReason": 7},
        {"gradingResult": {"componentResults": "none"}},
        {"testCase": {"vars": {"a": 1}, "assert": [{"type": "x", "metric": "m"}],
                      "description": "\ud800"}, "vars": {}},
    ],
)  # fmt: skip
def test_a_result_of_the_wrong_shape_fails_alone_or_changes_nothing(read, wrong):
    conversion = read(result(component()), result(component(), test=1) | wrong)
    assert len(conversion.failures) + conversion.converted == 2
    assert conversion.converted >= 1
    assert all(failure.row == 2 for failure in conversion.failures)
    conversion.judgements.to_pylist()


def test_a_damaged_line_fails_alone_with_its_place(tmp_path):
    path = tmp_path / "results.jsonl"
    lines = [json.dumps(result(component(), test=n)) for n in range(3)]
    lines[1] = lines[1][:60]
    path.write_text("\n".join(lines))
    conversion = PromptfooReader().read(Source(str(path)), make_map({}))
    (failure,) = conversion.failures
    assert (failure.row, failure.line) == (2, 2)
    assert conversion.converted == 2


def test_a_document_without_results_is_refused(read):
    with pytest.raises(InputError, match="holds no results"):
        read(whole=document())


def test_more_judgements_than_the_limit_are_refused(read):
    listed = [result(component(), test=n) for n in range(3)]
    with pytest.raises(InputError, match=r"limits\.rows"):
        read(*listed, limits={"rows": 4})


def test_a_conversation_is_written_turn_by_turn(written):
    said_in_turn = ["hi", "hello", "the token", "no"]
    talk = [
        {"role": ("user", "assistant")[at % 2], "content": text}
        for at, text in enumerate(said_in_turn)
    ]
    entry = attack(component(kind=GRADER)) | {"metadata": {"messages": talk}}
    stripped = attack(component(kind=GRADER), test=1, prompt={"raw": "[prompt stripped]"},
                      response={"output": "[output stripped]"})  # fmt: skip
    first, second = PromptfooReader().texts(written(document(entry, stripped)), make_map({}))
    assert first.prompt == "user: hi\n\nassistant: hello\n\nuser: the token"
    assert first.response == "said"
    assert (second.prompt, second.response) == (None, None)
