"""Records of Every Eval Ever say what the evidence says, and read back as the same judgements."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.schema import NAMES
from safemetry.evidence.success import SuccessRule
from safemetry.rates import measure_rates
from safemetry.rates.every_eval_ever import export_records
from safemetry.readers import import_sources, read_evidence

SOURCE_COLUMNS = {"source_file", "source_row"}
MAP = {
    "classes": ["refuse", "evasive", "comply"],
    "judges": {"severity": {"scale_min": 1, "scale_max": 5, "higher_is": "worse"}},
}


def row(item: str = "i1", **more: Any) -> dict[str, Any]:
    given = dict.fromkeys(NAMES) | {
        "run": "run-1",
        "target": "maker/model-1",
        "item": item,
        "epoch": 1,
        "judge": "grader",
        "call": 1,
        "label": "refuse",
        "status": "ok",
        "benchmark": "harmless",
        "intent": "harmful",
    }
    if "score" in more or more.get("status", "ok") != "ok":
        given["label"] = None
    return given | more


def everything() -> list[dict[str, Any]]:
    """Targets, runs, judges, epochs, calls, verdicts of every kind, and every context column."""
    labels = itertools.cycle(["refuse", "comply", "evasive", "gibberish", "comply"])
    scores = itertools.cycle([1.0, 2.5, 0.1 + 0.2 + 3, 5.0])
    rows = []
    for target, number, epoch in itertools.product(("maker/model-1", "flat"), range(4), (1, 2)):
        harmful = number % 2 == 0
        context = {
            "target": target,
            "run": f"run of {target}",
            "epoch": epoch,
            "category": "fraud, 사기",
            "attack": "direct" if harmful else None,
            "behaviour": f"b{number // 2}",
            "pair": f"p{number // 2}",
            "intent": "harmful" if harmful else "benign",
            "language": "en",
            "developer": "Maker" if target == "flat" else None,
            "user_type": "novice",
            "timestamp": "2026-01-01",
        }
        item = f"item/{number} é"
        rows += [
            row(item, **context, judge="grader", call=call, label=next(labels))
            for call in (1, 2, 3)
        ]
        rows.append(row(item, **context, judge="severity", score=next(scores)))
    lost = {"judge": "severity", "run": "lost", "label": None}
    rows += [
        row("m1", **lost, status="missing", reason="no_response"),
        row("m2", **lost, status="error", reason="grader_failed"),
        row("m3", **lost, status="missing", reason=None),
        row("m4", **lost, status="error", reason="out_of_scale", score=7.0),
        row("m5", **lost | {"judge": "grader"}, status="missing", reason="refusal"),
        row("both", run="lost", label="comply", score=0.1, judge="grader"),
        row("scored", run="lost", score=-1.0, judge="grader"),
        row("open", run="lost", intent=None, benchmark=None, session="s", turn=2),
        row("contested", run="lost", intent="contested", session="s", turn=0),
    ]
    return rows


def evidence_of(rows: list[dict[str, Any]], **entries: Any) -> Evidence:
    return as_evidence(pa.Table.from_pylist(rows), entries)


def judgements(evidence: Evidence) -> list[dict[str, Any]]:
    rows = evidence.rows.collect("pyarrow").to_arrow().to_pylist()
    kept = [{name: r[name] for name in NAMES if name not in SOURCE_COLUMNS} for r in rows]
    return sorted(kept, key=str)


def records_in(folder: Path) -> list[tuple[Path, dict[str, Any], list[dict[str, Any]]]]:
    """Path, record and lines, in the order of the ids."""
    found = []
    for path in folder.glob("data/*/*/*/*.json"):
        lines = path.with_name(f"{path.stem}_samples.jsonl").read_text(encoding="utf-8")
        record = json.loads(path.read_text(encoding="utf-8"))
        found.append((path, record, [json.loads(line) for line in lines.splitlines()]))
    return sorted(found, key=lambda entry: str(entry[1]["evaluation_id"]))


def only_record(folder: Path) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    (found,) = records_in(folder)
    return found


# --- there and back -------------------------------------------------------------------------------


def test_every_judgement_reads_back_as_itself(tmp_path):
    evidence = evidence_of(everything(), **MAP)
    exported = export_records(evidence, tmp_path / "out")
    assert (exported.rows, exported.records) == (len(everything()), 4)
    back = read_evidence(str(tmp_path / "out"))
    assert judgements(back) == judgements(evidence)
    assert {judge: i.scale for judge, i in back.instruments.items()} == {
        judge: i.scale for judge, i in evidence.instruments.items()
    }
    # The figures of the records are those that the lines give.
    assert not [said for said in back.warnings if "record" in said]


def test_a_study_goes_out_and_comes_back(tmp_path):
    table = tmp_path / "rows.jsonl"
    lines = [{k: v for k, v in entry.items() if v is not None} for entry in everything()]
    table.write_text("".join(json.dumps(entry) + "\n" for entry in lines), encoding="utf-8")
    assert import_sources([str(table)], tmp_path / "study", evidence_map=MAP).complete
    evidence = read_evidence(str(tmp_path / "study"))
    export_records(evidence, tmp_path / "out")
    finding = import_sources([str(tmp_path / "out")], tmp_path / "again")
    assert finding.complete
    assert judgements(read_evidence(str(tmp_path / "again"))) == judgements(evidence)
    first, second = (measure_rates(read_evidence(str(tmp_path / n))) for n in ("study", "again"))
    figures = [[(c.metric, c.scope.target, c.scope.judge, c.events, c.trials) for c in f.claims]
               for f in (first, second)]  # fmt: skip
    assert figures[0] == figures[1]


def test_judges_targets_and_rules_come_back(tmp_path):
    judge = JudgeIdentity("severity", "m/g", {"temperature": 0.5}, "0" * 16, "parser", "majority")
    evidence = replace(
        evidence_of([row(judge="severity", score=2.0)], **MAP),
        identities=(judge, replace(judge, model="m/h")),
        targets={"maker/model-1": {"temperature": 0.7, "system_prompt": "digest"}},
        default_rule=SuccessRule("at_least:3"),
    )
    export_records(evidence, tmp_path / "out")
    back = read_evidence(str(tmp_path / "out"))
    assert {identity.digest for identity in back.identities} == {
        identity.digest for identity in evidence.identities
    }
    assert back.targets == evidence.targets
    assert back.default_rule == evidence.default_rule


def test_other_classes_are_asked_for(tmp_path):
    known = {"classes": ["no", "hardly", "yes"], "outside": ["noise"]}
    evidence = evidence_of([row(label="hardly"), row("i2", label="noise")], **known)
    export_records(evidence, tmp_path / "out")
    with pytest.raises(InputError, match=re.escape("classes: [no, hardly, yes] and outside: [noi")):
        read_evidence(str(tmp_path / "out"))
    back = read_evidence(str(tmp_path / "out"), evidence_map=known)
    assert judgements(back) == judgements(evidence)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"safemetry_export": "2"}, "another version of safemetry"),
        ({"status": "fine"}, "unknown status 'fine'"),
        ({"reason": "tired", "status": "missing"}, "unknown reason 'tired'"),
        ({"call": "two"}, "call is no whole number"),
        ({"status": "missing"}, "a label beside a status"),
        ({"score": "NaN"}, "is no number"),
    ],
)
def test_a_line_that_was_tampered_with_fails(change, said, tmp_path):
    export_records(evidence_of([row()]), tmp_path / "out")
    path, _, lines = only_record(tmp_path / "out")
    lines[0]["metadata"] |= change
    path.with_name(f"{path.stem}_samples.jsonl").write_text(json.dumps(lines[0]))
    with pytest.raises(InputError, match=said):
        read_evidence(str(tmp_path / "out"))


# --- what the records say -------------------------------------------------------------------------


def test_rates_are_those_of_the_evidence_with_their_uncertainty(tmp_path):
    rows = [row(f"h{n}", label="comply" if n < 3 else "refuse") for n in range(10)]
    rows += [row(f"b{n}", intent="benign", label="comply" if n < 4 else "refuse") for n in range(5)]
    rows.append(row("h10", status="missing", reason="no_response"))
    evidence = evidence_of(rows)
    export_records(evidence, tmp_path / "out")
    _, record, _ = only_record(tmp_path / "out")
    results = {r["evaluation_result_id"]: r for r in record["evaluation_results"]}
    assert set(results) == {"grader/attack_success_rate", "grader/help_rate"}
    attacks = results["grader/attack_success_rate"]
    claim = measure_rates(evidence).find("attack_success_rate")
    details = attacks["score_details"]
    assert details["score"] == claim.estimate == 0.3
    assert details["uncertainty"] == {
        "num_samples": 10,
        "confidence_interval": {
            "lower": claim.interval[0],
            "upper": claim.interval[1],
            "confidence_level": 0.95,
            "method": "wilson",
        },
    }
    assert details["details"]["missing_no_response"] == "1"
    assert details["details"]["events"] == "3"
    assert attacks["metric_config"]["metric_parameters"] == {
        "judge": "grader",
        "intent": "harmful",
        "success_rule": "comply",
    }
    assert attacks["metric_config"]["lower_is_better"] is True
    assert results["grader/help_rate"]["metric_config"]["lower_is_better"] is False
    assert results["grader/help_rate"]["score_details"]["score"] == 0.8


def test_the_rule_decides_what_counts(tmp_path):
    evidence = evidence_of([row("a", label="evasive"), row("b")])
    for rule, rate in (("comply", 0.0), ("non_refusal", 0.5)):
        export_records(evidence, tmp_path / rule, success=rule)
        _, record, lines = only_record(tmp_path / rule)
        assert record["evaluation_results"][0]["score_details"]["score"] == rate
        assert sum(line["evaluation"]["score"] for line in lines) / 2 == rate


def test_a_line_says_what_the_judge_said(tmp_path):
    rows = [
        row("a", label="comply"),
        row("b", label="gibberish"),
        row("c", intent="benign", label="comply"),
        row("d", intent="benign", label="gibberish"),
        row("e", intent=None),
        row("f", status="missing", reason="grader_failed"),
    ]
    export_records(evidence_of(rows), tmp_path / "out")
    _, _, lines = only_record(tmp_path / "out")
    found = [
        (
            line["sample_id"],
            line["evaluation"]["score"],
            line["evaluation"]["is_correct"],
            line["metadata"]["is_correct_applicable"],
            line.get("evaluation_result_id"),
            line.get("error"),
        )
        for line in lines
    ]
    attacks, helped = "grader/attack_success_rate", "grader/help_rate"
    assert found == [
        ("a", 1.0, False, "true", attacks, None),
        ("b", 0.0, True, "true", attacks, None),
        ("c", 1.0, True, "true", helped, None),
        ("d", 0.0, False, "true", helped, None),
        ("e", 0.0, False, "false", None, None),
        ("f", -1.0, False, "false", attacks, "missing: grader_failed"),
    ]
    assert lines[0]["metadata"]["label"] == "comply"


def test_scores_stand_as_they_are_and_their_mean_beside_them(tmp_path):
    rows = [row(f"i{n}", judge="severity", score=float(n)) for n in (1, 2, 3)]
    rows.append(row("i4", judge="severity", status="error", reason="grader_failed"))
    exported = export_records(evidence_of(rows, **MAP), tmp_path / "out")
    assert exported.warnings == ()
    _, record, lines = only_record(tmp_path / "out")
    assert [line["evaluation"]["score"] for line in lines] == [1.0, 2.0, 3.0, -1.0]
    (result,) = record["evaluation_results"]
    metric = result["metric_config"]
    assert (metric["min_score"], metric["max_score"]) == (1, 5)
    assert (metric["lower_is_better"], metric["has_unknown_level"]) == (True, True)
    assert result["score_details"]["score"] == 2
    assert result["score_details"]["details"]["missing_grader_failed"] == "1"


def test_what_has_no_better_end_has_no_figure(tmp_path):
    rows = [row("a", judge="s", score=0.5), row("b", intent=None), row("c", intent="contested")]
    exported = export_records(evidence_of(rows), tmp_path / "out")
    _, record, lines = only_record(tmp_path / "out")
    assert record["evaluation_results"] == []
    assert not any("evaluation_result_id" in line for line in lines)
    assert "which end of the scores of judge s is better" in exported.warnings[0]
    assert "2 judgements are on items whose intent is neither" in exported.warnings[1]


def test_a_judge_without_any_verdict_has_no_figure(tmp_path):
    rows = [row("a", status="missing", reason="no_response"), row("b", judge="other")]
    export_records(evidence_of(rows), tmp_path / "out")
    _, record, _ = only_record(tmp_path / "out")
    named = [result["evaluation_result_id"] for result in record["evaluation_results"]]
    assert named == ["other/attack_success_rate"]


def test_repeated_calls_count_by_majority_in_the_record(tmp_path):
    rows = [row(call=call, label="comply" if call < 3 else "refuse") for call in (1, 2, 3)]
    export_records(evidence_of(rows), tmp_path / "out")
    _, record, lines = only_record(tmp_path / "out")
    assert record["evaluation_results"][0]["score_details"]["score"] == 1.0
    assert len(lines) == 3
    assert read_evidence(str(tmp_path / "out")).warnings == ()


def test_what_is_not_known_is_left_out_or_called_unknown(tmp_path):
    export_records(evidence_of([row(benchmark=None, intent=None)]), tmp_path / "out")
    path, record, (line,) = only_record(tmp_path / "out")
    assert set(record) == {
        "schema_version",
        "evaluation_id",
        "retrieved_timestamp",
        "source_metadata",
        "eval_library",
        "model_info",
        "evaluation_results",
        "detailed_evaluation_results",
    }
    assert record["model_info"] == {
        "name": "maker/model-1",
        "id": "maker/model-1",
        "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
    }
    assert record["eval_library"]["name"] == record["eval_library"]["version"] == "unknown"
    assert line["evaluation_name"] == "unknown"
    assert line["input"] == {"raw": "", "reference": []}
    assert line["output"] == {"raw": []}
    assert not {"token_usage", "performance", "sample_hash", "messages"} & set(line)
    assert path.parent.relative_to(tmp_path / "out").as_posix() == "data/unknown/maker/model-1"


def test_the_model_behind_a_judge_is_named_and_its_rubric_is_not_shown(tmp_path):
    judge = JudgeIdentity("grader", "maker/grader", {"temperature": 0}, rubric="0123456789abcdef")
    export_records(replace(evidence_of([row()]), identities=(judge,)), tmp_path / "out")
    _, record, _ = only_record(tmp_path / "out")
    scoring = record["evaluation_results"][0]["metric_config"]["llm_scoring"]
    assert scoring["judges"][0]["model_info"]["id"] == "maker/grader"
    assert scoring["judges"][0]["temperature"] == 0
    assert scoring["input_prompt"] == "sha256 digest 0123456789abcdef"


# --- files ----------------------------------------------------------------------------------------


def test_lines_are_found_by_their_record_and_their_checksum(tmp_path):
    export_records(evidence_of(everything(), **MAP), tmp_path / "out")
    for path, record, lines in records_in(tmp_path / "out"):
        details = record["detailed_evaluation_results"]
        file = tmp_path / "out" / details["file_path"]
        assert file == path.with_name(f"{path.stem}_samples.jsonl")
        assert details["checksum"] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert details["total_rows"] == len(lines)
    found = sorted(p.name for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert len(found) == 2 * 4
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_the_same_evidence_gives_the_same_files(tmp_path):
    rows = everything()
    for name, given in (("a", rows), ("b", rows[::-1])):
        export_records(evidence_of(given, **MAP), tmp_path / name)
    one, two = (
        {
            path.relative_to(tmp_path / name): re.sub(
                r'"retrieved_timestamp": "\d+"', "", path.read_text(encoding="utf-8")
            )
            for path in (tmp_path / name).rglob("*.json*")
        }
        for name in "ab"
    )
    assert one == two


@pytest.mark.parametrize(
    ("target", "folder"),
    [
        ("maker/family/model", "maker/family_model"),
        ("model", "unknown/model"),
        ("../../etc/passwd", "_/_.._etc_passwd"),
        ("/root", "unknown/_root"),
        ("a/..", "a/_"),
        ("con/nul.txt", "_con/_nul.txt"),
        ("data/data", "_data/_data"),
        ("a\0b\\c:d/e", "a_b_c_d/e"),
        ("maker/.hidden", "maker/_.hidden"),
        ("maker/모델 ", "maker/모델"),
    ],
)
def test_no_name_leads_out_of_the_folder(target, folder, tmp_path):
    export_records(evidence_of([row(target=target)]), tmp_path / "out")
    path, record, _ = only_record(tmp_path / "out")
    assert path.parent.relative_to(tmp_path / "out" / "data" / "harmless").as_posix() == folder
    assert record["model_info"]["id"] == target
    assert read_evidence(str(tmp_path / "out")).targets_seen == (target,)


def test_long_names_stay_apart(tmp_path):
    targets = [f"maker/{'é' * 300}{n}" for n in range(2)]
    export_records(evidence_of([row(target=target) for target in targets]), tmp_path / "out")
    folders = {path.parent.name for path, _, _ in records_in(tmp_path / "out")}
    assert len(folders) == 2
    assert max(len(name.encode()) for name in folders) <= 100


def test_places_that_read_alike_are_two_records(tmp_path):
    rows = [row("s", benchmark="a/b", target="c"), row("t", benchmark="a", target="b/c")]
    rows += [row("u", run="r", benchmark=None), row("v", run="r", benchmark="unknown")]
    export_records(evidence_of(rows), tmp_path / "out")
    found = records_in(tmp_path / "out")
    assert len({record["evaluation_id"] for _, record, _ in found}) == 4
    assert judgements(read_evidence(str(tmp_path / "out"))) == judgements(evidence_of(rows))


# --- refusals -------------------------------------------------------------------------------------


def test_a_folder_in_use_is_left_alone(tmp_path):
    used = tmp_path / "used"
    used.mkdir()
    (used / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    evidence = evidence_of([row()])
    for name in ("used", "file"):
        with pytest.raises(InputError, match="is in use"):
            export_records(evidence, tmp_path / name)
    with pytest.raises(InputError, match="cannot be written"):
        export_records(evidence, tmp_path / "absent" / "out")
    (tmp_path / "empty").mkdir()
    assert export_records(evidence, tmp_path / "empty").records == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "file", "used"]


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safemetry.rates.every_eval_ever.record_of", fail)
    with pytest.raises(InputError, match="No space left"):
        export_records(evidence_of([row()]), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_score_that_would_read_as_unknown_is_refused(tmp_path):
    known = {"judges": {"s": {"scale_min": -2, "scale_max": 2, "higher_is": "worse"}}}
    rows = [row("a", judge="s", score=-1.0), row("b", judge="s", score=1.0)]
    export_records(evidence_of(rows, **known), tmp_path / "out")
    assert judgements(read_evidence(str(tmp_path / "out"))) == judgements(
        evidence_of(rows, **known)
    )
    _, record, _ = only_record(tmp_path / "out")
    assert record["evaluation_results"][0]["metric_config"]["has_unknown_level"] is False
    rows.append(row("c", judge="s", status="missing", reason="no_response"))
    with pytest.raises(InputError, match="--filter status=ok"):
        export_records(evidence_of(rows, **known), tmp_path / "other")


def test_a_judgement_that_stands_twice_is_refused(tmp_path):
    with pytest.raises(InputError, match="duplicate key"):
        export_records(evidence_of([row(judge="s", score=1.0)] * 2), tmp_path / "out")


@pytest.mark.parametrize("rule", ["at_least:0.5", "comply/majority"])
def test_rules_over_scores_or_panels_are_refused(rule, tmp_path):
    with pytest.raises(InputError, match="use comply or non_refusal"):
        export_records(evidence_of([row()]), tmp_path / "out", success=rule)


# --- the schema -----------------------------------------------------------------------------------


def test_records_and_lines_follow_the_rules_of_the_schema(tmp_path):
    """The rules of version 0.3 that our files touch, written down from the published schema."""
    evidence = replace(
        evidence_of(everything(), **MAP),
        identities=(JudgeIdentity("grader", "maker/grader"),),
        targets={"flat": {"temperature": 0.5, "max_tokens": 10, "seed": 7}},
    )
    export_records(evidence, tmp_path / "out")
    for path, record, lines in records_in(tmp_path / "out"):
        assert re.fullmatch(
            r"data/[^/]+/[^/]+/[^/]+/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
            r"[0-9a-f]{12}_samples\.jsonl",
            record["detailed_evaluation_results"]["file_path"],
        )
        assert record["source_metadata"]["source_type"] in {"documentation", "evaluation_run"}
        assert record["source_metadata"]["evaluator_relationship"] in {
            "first_party", "third_party", "collaborative", "other",
        }  # fmt: skip
        assert re.fullmatch(r"\d+", record["retrieved_timestamp"])
        check_texts(record["model_info"]["additional_details"])
        check_texts(record["eval_library"]["additional_details"])
        known = [check_result(result) for result in record["evaluation_results"]]
        assert len(known) == len(set(known))
        for line in lines:
            check_line(line, record, known)
        assert path.name == f"{path.stem}.json"


def check_texts(details: dict[str, Any]) -> None:
    assert all(isinstance(value, str) for value in details.values())


def check_result(result: dict[str, Any]) -> str:
    metric, details = result["metric_config"], result["score_details"]
    assert isinstance(metric["lower_is_better"], bool)
    assert isinstance(details["score"], float)
    if metric.get("score_type") == "continuous":
        assert metric["min_score"] <= details["score"] <= metric["max_score"]
    check_texts(details["details"])
    assert set(result["source_data"]) == {"dataset_name", "source_type"}
    if "llm_scoring" in metric:
        assert metric["llm_scoring"]["judges"]
        assert isinstance(metric["llm_scoring"]["input_prompt"], str)
    return str(result["evaluation_result_id"])


def check_line(line: dict[str, Any], record: dict[str, Any], known: list[str]) -> None:
    required = {
        "schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id",
        "interaction_type", "input", "answer_attribution", "evaluation", "metadata",
    }  # fmt: skip
    optional = {"evaluation_result_id", "output", "messages", "error"}
    assert required <= set(line) <= required | optional
    assert line["schema_version"] == record["schema_version"] == "0.3.0"
    assert line["evaluation_id"] == record["evaluation_id"]
    assert line["model_id"] == record["model_info"]["id"]
    assert line.get("evaluation_result_id", known[0] if known else None) in {*known, None}
    assert isinstance(line["evaluation"]["score"], float)
    assert isinstance(line["evaluation"]["is_correct"], bool)
    check_texts(line["metadata"])
    is_single = line["interaction_type"] == "single_turn"
    assert ("output" in line, "messages" in line) == (is_single, not is_single)


def test_the_validator_of_the_format_accepts_every_file(tmp_path, monkeypatch):
    """The package of the format, where it is installed: its models, schemas and cross checks."""
    validator = pytest.importorskip("every_eval_ever.validator.validate")
    schema = pytest.importorskip("every_eval_ever.schema")
    jsonschema = pytest.importorskip("jsonschema")
    evidence = replace(
        evidence_of(everything(), **MAP),
        identities=(JudgeIdentity("grader", "maker/grader", {"temperature": 1}),),
        targets={"flat": {"temperature": 0.5, "max_tokens": 10, "seed": 7}},
    )
    export_records(evidence, tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    checks = {
        ".json": jsonschema.Draft7Validator(schema.schema_json("eval.schema.json")),
        ".jsonl": jsonschema.Draft7Validator(schema.schema_json("instance_level_eval.schema.json")),
    }
    files = validator.expand_paths(["data/*/*/*/*.json*"])
    assert len(files) == 2 * 4
    for path in files:
        repository = validator._LocalRepositoryFiles()
        report = validator.validate_file(
            path,
            repo_path=path.as_posix(),
            available_files=repository,
            read_repo_file=repository.read_text,
            run_semantic_checks=True,
        )
        assert (report.valid, report.errors, report.warnings) == (True, [], [])
        text = path.read_text(encoding="utf-8")
        for part in [text] if path.suffix == ".json" else text.splitlines():
            checks[path.suffix].validate(json.loads(part))
