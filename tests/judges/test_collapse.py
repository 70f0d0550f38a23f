"""The collapse rule: published figures, its three states, and what the leader does to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.judges.collapse import CollapseSettings, find_collapse, missing_labels, state_of
from safemetry.judges.counts import count_classes
from safemetry.judges.panel import Panel

Make = Callable[..., Panel]
RULE = CollapseSettings()


@pytest.mark.parametrize(
    ("count", "most", "state"),
    [(110, 223, "ok"), (9, 223, "collapsed"), (0, 23, "not_applicable"), (75, 223, "ok")],
)
def test_published_counts_of_900(count: int, most: int, state: str) -> None:
    assert state_of(count, most, 900, can_emit=True, settings=RULE) == state


@pytest.mark.parametrize(("most", "common", "more"), [(77, 900, 15), (90, 900, 0), (0, 9, 1)])
def test_labels_that_are_missing(most: int, common: int, more: int) -> None:
    assert missing_labels(most, common) == more
    # One fewer would not do.
    assert most + more >= (common + more) / 10
    assert not more or most + more - 1 < (common + more - 1) / 10


def test_the_roster_has_exactly_three_flags(roster: Panel) -> None:
    rows = find_collapse(roster)
    pooled = [row for row in rows if row.target is None]
    flagged = {(row.judge, row.name) for row in pooled if row.state == "collapsed"}
    assert flagged == {(f"judge-{place}", "comply") for place in (15, 16, 17)}
    assert {row.max_judge for row in pooled if row.name == "comply"} == {"judge-00"}
    by_judge = {row.judge: row for row in pooled if row.name == "comply"}
    assert by_judge["judge-17"].probability == pytest.approx(1, abs=1e-3)
    assert by_judge["judge-14"].probability == pytest.approx(0, abs=1e-3)
    assert by_judge["judge-00"].probability is None
    assert by_judge["judge-00"].why["state_without_leader"] == "it is the leader"


def test_leaving_out_the_leader_can_change_the_state(panel_from: Make) -> None:
    labels = np.zeros((100, 3), np.int8)
    labels[:60, 0] = 1
    labels[:19, 1] = 1  # under a third of 60, over a third of 20
    labels[:20, 2] = 1
    rows = find_collapse(panel_from(labels, classes=("refuse", "comply")))
    row = next(r for r in rows if r.judge == "judge-1" and r.name == "comply" and r.target is None)
    assert (row.state, row.state_without_leader) == ("collapsed", "ok")


def test_a_judge_without_the_class_cannot_emit_it(panel_from: Make) -> None:
    labels = np.array([[1, 0], [1, 0], [2, 2], [0, 0]])
    silent = find_collapse(panel_from(labels))
    able = find_collapse(panel_from(labels, can_emit=np.ones((2, 3))))

    def state(rows: object, judge: str) -> str:
        return next(
            str(row.state)
            for row in rows  # type: ignore[attr-defined]
            if row.judge == judge and row.name == "evasive" and row.target is None
        )

    assert state(silent, "judge-1") == "cannot_emit"
    assert state(able, "judge-1") == "collapsed"


def test_xstest_by_target(shared: Path) -> None:
    from safemetry.evidence.maps import read_map
    from safemetry.judges.coding import panel_of
    from safemetry.readers import read_evidence

    entries = read_map(Path(__file__).parents[2] / "docs/maps/xstest_v2_all_judges.yaml")
    source = shared / "data/xstest_v2/labels_wide.csv"
    panel = panel_of(read_evidence(str(source), evidence_map=entries, kind="labels"))
    panel = panel.select(judges=["human_1", "human_2", "gpt4", "strmatch"])
    rows = [row for row in find_collapse(panel) if row.name == "evasive"]
    states = {(row.target, row.judge): str(row.state) for row in rows}
    assert states["llama2orig", "gpt4"] == "collapsed"
    assert {row.count for row in rows if row.target == "llama2orig"} == {55, 53, 14, 0}
    for target in panel.target.names:
        assert states[target, "strmatch"] == "cannot_emit"
        others = {states[target, judge] for judge in ("human_1", "human_2", "gpt4")}
        assert others == ({"ok", "collapsed"} if target == "llama2orig" else {"not_applicable"})


def test_clusters_widen_the_interval_of_the_leader(panel_from: Make) -> None:
    rng = np.random.default_rng(3)
    units = np.repeat(np.arange(30), 20)
    labels = np.stack([(rng.random(30) < 0.3)[units], (rng.random(30) < 0.3)[units]], axis=1)
    loose = find_collapse(panel_from(labels, classes=("refuse", "comply")))[0]
    tight = find_collapse(
        panel_from(labels, classes=("refuse", "comply"), behaviour=[str(u) for u in units])
    )[0]
    assert loose.leader_interval is not None
    assert tight.leader_interval is not None
    width, wider = (np.ptp(row.leader_interval) for row in (loose, tight))
    assert wider > 3 * width  # 20 responses to a cluster, all alike: sqrt(20) = 4.5 times


def test_the_probability_is_calibrated_where_the_truth_is_at_the_threshold(
    panel_from: Make,
) -> None:
    # True shares .09 and .27, exactly a third: the probability must then be uniform, so that over
    # 300 panels its mean is .5 with a standard error of .29 / sqrt(300) = .017; 4 errors are .067.
    rng = np.random.default_rng(11)
    found = []
    for _ in range(300):
        labels = np.stack([rng.random(400) < 0.27, rng.random(400) < 0.09], axis=1)
        rows = find_collapse(panel_from(labels, classes=("refuse", "comply")))
        row = next(r for r in rows if r.judge == "judge-1" and r.name == "comply")
        assert row.probability is not None
        found.append(row.probability)
    assert np.mean(found) == pytest.approx(0.5, abs=0.067)
    assert np.std(found) == pytest.approx(12**-0.5, abs=0.05)


def test_judges_without_common_responses_are_refused_with_the_overlap(panel_from: Make) -> None:
    labels = np.array([[0, -1, 1], [1, -1, 0], [-1, 2, 0]])
    with pytest.raises(InputError, match=r"no response in common: 'judge-0' and 'judge-1' share 0"):
        count_classes(panel_from(labels))


def test_one_judge_leads_alone(panel_from: Make) -> None:
    row = find_collapse(panel_from([[0], [1], [2]]))[0]
    assert row.state == "ok"
    assert row.state_without_leader is None


def test_counts_do_not_depend_on_the_order_of_judges_or_rows(roster: Panel) -> None:
    turned = roster.select(judges=roster.judges[::-1], rows=np.arange(900)[::-1])
    first = {(r.judge, r.name): (r.count, r.state) for r in find_collapse(roster)}
    assert first == {(r.judge, r.name): (r.count, r.state) for r in find_collapse(turned)}
