"""Safety beside usefulness: what each target let through, and what it needlessly refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

from safemetry.claims import Claim, count, percent
from safemetry.report.blocks import (
    Block,
    Cell,
    Column,
    Fact,
    Figure,
    Fold,
    Headline,
    Rate,
    Spread,
    Table,
    Text,
    axis_end,
    name_of,
    quoted,
    rate_cell,
)
from safemetry.report.boards import METRICS, Board
from safemetry.report.context import ReportContext
from safemetry.report.section import Part

_FACTS: Final = 4
_BENCHMARKS: Final = 6
_OVER_REFUSAL: Final = "over_refusal_rate"
_LABELLED: Final = 8
_ROWS: Final = 1_600
_FEWEST_ROWS: Final = 30
_JUDGES: Final = 24
_OTHER_ITEMS: Final = (
    "The judges did not all judge the same items, so a part of the range may be due to the items."
)
_IN_CHART: Final = 28
_IN_FACT: Final = 40
_FEW_CLUSTERS: Final = 10
_LARGE_RATIO: Final = 2.5
_LEADS: Final = {
    "attack_success_rate": ("Most often broken", "Least often broken"),
    "over_refusal_rate": ("Least helpful", "Most helpful"),
    "refusal_rate": ("Refuses most", "Refuses least"),
    "rewarded_rate": ("Lowest", "Highest"),
}
_RATE_OF: Final = {
    "attack_success_rate": "attack success",
    "over_refusal_rate": "over-refusal",
    "refusal_rate": "refusal of contested items",
    "rewarded_rate": "share of rewarded responses",
}
_MEANING: Final = {
    "attack_success_rate": "harmful items went through",
    "over_refusal_rate": "benign items were not answered",
    "refusal_rate": "contested items were refused",
    "rewarded_rate": "responses were as the benchmark wants them",
}


class BalanceSection:
    """The first section: a table of targets, harmful and benign rates side by side."""

    name = "balance"
    order = 100

    def make(self, context: ReportContext) -> Part | None:
        """One table and one chart for each benchmark."""
        rates, boards = context.rates, context.boards
        blocks: list[Block] = []
        headlines = [
            line
            for board in boards[:_BENCHMARKS]
            for line in _headlines(board, titled=len(boards) > 1)
        ]
        for place, board in enumerate(boards):
            frontier = rates.frontier if place < _BENCHMARKS else ()
            blocks += _blocks(board, frontier, len(boards))
        if not boards:
            reason = name_of(" ".join(rates.warnings) or "No response was judged.", 600)
            blocks = [Text("No rate could be computed.")]
            headlines = [Headline("No rate", reason)]
        return Part(
            title="Safety beside usefulness" if _both_sides(boards) else "Rates of each target",
            blocks=blocks,
            facts=_first_of_each(boards)[:_FACTS],
            headlines=headlines,
            limits=[*_limits(boards, rates.unclassified)],
            findings=[rates],
        )


def _both_sides(boards: Sequence[Board]) -> bool:
    return any({"attack_success_rate", "over_refusal_rate"} <= {*board.metrics} for board in boards)


def _of(board: Board, *, titled: bool) -> str:
    return f" in {name_of(board.benchmark or 'the unnamed benchmark')}" if titled else ""


# --- tables --------------------------------------------------------------------------------------


def _blocks(board: Board, frontier: Sequence[Any], boards: int) -> Iterator[Block]:
    where = _of(board, titled=boards > 1)
    if board.overlaps:
        judges = board.judges[:_JUDGES]
        yield _spread_table(board, where, _rows_of(boards))
        which = "the first" if len(judges) < len(board.judges) else "each of the"
        yield Fold(
            f"The same table under {which} {len(judges)} judges",
            tuple(
                _rate_table(board, [judge], where, _rows_of(boards * len(judges)))
                for judge in judges
            ),
        )
    else:
        yield _rate_table(board, board.judges, where, _rows_of(boards))
    points = [
        point
        for point in frontier
        if point["benchmark"] == board.benchmark
        and point["judge"] == board.judges[0]
        and not point["by"]
        and point["on_frontier"] is not None
    ]
    if len(points) > 1:
        yield _trade_off(points, board.judges[0], where)


def _rows_of(tables: int) -> int:
    """Rows that each of several tables may have, so that the page stays small."""
    return max(_FEWEST_ROWS, _ROWS // tables)


def _left_out(rows: Sequence[Any], most: int) -> str:
    """What a table says of the rows that it does not hold."""
    left = len(rows) - most
    return f"{left:,} more are in `safemetry rates SOURCE --json PATH`." if left > 0 else ""


def _rate_table(board: Board, judges: Sequence[str], where: str, most: int) -> Table:
    """The rates of each target under one judge, or under the one judge that it has."""
    several = len(judges) > 1
    rows: list[tuple[Cell, ...]] = []
    present: list[Claim] = []
    success = next(iter(board.by_key.values())).scope.success
    for target in board.targets:
        judge = board.leading(target) if several else judges[0]
        claims = [board.claim(metric, target, judge) for metric in board.metrics]
        if any(claims):
            cells = [_no_claim() if claim is None else rate_cell(claim) for claim in claims]
            rows.append((name_of(target), *([name_of(judge)] if several else []), *cells))
            present += [claim for claim in claims if claim is not None]
    under = "its judge" if several else name_of(judges[0])
    return Table(
        f"Rates of each target{where} under {under} (success: {success})",
        (
            Column("target", "name"),
            *([Column("judge")] if several else []),
            *(Column(METRICS[name], "rate") for name in board.metrics),
        ),
        tuple(rows[:most]),
        scale=axis_end(present),
        note=_left_out(rows, most),
    )


def _no_claim() -> Rate:
    return Rate("not asked", "")


def _spread_table(board: Board, where: str, most: int) -> Table:
    known = [claim for claim in board.by_key.values() if claim.estimate is not None]
    success = next(iter(board.by_key.values())).scope.success
    rows = tuple(
        (
            name_of(target),
            *(_spread(board.known(metric, target)) for metric in board.metrics),
        )
        for target in board.targets
    )
    return Table(
        f"Lowest and highest rate that {len(board.judges)} judges give each target{where} "
        f"(success: {success})",
        (Column("target", "name"), *(Column(METRICS[name], "spread") for name in board.metrics)),
        rows[:most],
        scale=axis_end(known),
        note=" ".join(
            filter(None, ["" if _share_items(known) else _OTHER_ITEMS, _left_out(rows, most)])
        ),
    )


def _spread(claims: Sequence[Claim]) -> Rate | Spread:
    if not claims:
        return Rate("unknown", "no verdict")
    low, high = claims[0], claims[-1]
    ceiling = max(claim.ceiling or 0.0 for claim in claims)
    if len(claims) == 1:
        return rate_cell(low)
    return Spread(
        f"{percent(low.estimate or 0.0)} to {percent(high.estimate or 0.0)}",
        f"{name_of(low.scope.judge, 24)} to {name_of(high.scope.judge, 24)}, "
        f"at most {percent(ceiling)}",
        tuple(claim.estimate or 0.0 for claim in claims),
        ceiling,
    )


def _share_items(claims: Sequence[Claim]) -> bool:
    """Whether all judges saw the same items of each target and metric."""
    seen: dict[tuple[str, str], set[str]] = {}
    for claim in claims:
        key = (claim.metric, claim.scope.target)
        seen.setdefault(key, set()).add(claim.scope.items.digest)
    return all(len(digests) == 1 for digests in seen.values())


def _trade_off(points: Sequence[Any], judge: str, where: str) -> Figure:
    rows = [
        {
            "target": name_of(point["target"], _IN_CHART),
            "safe_recall": point["safe_recall"],
            "help_rate": point["help_rate"],
            "on_frontier": point["on_frontier"],
            "labelled": point["on_frontier"] or len(points) <= _LABELLED,
        }
        for point in points
    ]
    best = [name_of(point["target"]) for point in points if point["on_frontier"]]
    named = ", ".join(best[:6]) + (f" and {len(best) - 6} more" if len(best) > 6 else "")

    def draw(width: int) -> Any:
        from safemetry.charts import trade_off_chart

        return trade_off_chart(rows, width=width)

    return Figure(
        f"Safety against usefulness{where} under {name_of(judge)}",
        f"{len(rows)} targets: across, the share of benign items that each one answered; upwards, "
        f"the share of harmful items on which it held firm. No other target is at least as good "
        f"on both and better on one than: {named}.",
        draw,
    )


# --- the first screen ----------------------------------------------------------------------------


def _first_of_each(boards: Sequence[Board]) -> list[Fact]:
    """The facts of all benchmarks, the first of each one before the second of any."""
    facts = zip_longest(*(_facts(board, titled=len(boards) > 1) for board in boards))
    return [fact for round_of in facts for fact in round_of if fact is not None]


def _facts(board: Board, *, titled: bool) -> Iterator[Fact]:
    name = f"{name_of(board.benchmark or 'unnamed', _IN_FACT)}: " if titled else ""
    for metric in board.metrics:
        claims = [claim for target in board.targets for claim in board.known(metric, target)]
        if not claims:
            continue
        low = min(claims, key=lambda claim: claim.estimate or 0.0)
        high = max(claims, key=lambda claim: claim.estimate or 0.0)
        if len(claims) == 1:
            value, tries, counted, who = percent(high.estimate or 0.0), _tries(high), "", ""
        else:
            worst = _furthest(metric, claims)
            value = f"{percent(low.estimate or 0.0)} to {percent(high.estimate or 0.0)}"
            tries = f"{_tries(low)} to {_tries(high)}"
            counted = f" ({_counted(board)})"
            who = f" ({_who(worst, several=len(board.judges) > 1)})"
        yield Fact(
            name + METRICS[metric],
            value,
            f"{tries} {_MEANING[metric]}{counted}; the true rate may be "
            f"{_how_bad(metric, claims)}{who}",
        )
    widest = _widest(board)
    if widest is not None:
        low, high = widest
        yield Fact(
            name + "Judges differ",
            _apart(low.estimate or 0.0, high.estimate or 0.0),
            f"{_RATE_OF[low.metric]} of {name_of(low.scope.target, _IN_FACT)}: "
            f"{_tries(low)} ({percent(low.estimate or 0.0)}) under "
            f"{name_of(low.scope.judge, _IN_FACT)}, {_tries(high)} "
            f"({percent(high.estimate or 0.0)}) under {name_of(high.scope.judge, _IN_FACT)}",
        )


def _tries(claim: Claim) -> str:
    return f"{count(claim.events)} of {count(claim.trials)}"


def _who(claim: Claim, *, several: bool) -> str:
    under = f" under {name_of(claim.scope.judge, _IN_FACT)}" if several else ""
    return name_of(claim.scope.target, _IN_FACT) + under


def _apart(low: float, high: float) -> str:
    """How far two rates are apart: a ratio says most where it is large."""
    if low and high / low >= _LARGE_RATIO:
        return f"{high / low:.0f}-fold"
    return f"{100 * (high - low):.1f} points"


def _furthest(metric: str, claims: Sequence[Claim]) -> Claim:
    """The claim whose true rate may be the worst."""
    if metric == "rewarded_rate":
        return min(claims, key=lambda claim: claim.interval[0] if claim.interval else 1.0)
    return max(claims, key=lambda claim: claim.ceiling or 0.0)


def _how_bad(metric: str, claims: Sequence[Claim]) -> str:
    worst = _furthest(metric, claims)
    if metric == "rewarded_rate":
        return f"down to {percent(worst.interval[0] if worst.interval else 0.0)}"
    return f"up to {percent(worst.ceiling or 0.0)}"


def _counted(board: Board) -> str:
    targets, judges = len(board.targets), len(board.judges)
    said = f"{targets} target{'s' if targets > 1 else ''}"
    return said + (f", {judges} judges" if judges > 1 else "")


def _widest(board: Board) -> tuple[Claim, Claim] | None:
    """The lowest and highest claim on the target on which judges differ most, if they do."""
    ends = [
        (claims[0], claims[-1])
        for target in board.targets
        if len(claims := board.known(board.metrics[0], target)) > 1
    ]
    widest = max(ends, key=lambda pair: _gap(*pair), default=None)
    return widest if widest is not None and _gap(*widest) > 0 else None


def _gap(low: Claim, high: Claim) -> float:
    return (high.estimate or 0.0) - (low.estimate or 0.0)


def _headlines(board: Board, *, titled: bool) -> Iterator[Headline]:
    """The extremes under one judge, since judges are not compared, and how judges differ."""
    where = _of(board, titled=titled)
    metric = board.metrics[0]
    judge = board.judges[0]
    asked = [
        claim
        for target in board.targets
        if (claim := board.claim(metric, target, judge)) is not None
    ]
    claims = [claim for claim in asked if claim.estimate is not None]
    if not claims:
        if asked:
            yield Headline(METRICS[metric] + where, quoted(asked[0]))
        return
    rewarded = metric == "rewarded_rate"
    worst = (min if rewarded else max)(claims, key=lambda claim: claim.estimate or 0.0)
    best = (max if rewarded else min)(claims, key=lambda claim: claim.estimate or 0.0)
    under = _under(board, len(asked))
    yield Headline(
        (_LEADS[metric][0] if best is not worst else METRICS[metric]) + under + where,
        quoted(worst),
    )
    if titled:
        return
    if best is not worst:
        yield Headline(_LEADS[metric][1] + under, quoted(best))
    benign = board.claim("over_refusal_rate", best.scope.target, judge)
    if metric == "attack_success_rate" and benign is not None and benign.estimate is not None:
        lead = "What that cost" if best is not worst else METRICS[benign.metric]
        yield Headline(lead, quoted(benign))
    widest = _widest(board)
    if widest is not None:
        low, high = widest
        yield Headline(
            "The judges differ",
            f"The {_RATE_OF[metric]} of {name_of(low.scope.target)} is {_stated(low)} under "
            f"{name_of(low.scope.judge)} and {_stated(high)} under {name_of(high.scope.judge)} "
            f"(intervals at {100 * low.level:g}%, success {low.scope.success}).",
        )


def _stated(claim: Claim) -> str:
    """A rate within a sentence, with what must stand beside it."""
    low, high = claim.interval or (0.0, 1.0)
    lost = f", {claim.missing.total:,} more without a verdict" if claim.missing.total else ""
    interval = f"{percent(low)} to {percent(high)}"
    return f"{percent(claim.estimate or 0.0)} ({_tries(claim)}, {interval}{lost})"


def _under(board: Board, ranked: int) -> str:
    """Under which judge the extremes are, where there are several, and how many it judged."""
    if len(board.judges) == 1:
        return ""
    total = len(board.targets)
    some = f", of {ranked} of {total} targets" if ranked < total else ""
    return f" under {name_of(board.judges[0], _IN_FACT)}{some}"


# --- what cannot be said -------------------------------------------------------------------------


def _limits(boards: Sequence[Board], unclassified: int) -> Iterator[str]:
    """What cannot be said, each limit once with the benchmarks that it holds for."""
    held: dict[tuple[str, str], list[Board]] = {}
    for board in boards:
        for limit in _limits_of(board):
            held.setdefault(limit, []).append(board)
    for (what, why), those in held.items():
        names = [name_of(board.benchmark or "the unnamed benchmark") for board in those]
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        where = f" in {', '.join(names[:3])}{more}" if len(those) < len(boards) else ""
        yield f"{what}{where}: {why}."
    if unclassified:
        yield (
            f"What {unclassified:,} judge calls say about safety: they are on items whose intent "
            "nobody stated."
        )


def _limits_of(board: Board) -> Iterator[tuple[str, str]]:
    claims = [claim for claim in board.by_key.values() if claim.estimate is not None]
    harmful, benign = (name in board.metrics for name in ("attack_success_rate", _OVER_REFUSAL))
    if harmful and not benign:
        yield (
            "Whether safety was paid for with usefulness",
            "no benign item was asked, and a target that refuses everything would look perfect",
        )
    if benign and not harmful:
        yield "Whether the targets are safe", "no harmful item was asked"
    if board.overlaps:
        yield (
            f"Which of the {len(board.judges)} judges is right",
            "they are compared with each other and not with the truth",
        )
    else:
        judges = board.judges
        who = f"{name_of(judges[0])} is" if len(judges) == 1 else "the judges are"
        yield (
            f"Whether {who} right",
            "no response has a second judge, and nothing here measures the errors of one",
        )
    if claims and all(claim.scope.epochs == 1 for claim in claims):
        yield "How far a re-run would move the rates", "each item was asked once"
    fewest = min((claim.clusters for claim in claims), default=_FEW_CLUSTERS)
    if fewest < _FEW_CLUSTERS:
        yield (
            "How targets behave beyond what was asked",
            (
                f"some rates rest on {fewest} independent "
                f"{'behaviour' if fewest == 1 else 'behaviours'}"
            ),
        )
    if len(board.targets) > 2:
        yield (
            f"Whether the first and the last of the {len(board.targets)} targets truly are",
            "extremes are partly luck, and their intervals do not allow for the choice",
        )
