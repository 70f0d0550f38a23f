"""Whatever the user names becomes evidence, or one error says why not; nothing is passed over."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from safemetry import SuccessRule, compare_rates, measure_rates
from safemetry.errors import InputError, MissingExtraError, ScopeMismatchError
from safemetry.evidence.corrections import correct
from safemetry.evidence.evidence import CONTEXT_NAMES, groups
from safemetry.evidence.schema import JUDGEMENTS
from safemetry.evidence.study import Accounting, Import, Study
from safemetry.readers import import_sources, read_evidence

TIDY = "target,item,label\nm,1,comply\nm,2,refuse\n"


def put(folder: Path, name: str, text: str = TIDY) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def rows(*sources, **options) -> list[dict[str, object]]:
    table = read_evidence(*map(str, sources), **options).rows.collect("pyarrow").to_arrow()
    return sorted(table.to_pylist(), key=lambda row: (row["run"], row["item"], row["judge"]))


# --- runs -------------------------------------------------------------------------------------


def test_a_run_is_called_by_its_file(tmp_path):
    assert {row["run"] for row in rows(put(tmp_path, "deep/a.csv"))} == {"a.csv"}


def test_files_of_one_name_are_runs_of_their_own(tmp_path):
    for folder in ("x/one", "x/two", "y/two"):
        put(tmp_path, f"{folder}/results.csv")
    put(tmp_path, "x/other.csv")
    names = {row["run"] for row in rows(tmp_path)}
    assert names == {"one/results.csv", "x/two/results.csv", "y/two/results.csv", "other.csv"}


def test_the_column_run_has_the_word(tmp_path):
    one = put(tmp_path, "a/r.csv", "run,target,item,label\nr1,m,1,comply\n")
    two = put(tmp_path, "b/r.csv", "run,target,item,label\nr2,m,1,comply\n")
    assert {row["run"] for row in rows(one, two)} == {"r1", "r2"}


def test_a_source_named_twice_is_refused(tmp_path):
    one = put(tmp_path, "a.csv")
    (tmp_path / "link.csv").symlink_to(one)
    for sources in ([one, one], [one, str(tmp_path)], [one, str(tmp_path / "link.csv")]):
        with pytest.raises(InputError, match="is named twice"):
            read_evidence(*sources)


# --- folders ----------------------------------------------------------------------------------


def test_a_folder_gives_the_evidence_of_its_files_and_says_what_it_left_out(tmp_path):
    put(tmp_path, "a.csv")
    put(tmp_path, "deep/b.csv", TIDY.replace("\nm,", "\nn,"))
    put(tmp_path, "README.md", "Some words, no table.\n")
    put(tmp_path, "items.csv", "item_id,type\n1,x\n")
    put(tmp_path, "empty.csv", "")
    put(tmp_path, ".hidden.csv")
    evidence = read_evidence(str(tmp_path))
    assert evidence.targets_seen == ("m", "n")
    (warning,) = evidence.warnings
    unknown = "not recognised by any reader"
    assert warning == (
        f"README.md ({unknown}), empty.csv (empty), items.csv ({unknown}) were left out."
    )


def test_a_damaged_file_in_a_folder_is_an_error(tmp_path):
    put(tmp_path, "a.csv")
    put(tmp_path, "b.csv", "target,item,label\nm,1\n")
    with pytest.raises(InputError, match=r"b\.csv, row 1"):
        read_evidence(str(tmp_path))
    (tmp_path / "b.csv").write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(InputError, match=r"b\.csv: is damaged or cut short"):
        read_evidence(str(tmp_path))


@pytest.mark.parametrize("make", ["dead link", "pipe", "two formats"])
def test_what_cannot_be_read_in_a_folder_is_an_error(tmp_path, make):
    put(tmp_path, "a.csv")
    if make == "dead link":
        (tmp_path / "b").symlink_to(tmp_path / "gone")
    elif make == "pipe":
        os.mkfifo(tmp_path / "b")
    else:
        put(tmp_path, "b", "target,item,label,x,y\nm,1,comply,comply,comply\n")
    with pytest.raises(InputError) as caught:
        read_evidence(str(tmp_path))
    assert str(tmp_path / "b") in str(caught.value)


def test_a_folder_without_anything_to_read_is_refused(tmp_path):
    folder = tmp_path / "void"
    folder.mkdir()
    with pytest.raises(InputError, match="the folder is empty"):
        read_evidence(str(folder))
    put(folder, "README.md", "Words.\n")
    with pytest.raises(InputError, match="no reader recognises anything here"):
        read_evidence(str(folder))


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.eval"])
def test_an_empty_file_is_called_empty(tmp_path, name):
    with pytest.raises(InputError) as caught:
        read_evidence(put(tmp_path, name, ""))
    assert str(caught.value).endswith(f"{name}: the file is empty; name another file")


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path, monkeypatch):
    put(tmp_path, "deep/a.csv")
    listed = Path.iterdir

    def refuse(path):
        if path.name == "deep":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(InputError, match=r"deep: cannot be listed \(Permission denied\)"):
        read_evidence(str(tmp_path))


def test_a_link_to_a_folder_is_not_followed(tmp_path):
    put(tmp_path, "logs/a.csv")
    (tmp_path / "logs" / "again").symlink_to(tmp_path / "logs")
    evidence = read_evidence(str(tmp_path / "logs"))
    assert evidence.warnings == ("again (a link to a folder) was left out.",)


def test_a_study_in_a_folder_is_not_read_as_its_parts(tmp_path):
    source = put(tmp_path, "a.csv")
    import_sources([source], tmp_path / "study")
    evidence = read_evidence(str(tmp_path))
    assert len(evidence.rows.collect().to_arrow()) == 2
    assert evidence.warnings == ("study (a study, which is named by itself) was left out.",)


def test_as_applies_to_the_files_of_a_folder(tmp_path):
    put(tmp_path, "a.csv", "target,item,label,x,y\nm,1,comply,comply,comply\n")
    put(tmp_path, "README.md", "Words.\n")
    assert {row["judge"] for row in rows(tmp_path, kind="labels")} == {"x", "y"}
    assert {row["judge"] for row in rows(tmp_path, kind="tidy")} == {"judge"}
    with pytest.raises(InputError, match="holds nothing that garak can read"):
        read_evidence(str(tmp_path), kind="garak")


def test_a_helm_tree_is_one_source_unless_others_lie_in_it(tmp_path, shared):
    run = shared / "formats/helm/air_bench_2024_gpt-4o"
    tree = tmp_path / "runs"
    for suite in ("v1", "v2"):
        shutil.copytree(run, tree / suite / "air_bench_2024:model=openai_gpt-4o")
    assert read_evidence(str(tree)).sources == (str(tree),)
    assert read_evidence(str(tree), kind="helm").sources == (str(tree),)
    put(tree, "notes.md", "Words.\n")
    assert read_evidence(str(tree)).sources == (str(tree),)
    table = put(tree, "table.csv")
    assert table in read_evidence(str(tree)).sources


# --- several sources --------------------------------------------------------------------------


def test_sources_are_joined(tmp_path):
    one, two = put(tmp_path, "a.csv"), put(tmp_path, "b.csv", TIDY.replace("\nm,", "\nn,"))
    assert len(rows(one, two)) == 4
    assert read_evidence(one, two).sources == (one, two)


def test_a_judge_with_two_scales_is_refused(tmp_path):
    one = put(tmp_path, "a.csv", "model,a,b\nm,1,0\n")
    two = put(tmp_path, "b.csv", "model,a,b\nm,2,0\n")
    with pytest.raises(InputError, match=r"'matrix' has two scales.*scale_max 1.*scale_max 2"):
        read_evidence(one, two)


def test_all_judges_with_two_scales_are_named_with_the_sources_and_what_to_add(tmp_path, shared):
    one = put(tmp_path, "a.csv", "model,a,b\nm,1,0\n")
    two = put(tmp_path, "b.csv", "target,item,score,judge\nm,a,1,matrix\n")
    with pytest.raises(InputError) as caught:
        read_evidence(one, two)
    said = str(caught.value)
    assert (
        f"scale_min 0.0, scale_max 1.0, higher_is safer in {one} and one undeclared in {two}"
        in said
    )
    assert 'judges: {"matrix": {scale_min: 0, scale_max: 1, higher_is: safer}}' in said
    with pytest.raises(
        InputError, match=r'_popularity\.json.*"match": \{scale_min: 0, scale_max: 1,'
    ):
        read_evidence(str(shared / "formats/inspect"))


def test_one_run_in_two_logs_is_told_from_a_repeated_row(shared):
    logs = [str(shared / f"formats/inspect/log_formats.{form}") for form in ("eval", "json")]
    scale = {"scale_min": 0, "scale_max": 1, "higher_is": "safer"}
    evidence = read_evidence(*logs, evidence_map={"judges": {"match": scale}})
    with pytest.raises(InputError, match="hold the same run") as caught:
        measure_rates(evidence, success="at_least:0.5")
    assert caught.value.file == " and ".join(logs)


# --- swapped judges ---------------------------------------------------------------------------

SWAPPED = "Judge 'jailbroken' has 2 identities (another model, rubric, parser or decoding)"


def swaps(evidence) -> list[str]:
    return [said for said in evidence.warnings if "a swapped judge" in said]


def test_a_swapped_judge_is_said_alike_by_import_study_and_direct_reading(tmp_path, shared):
    folder = str(shared / "formats/jailbreakbench")
    finding = import_sources([folder], tmp_path / "study")
    (imported,) = [said for said in finding.warnings if "a swapped judge" in said]
    assert imported.startswith(SWAPPED)
    assert swaps(read_evidence(folder)) == swaps(read_evidence(str(tmp_path / "study")))
    assert swaps(read_evidence(folder)) == [imported]
    assert swaps(read_evidence(folder, str(shared / "formats/garak"))) != [imported]


def test_one_source_with_two_identities_warns(tmp_path, shared):
    both = tmp_path / "both.report.jsonl"
    names = ("test.report.jsonl", "report_test.report.jsonl")
    both.write_text("".join((shared / "formats/garak" / name).read_text() for name in names))
    assert "Judge 'always.Pass' has 2 identities" in swaps(read_evidence(str(both)))[0]


def test_a_part_with_one_identity_has_no_swapped_judge(tmp_path, shared):
    folder = str(shared / "formats/jailbreakbench")
    import_sources([folder], tmp_path / "study")
    for source in (folder, str(tmp_path / "study")):
        evidence = read_evidence(source)
        for target, model in (
            ("gpt-4-0125-preview", "Llama-3-70b-chat-hf"),
            ("llama-2-7b-chat-hf", None),
        ):
            part = evidence.filter(target=target)
            stated = [one.model for one in part.identities if one.name == "jailbroken"]
            assert stated == [model]
            assert swaps(part) == []


def test_sides_that_different_judges_of_one_name_judged_are_not_compared(tmp_path, shared):
    folder = str(shared / "formats/jailbreakbench")
    import_sources([folder], tmp_path / "study")
    for source in (folder, str(tmp_path / "study")):
        with pytest.raises(ScopeMismatchError, match="model of judge 'jailbroken': Llama-3"):
            compare_rates(
                read_evidence(source),
                "gpt-4-0125-preview",
                "llama-2-7b-chat-hf",
                shared_items=True,
            )


def test_a_source_that_states_no_identity_beside_one_that_does_warns(tmp_path, shared):
    (log,) = (shared / "formats/jailbreakbench").glob("*test-artifact*")
    silent = put(tmp_path, "a.csv", "target,item,label,judge\nm,1,comply,jailbroken\n")
    assert swaps(read_evidence(str(log), silent))[0].startswith(SWAPPED)
    assert swaps(read_evidence(silent)) == []


def test_a_rule_that_all_sources_share_is_kept(tmp_path):
    one = put(tmp_path, "a.csv", "model,a,b\nm,1,0\n")
    two = put(tmp_path, "b.csv", "model,a,b\nn,1,0\n")
    assert read_evidence(one, two).default_rule == SuccessRule("at_least:1")
    assert read_evidence(one, put(tmp_path, "c.csv")).default_rule == SuccessRule()


def test_nothing_is_no_source():
    with pytest.raises(InputError, match="there is nothing to read"):
        read_evidence()


# --- studies ----------------------------------------------------------------------------------

LEFT_OPEN = "target,item,score,set\nm,1,0.5,x\nm,2,1,y\n"


def study_of(tmp_path, text, **entries) -> str:
    study = tmp_path / "study"
    finding = import_sources([put(tmp_path, "a.csv", text)], study, evidence_map=entries)
    assert finding.complete
    return str(study)


def test_a_map_beside_a_study_says_what_was_left_open(tmp_path):
    study = study_of(tmp_path, LEFT_OPEN)
    scale = {"scale_min": 0, "scale_max": 1, "higher_is": "worse"}
    entries = {"judges": {"judge": scale}, "intent": "harmful"}
    assert read_evidence(study).instruments["judge"].scale.higher_is is None
    told = read_evidence(study, evidence_map=entries)
    assert told.instruments["judge"].scale.higher_is == "worse"
    assert {row["intent"] for row in rows(study, evidence_map=entries)} == {"harmful"}


def test_the_map_of_the_import_may_be_named_again(tmp_path):
    entries = {
        "columns": {"category": "set"},
        "constants": {"attack": "none"},
        "intent": {"column": "set", "values": {"x": "harmful", "y": "benign"}},
        "status": {"column": "set", "values": {"x": "ok", "y": "no_response"}},
        "judges": {"judge": {"scale_min": 0, "scale_max": 1, "higher_is": "worse"}},
    }
    study = study_of(tmp_path, LEFT_OPEN, **entries)
    assert rows(study) == rows(study, evidence_map=entries)
    assert [row["intent"] for row in rows(study)] == ["harmful", "benign"]


def test_labels_are_translated_once(tmp_path):
    entries = {"labels": {"refuse": "evasive", "evasive": "comply"}}
    study = study_of(tmp_path, "target,item,label\nm,1,refuse\nm,2,evasive\n", **entries)
    assert [row["label"] for row in rows(study)] == ["evasive", "comply"]
    assert rows(study, evidence_map=entries) == rows(study)
    by_judge = {"judges": {"judge": entries}}
    other = tmp_path / "other"
    import_sources([str(tmp_path / "a.csv")], other, evidence_map=by_judge)
    assert [row["label"] for row in rows(other)] == ["evasive", "comply"]
    assert [row["label"] for row in rows(other, evidence_map=by_judge)] == ["evasive", "comply"]


def test_a_constant_intent_does_not_overrule_the_study(tmp_path):
    entries = {"intent": {"column": "set", "values": {"x": "harmful", "y": "benign"}}}
    study = study_of(tmp_path, LEFT_OPEN, **entries)
    assert rows(study, evidence_map={"intent": "harmful"}) == rows(study)


def test_a_study_and_a_table_are_joined(tmp_path):
    study = study_of(tmp_path, TIDY)
    assert len(rows(study, put(tmp_path, "b.csv"))) == 4
    with pytest.raises(InputError, match="is named twice"):
        read_evidence(study, study)


def test_a_study_without_study_json_is_not_read_as_loose_files(tmp_path):
    study = Path(study_of(tmp_path, TIDY))
    (study / "study.json").unlink()
    for folder in (study, study.parent):
        with pytest.raises(InputError, match=r"study that lost its study\.json; restore"):
            read_evidence(str(folder))
    (report,) = import_sources([str(study)], tmp_path / "other").sources_read
    assert "lost its study.json" in report.problems[0]
    with pytest.raises(InputError, match=r"lost its study\.json"):
        import_sources([put(tmp_path, "more.csv")], study)


def test_folders_that_are_called_like_those_of_a_study_are_read(tmp_path):
    put(tmp_path, "logs/imports/a.csv")
    put(tmp_path, "logs/judgements/b.csv")
    assert len(rows(tmp_path / "logs")) == 4


@pytest.mark.parametrize("table", ["judgements", "responses", "items", "targets", "judges"])
@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "one bit"])
def test_a_damaged_part_of_a_study_is_named(tmp_path, table, damage):
    text = "target,item,label,session,intent\nm,1,comply,s,harmful\nm,2,refuse,t,harmful\n"
    study = Path(study_of(tmp_path, text))
    (part,) = (study / table).iterdir()
    content = bytearray(part.read_bytes())
    if damage == "gone":
        part.unlink()
    elif damage == "cut":
        part.write_bytes(content[:40])
    elif damage == "one bit":
        content[len(content) // 3] ^= 1
        part.write_bytes(content)
    else:
        part.write_bytes(content[:4] + bytes(255 - byte for byte in content[4:-8]) + content[-8:])
    with pytest.raises(InputError, match=rf"{table}/{part.name}: is .*run `safemetry check"):
        read_evidence(str(study))


def test_the_items_of_a_study_are_those_of_its_corrected_judgements(tmp_path):
    text = (
        "target,item,label,benchmark,category,attack,intent\n"
        "m,1,comply,b,x,none,harmful\nn,1,comply,b,x,none,harmful\nm,2,refuse,b,,,benign\n"
    )
    study = study_of(tmp_path, text)
    import_sources([put(tmp_path, "b.csv", text + "m,3,refuse,b,,,benign\n")], study)
    read = read_evidence(study)
    assert read.items.num_rows == 5
    fixes = {"item": ["1", "2"], "field": ["category", "intent"], "value": ["y", "contested"]}
    correct(Study.open(study), pa.table(fixes), "Ada", "misread")
    label = {"run": read.items["run"][:1], "target": ["m"], "item": ["1"], "field": ["label"]}
    correct(Study.open(study), pa.table(label | {"value": ["refuse"]}), "Ada", "misread")
    corrected = read_evidence(study)
    assert set(corrected.items["category"].to_pylist()) == {"y", None}
    assert set(corrected.items["intent"].to_pylist()) == {"harmful", "contested", "benign"}
    for evidence in (read, corrected):
        joined = groups(evidence.rows, CONTEXT_NAMES)
        order = [(name, "ascending") for name in CONTEXT_NAMES]
        assert evidence.items.to_pylist() == joined.sort_by(order).to_pylist()


def test_a_label_that_is_corrected_away_is_no_label_of_its_judge(tmp_path):
    study = study_of(tmp_path, "target,item,label\nm,1,refuse\nm,2,gibberish\n")
    assert read_evidence(study).instruments["judge"].labels == {"refuse", "gibberish"}
    fix = {"target": ["m"], "item": ["2"], "field": ["status"], "value": ["missing"]}
    correct(Study.open(study), pa.table(fix), "Ada", "misread")
    assert read_evidence(study).instruments["judge"].labels == {"refuse"}


def test_a_word_that_is_no_intent_is_refused_in_a_study_too(tmp_path):
    row = {"run": "r", "target": "m", "item": "1", "epoch": 1, "judge": "j", "call": 1}
    row |= {"label": "refuse", "status": "ok", "intent": "evil", "source_row": 1}
    table = pa.Table.from_pylist([row], JUDGEMENTS)
    study = Study.create(tmp_path / "study")
    study.add(Import(table, "a.csv", "d", "tidy", 1, Accounting(rows_read=1, converted=1)))
    with pytest.raises(InputError, match="unknown intent 'evil'"):
        read_evidence(str(study.path))


def test_a_study_that_lost_its_commits_is_not_called_empty(tmp_path):
    study = Path(study_of(tmp_path, TIDY))
    for path in (study / "imports").iterdir():
        path.unlink()
    with pytest.raises(InputError, match=r"no import names them.*safemetry check"):
        read_evidence(str(study))


def test_changed_classes_are_refused_before_anything_is_imported(tmp_path):
    study = Path(study_of(tmp_path, TIDY))
    about = study / "study.json"
    about.write_text(about.read_text().replace("refuse", "X").replace("comply", "refuse"))
    for use in (
        lambda: read_evidence(str(study)),
        lambda: import_sources([put(tmp_path, "more.csv")], study),
    ):
        with pytest.raises(InputError, match=r"restore study\.json: classes"):
            use()


def test_as_study_is_for_studies(tmp_path):
    with pytest.raises(InputError, match="is no study"):
        read_evidence(put(tmp_path, "a.csv"), kind="study")


# --- addresses --------------------------------------------------------------------------------


@pytest.fixture
def memory():
    """A file system in memory, which fsspec opens like a remote one."""
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_an_address_is_read(memory, name):
    lines = '{"target": "m", "item": "1", "label": "comply"}\n'
    memory.pipe(f"/logs/{name}", TIDY.encode() if name == "a.csv" else lines.encode())
    found = rows(f"memory://logs/{name}")
    assert {row["run"] for row in found} == {name}
    assert {row["source_file"] for row in found} == {f"memory://logs/{name}"}


def test_parquet_behind_an_address_is_read(memory, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"target": ["m"], "item": ["1"], "label": ["comply"]}), tmp_path / "a")
    memory.pipe("/logs/a.parquet", (tmp_path / "a").read_bytes())
    assert rows("memory://logs/a.parquet")[0]["label"] == "comply"


def test_errors_about_an_address_show_no_secret(memory):
    memory.pipe("/logs/a.csv", b"target,item,label\nm,1\n")
    with pytest.raises(InputError, match=r"^memory://logs/a\.csv, row 1"):
        read_evidence("memory://logs/a.csv")
    for address in ("memory://user:secret@gone/b.csv", "klingon://secret:secret@host/b?q=secret"):
        with pytest.raises(InputError) as caught:
            read_evidence(address)
        assert "secret" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_an_address_above_the_limit_is_refused(memory):
    memory.pipe("/logs/a.csv", TIDY.encode())
    with pytest.raises(InputError, match="table_bytes"):
        read_evidence("memory://logs/a.csv", evidence_map={"limits": {"table_bytes": 10}})


def test_an_absent_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"safemetry\[remote\]"):
        read_evidence("https://example.org/a.csv")


def test_the_reasons_of_every_source_are_kept_whatever_their_order(tmp_path):
    plain, failing = tmp_path / "x1.csv", tmp_path / "x2.csv"
    plain.write_text("target,item,label,intent\nm,a1,refuse,harmful\n", encoding="utf-8")
    failing.write_text(
        "target,item,label,reason,intent\nm,b1,,grader_failed,harmful\nm,b2,comply,,harmful\n",
        encoding="utf-8",
    )
    for order in ([plain, failing], [failing, plain]):
        evidence = read_evidence(*map(str, order))
        claim = measure_rates(evidence).find("attack_success_rate")
        assert dict(claim.missing.by_reason) == {"grader_failed": 1}
