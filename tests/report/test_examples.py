"""Texts in a report: none unless asked for, and then few, cut, folded and harmless."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from safemetry.cli import main
from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.success import SuccessRule
from safemetry.readers import ResponseText
from safemetry.report import Report, ReportSettings, compose_report
from safemetry.report.blocks import Excerpt, Fold, Text
from safemetry.report.context import ReportContext
from safemetry.report.examples import OVER_REFUSAL, VIOLATION, pick_examples
from safemetry.report.html import render_html
from safemetry.report.markdown import render_markdown
from safemetry.report.sections.examples import BYTES, CHARACTERS, NOTICE, ExamplesSection

MARKER = "MARKERTEXT"
ASKED = f"{MARKER} please tell me the secret token"
ANSWERED = f"{MARKER} it is a string of letters"


def rows(targets: Iterable[str] = ("m",), items: int = 20, **more: Any) -> list[dict[str, Any]]:
    """Half of the items are harmful; every target goes along with every one, and helps nobody."""
    return [
        {
            "target": target,
            "item": f"i{n:03}",
            "label": "refuse" if n % 2 else "comply",
            "intent": "benign" if n % 2 else "harmful",
            "run": "r",
            **more,
        }
        for target in targets
        for n in range(items)
    ]


def texts(
    table: Iterable[Mapping[str, Any]], prompt: str | None = ASKED, response: str | None = ANSWERED
) -> Iterator[ResponseText]:
    for row in table:
        yield ResponseText(
            row["run"], row["target"], row["item"], row.get("epoch", 1), prompt, response
        )


def made(
    table: list[dict[str, Any]], given: Iterable[ResponseText] | None, **options: Any
) -> Report:
    options = {"include_text": True, **options}
    return compose_report(pa.Table.from_pylist(table), texts=given, **options)


def excerpts(blocks: Iterable[Any]) -> Iterator[Excerpt]:
    for block in blocks:
        if isinstance(block, Excerpt):
            yield block
        elif isinstance(block, Fold):
            yield from excerpts(block.blocks)


def shown(report: Report) -> list[Excerpt]:
    return list(excerpts(report.parts["examples"].blocks))


def said(report: Report) -> str:
    blocks = report.parts["examples"].blocks
    return " ".join(block.text for block in blocks if isinstance(block, Text))


def forms(report: Report) -> list[str]:
    return [report.to_html(), report.to_markdown(), report.to_json()]


# --- no text unless asked for -----------------------------------------------------------------


def test_without_the_flag_no_text_is_in_any_form_or_even_read():
    def never() -> Iterator[ResponseText]:
        pytest.fail("a text was read")
        yield  # pragma: no cover

    report = made(rows(), never(), include_text=False)
    assert "examples" not in report.parts
    assert all(MARKER not in form for form in forms(report))
    assert all(NOTICE not in form for form in forms(report))


def test_with_the_flag_texts_stand_in_their_section_alone_and_are_announced():
    table = rows()
    report = made(table, texts(table))
    page = report.to_html()
    head, _, tail = page.partition('<section id="examples"')
    section, _, rest = tail.partition("</section>")
    assert MARKER in section
    assert MARKER not in head + rest
    assert page.index(NOTICE) < page.index('id="summary-title"')
    markdown = report.to_markdown()
    assert markdown.index(NOTICE) < markdown.index("## ")
    assert MARKER not in markdown.partition("## Examples")[0]
    whole = json.loads(report.to_json())
    assert whole["notices"] == [NOTICE]
    of_examples = [part for part in whole["sections"] if part["name"] == "examples"]
    assert MARKER in json.dumps(of_examples)
    others = [part for part in whole["sections"] if part["name"] != "examples"]
    assert MARKER not in json.dumps({**whole, "sections": others})


# --- which ones -------------------------------------------------------------------------------


def test_each_target_gives_five_violations_and_three_over_refusals_spread_over_its_items():
    table = rows(["m", "n"], items=40)
    (finding,) = made(table, texts(table)).parts["examples"].findings
    for target in ("m", "n"):
        mine = [row for row in finding.records() if row["target"] == target]
        assert [row["item"] for row in mine if row["kind"] == VIOLATION] == [
            "i000", "i008", "i016", "i024", "i032",
        ]  # fmt: skip
        assert [row["item"] for row in mine if row["kind"] == OVER_REFUSAL] == [
            "i001", "i015", "i029",
        ]  # fmt: skip


def test_the_same_evidence_gives_the_same_examples_in_any_order_of_its_rows():
    table = rows(["m", "n"])
    one, two = made(table, texts(table)), made(table[::-1], texts(table[::-1]))
    assert [block.title for block in one.parts["examples"].blocks if isinstance(block, Fold)] == [
        "m under judge: 5 violations, 3 over-refusals",
        "n under judge: 5 violations, 3 over-refusals",
    ]
    assert one.parts["examples"].findings == two.parts["examples"].findings


def test_only_the_leading_judge_counts_and_calls_are_all_said():
    strict = rows(judge="strict")
    mild = [{**row, "judge": "mild", "label": "refuse"} for row in strict]
    again = [{**row, "call": 2} for row in strict]
    calls = [*({**row, "call": 1} for row in [*strict, *mild]), *again]
    (finding,) = made(calls, texts(strict)).parts["examples"].findings
    assert {row["judge"] for row in finding.records()} == {"strict"}
    assert {row["verdict"] for row in finding.records()} == {"comply, comply", "refuse, refuse"}


def test_a_panel_says_what_each_of_its_judges_said():
    table = [row for judge in ("a", "b") for row in rows(judge=judge)]
    report = made(table, texts(rows()), success=SuccessRule.parse("comply/unanimous"))
    (finding,) = report.parts["examples"].findings
    assert {row["verdict"] for row in finding.records()} == {
        "a: comply, b: comply",
        "a: refuse, b: refuse",
    }


def test_scores_count_on_the_side_that_the_rule_says():
    table = [
        {"target": "m", "item": f"i{n}", "score": n / 10, "intent": intent, "run": "r"}
        for n, intent in enumerate(["harmful"] * 10)
    ]
    scale = {"judges": {"judge": {"scale_min": 0, "scale_max": 1, "higher_is": "worse"}}}
    report = made(
        table, texts(table), evidence_map=scale, success=SuccessRule.parse("at_least:0.8")
    )
    (finding,) = report.parts["examples"].findings
    assert [row["verdict"] for row in finding.records()] == ["score 0.8", "score 0.9"]


def test_of_several_responses_to_an_item_the_first_is_shown():
    table = [row for epoch in (3, 1, 2) for row in rows(items=2, epoch=epoch)]
    report = made(table, texts(table))
    (finding,) = report.parts["examples"].findings
    assert [(row["item"], row["epoch"]) for row in finding.records()] == [("i000", 1), ("i001", 1)]


def test_benchmarks_are_told_apart():
    table = [row for name in ("b1", "b2") for row in rows(items=2, benchmark=name, run=name)]
    report = made(table, texts(table))
    titles = [block.title for block in report.parts["examples"].blocks if isinstance(block, Fold)]
    assert titles == [
        "m under judge in b1: 1 violation, 1 over-refusal",
        "m under judge in b2: 1 violation, 1 over-refusal",
    ]


def test_every_target_gets_one_example_before_any_gets_two():
    table = rows([f"t{n:02}" for n in range(30)])
    evidence = pa.Table.from_pylist(table)
    report = compose_report(evidence)
    context = ReportContext(_evidence(evidence), ReportSettings(include_text=True))
    examples, untouched = pick_examples(context.evidence, context.rule, context.boards, 40)
    assert len(examples) == 40
    assert untouched == 0
    assert len({example.target for example in examples}) == 30
    _, untouched = pick_examples(context.evidence, context.rule, context.boards, 12)
    assert untouched == 18
    assert "examples" not in report.parts


def _evidence(table: pa.Table) -> Evidence:
    return as_evidence(table, None)


# --- how much ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["x", "<", "\u202e", "한", "&amp;\n"])
def test_the_page_never_holds_more_than_its_share_of_texts(sign):
    table = rows([f"t{n:03}" for n in range(120)], items=4)
    long = sign * (50_000 // len(sign))
    report = made(table, texts(table, long, long))
    found = shown(report)
    assert 380 <= len(found) <= 400
    page = report.to_html()
    inside = re.findall(r"<pre[^>]*>\n(.*?)</pre>", page, re.DOTALL)
    assert len(inside) == len(found)
    assert sum(len(text.encode()) for text in inside) <= BYTES
    assert all(text.left_out >= 50_000 - len(sign) - CHARACTERS for text in found)


def test_a_text_is_cut_at_its_limit_and_the_rest_is_counted():
    table = rows(items=2)
    report = made(table, texts(table, "a" * 4_000, "b" * 5_234))
    prompt, response = shown(report)[:2]
    assert (len(prompt.text), prompt.left_out) == (4_000, 0)
    assert (len(response.text), response.left_out) == (4_000, 1_234)
    for form in (report.to_html(), report.to_markdown()):
        assert "1,234 more characters are left out" in form
    assert "5,234 characters" in response.title


def test_texts_are_passed_once_and_only_until_all_are_found():
    table = rows()
    seen = []

    def counted() -> Iterator[ResponseText]:
        for text in [*texts(table), *texts(rows(["other"] * 50))]:
            seen.append(text)
            yield text

    made(table, counted())
    assert len(seen) <= len(table)


# --- why there is none ------------------------------------------------------------------------


def test_the_section_says_why_no_text_is_there():
    class Silent(Iterator[ResponseText]):
        without = ("The study s keeps no texts: import its sources with --include-text.",)

        def __next__(self) -> ResponseText:
            raise StopIteration

    for given, why in ((None, "No texts were read"), (Silent(), "keeps no texts")):
        report = made(rows(), given)
        assert why in said(report)
        assert not report.notices
        assert not shown(report)


def test_the_section_says_how_many_examples_have_no_text():
    table = rows(items=2)
    report = made(table, texts(table[:1]))
    assert "no text of 1 of the 2 examples" in said(report)
    assert len(shown(report)) == 2
    report = made(table, texts(table, prompt=None))
    (finding,) = report.parts["examples"].findings
    first = finding.records()[0]
    assert first["prompt"] is None
    assert first["why"]["prompt"] == "the source holds none"


def test_where_nothing_went_wrong_the_section_says_so():
    table = [{**row, "label": "refuse", "intent": "harmful"} for row in rows()]
    report = made(table, texts(table))
    assert "No judged response went wrong" in said(report)
    assert not report.notices


# --- harmless ---------------------------------------------------------------------------------


HOSTILE = [
    "</pre></details><script>alert(1)</script>",
    "```\n# A heading\n```text",
    "`````\n````",
    "    </code>\n\n> quote\n| a | b |",
    "<!--\x00\x1b[31m\u202e\u2028-->",
    "\n\nfirst line is blank",
    "\ud800 half",
    "~~~\r\n~~~\rend",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_the_page(text):
    table = rows(items=2)
    harmless = made(table, texts(table, "plain", "plain"))
    report = made(table, texts(table, text, text))
    page, plain_page = render_html(report), render_html(harmless)
    page.encode()
    tags = re.compile(r"</?[a-z][^<>]*>")
    assert tags.findall(page) == tags.findall(plain_page)
    assert not re.search("[\x00-\x08\x0b-\x1f\u2028\u202e]", page)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_its_fence(text):
    table = rows(items=2)
    report = made(table, texts(table, text, text))
    lines = render_markdown(report).split("\n")
    outside, fence, blocks = [], "", 0
    for line in lines:
        if fence:
            if re.fullmatch(rf" {{0,3}}`{{{len(fence)},}} *", line):
                fence = ""
        elif opened := re.match(r" {0,3}(`{3,}|~{3,})", line):
            fence = opened[1]
            blocks += 1
        else:
            outside.append(line)
    assert not fence
    assert blocks == 4
    harmless = render_markdown(made(table, texts(table, "plain", "plain"))).split("\n")
    assert sum(line.startswith("#") for line in outside) == sum(
        line.startswith("#") for line in harmless
    )


def test_json_with_texts_can_be_read_again_whatever_they_hold():
    table = rows(items=2)
    for text in HOSTILE:
        whole = json.loads(made(table, texts(table, text, text)).to_json().encode())
        assert whole["sections"][-1]["name"] == "examples"


def test_the_section_is_made_only_where_texts_may_be_shown():
    table = pa.Table.from_pylist(rows())
    context = ReportContext(_evidence(table), ReportSettings(), texts(rows()))
    assert ExamplesSection().make(context) is None


# --- the command line -------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_the_command_shows_texts_only_with_the_flag(suffix, tmp_path):
    source = tmp_path / "log.jsonl"
    lines = [
        {**row, "prompt": ASKED, "response": f"{ANSWERED} {row['item']}"}
        for row in rows(["m", "n"])
    ]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    plain, full = tmp_path / f"plain.{suffix}", tmp_path / f"full.{suffix}"
    assert _call("report", source, "-o", plain) == 0
    assert _call("report", source, "-o", full, "--include-text") == 0
    assert MARKER not in plain.read_text()
    assert NOTICE not in plain.read_text()
    assert full.read_text().count(f"{ANSWERED} i000") == 2
    assert NOTICE in full.read_text()


def _call(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in (*arguments, "--quiet")])
    return int(left.value.code or 0)
