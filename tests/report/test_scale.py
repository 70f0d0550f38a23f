"""Where there is enough to fit, a report puts targets and items on one scale."""

from __future__ import annotations

from pages import judgements, read_page, table

from safemetry.report import compose_report

MANY = [f"target-{place:02d}" for place in range(12)]


def test_enough_targets_and_items_make_a_scale_with_labelled_charts():
    report = compose_report(table(judgements(MANY, ["strict"], items=60)))
    part = report.parts["scale"]
    assert any("measure one trait" in limit for limit in part.limits)
    page = read_page(report.to_html())
    labels = [chart.attributes["aria-label"] for chart in page.all("svg")]
    for name in ("Wright map", "Test information", "Abilities", "Item curves"):
        assert any(label.startswith(name) for label in labels), name


def test_few_targets_make_none():
    report = compose_report(table(judgements(MANY[:9], ["strict"], items=60)))
    assert "scale" not in report.parts


def test_outcomes_that_are_all_alike_make_none():
    rows = [row | {"label": "refuse", "status": "ok"} for row in judgements(MANY, ["one"], lost=0)]
    assert "scale" not in compose_report(table(rows)).parts
