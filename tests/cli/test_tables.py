"""Tables: numbers are whole, names are told apart, and nothing wraps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safemetry.cli.tables import Column, Table, table, wrapped
from safemetry.display import NAME_WIDTH, cell_width, shortened, shown, visible

NUMBERS = ("21.1%", "8.51-43.3%", "41.9%", "1,234/20,000", "1,000")


def rates(*keys: str, rows: list[tuple[str, ...]], optional: bool = False) -> Table:
    made = table(
        "attack_success_rate",
        *(Column(name) for name in keys),
        *(Column(name, "right") for name in ("rate", "interval", "ceiling", "n", "missing")),
        *([Column("if missing", "right", optional=True)] if optional else []),
    )
    for row in rows:
        made.add_row(*row, *NUMBERS, *(["20.0-25.0%"] if optional else []))
    return made


def printed(made: Table, width: int = 80, most: int | None = None) -> list[str]:
    return [line.text for line in made.lines(width, most=most)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), max_size=90)] * 3),
        min_size=1,
        max_size=12,
    ),
    st.integers(72, 200),
)
def test_no_line_is_wider_than_the_terminal_and_no_number_is_lost(rows, width):
    cleaned = [tuple(shown(name) for name in row) for row in rows]
    lines = printed(rates("target", "judge", "category", rows=cleaned), width)
    assert all(cell_width(line) <= width for line in lines)
    whole = [line for line in lines if all(number in line for number in NUMBERS)]
    assert len(whole) == len(rows)


def test_numbers_end_in_the_same_column_whatever_the_names_are():
    names = ["m", "org/a-model-with-a-name-of-some-length", "안전한-모델", "安全模型" * 6]
    lines = printed(rates("target", rows=[(name,) for name in names]))
    ends = {cell_width(line[: line.index("21.1%")]) for line in lines if "21.1%" in line}
    assert len(ends) == 1


def test_every_name_is_there_in_full_up_to_60_columns():
    names = [f"{'organisation/model' * 3}-{index}" for index in range(5)]
    assert max(map(len, names)) <= NAME_WIDTH
    text = "\n".join(
        printed(rates("target", "judge", rows=[(n, "judge-of-some-kind") for n in names]))
    )
    assert all(name in text for name in names)


def test_a_key_that_all_rows_share_is_said_once():
    made = rates("target", "category", rows=[("model", "cyber"), ("model", "privacy")])
    lines = printed(made)
    assert "target: model" in lines
    assert sum("model" in line for line in lines) == 1


def test_one_row_keeps_its_keys():
    assert any(line.startswith("model") for line in printed(rates("target", rows=[("model",)])))


def test_optional_columns_go_before_keys_are_moved():
    rows = [("a-model-name", "b"), ("a-model-name-2", "c")]
    wide, narrow = (
        printed(rates("target", "judge", rows=rows, optional=True), width) for width in (120, 78)
    )
    assert any("if missing" in line for line in wide)
    assert not any("if missing" in line for line in narrow)
    assert any(line.startswith("target") and "judge" in line for line in narrow)


def test_outer_keys_stand_above_their_rows_once():
    first, second = (
        "meta-llama/llama-3.1-405b-instruct-turbo",
        "anthropic/claude-3-5-sonnet-20241022",
    )
    judges = ["harmbench-classifier", "gpt-4o-2024-05-13"]
    lines = printed(
        rates("target", "judge", rows=[(name, j) for name in (first, second) for j in judges])
    )
    assert lines.count(first) == lines.count(second) == 1
    assert lines.index(first) < lines.index(second)


def test_rows_that_are_left_out_are_counted():
    made = rates("target", rows=[(f"model-{index}",) for index in range(300)])
    lines = printed(made, most=40)
    assert lines[-1] == "... and 260 more rows"
    assert sum("21.1%" in line for line in lines) == 40


def test_a_row_has_a_cell_for_each_column():
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        table("x", ("a", "left"), ("b", "right")).add_row("1")


@pytest.mark.parametrize(
    ("hostile", "safe"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("two\nlines\ttab\r", "two\\nlines\\ttab\\r"),
        ("right\u202eleft", "right\\u202eleft"),
        ("bell\x07\x9b", "bell\\x07\\x9b"),
        ("half\udcff", "half\\udcff"),
        ("[red]markup[/red] :smile:", "[red]markup[/red] :smile:"),
        ("안전한 模型 é", "안전한 模型 é"),
        ("full\u3000width", "full\u3000width"),
    ],
)
def test_what_a_terminal_would_act_on_is_made_visible(hostile: str, safe: str):
    assert visible(hostile) == safe
    assert shown(hostile) == safe


def test_a_cell_of_10_kb_keeps_both_ends():
    text = shown("start" + "x" * 10_000 + "end-17")
    assert cell_width(text) <= NAME_WIDTH
    assert text.startswith("start")
    assert text.endswith("end-17")
    assert shown(None) == ""


@pytest.mark.parametrize("text", ["plain", "模型" * 60, "e\u0301" * 100, "mixed 模型 " * 30])
def test_shortened_text_is_never_wider(text: str):
    assert cell_width(shortened(text, 30)) <= 30


def test_wide_and_combining_characters_have_their_width():
    assert cell_width("模型") == cell_width("안전") == 4
    assert cell_width("e\u0301") == 1


def test_wrapped_lines_keep_their_indent_and_their_words():
    text = "  To do: " + "restore the file from a copy " * 8
    lines = list(wrapped(text, 40))
    assert all(line.startswith("  ") and len(line) <= 40 for line in lines)
    assert " ".join(lines).split() == text.split()
    assert list(wrapped("", 40)) == [""]
