"""Tables are read as they are: every cell is text, and whatever is lost or shifted is noticed."""

from __future__ import annotations

import datetime as dt
import decimal
import os

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from safemetry.errors import InputError
from safemetry.evidence.maps import Limits
from safemetry.readers import read_evidence
from safemetry.readers.source import Source, finite
from safemetry.readers.tables import kind_of_table, read_sample, read_table


def source(tmp_path, content, name="a.csv", **limits) -> Source:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Source(str(path), Limits(**limits))


def cells(table) -> list[dict[str, object]]:
    return table.to_arrow().to_pylist()


def error_of(*arguments, **options) -> str:
    with pytest.raises(InputError) as caught:
        read_table(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- CSV --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("separator", [",", "\t", ";"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_separators_and_marks_are_a_matter_of_the_file(tmp_path, end, separator, mark):
    rows = [["item", "note"], ["001", '"a, b; c\td"'], ["2", ""]]
    text = "".join(separator.join(row) + end for row in rows)
    table = read_table(source(tmp_path, mark + text.encode()))
    assert cells(table) == [{"item": "001", "note": "a, b; c\td"}, {"item": "2", "note": None}]


def test_every_cell_is_text(tmp_path):
    table = read_table(source(tmp_path, "item,score\n001,1e5\n1.0,NaN\n,true\n"))
    assert cells(table) == [
        {"item": "001", "score": "1e5"},
        {"item": "1.0", "score": "NaN"},
        {"item": None, "score": "true"},
    ]


def test_a_separator_inside_quotes_is_not_counted(tmp_path):
    table = read_table(source(tmp_path, '"a, b, c";d\n1;2\n'))
    assert table.columns == ("a, b, c", "d")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3\n", "row 2 (line 3): has 1 cells where the header has 2"),
        ("a,b\n1,2,3\n", "row 1 (line 2): has 3 cells where the header has 2"),
        ("a,b\n\n\n1,2\n3\n", "row 2 (line 5): has 1 cells"),
        ('a,b\n1,"2\n2"\n3\n', "row 2 (line 4): has 1 cells"),
        ('"a\na",b\n1,2\n3\n', "row 2 (line 4): has 1 cells"),
        ('a,b\n1,2\n3,"4\n', "line 3: a quoted cell begins here that does not end"),
        ('a,b\n1,"2\n3,"4"\n', "line 2: a quoted cell begins here that does not end"),
        ('a,b\n"1"x,2\n', "line 2: a quoted cell begins here that does not end"),
        ('a,b\n1,2"\n3,4"\n', "line 2: a quote stands amid an unquoted cell"),
        ("a,b\n1,2\n3,\x00\n", "line 3: holds a zero byte"),
        ("a,b,a\n1,2,3\n", "line 1, column 'a': two columns have the same name"),
        ("a,b\n", "the table has a header but no rows"),
        ("a,b", "the table has a header but no rows"),
        ("", "the file is empty"),
        (" \n\n", "the file is empty"),
    ],
)
def test_damage_is_named_with_its_place(tmp_path, text, said):
    assert said in error_of(source(tmp_path, text))


@pytest.mark.parametrize("quoted", ['"a""b"', '"a\nb"', '""', '"a,b"', '""""'])
def test_quotes_as_they_should_be_are_read(tmp_path, quoted):
    table = read_table(source(tmp_path, f"x,{quoted}\n{quoted},y\n{quoted},{quoted}\n"))
    wanted = quoted[1:-1].replace('""', '"') or None
    assert [row["x"] for row in cells(table)] == [wanted, wanted]


def test_quotes_that_straddle_blocks_are_followed(tmp_path):
    inside = "," + "\n" * 7 + 'and ""more"", '
    rows = "".join(f'{number},"{inside * 40}"\n' for number in range(12_000))
    assert len(rows) > 2 * 4 * 2**20
    table = read_table(source(tmp_path, "a,b\n" + rows))
    assert table.rows == 12_000
    assert table.header_lines == 0
    damaged = rows.replace('"\n11999,', "\n11999,")
    assert "line" in error_of(source(tmp_path, "a,b\n" + damaged))


def test_lines_are_told_only_where_each_row_is_one(tmp_path):
    assert read_table(source(tmp_path, "a,b\n1,2\n3,4")).header_lines == 1
    assert read_table(source(tmp_path, 'a,b\n1,"2\n2"\n3,4\n')).header_lines == 0
    assert read_table(source(tmp_path, "a,b\n\n1,2\n")).header_lines == 0
    assert read_table(source(tmp_path, '"a\n",b\n1,2\n')).header_lines == 0


def test_another_encoding_is_named_in_the_map(tmp_path):
    content = "a,b\n1,é\n2,…\n".encode("cp1252")
    said = error_of(source(tmp_path, content))
    assert "line 2" in said
    assert "encoding: cp1252" in said
    assert cells(read_table(source(tmp_path, content), "cp1252"))[1] == {"a": "2", "b": "…"}
    assert "line 2: byte 0x81 is not in the encoding cp1252" in error_of(
        source(tmp_path, b"a,b\n1,\x81\n"), "cp1252"
    )
    assert "there is no encoding 'klingon'" in error_of(source(tmp_path, content), "klingon")


def test_a_header_in_another_encoding_is_named(tmp_path):
    assert "line 1: byte 0xe9 is not UTF-8" in error_of(source(tmp_path, b"a,caf\xe9\n1,2\n"))


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le"])
def test_utf_16_is_read_where_the_map_says_so(tmp_path, codec):
    content = "a\tb\n1\t한\n".encode(codec)
    assert cells(read_table(source(tmp_path, content), codec)) == [{"a": "1", "b": "한"}]


def test_utf_16_is_recognised_as_such(tmp_path):
    assert "UTF-16" in error_of(source(tmp_path, "a,b\n1,2\n".encode("utf-16")))


def test_a_row_longer_than_a_block_is_read_up_to_the_limit_of_lines(tmp_path):
    text = f"a,b\n1,{'x' * 10_000_000}\n2,y\n"
    assert len(cells(read_table(source(tmp_path, text)))[0]["b"]) == 10_000_000
    assert "limits.line_bytes" in error_of(source(tmp_path, text, line_bytes=4_500_000))


def test_columns_that_nobody_asked_for_are_not_read(tmp_path):
    table = read_table(source(tmp_path, "a,prompt,b\n1,long,2\n"), columns={"a", "b", "c"})
    assert table.data.column_names == ["a", "b"]
    assert table.columns == ("a", "prompt", "b")


def test_names_that_differ_in_case_are_two_columns(tmp_path):
    text = "target,Label,label,item\nm,a,comply,1\n"
    (tmp_path / "t.csv").write_text(text)
    pq.write_table(
        pa.table({"target": ["m"], "Label": ["a"], "label": ["comply"], "item": ["1"]}),
        tmp_path / "t.parquet",
    )
    for name in ("t.csv", "t.parquet"):
        rows = read_evidence(str(tmp_path / name)).rows.collect("pyarrow").to_arrow()
        assert rows["label"].to_pylist() == ["comply"]


def test_too_many_rows_or_bytes_are_refused(tmp_path):
    assert "limits.rows" in error_of(source(tmp_path, "a,b\n1,2\n3,4\n", rows=1))
    assert "limits.table_bytes" in error_of(source(tmp_path, "a,b\n1,2\n3,4\n", table_bytes=8))


# --- JSON lines -------------------------------------------------------------------------------


def test_numbers_stay_as_they_are_written(tmp_path):
    text = '{"a": 1.0, "b": 10000000000000000000000, "c": true}\n\n{"a": 1e5, "d": null}\n'
    table = read_table(source(tmp_path, text, "a.jsonl"))
    assert cells(table) == [
        {"a": "1.0", "b": "1" + "0" * 22, "c": "true"} | {"d": None},
        {"a": "1e5", "b": None, "c": None, "d": None},
    ]


def test_a_number_of_any_length_is_a_text(tmp_path):
    digits = "7" * 10_000
    assert cells(read_table(source(tmp_path, f'{{"a": {digits}}}\n')))[0]["a"] == digits


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1}\n{"a": NaN}\n', "line 2: is not valid JSON (NaN is not a JSON value)"),
        ('{"a": 1}\n\n[1, 2]\n', "line 3: is not a JSON object"),
        ('{"a": 1}\n"text"\n', "line 2: is not a JSON object"),
        ('{"a": 1}\n{"a": 1, "a": 2}\n', "line 2: is not valid JSON (the key 'a' stands twice); "),
        ('{"a": 1}\n{"a": ', "line 2: is damaged or cut short"),
        ('{"a": 1}\n{"a": "\\ud800"}\n', "line 2, column 'a': holds half a character"),
        ('{"a": 1}\n{"\\ud800": 1}\n', "line 2, column '?': holds half a character"),
        ('{"a": 1} {"a": 2}\n', "line 1: is damaged or cut short"),
        ('[{"a": 1}]\n', "is one JSON list, not JSON lines; write one JSON object a line"),
        ('{\n "a": 1\n}\n', "is one JSON document, not JSON lines"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, text, said):
    assert said in error_of(source(tmp_path, text, "a.jsonl"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[" * 100_000 + "]" * 100_000, "is nested too deeply; export it again"),
        ("9" * 6_000, "holds a number of more than 4,300 digits; write it as a text"),
    ],
)
def test_json_that_cannot_be_held_says_why(tmp_path, value, said):
    held = source(tmp_path, f'{{"a": {value}}}', "a.json")
    with pytest.raises(InputError) as caught:
        held.read_json()
    assert said in str(caught.value)
    with pytest.raises(InputError) as caught:
        held.read_json_line(3, held.read_bytes())
    assert "line 3: " + said in str(caught.value)


def test_a_key_that_stands_twice_has_a_fix(tmp_path):
    said = error_of(source(tmp_path, '{"a": 1}\n{"a": 1, "a": 2}\n', "a.jsonl"))
    assert said.endswith("stands twice); export it again, or remove the line")


def test_a_nested_value_is_refused_where_it_is_asked_for(tmp_path):
    nested = source(tmp_path, '{"a": 1}\n{"a": {"b": 2}, "meta": [1]}\n')
    assert "line 2, column 'a': holds a list" in error_of(nested, columns={"a"})
    assert cells(read_table(nested, columns={"b"})) == [{"": None}, {"": None}]
    assert cells(read_table(nested))[1] == {"a": '{"b": "2"}', "meta": '["1"]'}


def test_lines_are_read_in_pieces_with_the_columns_of_all(tmp_path, monkeypatch):
    monkeypatch.setattr("safemetry.readers.json_lines._CHUNK_ROWS", 2)
    text = "".join(f'{{"{name}": {at}}}\n' for at, name in enumerate("aabbbac"))
    table = read_table(source(tmp_path, text), columns={"a", "c"})
    assert [row["a"] for row in cells(table)] == ["0", "1", None, None, None, "5", None]
    assert table.rows == len(cells(table)) == 7


def test_a_first_object_longer_than_the_head_is_still_a_line(tmp_path):
    text = f'{{"target": "m", "item": "1", "response": "{"x" * 100_000}", "label": "comply"}}\n'
    path = source(tmp_path, text * 2, "a.jsonl")
    assert kind_of_table(path) == "jsonl"
    assert read_sample(path).names == ("target", "item", "response", "label")
    assert len(read_evidence(path.location).rows.collect().to_arrow()) == 2


# --- Parquet ----------------------------------------------------------------------------------


def parquet(tmp_path, columns, name="a.parquet", **options):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)
    return path


def tidy(**columns):
    rows = len(next(iter(columns.values()))) if columns else 1
    return {"target": ["m"] * rows, "item": [str(n) for n in range(rows)]} | columns


@pytest.mark.parametrize(
    "name",
    [
        "it's.parquet",
        'say "a".parquet',
        "we*ird.parquet",
        "q?.parquet",
        "[ab].parquet",
        "a\\b.parquet",
        "%41~.parquet",
        "결과 é.parquet",
        "model=gpt/x.parquet",
        "no_suffix",
    ],
)
def test_a_path_is_nothing_but_a_path(tmp_path, name):
    parquet(tmp_path, tidy(label=["refuse"]), "weird.parquet")
    parquet(tmp_path, tidy(label=["refuse"]), "a.parquet")
    path = parquet(tmp_path, tidy(label=["comply"]), name)
    evidence = read_evidence(str(path))
    rows = evidence.rows.collect("pyarrow").to_arrow()
    assert rows["label"].to_pylist() == ["comply"]
    assert rows["run"].to_pylist() == [path.name]


def test_folders_named_like_columns_add_none(tmp_path):
    path = parquet(tmp_path, tidy(label=["comply"]), "category=fraud/x.parquet")
    rows = read_evidence(str(path)).rows.collect("pyarrow").to_arrow()
    assert rows["category"].to_pylist() == [None]


def test_types_of_parquet_become_what_a_csv_would_hold(tmp_path):
    when = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    path = parquet(
        tmp_path,
        tidy(
            label=pa.array(["comply", "refuse"]).dictionary_encode(),
            score=pa.array([decimal.Decimal("0.25"), None], pa.decimal128(5, 2)),
            epoch=pa.array([1, 2], pa.uint8()),
            category=pa.array([b"fraud", b"caf\xc3\xa9"], pa.binary()),
            timestamp=pa.array([when, when], pa.timestamp("us")),
            attack=pa.array([dt.date(2026, 1, 2), None]),
            turn=pa.array([1.0, float("nan")]),
        ),
    )
    rows = read_evidence(str(path)).rows.collect("pyarrow").to_arrow().to_pylist()
    rows.sort(key=lambda row: row["source_row"])
    assert [row["label"] for row in rows] == ["comply", "refuse"]
    assert [row["score"] for row in rows] == [0.25, None]
    assert [row["epoch"] for row in rows] == [1, 2]
    assert [row["category"] for row in rows] == ["fraud", "café"]
    assert rows[0]["timestamp"].startswith("2026-01-02 03:04:05")
    assert [row["attack"] for row in rows] == ["2026-01-02", None]
    assert [row["turn"] for row in rows] == [1, None]


def test_nan_in_parquet_is_a_missing_score(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame(tidy(score=[0.5, float("nan")])).write_parquet(path)
    rows = read_evidence(str(path)).rows.collect("pyarrow").to_arrow()
    assert sorted(zip(rows["status"].to_pylist(), rows["score"].to_pylist(), strict=True)) == [
        ("missing", None),
        ("ok", 0.5),
    ]


def test_a_column_of_lists_is_refused_where_it_is_used(tmp_path):
    path = parquet(tmp_path, tidy(label=[["comply"]]))
    with pytest.raises(InputError, match="column 'label': holds values of the type list"):
        read_evidence(str(path))
    unused = parquet(tmp_path, tidy(label=["comply"], messages=[["hello"]]))
    assert len(read_evidence(str(unused)).rows.collect().to_arrow()) == 1


def test_rows_are_numbered_even_beside_a_column_of_that_name(tmp_path):
    path = parquet(tmp_path, tidy(label=["comply"], file_row_number=[7]))
    assert len(read_evidence(str(path)).rows.collect().to_arrow()) == 1


def test_a_bad_value_in_parquet_is_named_with_its_row(tmp_path):
    path = parquet(tmp_path, tidy(label=["comply"] * 5 + ["maybe"] + ["comply"] * 5))
    with pytest.raises(InputError, match="row 6, column 'label': unknown label 'maybe'"):
        read_evidence(str(path))


def test_two_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([["m"], ["1"], ["x"]], ["target", "item", "item"]), path)
    with pytest.raises(InputError, match="two columns have the same name"):
        read_evidence(str(path))


def test_what_the_footer_announces_is_held_against_the_limits(tmp_path):
    path = parquet(tmp_path, tidy(label=["comply"] * 2_000), use_dictionary=False)
    for limits, said in (({"expanded_bytes": 1_000}, "expanded_bytes"), ({"rows": 10}, "rows")):
        with pytest.raises(InputError, match=rf"limits\.{said}"):
            read_evidence(str(path), evidence_map={"limits": limits})


@pytest.mark.parametrize("kept", [4, 8, 50, 0.5, 0.9, -1, -8])
def test_a_parquet_file_cut_short_is_one_error(tmp_path, kept):
    path = parquet(tmp_path, tidy(label=["comply"] * 500))
    content = path.read_bytes()
    size = int(len(content) * kept) if isinstance(kept, float) else kept
    path.write_bytes(content[:size])
    with pytest.raises(InputError, match="is damaged or cut short") as caught:
        read_evidence(str(path))
    assert caught.value.file == str(path)


def test_a_damaged_page_is_one_error_wherever_it_lies(tmp_path):
    texts = [f"text number {n * 7919 % 1000}" for n in range(1_000)]
    columns = tidy(label=["comply"] * 1_000, category=texts, session=texts, timestamp=texts)
    path = parquet(tmp_path, columns, compression="zstd")
    content = path.read_bytes()
    metadata = pq.read_metadata(path)
    for name in ("label", "category", "session"):
        at = metadata.schema.names.index(name)
        start = metadata.row_group(0).column(at).dictionary_page_offset + 30
        damaged = bytearray(content)
        damaged[start : start + 40] = b"\xff" * 40
        path.write_bytes(damaged)
        intact = parquet(tmp_path, columns, "b.parquet")
        with pytest.raises(InputError, match="is damaged") as caught:
            read_evidence(str(path), str(intact))
        assert caught.value.file == str(path)


# --- sources ----------------------------------------------------------------------------------


def test_what_is_neither_a_file_nor_a_folder_is_refused(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (str(pipe), "/dev/null", "/dev/zero"):
        with pytest.raises(InputError, match="neither a file nor a folder"):
            read_evidence(place)
        with pytest.raises(InputError, match="neither a file nor a folder"):
            _ = Source(place).head


@pytest.mark.parametrize("name", ["absent", "absent/deeper", "a.csv/inside", "x" * 300, "nul\x00"])
def test_a_path_that_leads_nowhere_is_one_error(tmp_path, name):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError) as caught:
        read_evidence(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_a_link_leads_to_its_file(tmp_path):
    (tmp_path / "a.csv").write_text("target,item,label\nm,1,comply\n")
    (tmp_path / "link").symlink_to(tmp_path / "a.csv")
    assert len(read_evidence(str(tmp_path / "link")).rows.collect().to_arrow()) == 1
    (tmp_path / "dead").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match="no such file"):
        read_evidence(str(tmp_path / "dead"))


def test_secrets_of_an_address_are_not_shown():
    source = Source("https://user:word@host.org/runs/a.csv?token=secret#part")
    assert source.shown == "https://host.org/runs/a.csv"
    assert source.name == "a.csv"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x1f\x8b\x08\x00rest", "is compressed"),
        (b"PK\x03\x04rest", "zip archive or a spreadsheet"),
        (b"SQLite format 3\x00rest", "is an SQLite database"),
        (b"\x89PNG\r\n", "is no CSV, JSON lines or Parquet table"),
        (b"one\ntwo\n", "is no CSV, JSON lines or Parquet table"),
    ],
)
def test_what_is_no_table_is_told_what_it_is(tmp_path, content, said):
    assert said in error_of(source(tmp_path, content, "x"))


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1.0), (True, 1.0), (0.5, 0.5), (float("nan"), None), ("1", None), (10**400, None)],
)
def test_a_finite_number_is_a_float_or_nothing(value, number):
    assert finite(value) == number


def test_the_relation_of_a_parquet_file_keeps_its_order(tmp_path):
    path = parquet(
        tmp_path, tidy(label=["comply"] * 50_000), row_group_size=1_000, name="long.parquet"
    )
    table = read_table(Source(str(path)))
    assert isinstance(table.data, duckdb.DuckDBPyRelation)
    assert table.to_arrow()["source_row"].to_pylist() == list(range(1, 50_001))
