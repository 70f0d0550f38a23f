"""Every figure on the page is that of a claim."""

from __future__ import annotations

import re

import pytest
from pages import judgements, read_page, table

from safemetry import measure_rates
from safemetry.claims import percent
from safemetry.rates import cover
from safemetry.report import compose_report

ROWS = judgements()
HEADINGS = {"Attack success": "attack_success_rate", "Over-refusal": "over_refusal_rate"}


@pytest.fixture(scope="module")
def page():
    return read_page(compose_report(table(ROWS)).to_html())


def captioned(page, start):
    """The tables whose caption begins so: (caption, table)."""
    captions = {
        e.attributes["id"]: e.text for e in page.walk() if e.attributes.get("class") == "caption"
    }
    return [
        (captions[made.attributes["aria-labelledby"]], made)
        for made in page.all("table")
        if captions[made.attributes["aria-labelledby"]].startswith(start)
    ]


def rows_of(made):
    heads = [head.text for head in made.all("thead")[0].all("th")]
    for row in made.all("tbody")[0].all("tr"):
        yield dict(zip(heads, row.children, strict=True))


def test_rates_under_each_judge_are_those_measured(page):
    rates = measure_rates(table(ROWS))
    seen = 0
    for caption, made in captioned(page, "Rates of each target under"):
        judge = caption.split()[5]
        for row in rows_of(made):
            for heading, metric in HEADINGS.items():
                claim = rates.find(metric, target=row["target"].text, judge=judge)
                assert row[heading].text == (
                    f"{percent(claim.estimate)} {claim.events:g} of {claim.trials:g}, "
                    f"at most {percent(claim.ceiling)}"
                )
                (drawing,) = row[heading].all("svg")
                low, high = map(percent, claim.interval)
                assert drawing.attributes["aria-label"] == f"interval {low} to {high}"
                seen += 1
    assert seen == 3 * 2 * 2


def test_bars_lie_where_the_rates_are(page):
    rates = measure_rates(table(ROWS))
    caption, made = captioned(page, "Rates of each target under strict")[0]
    scale = float(re.search(r"from 0 to ([\d.]+)%", caption)[1]) / 100
    for row in rows_of(made):
        claim = rates.find("attack_success_rate", target=row["target"].text, judge="strict")
        bars = {
            bar.attributes["class"]: bar.attributes for bar in row["Attack success"].all("rect")
        }
        low, high = claim.interval
        assert float(bars["u"]["width"]) == pytest.approx(100 * claim.ceiling / scale, rel=0.01)
        assert float(bars["i"]["x"]) == pytest.approx(100 * low / scale, rel=0.01)
        assert float(bars["i"]["width"]) == pytest.approx(100 * (high - low) / scale, rel=0.01)
        assert float(bars["e"]["x"]) == pytest.approx(
            min(99, 100 * claim.estimate / scale), rel=0.01
        )


def test_the_mark_of_a_rate_never_leaves_its_axis():
    rows = judgements(targets=["m"], judges=["j"], lost=0, intents=["harmful"])
    for label in ("comply", "refuse"):
        page = read_page(compose_report(table([{**row, "label": label} for row in rows])).to_html())
        marks = [e for e in page.walk() if e.attributes.get("class") == "e"]
        assert marks
        assert all(0 <= float(mark.attributes["x"]) <= 99 for mark in marks)


def test_the_range_of_judges_is_that_of_their_claims(page):
    rates = measure_rates(table(ROWS))
    ((_, made),) = captioned(page, "Lowest and highest rate")
    for row in rows_of(made):
        target = row["target"].text
        for heading, metric in HEADINGS.items():
            claims = [rates.find(metric, target=target, judge=j) for j in ("strict", "lenient")]
            low, high = sorted(claim.estimate for claim in claims)
            ceiling = max(claim.ceiling for claim in claims)
            assert row[heading].text.startswith(f"{percent(low)} to {percent(high)} ")
            assert row[heading].text.endswith(f"at most {percent(ceiling)}")


def test_the_first_screen_names_the_highest_ceiling_and_whose_it_is():
    report = compose_report(table(ROWS))
    claims = [c for c in measure_rates(table(ROWS)).claims if c.metric == "attack_success_rate"]
    worst = max(claims, key=lambda claim: claim.ceiling)
    note = report.facts[0].note
    assert (
        f"up to {percent(worst.ceiling)} ({worst.scope.target} under {worst.scope.judge})" in note
    )
    low, high = (choose(c.estimate for c in claims) for choose in (min, max))
    assert report.facts[0].value == f"{percent(low)} to {percent(high)}"


def test_heat_maps_hold_the_rates_by_group(page):
    rates = measure_rates(table(ROWS), by=["category"])
    ((_, made),) = captioned(page, "Attack success by category, under strict")
    for row in rows_of(made):
        category = row.pop("category").text
        for target, cell in row.items():
            claim = rates.find(
                "attack_success_rate", target=target, judge="strict", category=category
            )
            assert cell.text == f"{percent(claim.estimate)} ≤ {percent(claim.ceiling)}"
            assert cell.attributes["class"] == f"s{round(10 * claim.estimate)}"


def test_the_longer_side_of_a_heat_map_runs_down():
    targets = [f"t{number}" for number in range(5)]
    rows = judgements(targets, ["j"])
    rates = measure_rates(table(rows), by=["category"])
    page = read_page(compose_report(table(rows)).to_html())
    ((_, made),) = captioned(page, "Attack success by category, under j")
    shown = {row.pop("target").text: row for row in rows_of(made)}
    assert set(shown) == set(targets)
    for target, row in shown.items():
        for category, cell in row.items():
            claim = rates.find("attack_success_rate", target=target, category=category)
            assert cell.text.split()[0] == percent(claim.estimate)


def test_the_worst_group_stands_at_a_level_that_allows_for_the_choice():
    report = compose_report(table(ROWS))
    (line,) = (line for line in report.headlines if line.lead == "Worst category of 3")
    plainly = {
        (claim.scope.target, claim.scope.by["category"]): claim
        for claim in measure_rates(table(ROWS), by=["category"]).claims
        if claim.metric == "attack_success_rate" and claim.scope.judge == "strict"
    }
    worst = max(plainly.values(), key=lambda claim: claim.interval[0])
    assert line.text.startswith(f"{worst.scope.target} went along with {worst.events:g} of ")
    assert "from 9 combinations" in line.text
    jointly = measure_rates(table(ROWS), by=["category"], level=0.95 ** (1 / 9)).find(
        "attack_success_rate",
        target=worst.scope.target,
        judge="strict",
        category=worst.scope.by["category"],
    )
    assert jointly.interval[0] < worst.interval[0]
    assert f"interval {percent(jointly.interval[0])} to {percent(jointly.interval[1])}" in line.text
    assert "at 95%" in line.text


def test_the_grid_is_that_of_the_coverage(page):
    cells = {
        (cell.category, cell.attack): cell
        for cell in cover(table(ROWS)).grid
        if cell.judge == "strict"
    }
    _, made = captioned(page, "Harmful items that went through")[0]
    seen = set()
    for row in rows_of(made):
        category = row.pop("category").text
        for attack, shown in row.items():
            cell = cells[category, attack]
            assert shown.text.startswith(f"{cell.violations} of {cell.trials} ")
            seen.add((category, attack))
    assert seen == cells.keys()


def test_missing_verdicts_add_up(page):
    lost = sum(row["status"] == "missing" for row in ROWS)
    ((_, reasons),) = captioned(page, "Verdicts that are missing")
    counts = [int(row["verdicts"].text) for row in rows_of(reasons)]
    assert sum(counts) == lost
    ((_, bounds),) = captioned(page, "Each rate as measured")
    assert sum(int(row["missing"].text.split()[0]) for row in rows_of(bounds)) == lost
    facts = {fact.label: fact for fact in compose_report(table(ROWS)).facts}
    assert facts["No verdict"].value == percent(lost / len(ROWS))


def test_every_sentence_to_quote_is_that_of_a_claim():
    report = compose_report(table(ROWS))
    said = {claim.sentence() for claim in measure_rates(table(ROWS)).claims}
    _, quotes = report.parts["claims"].blocks
    assert quotes.items
    assert set(quotes.items) <= said


def test_the_json_holds_every_claim_of_the_rates():
    (first, *_) = compose_report(table(ROWS)).to_dict()["sections"]
    assert first["findings"][0]["claims"] == measure_rates(table(ROWS)).to_dict()["claims"]
