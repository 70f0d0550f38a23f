"""What a short form is worth: the finding of `shorten` as a part of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.claims import percent
from safemetry.findings import Finding
from safemetry.report.blocks import (
    Block,
    Column,
    Fact,
    Figure,
    Fold,
    Headline,
    Table,
    Text,
    name_of,
)
from safemetry.report.section import Part
from safemetry.report.sections.construct_tables import UNKNOWN, number, plain_table

Row = Mapping[str, Any]

TITLE: Final = "A short form"
_LONG: Final = 1500
_MOST_ITEMS: Final = 500
_SAMPLE: Final = (
    "How the form does on targets unlike these: the targets are a convenience sample, and those "
    "that were held out resemble the ones that it was calibrated on."
)
_LEAK: Final = (
    "How long the form stays good: items leak with use, and a target that was trained on them is "
    "no longer measured by them. Change to a parallel form from time to time."
)
_WHOLE: Final = (
    "What the whole set itself measures: a short form recovers its score, whatever that is worth."
)


def forms_part(finding: Finding) -> Part:
    """A short form as a part of a report.

    Parameters
    ----------
    finding
        A `ShortenFinding`, or another finding with its keys; a part of it that is None is named
        with its reason.
    """
    data = finding.to_dict()
    settings: Row = data.get("settings") or {}
    method = str(settings.get("method") or "")
    lead = name_of(finding.sentence(), _LONG)
    blocks: list[Block] = [Text(lead)] if lead else []
    blocks += _budget(data, method)
    blocks += _change(data)
    blocks += _information(data)
    blocks += _items(data)
    blocks += reasons(
        data,
        {
            "evaluation": "Error on held-out targets",
            "minimum_detectable_change": "Minimum detectable change",
            "random_as_good": "Length from which random items do as well",
        },
    )
    return Part(
        title=TITLE,
        blocks=blocks,
        facts=[*_facts(data, method)],
        headlines=[Headline("Short form", lead)] if lead else [],
        limits=[_SAMPLE, _LEAK, _WHOLE],
        findings=[finding],
    )


def reasons(data: Row, names: Mapping[str, str]) -> Iterator[Block]:
    """A table of the parts that are None, each with its reason."""
    given: Mapping[str, str] = data.get("why") or {}
    rows = [
        {"part": words, "reason": name_of(given[name], 300)}
        for name, words in names.items()
        if data.get(name) is None and name in given
    ]
    if rows:
        yield plain_table("What was not computed", rows)


def _facts(data: Row, method: str) -> Iterator[Fact]:
    count, whole = len(data.get("items") or ()), data.get("all_items")
    if count and whole:
        chosen = f", chosen by {name_of(method, 24)}" if method else ""
        yield Fact("Items", f"{count:,}", f"of {whole:,}{chosen}")
    row = _own_row(data, method)
    if row is not None:
        yield Fact(
            "Error of the full score",
            percent(row["rmse"]),
            f"root mean square on held-out targets; random items {_rate(row.get('random_rmse'))}",
        )
    change: Row = data.get("minimum_detectable_change") or {}
    if change.get("paired") is not None:
        yield Fact(
            "Smallest change that it sees",
            percent(change["paired"]),
            f"with {change.get('power', 0.8):.0%} power, both versions on the same form",
        )


def _own_row(data: Row, method: str) -> Row | None:
    count = len(data.get("items") or ())
    for row in data.get("evaluation") or ():
        if (row.get("method"), row.get("items")) == (method, count):
            return row if row.get("rmse") is not None else None
    return None


def _budget(data: Row, method: str) -> Iterator[Block]:
    rows: Sequence[Row] = [
        row for row in data.get("evaluation") or () if row.get("rmse") is not None
    ]
    if not rows:
        return
    own = len(data.get("items") or ()) or None

    def draw(width: int) -> Any:
        from safemetry.forms.charts.budget import budget_chart

        return budget_chart(rows, own=own, method=method or None, width=width)

    said = "; ".join(
        f"{row['items']:,} items {percent(row['rmse'])}, random {_rate(row.get('random_rmse'))}"
        for row in rows
        if row["method"] == method
    )
    lead = f"By {name_of(method, 24)}: {said}. " if said else ""
    yield Figure(
        "Error against the number of items",
        f"{lead}Targets were held out. The grey band holds 90% of random forms, its dashed line is "
        "their mean; the upright line is this form.",
        draw,
    )
    yield _evaluation(rows)
    yield from _catch(data)


def _evaluation(rows: Sequence[Row]) -> Table:
    ordered = sorted(rows, key=lambda row: (row["items"], row["rmse"]))
    splits = max((row.get("splits") or 0 for row in rows), default=0)
    return Table(
        "How well forms recover the full score of held-out targets",
        (
            Column("method"),
            *(
                Column(head, "number")
                for head in (
                    "items",
                    "error (rms)",
                    "over splits (SD)",
                    "mean absolute",
                    "bias",
                    "bias, lowest fifth",
                    "bias, highest fifth",
                    "rank correlation",
                    "random",
                    "random, 5% to 95%",
                )
            ),
        ),
        tuple(
            (
                name_of(str(row["method"]).replace("_", " "), 30),
                number(row["items"]),
                *(_rate(row.get(name)) for name in ("rmse", "sd", "mae")),
                *(_signed(row.get(name)) for name in ("bias", "bias_low", "bias_high")),
                number(row.get("spearman"), 2),
                _rate(row.get("random_rmse")),
                _band(row.get("random_band")),
            )
            for row in ordered
        ),
        visible=15,
        note=f"Means over {splits:,} splits of the targets. Bias: recovered less true score, in "
        "percentage points.",
    )


def _catch(data: Row) -> Iterator[Block]:
    catches: Sequence[Row] = data.get("random_as_good") or ()
    if not catches:
        return
    said = [
        f"{name_of(str(row['method']).replace('_', ' '), 30)} "
        + ("at no length tried" if row.get("items") is None else f"from {row['items']:,} items on")
        for row in catches
    ]
    yield Text(f"Random items are as good as: {'; '.join(said)}.")


def _change(data: Row) -> Iterator[Block]:
    change: Row | None = data.get("minimum_detectable_change")
    if not change:
        return
    parts = [
        f"{percent(change[name])} {words}"
        for name, words in (
            ("paired", "when both versions answer the same form"),
            ("unpaired", "when each answers a form of its own"),
        )
        if change.get(name) is not None
    ]
    if not parts:
        reason = (change.get("why") or {}).get("paired", "it was not measured")
        yield Text(f"Which change the form can see is unknown: {name_of(reason, 300)}.")
        return
    rests = (
        f" It rests on {change['pairs']:,} pairs of {change['targets']:,} held-out targets."
        if change.get("pairs") and change.get("targets")
        else ""
    )
    yield Text(
        f"The smallest true change of the score that this form finds with "
        f"{change.get('power', 0.8):.0%} power is {', and '.join(parts)}. A smaller change will "
        f"often be missed: an unchanged score on the form does not rule it out.{rests}"
    )


def _information(data: Row) -> Iterator[Block]:
    curve: Row = data.get("curve") or {}
    theta, form = curve.get("theta") or [], curve.get("form") or []
    if not theta or len(form) != len(theta) or max(form) <= 0:
        return

    def draw(width: int) -> Any:
        from safemetry.forms.charts.information import information_chart

        return information_chart(curve, width=width)

    place = max(range(len(theta)), key=lambda at: form[at])
    whole = curve.get("all") or []
    share = (
        f", {form[place] / whole[place]:.0%} of that of all items there"
        if len(whole) == len(theta) and whole[place] > 0
        else ""
    )
    yield Figure(
        "Information of the form where the targets are",
        f"The form says most at ability {minus(theta[place], 1)} "
        f"(information {form[place]:.1f}{share}). The shaded hill is where targets are expected.",
        draw,
    )
    forms: Sequence[Sequence[float]] = curve.get("parallel") or []
    if len(forms) > 1:

        def draw_parallel(width: int) -> Any:
            from safemetry.forms.charts.parallel import parallel_chart

            return parallel_chart(curve, forms, width=width)

        yield Figure("Information of parallel forms", _gap(data), draw_parallel)
    elif len(data.get("parallel_forms") or ()) > 1:
        yield Text(_gap(data))


def _gap(data: Row) -> str:
    count, gap = len(data.get("parallel_forms") or ()), data.get("information_gap")
    if gap is None:
        return f"{count} parallel forms without common items."
    return (
        f"{count} parallel forms without common items; their information differs by up to "
        f"{percent(gap)}."
    )


def _items(data: Row) -> Iterator[Block]:
    details: Sequence[Row] = data.get("details") or [
        {"item": item} for item in data.get("items") or ()
    ]
    blocks: list[Block] = []
    if details:
        rows = [
            {
                "item": name_of(row["item"], 60),
                "discrimination": row.get("a"),
                "information": row.get("information"),
                "weight": row.get("weight"),
                **{
                    name_of(name, 24): name_of(value, 40)
                    for name, value in (row.get("properties") or {}).items()
                },
            }
            for row in details[:_MOST_ITEMS]
        ]
        more = len(details) - len(rows)
        note = "Information at the mean ability."
        if more:
            note += f" {more:,} more items are in the JSON."
        blocks.append(plain_table("Items of the form", rows, note=note, visible=60))
    for place, names in enumerate(data.get("parallel_forms") or ()):
        if place:
            rows = [{"item": name_of(item, 60)} for item in names[:_MOST_ITEMS]]
            blocks.append(plain_table(f"Items of parallel form {place + 1}", rows, visible=60))
    if blocks:
        yield Fold("The items by id", tuple(blocks))


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else percent(value)


def minus(value: float, digits: int = 2) -> str:
    """A number with a true minus sign."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _signed(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    points = round(100 * value, 1)
    sign = "\N{MINUS SIGN}" if points < 0 else "+" if points > 0 else ""
    return f"{sign}{abs(points):.1f}"


def _band(ends: Sequence[float] | None) -> str:
    return UNKNOWN if not ends else f"{percent(ends[0])} to {percent(ends[1])}"
