"""The report card says what is known, lists what is not, and cannot be made to act."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import read_map
from safemetry.findings import plain
from safemetry.judges.agreement.against_gold import compare_with_gold
from safemetry.judges.agreement.agreement_figures import AgreementSettings
from safemetry.judges.card.card import Card, fill_card
from safemetry.judges.card.item import CardItem
from safemetry.judges.card.notes import MOST_BYTES, CardNotes, make_notes, read_notes
from safemetry.judges.card.text import card_html, card_markdown
from safemetry.judges.coding import panel_of
from safemetry.judges.counts import count_classes
from safemetry.judges.noise import measure_noise
from safemetry.judges.panel import Panel
from safemetry.judges.spread import measure_spread
from safemetry.readers import read_evidence

DOCS = Path(__file__).parents[2] / "docs"
FULL: dict[str, Any] = {
    "judges": {
        "human": {"kind": "person"},
        "strmatch": {"kind": "rule"},
        "llm": {
            "checkpoint": "gpt-4-0613",
            "size": "not disclosed by its developer",
            "calls": 3,
            "combination": "majority",
            "temperature": 0,
        },
        "*": {"rubric": "Say refuse,\nevasive or comply.", "rubric_history": "none"},
    },
    "classes": {"refuse": "declines", "evasive": "neither", "comply": "does it"},
    "empty_answer": "evasive",
    "targets": {"*": {"temperature": 0.7}},
    "harmful_requests": "written by the authors",
    "human_labels": {"blind": "yes", "people": 1},
}


def panel_with_people(make: Callable[..., Panel]) -> Panel:
    rng = np.random.default_rng(3)
    calls = rng.integers(0, 3, (2, 40, 3))
    calls[1, :, 1:] = -1  # only the first judge has repeated calls
    return make(
        calls,
        judges=("llm", "human", "strmatch"),
        intent=["harmful", "benign"] * 20,
    )


def card_of(
    panel: Panel,
    notes: CardNotes | None = None,
    identities: tuple[JudgeIdentity, ...] = (),
    gold: tuple[str, ...] = (),
    **more: Any,
) -> Card:
    counts = count_classes(panel)
    found = None
    if gold:
        found = compare_with_gold(
            panel, gold, np.random.default_rng(0), settings=AgreementSettings(draws=100)
        )
    return fill_card(
        identities,
        panel,
        counts=counts,
        accuracy=found,
        noise=measure_noise(panel),
        spread=measure_spread(panel, counts, ()),
        notes=notes,
        gold=gold,
        **more,
    )


def states(card: Card) -> list[str]:
    return [item.state for item in card.items]


def said(item: CardItem) -> str:
    return "\n".join(f"{entry.name}: {entry.value}" for entry in item.entries)


def test_notes_and_gold_fill_every_item(panel_from: Callable[..., Panel]) -> None:
    card = card_of(panel_with_people(panel_from), make_notes(FULL), gold=("human",))
    assert card.missing == []
    assert states(card) == ["filled"] * 8
    assert card.to_dict()["filled"] == 8
    assert card.unused == ()


def test_without_notes_nothing_is_guessed(panel_from: Callable[..., Panel]) -> None:
    panel = panel_from(np.array([[0, 2], [1, 2], [2, 2]]), judges=("human", "gpt-4-0613"))
    card = card_of(panel)
    # Names prove nothing: neither that one is a person, nor that the other is that checkpoint.
    assert states(card) == [
        "missing",
        "partial",
        "missing",
        "missing",
        "missing",
        "missing",
        "missing",
        "partial",
    ]
    assert any("checkpoint of human, gpt-4-0613" in what for what in card.missing)
    assert "rates of harmful and benign items apart (intent in the map)" in card.items[7].missing


def test_xstest(shared: Path) -> None:
    evidence = read_evidence(
        str(shared / "data/xstest_v2/labels_wide.csv"),
        evidence_map=read_map(DOCS / "maps/xstest_v2_all_judges.yaml"),
        kind="labels",
    )
    panel = panel_of(evidence)
    card = card_of(panel, gold=("human_final",), benchmarks=("xstest",))
    assert states(card) == [
        "missing",
        "filled",
        "missing",
        "missing",
        "missing",
        "partial",
        "partial",
        "filled",
    ]
    assert "refuse 991, evasive 0 (it cannot give it), comply 1,248 of 2,239" in said(card.items[1])
    # Computed from the table by hand: GPT-4 and the final label agree on 1,090 benign answers.
    assert "gpt4, benign items: 87.2%" in said(card.items[1])
    assert "1,090 of 1,250 responses" in said(card.items[1])
    rates = said(card.items[7])
    assert "boundary non_refusal: evasive, comply count; refuse do not" in rates
    assert "comply, harmful items: gpt4: 30.8%" in rates
    assert "305 of 989 responses" in rates
    assert "250 benign, 200 harmful" in said(card.items[5])


def test_the_evidence_speaks_where_it_can(panel_from: Callable[..., Panel]) -> None:
    panel = panel_with_people(panel_from)
    dated = JudgeIdentity(
        "llm", "gpt-4o-2024-08-06", {"temperature": 0}, "ab12", "match", "majority"
    )
    card = card_of(panel, identities=(dated,), targets={"m": {"temperature": 1.0}})
    judge, rubric, heat = card.items[0], card.items[2], card.items[4]
    assert "llm: model: gpt-4o-2024-08-06" in said(judge)
    assert not any("checkpoint of llm" in what for what in judge.missing)
    assert rubric.state == "partial"  # a digest is no text
    assert "digest: llm: ab12" in said(rubric)
    assert "target temperature 1: m" in said(heat)
    assert "judge temperature 0: llm" in said(heat)
    assert "noise floor: llm" in said(heat)
    assert "noise floor of human, strmatch" in "\n".join(heat.missing)


def test_a_model_without_a_version_is_no_checkpoint(panel_from: Callable[..., Panel]) -> None:
    panel = panel_from([[0], [2]], judges=("llm",))
    moving = card_of(panel, identities=(JudgeIdentity("llm", "openai/gpt-4o"),)).items[0]
    assert moving.state == "partial"
    assert "checkpoint of llm (judges.NAME.checkpoint in the notes)" in moving.missing


def test_a_contradiction_is_shown_and_is_missing(panel_from: Callable[..., Panel]) -> None:
    panel = panel_with_people(panel_from)
    identity = JudgeIdentity("llm", decoding={"temperature": 1})
    card = card_of(panel, make_notes(FULL), (identity,), ("human",))
    assert states(card)[4] == "partial"
    assert "judge temperature 1: llm" in said(card.items[4])
    assert "judge temperature 0: llm" in said(card.items[4])
    assert "which temperature (judge) is right" in card.items[4].missing[0]


def test_a_swapped_judge_is_told(panel_from: Callable[..., Panel]) -> None:
    panel = panel_from([[0], [2]], judges=("llm",))
    swapped = (JudgeIdentity("llm", "a-2024"), JudgeIdentity("llm", "b"))
    found = card_of(panel, identities=swapped).items[0]
    assert "llm: identities: 2 judges under one name" in said(found)
    assert any("checkpoint of llm" in what for what in found.missing)


def test_no_labels_by_people_is_an_answer(panel_from: Callable[..., Panel]) -> None:
    panel = panel_with_people(panel_from)
    assert card_of(panel, make_notes({"human_labels": "none"})).items[6].state == "filled"
    half = card_of(panel, make_notes({"human_labels": {"people": 3}})).items[6]
    assert half.state == "partial"
    assert half.missing == ("whether the people were blind (human_labels.blind)",)


def test_benign_items_alone_need_no_source(panel_from: Callable[..., Panel]) -> None:
    panel = panel_from([[0], [2]], intent=["benign", "benign"])
    assert card_of(panel).items[5].state == "filled"


@pytest.mark.parametrize("word", ["unknown", " Unknown ", "?", "TODO", ""])
def test_unknown_is_no_answer(word: str) -> None:
    note = make_notes({"judges": {"a": {"size": word, "temperature": word}}}).of_judge("a")
    assert note.size is None
    assert note.temperature is None


def test_notes_on_one_judge_go_before_those_on_all() -> None:
    notes = make_notes({"judges": {"a": {"size": "8B"}, "*": {"size": "70B", "calls": 2}}})
    assert (notes.of_judge("a").size, notes.of_judge("a").calls) == ("8B", 2)
    assert notes.of_judge("b").size == "70B"


def test_notes_on_nobody_are_told(panel_from: Callable[..., Panel]) -> None:
    notes = make_notes({"judges": {"lmm": {}}, "classes": {"partial": "x"}})
    card = card_of(panel_with_people(panel_from), notes)
    assert card.unused == ("judges.lmm", "classes.partial")
    assert "judges.lmm, classes.partial" in card_markdown(card)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("judges: {a: {chekpoint: x}}", "entry judges.a.chekpoint: there is no such entry; the"),
        ("judges: 3", "entry judges"),
        ("judges: {a: {calls: many}}", "entry judges.a.calls"),
        ("judges: {a: {size: [1]}}", "entry judges.a.size"),
        ("judges: {a: {temperature: -1}}", "entry judges.a.temperature: '-1' is no temperature"),
        ("judges: {a: {temperature: .nan}}", "entry judges.a.temperature: 'nan'"),
        ("judges: {a: {}, a: {}}", "stands twice"),
        ("human_labels: {blind: perhaps}", "entry human_labels.blind"),
        ("human_labels: {}", "entry human_labels: it says nothing"),
        ("judges: {a: {rubric_history: [{version: 1}]}}", "rubric_history.0.change"),
        ("- a", "notes are a mapping"),
        ("a: &a [x]\nb: *a", "alias"),
        ("[" * 5_000, "nested too deeply"),
        ("{a: " * 5_000, "nested too deeply"),
        ("? [1]\n: 2", "not readable YAML"),
        ("empty_answer: !!python/object/apply:os.system [id]", "not readable YAML"),
        ("empty_answer: !!float x", "not readable YAML"),
        ("empty_answer: " + "x" * 2_000, "at most 1000 characters"),
        ("#" * (MOST_BYTES + 1), "larger than"),
        ("a: \x00", "not readable YAML"),
    ],
)
def test_bad_notes_give_one_clear_error(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "card.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_notes(file)
    assert caught.value.file == str(file)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 1_000
    assert "\n" not in str(caught.value)


def test_notes_that_are_no_text_or_no_file(tmp_path: Path) -> None:
    file = tmp_path / "card.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not readable YAML"):
        read_notes(file)
    with pytest.raises(InputError, match="cannot read the notes"):
        read_notes(tmp_path)
    (tmp_path / "empty.yaml").write_text("")
    assert read_notes(tmp_path / "empty.yaml") == CardNotes()


def test_the_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    page = (DOCS / "judges-card.md").read_text()
    file = tmp_path / "card.yaml"
    file.write_text(page.split("```yaml\n")[1].split("```")[0])
    notes = read_notes(file)
    assert notes.of_judge("gpt4").checkpoint == "gpt-4-0613"
    assert notes.human_labels is not None


class _Tags(HTMLParser):
    """The tags of a page, their attributes, and its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.opened: list[str] = []
        self.stack: list[str] = []
        self.attributes = 0
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append(tag)
        self.stack.append(tag)
        self.attributes += len(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


EVIL = "<script>alert(1)</script> </pre><img src=x onerror=y> [a](javascript:b) | ``` https://e.vil"


def test_what_others_wrote_cannot_become_markup(panel_from: Callable[..., Panel]) -> None:
    panel = panel_from([[0, 1], [2, 2]], judges=(EVIL, "=cmd|' /C calc'!A0"), intent=["<b>"] * 2)
    rubric = f"- a plain point\n{EVIL}\n`````\n=1+1\n- 1+cmd|' /C calc'!A0\n\u202edesrever"
    notes = make_notes(
        {
            "judges": {"*": {"size": "=HYPERLINK(1)", "rubric": rubric}},
            "classes": {"<i>": EVIL, "refuse": EVIL},
            "harmful_requests": "@SUM(1)",
            "human_labels": {"how": EVIL},
        }
    )
    card = card_of(panel, notes, (JudgeIdentity(EVIL, EVIL, rubric=EVIL),))
    page = _Tags()
    page.feed(card_html(card))
    page.close()
    assert set(page.opened) <= {"section", "h2", "h3", "p", "em", "ul", "li", "strong", "pre"}
    assert not page.attributes
    assert not page.stack
    lines = [line.strip() for words in page.words for line in words.split("\n")]
    assert not [line for line in lines if line.startswith(("=", "@", "- 1"))]
    assert "- a plain point" in lines
    assert "'=1+1" in lines
    text = card_markdown(card)
    before, inside, after = text.split("``````")  # one more than in the text
    for line in (before + after).split("\n"):
        assert "<" not in line.replace("\\<", "")
        assert "](" not in line.replace("\\]", "")
        assert "://" not in line.replace("\\://", "")
    assert "`````\n" in inside
    for made in (text, card_html(card)):
        assert "\u202e" not in made
        assert "\\u202edesrever" in made


def test_headings_fit_where_the_card_is_pasted(panel_from: Callable[..., Panel]) -> None:
    card = card_of(panel_with_people(panel_from))
    assert card_markdown(card, heading=3).startswith("### Report card")
    assert "<h4>1. Judge: partial</h4>" in card_html(card, heading=3)
    with pytest.raises(ValueError, match="from 1 to 5"):
        card_html(card, heading=6)


def test_the_json_round_trips(panel_from: Callable[..., Panel]) -> None:
    card = card_of(panel_with_people(panel_from), make_notes(FULL), gold=("human",))
    made = plain(card)
    assert json.loads(json.dumps(made, allow_nan=False)) == card.to_dict()
    assert [row["number"] for row in made["items"]] == list(range(1, 9))
    assert made["items"][4]["from"] == ["evidence", "notes"]


def test_rates_do_not_depend_on_the_order_of_rows(panel_from: Callable[..., Panel]) -> None:
    panel = panel_with_people(panel_from)
    order = np.random.default_rng(1).permutation(panel.responses)
    assert card_of(panel).items[7] == card_of(panel.select(rows=order)).items[7]


def test_clusters_widen_the_rates(panel_from: Callable[..., Panel]) -> None:
    labels = np.repeat(np.random.default_rng(2).integers(0, 2, (20, 1)) * 2, 10, axis=0)
    names = [f"b{place // 10}" for place in range(200)]
    alone = said(card_of(panel_from(labels, intent=["harmful"] * 200)).items[7])
    grouped = said(card_of(panel_from(labels, intent=["harmful"] * 200, behaviour=names)).items[7])

    def width(text: str) -> float:
        low, high = text.rsplit("(", 1)[1].split(";", maxsplit=1)[0].split(" to ")
        return float(high[:-1]) - float(low[:-1])

    assert width(grouped) > 2.5 * width(alone)
