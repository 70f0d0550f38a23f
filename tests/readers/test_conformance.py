"""One suite over every reader: what goes in is accounted for, and damage is said, never guessed."""

from __future__ import annotations

import json
import random
import re
import shutil
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conformance import MARKER, ReaderCase, load_cases

from safemetry.errors import InputError
from safemetry.evidence import border
from safemetry.evidence.engine import connect
from safemetry.evidence.maps import EvidenceMap, FromColumn, Limits, Scale, make_map
from safemetry.evidence.schema import BY_NAME, Intent, Reason, Status
from safemetry.readers.conversion import Conversion, Reader, ResponseText, TextReader
from safemetry.readers.source import Source

PLAIN = ["plain-1", "plain-2", "plain-3"]
AWKWARD = [
    "001",
    "1",
    "1.0",
    "한국어-문항",
    "中文条目",
    "עברית",
    "العربية",
    "🙂👩‍👩‍👧",
    "e\u0301",
    "\u00e9",
    'says "yes"',
    "it's, really",
    "semi;colon\ttab",
    "back\\slash",
    "{curly}",
    "[a]/b",
    "50%",
    "<script>alert(1)</script>",
    "=1+1",
    "-2",
    "true",
    "null",
    "NaN",
    "None",
    "1e5",
    "2024-01-01",
    "x" * 9_000,
]
KEY_AND_VERDICT = ("target", "item", "epoch", "judge", "call", "label", "score", "status", "reason")
TABLE_READERS = {"tidy", "matrix", "labels", "correlation"}
README = b"# A project\n\nSome words about it, with a list:\n\n- one\n- two\n"
FOREIGN = {
    "random.bin": random.Random(7).randbytes(4_096),
    "empty": b"",
    "blank.jsonl": b" \n\n \n",
    "README.md": README,
    "picture.png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06",
    "object.json": b"{}",
    "list.json": b"[]",
    "number.json": b"3.5",
    "lines.jsonl": b'{"name": "a", "age": 3}\n{"name": "b", "age": 4}\n',
    "broken.json": b'{"results": [',
    "people.csv": b"name,age\nann,31\nbob,27\n",
    "archive.zip": b"PK\x05\x06" + bytes(18),
}

MODULES = load_cases()
CASES = [case for module in MODULES for case in module.cases]


def labels(cases: list[ReaderCase]) -> list[str]:
    return [case.label for case in cases]


every_case = pytest.mark.parametrize("case", CASES, ids=labels(CASES))
text_case = pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.text],
    ids=labels([case for case in CASES if case.text]),
)


@pytest.mark.parametrize("module", MODULES, ids=[module.name for module in MODULES])
def test_a_case_module_can_be_imported(module):
    if module.skipped:
        pytest.skip(module.skipped)
    assert module.broken is None, module.broken
    assert module.cases


# --- reading and what every conversion must keep ----------------------------------------------


def make(case: ReaderCase, folder: Path, ids: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return case.make(folder, ids)


def evidence_map(case: ReaderCase, **limits: int) -> EvidenceMap:
    return make_map({**case.map, "limits": limits} if limits else case.map)


def read(case: ReaderCase, path: Path, **limits: int) -> Conversion:
    mapped = evidence_map(case, **limits)
    conversion = case.reader.read(Source(str(path), mapped.limits), mapped)
    try:
        conversion = replace(conversion, judgements=named_table(conversion, mapped, path))
    except duckdb.Error as error:
        # A table that is read lazily fails at the border, which says so in one line.
        raise InputError("cannot be read", file=str(path)) from error
    check_invariants(conversion, path, case)
    return conversion


def named_table(conversion: Conversion, evidence_map: EvidenceMap, path: Path) -> pa.Table:
    """The judgements in memory, under our names; tables of others are typed by the border."""
    table = conversion.judgements
    if not conversion.named:
        place = border.Place(path.name, conversion.header_lines)
        rows, _ = border.admit(table, connect(), evidence_map, place=place)
        return rows.sort("source_row", "item").collect("pyarrow").to_arrow()
    if isinstance(table, duckdb.DuckDBPyRelation):
        table = table.to_arrow_table()
    return table.drop_columns([n for n in translated(evidence_map) if n in table.column_names])


def translated(evidence_map: EvidenceMap) -> set[str]:
    """Columns under the names of the source that the border needs to apply the map."""
    specs = (evidence_map.intent, evidence_map.status)
    columns = {spec.column for spec in specs if isinstance(spec, FromColumn)}
    return (columns | set(evidence_map.columns.values())) - set(BY_NAME)


def check_invariants(conversion: Conversion, path: Path, case: ReaderCase) -> None:
    table = conversion.judgements
    assert isinstance(table, pa.Table)
    assert conversion.rows_read >= 0
    assert all(
        isinstance(reason, str) and reason and count > 0
        for reason, count in conversion.skipped.items()
    ), conversion.skipped
    assert conversion.converted >= 0
    assert conversion.rows_read == conversion.converted + sum(conversion.skipped.values()) + len(
        conversion.failures
    )
    if conversion.converted == 0:
        assert table.num_rows == 0 or conversion.skipped, "judgements out of no row"
    check_columns(table)
    check_words(table, conversion.rows_read)
    for failure in conversion.failures:
        check_message(failure, path, case)
    for warning in conversion.warnings:
        check_sentence(warning)
    check_text_stays_out(conversion)


def check_columns(table: pa.Table) -> None:
    assert len(set(table.column_names)) == table.num_columns
    for name in table.column_names:
        assert name in BY_NAME, f"{name} is no column of the judgements table"
        wanted = BY_NAME[name].type
        cast = table[name].cast(wanted)  # a lossy cast raises
        assert cast.null_count == table[name].null_count
    assert {"target", "item"} <= set(table.column_names)
    assert {"label", "score"} & set(table.column_names)
    for name in ("target", "item"):
        assert table[name].null_count == 0
    for name in ("run", "judge", "epoch", "call"):
        if name in table.column_names:
            assert table[name].null_count in {0, table.num_rows}, f"{name} is null in some rows"
    table.to_pylist()  # no text that UTF-8 cannot hold


def check_words(table: pa.Table, rows_read: int) -> None:
    names = set(table.column_names)
    if "score" in names:
        score = table["score"].cast(pa.float64())
        assert not pc.any(pc.invert(pc.is_finite(score.drop_null()))).as_py()
    if "label" in names:
        found = {value.casefold() for value in table["label"].drop_null().to_pylist()}
        assert not found & {"nan", ""}
    words = {"status": Status, "reason": Reason, "intent": Intent}
    for name, known in words.items():
        if name in names:
            assert set(table[name].drop_null().to_pylist()) <= set(known)
    if "source_row" in names and table.num_rows:
        row = table["source_row"].drop_null()
        if len(row):
            assert pc.min(row).as_py() >= 1
            assert pc.max(row).as_py() <= rows_read
    for row in table.select([n for n in KEY_AND_VERDICT if n in names]).to_pylist():
        verdict = row.get("label") is not None or row.get("score") is not None
        status = row.get("status") or Status.OK
        if status == Status.OK:
            assert verdict, f"an ok row without a verdict: {row}"
            assert row.get("reason") is None, f"an ok row with a reason: {row}"
        else:
            assert not verdict, f"a verdict beside status {status}: {row}"


def check_message(error: InputError, path: Path, case: ReaderCase) -> None:
    said = str(error)
    assert type(error) is InputError
    names = {path.name, case.damaged_file(path).name}
    assert any(name in said for name in names), f"names no file: {said}"
    check_sentence(said)
    assert len(said) < 2_000, f"too long: {said[:300]}"


def check_sentence(said: str) -> None:
    assert said.strip()
    assert "\n" not in said, f"more than one line: {said}"
    assert "Traceback" not in said
    assert 'File "' not in said
    assert MARKER not in said, f"shows text of the source: {said}"


def check_text_stays_out(conversion: Conversion) -> None:
    for row in conversion.judgements.to_pylist():
        for name, value in row.items():
            assert not (isinstance(value, str) and MARKER in value), f"{name} holds text"
    assert MARKER not in repr(conversion.judges)
    assert MARKER not in repr(conversion.targets)


def rows_of(conversion: Conversion, *, status: str | None = None) -> Counter[tuple[object, ...]]:
    """The judgements as a bag, by key and verdict."""
    return Counter(
        tuple(row.get(name) for name in KEY_AND_VERDICT)
        for row in conversion.judgements.to_pylist()
        if status is None or (row.get("status") or Status.OK) == status
    )


def same(one: Conversion, two: Conversion) -> bool:
    return (
        one.judgements.equals(two.judgements)
        and one.rows_read == two.rows_read
        and dict(one.skipped) == dict(two.skipped)
        and list(map(str, one.failures)) == list(map(str, two.failures))
    )


def says_more(conversion: Conversion, intact: Conversion) -> bool:
    """Whether a conversion tells of something that the intact one does not."""
    return bool(
        conversion.failures
        or dict(conversion.skipped) != dict(intact.skipped)
        or set(conversion.warnings) - set(intact.warnings)
    )


def read_damaged(case: ReaderCase, path: Path, **limits: int) -> Conversion | InputError:
    """The conversion, or the one error that the reader may raise."""
    try:
        return read(case, path, **limits)
    except InputError as error:
        check_message(error, path, case)
        return error


def refused(case: ReaderCase, path: Path, **limits: int) -> InputError:
    outcome = read_damaged(case, path, **limits)
    assert isinstance(outcome, InputError), f"was read: {outcome.rows_read} rows"
    return outcome


def check_damage(
    outcome: Conversion | InputError, intact: Conversion, *, silent_loss: bool, changed: bool
) -> None:
    """Damage may cost rows only aloud, and never invents a verdict."""
    if isinstance(outcome, InputError) or changed:
        return
    kept, whole = rows_of(outcome, status="ok"), rows_of(intact, status="ok")
    assert not kept - whole, f"invented: {kept - whole}"
    if whole - kept and not silent_loss:
        assert says_more(outcome, intact), f"lost in silence: {whole - kept}"


# --- valid sources ----------------------------------------------------------------------------


@every_case
def test_a_reader_has_a_name_and_a_version(case):
    assert isinstance(case.reader, Reader)
    assert case.reader.name.replace("-", "_").isidentifier()
    assert isinstance(case.reader.version, int)
    assert case.reader.version >= 1


@every_case
@pytest.mark.parametrize("n", [1, 2, 3, 17])
def test_every_row_of_a_valid_source_is_accounted_for(case, n, tmp_path):
    conversion = read(case, make(case, tmp_path, [f"plain-{i}" for i in range(n)]))
    assert conversion.rows_read == case.rows(n)
    assert not conversion.failures
    assert conversion.judgements.num_rows >= n
    assert sum(rows_of(conversion, status="ok").values()) >= n


@every_case
def test_every_id_survives_exactly(case, tmp_path):
    conversion = read(case, make(case, tmp_path, AWKWARD))
    assert conversion.rows_read == case.rows(len(AWKWARD))
    assert not conversion.failures, str(conversion.failures[0])[:500]
    wanted = {case.item(given, index) for index, given in enumerate(AWKWARD)}
    assert set(conversion.judgements["item"].to_pylist()) == wanted
    judged = {row[KEY_AND_VERDICT.index("item")] for row in rows_of(conversion, status="ok")}
    assert judged == wanted


@every_case
def test_reading_twice_gives_the_same(case, tmp_path):
    path = make(case, tmp_path, PLAIN)
    one, two = read(case, path), read(case, path)
    assert same(one, two)
    assert list(one.warnings) == list(two.warnings)
    assert [judge.digest for judge in one.judges] == [judge.digest for judge in two.judges]
    assert one.scales == two.scales
    assert one.targets == two.targets


@every_case
def test_where_the_source_lies_does_not_matter(case, tmp_path):
    here = read(case, make(case, tmp_path / "here", PLAIN))
    there = read(case, make(case, tmp_path / "there with a blank, 한", PLAIN))
    assert rows_of(here) == rows_of(there)


@every_case
def test_identities_and_scales_speak_of_judges_in_the_table(case, tmp_path):
    conversion = read(case, make(case, tmp_path, PLAIN))
    table = conversion.judgements
    if "judge" not in table.column_names:
        return
    present = set(table["judge"].to_pylist())
    assert {judge.name for judge in conversion.judges} <= present
    assert set(conversion.scales) <= present | {"*"}
    assert all(isinstance(scale, Scale) for scale in conversion.scales.values())
    assert set(conversion.targets) <= set(table["target"].to_pylist())
    json.dumps({name: dict(settings) for name, settings in conversion.targets.items()})


@every_case
def test_equal_rows_fail_or_survive_but_never_vanish(case, tmp_path, record_property):
    if not case.holds_repeats:
        pytest.skip("the writer of the format keeps one of them")
    try:
        doubled = read(case, make(case, tmp_path / "doubled", ["plain-1", "plain-2", "plain-1"]))
    except InputError:
        record_property("duplicates", "refused")
        return
    single = read(case, make(case, tmp_path / "single", ["plain-1", "plain-2"]))
    more = doubled.judgements.num_rows > single.judgements.num_rows
    aloud = bool(doubled.failures) or bool(set(doubled.warnings) - set(single.warnings))
    record_property("duplicates", "failures" if doubled.failures else "survive" if more else "said")
    assert more or aloud


# --- texts ------------------------------------------------------------------------------------


def texts_of(case: ReaderCase, path: Path) -> list[ResponseText]:
    if not isinstance(case.reader, TextReader):
        pytest.skip("the reader gives no texts")
    mapped = evidence_map(case)
    return list(case.reader.texts(Source(str(path), mapped.limits), mapped))


def keys_of(conversion: Conversion) -> set[tuple[str | None, str, str, int]]:
    """The keys of the responses that are judged; no run where the source names none."""
    return {
        (
            row.get("run") if conversion.named else None,
            row["target"],
            row["item"],
            1 if row.get("epoch") is None else row["epoch"],
        )
        for row in conversion.judgements.to_pylist()
    }


@every_case
@pytest.mark.parametrize("ids", [PLAIN, AWKWARD], ids=["plain", "awkward"])
def test_texts_have_the_keys_of_judgements_and_no_others(case, ids, tmp_path):
    path = make(case, tmp_path, ids)
    texts = texts_of(case, path)
    keys = [(text.run, text.target, text.item, text.epoch) for text in texts]
    assert len(set(keys)) == len(keys), "a response comes twice"
    assert set(keys) == keys_of(read(case, path))
    for text in texts:
        assert MARKER in f"{text.prompt} {text.response}", "the text of the source is lost"


@every_case
def test_texts_of_a_missing_source_are_refused_in_one_clear_line(case, tmp_path):
    path = tmp_path / f"absent{case.suffix}"
    try:
        texts_of(case, path)
    except InputError as error:
        check_message(error, path, case)
    else:
        pytest.fail("was read")


# --- recognition ------------------------------------------------------------------------------


@every_case
def test_a_reader_recognises_its_own_source(case, tmp_path):
    assert case.reader.recognises(Source(str(make(case, tmp_path, PLAIN)))) is True


@every_case
def test_no_other_reader_recognises_the_source(case, tmp_path):
    source = Source(str(make(case, tmp_path, PLAIN)))
    others = [other for other in CASES if other.reader.name != case.reader.name]
    wrong = {other.reader.name for other in others if other.reader.recognises(source)}
    assert not wrong


@every_case
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_not_recognised(case, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FOREIGN[name])
    if name.endswith((".csv", ".jsonl")) and case.reader.name in TABLE_READERS:
        pytest.skip("a table with other columns is a matter of the map")
    assert not case.reader.recognises(Source(str(path)))


@every_case
def test_a_foreign_folder_is_not_recognised(case, tmp_path):
    (tmp_path / "README.md").write_bytes(README)
    (tmp_path / "notes").mkdir()
    assert not case.reader.recognises(Source(str(tmp_path)))


@every_case
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_refused_in_one_clear_line(case, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(FOREIGN[name])
    if name.endswith((".csv", ".jsonl")) and case.reader.name in TABLE_READERS:
        pytest.skip("a table with other columns is a matter of the map")
    outcome = read_damaged(case, path)
    if isinstance(outcome, Conversion):
        assert outcome.judgements.num_rows == 0
        assert outcome.failures


@every_case
def test_a_missing_source_is_refused_in_one_clear_line(case, tmp_path):
    path = tmp_path / f"absent{case.suffix}"
    outcome = read_damaged(case, path)
    assert isinstance(outcome, InputError)


@every_case
def test_an_empty_folder_is_refused_in_one_clear_line(case, tmp_path):
    folder = tmp_path / "void"
    folder.mkdir()
    assert isinstance(read_damaged(case, folder), InputError)


# --- damage -----------------------------------------------------------------------------------


@pytest.fixture
def intact(case, tmp_path) -> tuple[Path, bytes, Conversion]:
    """A valid source, the bytes of the file that will be damaged, and its conversion."""
    path = make(case, tmp_path / "source", [f"plain-{i}" for i in range(8)])
    conversion = read(case, path)
    return path, case.damaged_file(path).read_bytes(), conversion


@every_case
@pytest.mark.parametrize("eighth", range(1, 8))
def test_a_source_cut_short_is_never_read_as_whole(case, eighth, intact):
    path, content, whole = intact
    cut = len(content) * eighth // 8
    case.damaged_file(path).write_bytes(content[:cut])
    between_rows = case.lines and b"\n" in (content[cut - 1 : cut], content[cut : cut + 1])
    outcome = read_damaged(case, path)
    check_damage(
        outcome,
        whole,
        silent_loss=between_rows or not case.cut_is_visible,
        changed=not case.cut_is_visible,
    )


@every_case
def test_a_source_without_its_last_bytes_is_never_read_as_whole(case, intact):
    path, content, whole = intact
    for cut in (1, 2, 3, 5, 8, 13, 21):
        case.damaged_file(path).write_bytes(content[:-cut])
        check_damage(
            read_damaged(case, path),
            whole,
            silent_loss=not case.cut_is_visible,
            changed=not case.cut_is_visible,
        )


@every_case
@pytest.mark.parametrize("content", [b"", b"   \n\t\n  ", b"\xef\xbb\xbf", b"\x00" * 512])
def test_an_empty_source_is_refused(case, content, intact):
    path, _, _ = intact
    case.damaged_file(path).write_bytes(content)
    outcome = read_damaged(case, path)
    if isinstance(outcome, Conversion):
        assert outcome.judgements.num_rows == 0
        assert outcome.failures


@every_case
def test_one_damaged_byte_costs_rows_only_aloud(case, intact):
    path, content, whole = intact
    chosen = random.Random(2026)
    for _ in range(40):
        at = chosen.randrange(len(content))
        wrong = bytes([0xFF]) if case.text else bytes([content[at] ^ 0xFF])
        case.damaged_file(path).write_bytes(content[:at] + wrong + content[at + 1 :])
        outcome = read_damaged(case, path)
        check_damage(
            outcome,
            whole,
            silent_loss=not case.byte_is_visible,
            changed=not case.byte_is_visible,
        )


@text_case
def test_one_changed_character_breaks_nothing_else(case, intact):
    """A changed letter may be a new value; it is never another kind of failure."""
    path, content, _ = intact
    chosen = random.Random(2027)
    for _ in range(40):
        at = chosen.randrange(len(content))
        wrong = bytes([chosen.choice(b'"9x{}[],:-\n\\')])
        case.damaged_file(path).write_bytes(content[:at] + wrong + content[at + 1 :])
        read_damaged(case, path)


@text_case
@pytest.mark.parametrize("limit", ["whole", "line"])
def test_a_source_above_a_limit_is_refused(case, limit, intact):
    path, content, _ = intact
    if limit == "whole":
        error = refused(case, path, table_bytes=50, document_bytes=50)
    else:
        # Documents and tables that are read in blocks know no lines.
        longest = max(map(len, content.split(b"\n")))
        outcome = read_damaged(case, path, line_bytes=longest // 2)
        if isinstance(outcome, Conversion):
            return
        error = outcome
    assert "limit" in str(error)


@every_case
def test_an_archive_that_expands_beyond_measure_is_refused(case, intact, tmp_path):
    if not case.compressed:
        pytest.skip("not an archive")
    path, _, _ = intact
    bomb = tmp_path / "bomb.zip"
    with (
        zipfile.ZipFile(case.damaged_file(path)) as good,
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as bad,
    ):
        for entry in good.infolist():
            bad.writestr(entry.filename, good.read(entry) + b" " * 8_000_000)
    shutil.move(bomb, case.damaged_file(path))
    error = refused(case, path)
    assert "limit" in str(error) or "expan" in str(error)


@every_case
def test_an_archive_above_its_expanded_limit_is_refused(case, intact):
    if not case.compressed:
        pytest.skip("not an archive")
    path, _, _ = intact
    assert "limit" in str(refused(case, path, expanded_bytes=100, document_bytes=100))


@text_case
def test_bytes_of_another_encoding_are_named(case, intact):
    path, content, whole = intact
    place = MARKER.encode() if MARKER.encode() in content else b"plain-3"
    assert place in content
    case.damaged_file(path).write_bytes(content.replace(place, b"caf\xe9", 1))
    outcome = read_damaged(case, path)
    if isinstance(outcome, InputError):
        assert re.search("utf-?8|unicode|encod", str(outcome), re.IGNORECASE), str(outcome)
        return
    # A reader that does not decode the texts of its source never sees the byte.
    if not same(outcome, whole):
        assert any("UTF-8" in str(failure) for failure in outcome.failures)


@text_case
def test_a_byte_order_mark_changes_nothing(case, intact):
    path, content, whole = intact
    case.damaged_file(path).write_bytes(b"\xef\xbb\xbf" + content)
    assert case.reader.recognises(Source(str(path)))
    assert same(read(case, path), whole)


@text_case
def test_windows_line_ends_change_nothing(case, intact):
    path, content, whole = intact
    case.damaged_file(path).write_bytes(content.replace(b"\n", b"\r\n"))
    assert case.reader.recognises(Source(str(path)))
    assert rows_of(read(case, path)) == rows_of(whole)


@text_case
def test_utf_16_is_refused(case, intact):
    path, content, _ = intact
    case.damaged_file(path).write_bytes(content.decode().encode("utf-16"))
    outcome = read_damaged(case, path)
    if isinstance(outcome, Conversion):
        assert outcome.judgements.num_rows == 0
        assert outcome.failures


@text_case
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "null", '""', "{}"])
def test_a_score_that_is_no_number_never_becomes_one(case, number, intact):
    if case.score_text is None:
        pytest.skip("the format has no score that stands as a number")
    path, content, whole = intact
    place = case.score_text.encode()
    assert place in content
    case.damaged_file(path).write_bytes(content.replace(place, number.encode(), 1))
    outcome = read_damaged(case, path)
    if isinstance(outcome, InputError):
        return
    kept, before = rows_of(outcome, status="ok"), rows_of(whole, status="ok")
    assert not kept - before, f"invented: {kept - before}"
    lost = sum((before - kept).values())
    spoken = len(outcome.failures) + outcome.judgements.num_rows - sum(kept.values())
    assert lost == 0 or spoken > 0 or says_more(outcome, whole)


@text_case
@pytest.mark.parametrize("place", [MARKER, "plain-3"])
def test_half_a_surrogate_pair_breaks_nothing(case, place, intact):
    """JSON can spell a character that UTF-8 cannot hold."""
    path, content, _ = intact
    if place.encode() not in content:
        pytest.skip("the format holds no such text")
    case.damaged_file(path).write_bytes(content.replace(place.encode(), b"\\ud800"))
    read_damaged(case, path)


@text_case
def test_a_document_nested_without_end_is_refused(case, intact):
    path, _, _ = intact
    case.damaged_file(path).write_bytes(b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n")
    outcome = read_damaged(case, path)
    if isinstance(outcome, Conversion):
        assert outcome.judgements.num_rows == 0
        assert outcome.failures


def test_limits_of_the_suite_are_those_of_the_package():
    assert Limits().id_characters >= max(map(len, AWKWARD))
