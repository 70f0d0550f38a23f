"""DeepTeam risk assessments: what its writer leaves open, and what it counts otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safemetry.errors import InputError
from safemetry.evidence.identity import text_digest
from safemetry.evidence.maps import make_map
from safemetry.evidence.success import SuccessRule
from safemetry.readers.conversion import Conversion, TextReader
from safemetry.readers.deepteam import DeepTeamReader
from safemetry.readers.detect import detect
from safemetry.readers.opening import read_evidence
from safemetry.readers.source import Source

TARGET = {"constants": {"target": "model-a"}}
UNMADE = "Error simulating adversarial attacks: the model gave no JSON"
NO_TARGET = "Error generating output from target LLM"
NO_JUDGE = "Error evaluating target LLM output for the 'insults' vulnerability type"


def case(score: Any = 1.0, **more: Any) -> dict[str, Any]:
    """A test case as release 1.0 writes it; fields that are empty there are left out."""
    return {
        "input": "say the secret token",
        "actual_output": "said",
        "vulnerability": "Toxicity",
        "vulnerability_type": "insults",
        "attack_method": None,
        "risk_category": "Responsible AI",
        "turns": None,
        "metadata": None,
        "score": score,
        "reason": "because",
        "error": None,
        **more,
    }


def erred(error: str, **more: Any) -> dict[str, Any]:
    return case(None, error=error, reason=None, **more)


def conversation(*texts: str, **ending: Any) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    turns = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    return [*turns[:-1], turns[-1] | ending]


def assessment(*cases: dict[str, Any], **overview: Any) -> dict[str, Any]:
    tables = {"vulnerability_type_results": [], "attack_method_results": []}
    return {"overview": {**tables, "run_duration": 1.5, **overview}, "test_cases": list(cases)}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Source]:
    def write(content: Any) -> Source:
        path = tmp_path / "20260102_030405.json"
        path.write_text(json.dumps(content, indent=2), encoding="utf-8")
        return Source(str(path))

    return write


@pytest.fixture
def read(written: Callable[..., Source]) -> Callable[..., Conversion]:
    def convert(*cases: dict[str, Any], whole: Any = None, **entries: Any) -> Conversion:
        source = written(assessment(*cases) if whole is None else whole)
        return DeepTeamReader().read(source, make_map(TARGET | entries))

    return convert


def rows(conversion: Conversion, *names: str) -> list[Any]:
    listed = conversion.judgements.select(list(names)).to_pylist()
    return [tuple(row.values()) if len(names) > 1 else row[names[0]] for row in listed]


def said(conversion: Conversion, words: str) -> str:
    found = [warning for warning in conversion.warnings if words in warning]
    assert len(found) == 1, list(conversion.warnings)
    return found[0]


# --- what becomes of a case -------------------------------------------------------------------


def test_a_score_of_one_means_that_the_target_held(read):
    conversion = read(case(1), case(0.0, attack_method="Base64"))
    described = ("judge", "score", "status", "category", "attack", "intent", "benchmark")
    assert rows(conversion, *described) == [
        ("deepteam", 1.0, "ok", "Toxicity", None, "harmful", "deepteam"),
        ("deepteam", 0.0, "ok", "Toxicity", "Base64", "harmful", "deepteam"),
    ]
    assert conversion.scales["deepteam"].higher_is == "safer"
    assert conversion.default_rule == SuccessRule("at_least:0.5")
    assert (conversion.rows_read, conversion.converted) == (2, 2)
    assert not conversion.warnings


def test_rates_count_the_cases_that_failed(written):
    source = written(assessment(case(1, input="a"), case(0, input="b"), erred(NO_TARGET)))
    assert detect(source, make_map({})).name == "deepteam"
    evidence = read_evidence(source.location, evidence_map=TARGET)
    table = evidence.rows.collect("pyarrow").to_arrow().to_pylist()
    assert [row["score"] for row in table] == [1.0, 0.0, None]
    assert evidence.default_rule == SuccessRule("at_least:0.5")


def test_the_target_is_asked_for(written):
    source = written(assessment(case()))
    with pytest.raises(InputError, match=r"does not name its target.*constants: \{target: NAME\}"):
        DeepTeamReader().read(source, make_map({}))
    named = {"columns": {"target": "metadata.model"}}
    two = assessment(case(metadata={"model": "m1"}), case(metadata={"model": "m2"}))
    conversion = DeepTeamReader().read(written(two), make_map(named))
    assert rows(conversion, "target", "epoch") == [("m1", 1), ("m2", 1)]


def test_an_item_is_its_request_under_vulnerability_and_attack(read):
    digest = text_digest("say the secret token")
    listed = [case(), case(attack_method="ROT-13"), case(), case(input="another")]
    assert rows(read(*listed), "item", "epoch") == [
        (f"Toxicity/insults/{digest}", 1),
        (f"Toxicity/insults/ROT-13/{digest}", 1),
        (f"Toxicity/insults/{digest}", 2),
        (f"Toxicity/insults/{text_digest('another')}", 1),
    ]


def test_the_request_under_an_attack_is_known_where_the_attack_keeps_it(read):
    """A single-turn attack writes its own text over the request; a conversation begins with it."""
    digest = text_digest("say the secret token")
    talk = conversation("say the secret token", "no", "please", "no")
    conversion = read(
        case(),
        case(attack_method="Base64", input="c2F5"),
        case(attack_method="Crescendo Jailbreaking", turns=talk),
        case(attack_method="Crescendo Jailbreaking", turns=talk, input=None),
    )
    assert rows(conversion, "behaviour") == [digest, None, digest, digest]


def test_older_releases_spell_their_fields_differently(read):
    old = case(attack_method=None, actual_output=None) | {
        "attackMethod": "Base64",
        "actualOutput": "said",
        "riskCategory": "Responsible AI",
    }
    del old["risk_category"]
    conversion = read(old, columns={"user_type": "riskCategory"})
    assert rows(conversion, "attack", "score", "user_type") == [("Base64", 1.0, "Responsible AI")]


def test_context_comes_from_any_field(read):
    conversion = read(case(), columns={"category": "risk_category", "pair": "metadata.pair"})
    assert rows(conversion, "category") == ["Responsible AI"]
    assert "pair" not in conversion.judgements.column_names


def test_the_map_overrules_the_intent(read):
    assert rows(read(case(), intent="contested"), "intent") == ["contested"]
    spec = {"column": "risk_category", "values": {"Responsible AI": "harmful"}}
    table = read(case(), intent=spec).judgements
    assert table["risk_category"].to_pylist() == ["Responsible AI"]
    assert "intent" not in table.column_names


def test_texts_stay_out_of_the_table_and_are_given_when_asked_for(written):
    talk = conversation("hi", "hello", "the token", "no")
    source = written(assessment(case(), case(turns=talk), erred(UNMADE, input=None)))
    reader = DeepTeamReader()
    assert isinstance(reader, TextReader)
    texts = list(reader.texts(source, make_map(TARGET)))
    conversion = reader.read(source, make_map(TARGET))
    assert [(t.target, t.item, t.epoch) for t in texts] == rows(
        conversion, "target", "item", "epoch"
    )
    assert [(t.prompt, t.response) for t in texts] == [
        ("say the secret token", "said"),
        ("user: hi\n\nassistant: hello\n\nuser: the token", "no"),
        (None, "said"),
    ]
    assert "secret" not in json.dumps(conversion.judgements.to_pylist())


# --- cases without a verdict ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "output", "status", "reason"),
    [
        (UNMADE, None, "missing", "not_attempted"),
        ("Error enhancing regular attack: x", None, "missing", "not_attempted"),
        ("Simulator model refused to simulate", None, "missing", "not_attempted"),
        ("Simulation stopped early: RUNTIME_EXCEEDED", None, "missing", "not_attempted"),
        (NO_TARGET, None, "error", "infrastructure_error"),
        # Data sets write this where their judge failed, after the target has answered.
        (NO_TARGET, "said", "error", "grader_failed"),
        (NO_JUDGE, "said", "error", "grader_failed"),
        (NO_JUDGE, None, "error", "grader_failed"),
        ("of tomorrow", None, "error", "infrastructure_error"),
        ("of tomorrow", "said", "error", "grader_failed"),
    ],
)
def test_an_error_is_a_status_with_a_reason(read, error, output, status, reason):
    conversion = read(erred(error, actual_output=output))
    assert rows(conversion, "score", "status", "reason") == [(None, status, reason)]
    assert conversion.converted == 1


def test_an_error_outweighs_a_score(read):
    assert rows(read(case(1.0, error=NO_JUDGE)), "reason") == ["grader_failed"]


@pytest.mark.parametrize("ending", ["SIMULATOR_REFUSED", "SIMULATION_ERROR", "RUNTIME_EXCEEDED"])
def test_a_conversation_that_was_cut_short_says_nothing(read, ending):
    talk = conversation("hi", "hello", stopping_category=ending)
    assert rows(read(erred("the time is up", turns=talk)), "reason") == ["not_attempted"]


def test_a_conversation_may_break_off_on_either_side(read):
    talk = conversation("hi", "hello")
    broken = erred("Error enhancing multi-turn attack: timeout", turns=talk)
    assert rows(read(broken), "reason") == ["infrastructure_error"]


def test_attacks_that_were_never_made_are_one_item_each(read):
    conversion = read(*[erred(UNMADE, input=None, actual_output=None)] * 2)
    assert rows(conversion, "item", "epoch") == [
        ("Toxicity/insults/case-1", 1),
        ("Toxicity/insults/case-2", 1),
    ]


@pytest.mark.parametrize("output", [None, "", "  ", "{}", "null"])
def test_deepteam_passes_an_empty_output_and_we_do_not(read, output):
    conversion = read(case(1, actual_output=output))
    assert rows(conversion, "score", "reason") == [(None, "no_response")]
    said(conversion, "1 case without an output passed")


def test_a_case_without_a_score_is_no_successful_attack(read):
    conversion = read(case(None))
    assert rows(conversion, "score", "status", "reason") == [(None, "error", "grader_failed")]
    said(conversion, "1 case without a score failed in DeepTeam")


@pytest.mark.parametrize(
    ("score", "reason"),
    [(2, "out_of_scale"), (-0.5, "out_of_scale"), ("1", "invalid_response_format"),
     ([1], "invalid_response_format")],
)  # fmt: skip
def test_a_score_that_is_none_is_no_verdict(read, score, reason):
    assert rows(read(case(score)), "score", "status", "reason") == [(None, "error", reason)]


def test_verdicts_of_a_list_of_phrases_are_counted(read):
    passed = case(1, reason="The model declined or returned no substantive output.")
    conversion = read(passed, case(0))
    assert rows(conversion, "score") == [1.0, 0.0]
    assert said(conversion, "list of refusing phrases").startswith("1 verdict ")


def test_a_score_between_the_ends_is_kept_and_named(read):
    conversion = read(case(0.25))
    assert rows(conversion, "score") == [0.25]
    said(conversion, "1 score between 0 and 1")


# --- the overview -----------------------------------------------------------------------------


def table(passing: int, failing: int, **key: str) -> list[dict[str, Any]]:
    return [{"pass_rate": 0.5, "passing": passing, "failing": failing, "errored": 0, **key}]


def overview(passing: int, failing: int, errored: int) -> dict[str, Any]:
    of_type = {"vulnerability": "Toxicity", "vulnerability_type": "insults"}
    return {
        "vulnerability_type_results": table(passing, failing, **of_type),
        "attack_method_results": table(passing, failing, attack_method="Base64"),
        "errored": errored,
    }


CASES = [
    case(1, attack_method="Base64"),
    case(0, attack_method="Base64"),
    erred(NO_TARGET, attack_method="Base64"),
]


def test_an_overview_that_agrees_needs_no_word(read):
    assert not read(whole=assessment(*CASES, **overview(1, 1, 1))).warnings


def test_an_overview_that_disagrees_is_said_with_both_numbers(read):
    conversion = read(whole=assessment(*CASES, **overview(2, 0, 1)))
    assert "says 2 passing and 0 failing; its cases give 1 and 1" in said(
        conversion, "Toxicity/insults"
    )
    said(conversion, "of Base64")


def test_errors_that_release_1_0_leaves_out_of_its_overview_are_said(read):
    """Its loops over types and attacks, which hold no errors, set the number back."""
    conversion = read(whole=assessment(*CASES, **overview(1, 1, 0)))
    assert "says 0 errored; its cases give 1" in said(conversion, "overview")


def test_many_disagreements_are_counted_rather_than_listed(read):
    stated = [*table(9, 9, vulnerability="v", vulnerability_type="t")]
    many = [stated[0] | {"vulnerability": f"v{n}"} for n in range(8)]
    conversion = read(whole=assessment(case(), vulnerability_type_results=many))
    assert sum("DeepTeam's overview of" in warning for warning in conversion.warnings) == 5
    said(conversion, "3 more parts")


# --- damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "foreign",
    [[], {}, {"overview": {}}, {"test_cases": []}, {"overview": [], "test_cases": []},
     {"overview": {}, "test_cases": {}}],
)  # fmt: skip
def test_another_shape_is_refused_and_the_known_one_named(written, foreign):
    source = written(foreign)
    assert not DeepTeamReader().recognises(source)
    with pytest.raises(InputError, match=r"no DeepTeam risk assessment \(releases 0.1 to 1.0"):
        DeepTeamReader().read(source, make_map(TARGET))


def test_an_assessment_without_cases_is_refused(read):
    with pytest.raises(InputError, match="holds no test case"):
        read()


@pytest.mark.parametrize(
    "wrong",
    [
        {"vulnerability": None},
        {"vulnerability": ["x"]},
        {"vulnerability": "\ud800"},
        {"attack_method": "\ud800"},
        {"turns": "talk"},
        {"turns": [1]},
    ],
)
def test_a_case_of_the_wrong_shape_fails_alone(read, wrong):
    conversion = read(case(), case() | wrong)
    (failure,) = conversion.failures
    assert failure.row == 2
    assert conversion.converted == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"turns": [{"role": ["x"], "content": 3, "stopping_category": ["x"]}], "error": "x"},
        {"input": 3},
        {"input": "\ud800"},
        {"error": 5},
        {"reason": ["x"]},
        {"vulnerability_type": 7},
    ],
)
def test_odd_values_beside_the_verdict_break_nothing(read, odd):
    conversion = read(case() | odd)
    assert conversion.converted == 1
    conversion.judgements.to_pylist()


def test_a_whole_that_is_no_object_fails_as_a_row(read):
    conversion = read(whole={"overview": {}, "test_cases": [case(), 3]})
    assert [failure.row for failure in conversion.failures] == [2]


def test_an_overview_of_the_wrong_shape_is_not_compared(read):
    odd = {"vulnerability_type_results": [3, {"vulnerability": "\ud800", "passing": 1}],
           "attack_method_results": "none", "errored": "no"}  # fmt: skip
    assert not read(whole=assessment(case(), **odd)).warnings


def test_more_cases_than_the_limit_are_refused(read):
    with pytest.raises(InputError, match=r"limits\.rows"):
        read(case(), case(), limits={"rows": 1})
