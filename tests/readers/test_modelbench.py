"""Journals of modelbench: a whole run, and what failures, repeats and releases make of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conversions import rows, said

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity, text_digest
from safemetry.evidence.maps import make_map
from safemetry.evidence.success import SuccessRule
from safemetry.rates import measure_rates
from safemetry.readers import read_evidence
from safemetry.readers.conversion import TextReader
from safemetry.readers.modelbench import ModelBenchReader
from safemetry.readers.source import Source

RUN = "run-20250102-030405-000006"
BENCHMARK = "general_purpose_ai_chat_benchmark-1.1-en_us-demo-ensemble"
TEST = "safe-vcr-en_us-demo-1.1"
HAZARD = "safe_hazard-1.1-vcr-en_us-demo"
JUDGES = ("guard-a", "guard-b")
NAME = f"journal-{RUN}.jsonl"
ZSTANDARD = b"\x28\xb5\x2f\xfd"

Entry = dict[str, Any]


def entry(message: str, **more: Any) -> Entry:
    """One event, with the fields that every entry has."""
    where = {"class": "TestRunItem", "method": "handle_item"}
    return {"timestamp": "2025-01-02T03:04:05+00:00", "message": message, **where, **more}


def start(suts: list[str], tests: list[str] = [TEST]) -> list[Entry]:  # noqa: B006 - never changed
    run = {"run_id": RUN, "benchmarks": [BENCHMARK], "tests": tests, "suts": suts}
    return [
        entry("starting journal"),
        entry("starting run", **run, max_items=9, thread_count=1),
        entry("hazard info", hazard=HAZARD, benchmark=BENCHMARK, tests=tests),
        *(entry("test info", test=test, sut_options={"temperature": 0.01}) for test in tests),
        entry("running pipeline"),
    ]


def end(*scores: Entry) -> list[Entry]:
    return [
        entry("finished pipeline", time=1.5, total_finished=1),
        *scores,
        entry("benchmark scored", benchmark=BENCHMARK, numeric_grade=3, text_grade="G"),
        entry("finished run", run_id=RUN),
        entry("cache info", type="sut_cache"),
        entry("closing journal"),
    ]


def asked(prompt: str = "p1", sut: str = "target-a", test: str = TEST) -> Entry:
    return {"test": test, "prompt_id": prompt, "sut": sut}


def answered(response: str = "said", **key: str) -> list[Entry]:
    """A prompt that is queued and answered."""
    sent = asked(**key)
    return [
        entry("queuing item", **sent, prompt_text=f"ask {sent['prompt_id']}"),
        entry("fetched sut response", **sent, run_time=0.1, response={"text": response}),
        entry("translated sut response", **sent, response_text=response),
    ]


def annotated(judge: str, annotation: Any, **key: str) -> list[Entry]:
    graded = {**asked(**key), "annotator": judge}
    return [
        entry("fetched annotator response", **graded, run_time=0.1, response={"text": "S"}),
        entry("translated annotation", **graded, annotation=annotation),
    ]


def measured(is_safe: Any, **key: str) -> Entry:
    return entry("measured item quality", **asked(**key), measurements={"is_safe": is_safe})


def item(*verdicts: bool, is_safe: float | None = None, **key: Any) -> list[Entry]:
    """A prompt from its queue to its measurement, which is the majority of its annotators."""
    majority = float(2 * sum(verdicts) > len(verdicts))
    response = key.pop("response", "said")
    return [
        *answered(response, **key),
        *(
            line
            for judge, verdict in zip(JUDGES, verdicts, strict=False)
            for line in annotated(judge, {"is_safe": verdict}, **key)
        ),
        measured(majority if is_safe is None else is_safe, **key),
        entry("item finished", **asked(**key)),
    ]


def scored(score: float, sut: str = "target-a", **more: Any) -> Entry:
    summary = {"benchmark": BENCHMARK, "hazard": HAZARD, "sut": sut, "score": score}
    return entry("hazard scored", **summary, reference=0.9, samples=1, **more)


def journal(*lines: Entry, scores: tuple[Entry, ...] = (), suts: tuple[str, ...] = ("target-a",)):
    return [*start(list(suts)), *lines, *end(*scores)]


@pytest.fixture
def write(tmp_path):
    def put(entries: list[Any], name: str = NAME) -> Path:
        path = tmp_path / name
        texts = [line if isinstance(line, str) else json.dumps(line) for line in entries]
        path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        return path

    return put


@pytest.fixture
def read(write):
    def put(*lines: Entry, **more: Any):
        return convert(write(journal(*lines, **more)))

    return put


def convert(path: Path, **entries: Any):
    evidence_map = make_map(entries)
    return ModelBenchReader().read(Source(str(path), evidence_map.limits), evidence_map)


# --- a whole run ------------------------------------------------------------------------------


def test_a_whole_run_accounts_for_every_entry(read):
    conversion = read(*item(True, False), *item(True, True, prompt="p2"), scores=(scored(0.5),))
    assert conversion.rows_read == 5 + 2 * 9 + 6
    assert conversion.converted == 6
    assert dict(conversion.skipped) == {
        "start of a run": 2,
        "settings of a run": 2,
        "progress of a run": 3,
        "prompt sent (judged in later lines)": 2,
        "response before translation": 2,
        "response of a target": 2,
        "annotator response before translation": 4,
        "end of an item": 2,
        "summary of a hazard": 1,
        "summary of a benchmark": 1,
        "end of a run": 2,
    }
    assert not conversion.failures
    assert not conversion.warnings
    assert rows(conversion, "item", "judge", "score") == [
        (f"{TEST}/p1", "guard-a", 1.0),
        (f"{TEST}/p1", "guard-b", 0.0),
        (f"{TEST}/p1", "measurement", 0.0),
        (f"{TEST}/p2", "guard-a", 1.0),
        (f"{TEST}/p2", "guard-b", 1.0),
        (f"{TEST}/p2", "measurement", 1.0),
    ]
    context = ("run", "target", "benchmark", "category", "intent", "language", "status")
    assert set(rows(conversion, *context)) == {
        (RUN, "target-a", BENCHMARK, "vcr", "harmful", "en-US", "ok")
    }
    assert rows(conversion, "behaviour")[0] == text_digest("ask p1")
    assert conversion.targets == {"target-a": {"temperature": 0.01}}
    assert conversion.default_rule == SuccessRule("at_least:1")


def test_unsafe_responses_are_attacks_that_succeed(write):
    path = write(journal(*item(True, False), *item(True, True, prompt="p2")))
    claims = measure_rates(read_evidence(str(path))).claims
    attacks = [claim for claim in claims if claim.metric == "attack_success_rate"]
    assert {claim.scope.judge: (claim.events, claim.trials) for claim in attacks} == {
        "guard-a": (0, 2),
        "guard-b": (1, 2),
        "measurement": (1, 2),
    }


def test_the_measurement_is_a_judge_made_of_its_annotators(read):
    conversion = read(*item(True, False))
    assert list(conversion.judges) == [
        JudgeIdentity(name="guard-a", parser="modelbench"),
        JudgeIdentity(name="guard-b", parser="modelbench"),
        JudgeIdentity(name="measurement", aggregation="modelbench, of guard-a, guard-b"),
    ]
    assert {scale.higher_is for scale in conversion.scales.values()} == {"safer"}
    assert set(conversion.scales) == {"guard-a", "guard-b", "measurement"}


def test_members_of_an_ensemble_are_judges_too(read):
    joined = {"x": {"is_safe": False}, "y": {"is_safe": True, "is_valid": False}}
    conversion = read(
        *answered(),
        *annotated("panel", {"is_safe": False, "joined_responses": joined}),
        measured(0.0),
        *answered(prompt="p2"),
        *annotated("panel", {"is_safe": True, "joined_responses": {"y": {"is_safe": True}}},
                   prompt="p2"),
        measured(1.0, prompt="p2"),
    )  # fmt: skip
    verdicts = {(i[-2:], j): (s, why) for i, j, s, why in
                rows(conversion, "item", "judge", "score", "reason")}  # fmt: skip
    assert verdicts == {
        ("p1", "panel"): (0.0, None),
        ("p1", "panel/x"): (0.0, None),
        ("p1", "panel/y"): (None, "invalid_response_format"),
        ("p1", "measurement"): (0.0, None),
        ("p2", "panel"): (1.0, None),
        ("p2", "panel/x"): (None, "grader_failed"),
        ("p2", "panel/y"): (1.0, None),
        ("p2", "measurement"): (1.0, None),
    }


def test_targets_are_kept_apart(read):
    conversion = read(*item(True), *item(False, sut="target-b"), suts=("target-a", "target-b"))
    assert rows(conversion, "target", "judge", "score") == [
        ("target-a", "guard-a", 1.0),
        ("target-a", "measurement", 1.0),
        ("target-b", "guard-a", 0.0),
        ("target-b", "measurement", 0.0),
    ]


def without_sut(lines: list[Entry]) -> list[Entry]:
    return [{name: value for name, value in line.items() if name != "sut"} for line in lines]


def test_releases_with_one_target_a_run_name_it_at_the_start_only(read):
    conversion = read(*without_sut(item(True)), scores=(scored(1.0),))
    assert set(rows(conversion, "target")) == {"target-a"}
    assert not conversion.warnings


def test_an_entry_without_a_target_fails_where_there_are_several(read):
    conversion = read(
        *item(True, sut="target-b"), *without_sut(answered()), suts=("target-a", "target-b")
    )
    assert [failure.column for failure in conversion.failures] == ["sut"] * 3


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("safe-vcr-1.0", ("vcr", None, "harmful", None)),
        ("safe-sxc_prn-fr_fr-practice-1.0-private", ("sxc_prn", None, "harmful", "fr-FR")),
        ("security-jailbreak-zh_cn-official-0.5", (HAZARD, "jailbreak", "harmful", "zh-CN")),
        ("demo_01", (HAZARD, None, None, None)),
    ],
)
def test_the_uid_of_a_test_says_what_its_prompts_are(write, test, expected):
    lines = [*start(["target-a"], [test]), *item(True, test=test), *end()]
    conversion = convert(write(lines))
    names = conversion.judgements.column_names
    wanted = ("category", "attack", "intent", "language")
    found = tuple(rows(conversion, name)[0] if name in names else None for name in wanted)
    assert found == expected


def test_a_test_of_several_hazards_gives_no_category(write):
    more = entry("hazard info", hazard="other", benchmark=BENCHMARK, tests=["demo_01"])
    lines = [*start(["target-a"], ["demo_01"]), more, *item(True, test="demo_01"), *end()]
    assert "category" not in convert(write(lines)).judgements.column_names


def test_the_map_overrules_the_intent(write):
    path = write(journal(*item(True)))
    evidence = read_evidence(str(path), evidence_map={"intent": "contested"})
    assert set(evidence.items["intent"].to_pylist()) == {"contested"}


def test_prompt_ids_of_any_kind(read):
    conversion = read(*item(True, prompt=7), *item(True, prompt="질문 🙂"))
    assert set(rows(conversion, "item")) == {f"{TEST}/7", f"{TEST}/질문 🙂"}


# --- what is no verdict -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "score", "status", "reason"),
    [
        ({"is_safe": True}, 1.0, "ok", None),
        ({"is_safe": False, "is_valid": True}, 0.0, "ok", None),
        ({"is_safe": False, "is_valid": False}, None, "error", "invalid_response_format"),
        ({"is_safe": True, "is_valid": None}, None, "error", "invalid_response_format"),
        ({"is_safe": 0.5}, None, "error", "invalid_response_format"),
        ({"badness": 1.0}, None, "error", "invalid_response_format"),
    ],
)
def test_an_annotation_says_safe_or_is_no_verdict(read, annotation, score, status, reason):
    conversion = read(
        *item(True, True),
        *answered(prompt="p2"),
        *annotated("guard-a", annotation, prompt="p2"),
        *annotated("guard-b", {"is_safe": True}, prompt="p2"),
        measured(1.0, prompt="p2"),
    )
    found = rows(conversion, "item", "judge", "score", "status", "reason")
    assert found[3] == (f"{TEST}/p2", "guard-a", score, status, reason)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("NaN", "scoring_failed"),
        ("null", "scoring_failed"),
        ('"1"', "scoring_failed"),
        ("1.5", "out_of_scale"),
        ("-1", "out_of_scale"),
    ],
)
def test_a_measurement_is_between_0_and_1_or_no_verdict(write, written, reason):
    lines = [json.dumps(line) for line in journal(*item(True), *item(True, prompt="p2"))]
    at = max(n for n, line in enumerate(lines) if "measurements" in line)
    lines[at] = lines[at].replace('{"is_safe": 1.0}', '{"is_safe": %s}' % written)  # noqa: UP031
    conversion = convert(write(lines))
    assert rows(conversion, "judge", "score", "status", "reason")[-1] == (
        "measurement",
        None,
        "error",
        reason,
    )


def test_an_annotator_that_fails_is_missing_with_its_measurement(read):
    graded = {**asked(), "annotator": "guard-b"}
    conversion = read(
        *item(True, True, prompt="p0"),
        *answered(),
        *annotated("guard-a", {"is_safe": True}),
        entry("annotator exception", **graded, exception={"class": "E", "message": "a secret"}),
        measured(1.0),
        entry("item failed", **asked(), fatal_exceptions=1),
        scores=(scored(1.0),),
    )
    assert rows(conversion, "judge", "score", "status", "reason")[3:] == [
        ("guard-a", 1.0, "ok", None),
        ("guard-b", None, "error", "grader_failed"),
        ("measurement", None, "error", "grader_failed"),
    ]
    said(conversion, "1 item failed in the run")
    assert "a secret" not in repr(conversion)


def test_a_measurement_that_fails_is_missing(read):
    conversion = read(
        *item(True, prompt="p0"),
        *answered(),
        *annotated("guard-a", {"is_safe": True}),
        entry("annotation exception", **asked(), exception={"class": "E"}),
        entry("item failed", **asked()),
    )
    assert rows(conversion, "judge", "reason")[2:] == [
        ("guard-a", None),
        ("measurement", "scoring_failed"),
    ]


def test_a_target_that_fails_leaves_every_judge_without_a_verdict(read):
    sent = answered()[:1]
    conversion = read(
        *sent,
        entry("sut exception", **asked(), exception={"class": "Timeout"}),
        entry("item failed", **asked()),
        *item(True, True, prompt="p2"),
    )
    assert rows(conversion, "item", "judge", "score", "status", "reason")[:3] == [
        (f"{TEST}/p1", judge, None, "error", "infrastructure_error")
        for judge in ("guard-a", "guard-b", "measurement")
    ]
    assert conversion.converted == 1 + 3


def test_a_response_that_a_judge_never_graded_is_missing(read):
    conversion = read(
        *item(True, True), *answered(prompt="p2"), *annotated("guard-a", {"is_safe": True},
                                                              prompt="p2"),
    )  # fmt: skip
    missing = {judge: why for judge, why in rows(conversion, "judge", "reason") if why}
    assert missing == {"guard-b": "not_attempted", "measurement": "not_attempted"}
    said(conversion, "guard-b never graded 1 response")
    said(conversion, "measurement never graded 1 response")


def test_a_prompt_that_was_queued_and_forgotten_is_missing(read):
    conversion = read(*item(True), *answered(prompt="p2")[:1])
    assert rows(conversion, "item", "judge", "reason")[2:] == [
        (f"{TEST}/p2", "guard-a", "not_attempted"),
        (f"{TEST}/p2", "measurement", "not_attempted"),
    ]
    said(conversion, "2 verdicts are missing (not_attempted)")


def test_a_measurement_that_rests_on_no_valid_verdict_is_missing(read):
    invalid = {"is_safe": False, "is_valid": False}
    conversion = read(
        *item(True, True, prompt="p0"),
        *answered(),
        *(line for judge in JUDGES for line in annotated(judge, invalid)),
        measured(0.0),
        scores=(scored(0.5),),
    )
    assert rows(conversion, "judge", "reason")[-1] == ("measurement", "grader_failed")
    # modelbench counts it as unsafe, and its own figure is compared on its own terms.
    said(conversion, "1 item have a measurement but no valid verdict")
    assert not any("scores" in warning for warning in conversion.warnings[1:])


def test_empty_responses_count_as_modelbench_counts_them_and_are_told(read):
    overruled = entry("overrode item quality", **asked(), old_measurements={"is_safe": 0.0})
    conversion = read(
        *answered(""),
        *annotated("guard-a", {"is_safe": False}),
        overruled,
        measured(1.0),
        *item(True, prompt="p2", response=" "),
    )
    assert rows(conversion, "judge", "score")[:2] == [("guard-a", 0.0), ("measurement", 1.0)]
    said(conversion, "2 responses of the targets are empty")
    said(conversion, "1 of them against its annotators")


def test_annotators_that_never_say_safe_judge_nothing(read):
    conversion = read(
        *answered(), *annotated("length", {"words": 4}), *annotated("guard-a", {"is_safe": True})
    )
    assert rows(conversion, "judge") == ["guard-a"]
    assert conversion.skipped["annotation without is_safe"] == 1
    said(conversion, "Left out: length")


def test_prompts_of_a_test_without_judges_are_skipped_aloud(read):
    conversion = read(*item(True), *answered(test="demo_02"))
    assert set(rows(conversion, "item")) == {f"{TEST}/p1"}
    said(conversion, "1 prompt belong to tests that nothing graded")


# --- each step once ---------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(9))
def test_a_step_that_happens_twice_is_named(read, step):
    lines = item(True, False)
    conversion = read(*lines, lines[step])
    (failure,) = conversion.failures
    assert "p1" in str(failure)
    assert "before" in str(failure) or "second time" in str(failure)
    assert failure.row == 5 + len(lines) + 1
    assert conversion.judgements.equals(read(*lines).judgements)


def test_two_verdicts_that_differ_do_not_outvote_each_other(read):
    lines = item(True)
    conversion = read(*lines, annotated("guard-a", {"is_safe": False})[1])
    assert "'guard-a' grades prompt" in str(conversion.failures[0])
    assert rows(conversion, "judge", "score")[0] == ("guard-a", 1.0)


def test_a_response_from_the_cache_is_a_response(read):
    lines = item(True)
    lines[1]["message"] = "using cached sut response"
    lines[3]["message"] = "using cached annotator response"
    assert not read(*lines).failures
    both = read(*lines, entry("fetched sut response", **asked()))
    assert len(both.failures) == 1


@pytest.mark.parametrize("step", range(1, 9))
def test_a_step_of_a_prompt_that_was_never_queued_fails(read, step):
    conversion = read(*item(True, True), item(True, True, prompt="p9")[step])
    (failure,) = conversion.failures
    assert "never queued" in str(failure)


# --- the journal's own figures ----------------------------------------------------------------


def test_a_hazard_score_that_differs_is_said_with_both_numbers(read):
    conversion = read(*item(True), *item(False, prompt="p2"), scores=(scored(0.75),))
    assert said(conversion, "scores target-a") == (
        f"{HAZARD}: the journal scores target-a with 0.7500, its items give 0.5000 of 2 safe; the "
        "items are kept."
    )


def test_hazards_are_compared_for_each_target(read):
    conversion = read(
        *item(True),
        *item(False, sut="target-b"),
        suts=("target-a", "target-b"),
        scores=(scored(1.0), scored(1.0, sut="target-b")),
    )
    said(conversion, "scores target-b with 1.0000")


def test_calibrations_are_compared_too(write):
    lines = journal(*item(True), scores=({**scored(0.0), "message": "hazard calibrated"},))
    lines[1]["message"] = "starting calibration run"
    lines[-3]["message"] = "finished calibration run"
    said(convert(write(lines)), "scores target-a with 0.0000")


def test_hazards_that_share_a_test_are_not_compared(write):
    lines = journal(*item(True), scores=(scored(0.0),))
    lines.insert(3, entry("hazard info", hazard="other", benchmark=BENCHMARK, tests=[TEST]))
    assert not convert(write(lines)).warnings


@pytest.mark.parametrize(
    ("message", "more"),
    [
        ("hazard info", {"benchmark": "\ud800", "hazard": HAZARD, "tests": [TEST]}),
        ("hazard info", {"hazard": "\ud800", "benchmark": BENCHMARK, "tests": [TEST]}),
        ("hazard info", {"tests": ["\ud800"], "benchmark": BENCHMARK, "hazard": HAZARD}),
        ("hazard scored", {"sut": "\ud800", "score": 0.5}),
        ("hazard scored", {"hazard": "\ud800", "score": 0.5}),
        ("test scored", {"test": "\ud800", "sut": "target-a", "items_finished": 9}),
        ("using test items", {"test": "\ud800", "using": 9}),
    ],
)
def test_a_name_that_is_no_text_fails_its_entry(read, message, more):
    conversion = read(*item(True), scores=(entry(message, **more),))
    (failure,) = conversion.failures
    assert failure.problem == "holds half of a surrogate pair, which is no text"
    assert failure.column == next(name for name in more if "\ud800" in more[name])
    assert failure.row
    assert failure.fix
    assert not any("\ud800" in warning for warning in conversion.warnings)


def test_counts_of_finished_items_and_of_prompts_are_compared(read):
    conversion = read(
        entry("using test items", test=TEST, using=3, total=3),
        *item(True),
        scores=(entry("test scored", test=TEST, sut="target-a", items_finished=2),),
    )
    said(conversion, "announced 3 prompts, and 1 were sent")
    said(conversion, "counts 2 finished items of target-a, its entries give 1")


def test_many_disagreements_are_told_in_few_sentences(read):
    scores = [entry("test scored", test=f"t{n}", sut="target-a", items_finished=2)
              for n in range(9)]  # fmt: skip
    conversion = read(*item(True), scores=tuple(scores))
    assert len(conversion.warnings) == 6
    assert conversion.warnings[-1] == "4 more figures of the journal differ."


# --- broken, joined and foreign journals ------------------------------------------------------


def test_a_run_that_did_not_end_says_so(write):
    lines = [*start(["target-a"]), *item(True)]
    said(convert(write(lines)), "did not reach its end:")
    stopped = [*lines, entry("exception stopping run", exc_type="<class 'E'>")]
    said(convert(write(stopped)), "(an exception stopped it)")


def test_entries_of_an_unknown_kind_are_counted(read):
    conversion = read(entry("of tomorrow"), *item(True), entry("and the day after"))
    assert conversion.skipped["entry of an unknown kind"] == 2
    said(conversion, "2 entries of an unknown kind")


def test_two_journals_in_one_file_are_refused_at_the_second(read):
    conversion = read(*item(True), *start(["target-a"])[:2])
    assert ["second run" in str(failure) for failure in conversion.failures] == [True, True]


@pytest.mark.parametrize(
    "wrong",
    [
        {"test": None},
        {"test": ""},
        {"prompt_id": None},
        {"prompt_id": True},
        {"prompt_id": "\ud800"},
        {"annotator": None},
        {"annotator": 3},
        {"annotation": None},
        {"annotation": [True]},
        {"message": None},
        {"message": ["x"]},
        {"sut": 4},
    ],
)
def test_an_entry_of_the_wrong_shape_fails_alone(read, wrong):
    lines = item(True)
    lines[4] = {**lines[4], **wrong}
    conversion = read(*lines)
    (failure,) = conversion.failures
    assert failure.row == 10
    assert "\n" not in str(failure)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["[]"], "no entry of a modelbench journal"),
        (['{"message": "hello"}'], "does not begin with 'starting journal'"),
        (["{"], "damaged"),
        ([entry("starting journal")], "holds no prompt"),
        ([entry("starting journal"), "{"], r"1 line failed"),
    ],
)
def test_a_file_of_something_else_is_refused(write, lines, words):
    with pytest.raises(InputError, match=words):
        convert(write(lines))


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        convert(tmp_path)


def test_too_many_entries_are_refused(write):
    with pytest.raises(InputError, match=r"limits\.rows"):
        convert(write(journal(*item(True))), limits={"rows": 5})


def test_texts_of_prompts_and_responses_stay_in_the_journal(read):
    conversion = read(*item(True, response="a response"))
    assert "a response" not in repr(conversion.judgements.to_pylist())
    assert "ask p1" not in repr(conversion.judgements.to_pylist())


# --- compression ------------------------------------------------------------------------------


def compressed(path: Path, *contents: bytes) -> Path:
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(b"".join(pa.compress(text, "zstd", asbytes=True) for text in contents))
    return packed


def test_a_compressed_journal_is_the_same_journal(write):
    plain = write(journal(*item(True, False)))
    packed = compressed(plain, plain.read_bytes())
    assert ModelBenchReader().recognises(Source(str(packed)))
    one, two = convert(plain), convert(packed)
    # Only the name of the file differs.
    assert one.judgements.drop_columns("source_file").equals(
        two.judgements.drop_columns("source_file")
    )
    assert dict(one.skipped) == dict(two.skipped)
    text = [(t.prompt, t.response) for t in ModelBenchReader().texts(Source(str(packed)),
                                                                     make_map({}))]  # fmt: skip
    assert text == [("ask p1", "said")]


def test_a_journal_in_several_frames_is_read_to_its_end(write):
    plain = write(journal(*item(True, False)))
    content = plain.read_bytes()
    packed = compressed(plain, content[:500], content[500:])
    assert convert(packed).rows_read == convert(plain).rows_read


@pytest.mark.parametrize("lost", [1, 3, 20])
def test_a_compressed_journal_cut_short_is_refused(write, lost):
    plain = write(journal(*item(True, False)))
    packed = compressed(plain, plain.read_bytes())
    packed.write_bytes(packed.read_bytes()[:-lost])
    with pytest.raises(InputError, match=r"jsonl\.zst: is damaged or cut short.*zstd -d"):
        convert(packed)


def test_bytes_after_a_compressed_journal_are_refused(write):
    plain = write(journal(*item(True, False)))
    packed = compressed(plain, plain.read_bytes())
    packed.write_bytes(packed.read_bytes() + b"more")
    with pytest.raises(InputError, match="is damaged"):
        convert(packed)


@pytest.mark.parametrize("limit", ["expanded_bytes", "table_bytes", "line_bytes"])
def test_limits_hold_for_what_a_journal_expands_to(write, limit):
    plain = write(journal(*item(True, False)))
    packed = compressed(plain, plain.read_bytes())
    with pytest.raises(InputError, match=rf"limits\.{limit}"):
        convert(packed, limits={limit: 20})


def test_a_small_file_that_expands_without_end_is_refused(write):
    plain = write(journal(*item(True)))
    packed = compressed(plain, plain.read_bytes() + b" " * 5_000_000)
    with pytest.raises(InputError, match=r"200 times its size.*limits\.expansion"):
        convert(packed)


@pytest.mark.parametrize(
    "content", [b"", ZSTANDARD, ZSTANDARD + b"xx", pa.compress(b"x", "zstd", asbytes=True)]
)
def test_other_compressed_files_are_not_taken_for_journals(tmp_path, content):
    path = tmp_path / "other.zst"
    path.write_bytes(content)
    assert not ModelBenchReader().recognises(Source(str(path)))


# --- texts ------------------------------------------------------------------------------------


def test_texts_are_those_of_the_judged_responses(write):
    lines = [*item(True, response="one"), *answered(prompt="p2")[:1],
             *item(True, prompt="p3", response="three"), *answered(test="demo_02")]  # fmt: skip
    path = write([*journal(*lines), "damaged"])
    reader = ModelBenchReader()
    assert isinstance(reader, TextReader)
    texts = list(reader.texts(Source(str(path)), make_map({})))
    assert [(text.prompt, text.response) for text in texts] == [
        ("ask p1", "one"),
        ("ask p3", "three"),
        ("ask p2", None),
    ]
    conversion = convert(path)
    assert {(text.run, text.target, text.item) for text in texts} == set(
        rows(conversion, "run", "target", "item")
    )
    assert {text.epoch for text in texts} == {1}
