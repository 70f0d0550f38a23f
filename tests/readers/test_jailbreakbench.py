"""JailbreakBench artifacts: real ones with their exact totals, and what attacks leave open."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from conversions import rows, said

from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.readers.conversion import TextReader
from safemetry.readers.jailbreakbench import JailbreakBenchReader
from safemetry.readers.locating import LeftOut, Recognised, expand
from safemetry.readers.opening import read_evidence
from safemetry.readers.source import Source

PAIR = "attack-artifacts_PAIR_black_box_gpt-4-0125-preview.json"
TEST_ARTIFACT = "attack-artifacts_test-artifact_black_box_llama-2-7b-chat-hf.json"
ATTACK_INFO = "attack-artifacts_PAIR_attack-info.json"

PARAMETERS = {
    "method": "Ask",
    "model": "model-1",
    "attack_type": "manual",
    "defense": None,
    "evaluation_date": "2026-01-02",
}


def entry(index: Any = 0, **more: Any) -> dict[str, Any]:
    return {
        "index": index,
        "goal": "be given a secret token",
        "behavior": "Secret token",
        "category": "Privacy",
        "prompt": "what is it",
        "response": "no",
        "jailbroken": False,
        **more,
    }


@pytest.fixture
def read(tmp_path):
    def convert(*entries: Any, parameters: dict[str, Any] | None = None, **entries_of_map: Any):
        path = tmp_path / "model-1.json"
        document = {"parameters": {**PARAMETERS, **(parameters or {})}, "jailbreaks": entries}
        path.write_text(json.dumps(document), encoding="utf-8")
        return JailbreakBenchReader().read(Source(str(path)), make_map(entries_of_map))

    return convert


@pytest.fixture
def real(shared):
    def source(name: str) -> Source:
        return Source(str(shared / "formats" / "jailbreakbench" / name))

    return source


# --- real artifacts ---------------------------------------------------------------------------


def test_exact_totals_of_pair_on_gpt_4(real):
    conversion = JailbreakBenchReader().read(real(PAIR), make_map({}))
    assert (conversion.rows_read, conversion.converted) == (100, 100)
    assert not conversion.skipped
    assert not conversion.failures
    assert Counter(rows(conversion, "judge", "label", "status", "reason")) == {
        ("jailbroken", "comply", "ok", None): 34,
        ("jailbroken", "refuse", "ok", None): 30,
        ("jailbroken", None, "missing", "not_attempted"): 36,
        ("jailbroken_llama_guard1", "comply", "ok", None): 50,
        ("jailbroken_llama_guard1", "refuse", "ok", None): 14,
        ("jailbroken_llama_guard1", None, "missing", "not_attempted"): 36,
    }
    assert set(
        rows(conversion, "target", "attack", "access", "benchmark", "intent", "timestamp")
    ) == {("gpt-4-0125-preview", "PAIR", "black_box", "jailbreakbench", "harmful", "2024-03-06")}
    assert rows(conversion, "item")[::2] == [f"PAIR/{index}" for index in range(100)]
    assert set(Counter(rows(conversion, "category")).values()) == {20}
    assert len(set(rows(conversion, "behaviour"))) == 100


def test_the_header_is_set_against_the_entries(real):
    """Its success rate counts behaviours that were given up; its jailbreaks are another judge's."""
    conversion = JailbreakBenchReader().read(real(PAIR), make_map({}))
    given_up = said(conversion, "gave up on 36 of 100 behaviours")
    assert "true for 34: 0.340 of all, 0.531 of those tried" in given_up
    assert (
        "total_number_of_jailbreaks 50; its entries give 34 by jailbroken and 50 by "
        "jailbroken_llama_guard1" in said(conversion, "The header says")
    )


def test_the_attack_of_a_real_artifact_is_a_setting_of_its_claims(real):
    conversion = JailbreakBenchReader().read(real(PAIR), make_map({}))
    settings = conversion.targets["gpt-4-0125-preview"]
    assert settings["evaluation_llm_provider"] == "litellm"
    assert settings["attack_parameters"]["PAIR"]["n-streams"] == 30
    default, older = conversion.judges
    assert (default.name, default.model) == ("jailbroken", "Llama-3-70b-chat-hf")
    assert (older.name, older.model) == ("jailbroken_llama_guard1", "LlamaGuard-7b")


def test_exact_totals_of_the_test_artifact(real):
    """Its index is text, its header speaks of other entries, and nothing names its judge."""
    conversion = JailbreakBenchReader().read(real(TEST_ARTIFACT), make_map({}))
    assert rows(conversion, "item", "judge", "label") == [("PAIR/0", "jailbroken", "comply")]
    said(conversion, "number_of_submitted_prompts 10; its entries give 1")
    said(conversion, "attack_success_rate 0.5; its entries give 1")
    (judge,) = conversion.judges
    assert judge.model is None


def test_a_folder_of_artifacts_leaves_the_list_of_models_out(shared):
    found = expand(str(shared / "formats" / "jailbreakbench"), make_map({}), None)
    names = {type(item).__name__ for item in found if isinstance(item, Recognised)}
    assert names == {"Recognised"}
    assert [item.path.endswith(ATTACK_INFO) for item in found if isinstance(item, LeftOut)] == [
        True
    ]
    assert len(found) == 3


def test_the_list_of_models_is_no_source(real):
    assert not JailbreakBenchReader().recognises(real(ATTACK_INFO))
    with pytest.raises(InputError, match=r"is the list of models of an attack.*name the artifact"):
        JailbreakBenchReader().read(real(ATTACK_INFO), make_map({}))


def test_a_real_artifact_is_admitted_as_evidence(real):
    evidence = read_evidence(real(PAIR).location)
    assert evidence.instruments["jailbroken"].labels == {"comply", "refuse"}


def test_texts_that_a_copy_has_removed_are_none(real):
    reader = JailbreakBenchReader()
    assert isinstance(reader, TextReader)
    texts = list(reader.texts(real(PAIR), make_map({})))
    assert len(texts) == 100
    assert {(text.prompt, text.response) for text in texts} == {(None, None)}


# --- entries ----------------------------------------------------------------------------------


def test_texts_stand_under_the_keys_of_the_judgements(read, tmp_path):
    conversion = read(entry(0), entry(1, prompt=None, response=None), entry("x", response=12))
    texts = list(JailbreakBenchReader().texts(Source(str(tmp_path / "model-1.json")), make_map({})))
    assert [(t.run, t.target, t.item, t.epoch, t.prompt, t.response) for t in texts] == [
        (None, "model-1", "Ask/0", 1, "what is it", "no"),
        (None, "model-1", "Ask/1", 1, None, None),
        (None, "model-1", "Ask/x", 1, "what is it", None),
    ]
    assert {(t.target, t.item) for t in texts} == set(rows(conversion, "target", "item"))


@pytest.mark.parametrize(
    ("more", "label", "status", "reason"),
    [
        ({"jailbroken": True}, "comply", "ok", None),
        ({"prompt": 506, "response": 637, "jailbroken": True}, "comply", "ok", None),
        ({"prompt": None, "response": None}, None, "missing", "not_attempted"),
        ({"prompt": None}, None, "missing", "not_attempted"),
        ({"response": None}, None, "missing", "no_response"),
        ({"response": ""}, None, "missing", "no_response"),
        ({"jailbroken": None}, None, "missing", "grader_failed"),
    ],
)
def test_what_nobody_judged_has_a_reason(read, more, label, status, reason):
    conversion = read(entry(**more))
    assert rows(conversion, "label", "status", "reason") == [(label, status, reason)]


def test_a_judge_that_left_an_entry_out_is_missing_there(read):
    conversion = read(entry(0, jailbroken_llama_guard1=True), entry(1))
    assert rows(conversion, "judge", "label", "reason") == [
        ("jailbroken", "refuse", None),
        ("jailbroken_llama_guard1", "comply", None),
        ("jailbroken", "refuse", None),
        ("jailbroken_llama_guard1", None, "grader_failed"),
    ]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"jailbroken": "true"}, "neither true nor false"),
        ({"jailbroken": 1}, "neither true nor false"),
        ({"prompt": None, "jailbroken": True}, "there is no prompt"),
        ({"response": None, "jailbroken": True}, "there is no response"),
        ({"index": None}, "neither a number nor text"),
        ({"index": True}, "neither a number nor text"),
        ({"index": 0.5}, "neither a number nor text"),
        ({"index": "\ud800"}, "surrogate"),
        ({"behavior": ""}, "no text"),
        ({"category": None}, "no text"),
    ],
)
def test_an_entry_of_the_wrong_shape_fails_alone(read, wrong, words):
    conversion = read(entry(7), entry(**wrong))
    (failure,) = conversion.failures
    assert failure.row == 2
    assert words in failure.problem
    assert rows(conversion, "item") == ["Ask/7"]


@pytest.mark.parametrize(
    "name", ["index", "behavior", "category", "prompt", "response", "jailbroken"]
)
def test_a_field_that_is_missing_is_named(read, name):
    lacking = entry(1)
    del lacking[name]
    (failure,) = read(entry(0), lacking).failures
    assert failure.column == name
    assert "known are artifacts of release 1.0" in str(failure)


def test_a_behaviour_that_stands_twice_counts_once(read):
    conversion = read(entry(0), entry("0", jailbroken=True), "no entry")
    assert [failure.row for failure in conversion.failures] == [2, 3]
    assert rows(conversion, "label") == ["refuse"]


def test_one_behaviour_has_one_name_in_all_artifacts(read):
    conversion = read(entry(0, behavior="Human  trafficking"), entry(1, behavior="9_11 conspiracy"))
    assert rows(conversion, "behaviour") == ["Human trafficking", "September 11th conspiracy"]


# --- parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["method", "model"])
def test_an_artifact_without_a_parameter_is_refused(read, name):
    with pytest.raises(InputError, match=rf"parameters\.{name}"):
        read(entry(), parameters={name: None})


def test_a_defended_model_is_another_target(read):
    conversion = read(entry(), parameters={"defense": "SmoothLLM"})
    assert rows(conversion, "target") == ["model-1+SmoothLLM"]
    assert conversion.targets["model-1+SmoothLLM"]["defense"] == "SmoothLLM"


def test_texts_in_the_parameters_are_kept_as_digests(read):
    given = {"template": "a long text that frames the question", "tries": 3, "kind": "plain"}
    settings = read(entry(), parameters={"method_parameters": given}).targets["model-1"]
    kept = settings["attack_parameters"]["Ask"]
    assert (kept["tries"], kept["kind"]) == (3, "plain")
    assert len(kept["template"]) == 16


def test_a_parameter_whose_name_is_no_text_is_named(read):
    with pytest.raises(InputError, match="half of a surrogate pair") as caught:
        read(entry(), parameters={"method_parameters": {"\ud800": 1}})
    assert caught.value.column == "parameters.method_parameters"


def test_counts_that_agree_need_no_word(read):
    header = {
        "attack_success_rate": 0.5,
        "total_number_of_jailbreaks": 1,
        "number_of_submitted_prompts": 2,
    }
    conversion = read(entry(0), entry(1, jailbroken=True), parameters=header)
    assert len(conversion.warnings) == 1
    said(conversion, "neither of its two answers")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"models": {"m": ["manual"]}}, "list of models"),
        ({"details": {}, "m": {}}, "before it was submitted"),
        ({"summaries": {}, "test_logs": {}}, "a submission"),
        ({"parameters": {}}, "no 'jailbreaks'"),
        ({"jailbreaks": []}, "no 'parameters'"),
        ([], "no 'parameters'"),
        ({"parameters": {"model name": "m"}, "jailbreaks": [{"Index": "0"}]}, "before release 1.0"),
        ({"parameters": PARAMETERS, "jailbreaks": []}, "no behaviour"),
    ],
)
def test_other_documents_of_the_benchmark_are_named(tmp_path, document, words):
    path = tmp_path / "other.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=words):
        JailbreakBenchReader().read(Source(str(path)), make_map({}))


def test_a_folder_is_no_artifact(tmp_path):
    with pytest.raises(InputError, match="one file"):
        JailbreakBenchReader().read(Source(str(tmp_path)), make_map({}))


# --- map --------------------------------------------------------------------------------------


def test_the_map_may_take_a_column_from_a_field(read):
    conversion = read(entry(source="original"), columns={"pair": "source", "item": "goal"})
    assert rows(conversion, "pair", "item") == [("original", "be given a secret token")]
    with pytest.raises(InputError, match="which no entry has"):
        read(entry(), columns={"pair": "sauce"})


def test_an_intent_that_the_map_translates_is_left_to_the_border(read):
    by_kind = {"column": "kind", "values": {"harm": "harmful", "plain": "benign"}}
    table = read(entry(kind="plain"), intent=by_kind).judgements
    assert table["kind"].to_pylist() == ["plain"]
