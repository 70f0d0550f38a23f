"""The comparison of models, the verdict's null and the factor correlations, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.report.blocks import Block, Column, Figure, Fold, Sentences, Table, Text, name_of
from safemetry.report.sections.construct_tables import interval, number, plain_table

_WINS: Final = (
    "Winning every split is no evidence by itself, since splits share responses; the intervals "
    "allow for that (Nadeau & Bengio 2003)."
)


def model_blocks(data: Mapping[str, Any]) -> Iterator[Block]:
    """Everything between the eigenvalues and the items."""
    models = [model for model in data.get("models") or [] if model.get("log_loss")]
    if models:
        yield _losses(models)
        yield Fold("Each model", (_model_table(models),))
    yield from _failures(data.get("nesting_failures") or [])
    verdict = data.get("verdict") or {}
    observed = verdict.get("statistic", verdict.get("gain"))
    if verdict.get("null_gains") and observed is not None:
        yield _gains(verdict, observed)
    if data.get("comparisons"):
        yield _comparisons(data["comparisons"])
    maps = [*_correlations(data.get("factor_correlations") or [])]
    yield from maps[:1]
    if maps[1:]:
        yield Fold("Correlations in other models", tuple(maps[1:]))
    priors = _mappings(data.get("prior_sensitivity"))
    if priors:
        yield plain_table("Held-out log loss under other priors", priors, names=_PRIORS)
    yield from _without_domain(data.get("without_domain"))
    judges = _mappings(data.get("by_judge"))
    if judges:
        yield plain_table("The same under each judge", judges)
    yield from _alike(data.get("near_duplicates"))


_PRIORS: Final = {
    "prior": "prior",
    "model": "model",
    "name": "model",
    "log_loss.mean": "held-out log loss",
    "log_loss.sd": "SD over splits",
    "flagged": "flagged",
    "sentence": "what it shows",
}


def _losses(models: Sequence[Mapping[str, Any]]) -> Figure:
    from safemetry.construct.charts import EXPLORED, GIVEN, ONE_DIMENSION

    def kind(model: Mapping[str, Any]) -> str:
        if model.get("dims") == 1:
            return ONE_DIMENSION
        return GIVEN if str(model.get("kind", "")).startswith("conf") else EXPLORED

    rows = [
        {
            "name": name_of(model["name"], 60),
            "dims": model.get("dims") or 0,
            "kind": kind(model),
            "mean": model["log_loss"]["mean"],
            "splits": model["log_loss"].get("splits") or [],
            "ranked": _is_ranked(model),
        }
        for model in models
    ]

    def draw(width: int) -> Any:
        from safemetry.construct.charts import log_loss_chart

        return log_loss_chart(rows, width=width)

    best: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: (row["mean"], row["dims"])):
        if row["ranked"]:
            best.setdefault(row["kind"], f"{row['name']} {row['mean']:.3f}")
    said = "; ".join(f"{label}: {text}" for label, text in best.items())
    return Figure(
        "How well each model predicts held-out responses",
        f"Mean log loss as an upright line, each split as a mark; less is better. Best of {said}.",
        draw,
    )


def _is_ranked(model: Mapping[str, Any]) -> bool:
    return "rank" not in model or model["rank"] is not None


def _model_table(models: Sequence[Mapping[str, Any]]) -> Table:
    def row(model: Mapping[str, Any]) -> tuple[str, ...]:
        loss, starts = model["log_loss"], model.get("restarts") or {}
        brier = model.get("brier")
        return (
            name_of(model["name"], 48),
            number(model.get("dims")),
            number(loss["mean"], 4),
            number(loss.get("sd"), 4),
            number(brier.get("mean") if isinstance(brier, Mapping) else brier, 4),
            number(model.get("aic"), 1),
            number(model.get("bic"), 1),
            number(starts.get("sd"), 4),
            interval([starts["min"], starts["max"]]) if starts.get("min") is not None else "",
        )

    return Table(
        "Models in the order of their held-out log loss",
        (
            Column("model", "name"),
            *(
                Column(name, "number")
                for name in ("dims", "log loss", "SD", "Brier", "AIC", "BIC", "SD of starts")
            ),
            Column("range of starts"),
        ),
        tuple(map(row, sorted(models, key=lambda model: model["log_loss"]["mean"]))),
        visible=24,
        note="SD: between splits. Starts: the held-out log loss from other starting values, means "
        "over splits. AIC and BIC are from the fit to all responses.",
    )


def _failures(failures: Sequence[Any]) -> Iterator[Block]:
    said = tuple(
        name_of(entry.get("sentence", "") if isinstance(entry, Mapping) else entry, 400)
        for entry in failures
    )
    if any(said):
        yield Text("These fits failed or show what a prior does, and are not ranked:")
        yield Sentences(tuple(filter(None, said)))


def _gains(verdict: Mapping[str, Any], observed: float) -> Figure:
    """The gain that was simulated: that of the models that were fitted to every data set."""
    gains: Sequence[float] = verdict["null_gains"]
    threshold = verdict.get("null_q95")
    # The interval is that of the best models of all, which need not be those simulated.
    same = verdict.get("gain") == observed
    ends = verdict.get("gain_interval") if same else None

    def draw(width: int) -> Any:
        from safemetry.construct.charts import gain_chart

        return gain_chart(
            gains,
            observed,
            threshold=threshold,
            interval=(ends[0], ends[1]) if ends else None,
            width=width,
        )

    reach = sum(gain >= observed for gain in gains)
    at = "" if threshold is None else f" The dashed line is their 95th percentile, {threshold:.4f}."
    chance = "" if verdict.get("p_value") is None else f" (p = {verdict['p_value']:.3f})"
    within = f" with its interval, {interval(ends)}" if ends else ""
    return Figure(
        "The gain of several dimensions, and the same gain where there is one",
        f"Bars: {len(gains):,} data sets simulated from the fitted model of one dimension.{at} The "
        f"point is the observed gain, {observed:.4f}{within}; {reach} of the simulated sets gain "
        f"as much{chance}.",
        draw,
    )


def _comparisons(rows: Sequence[Mapping[str, Any]]) -> Table:
    def row(found: Mapping[str, Any]) -> tuple[str, ...]:
        splits = found.get("splits")
        number_of_splits = len(splits) if isinstance(splits, list) else splits
        won = found.get("won") or f"{found.get('wins')} of {number_of_splits}"
        gain = found.get("gain", found.get("difference"))
        return (
            name_of(found.get("candidate", found.get("better")), 48),
            name_of(found.get("baseline", found.get("worse")), 48),
            number(gain, 4),
            interval(found.get("interval")),
            str(won),
        )

    return Table(
        "Differences in held-out log loss on the same splits",
        (
            Column("model", "name"),
            Column("against"),
            Column("gain", "number"),
            Column("interval"),
            Column("splits won"),
        ),
        tuple(map(row, rows)),
        note=_WINS,
    )


def _correlations(rows: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    for row in rows:
        names = [name_of(name, 40) for name in row.get("dimensions") or []]
        matrix = row.get("matrix") or row.get("correlations")
        if names and matrix:
            said = name_of(row.get("sentence") or "", 400)
            yield _correlation_map(name_of(row.get("model"), 48), names, matrix, said)


def _correlation_map(
    model: str, names: Sequence[str], matrix: Sequence[Sequence[float]], said: str
) -> Figure:
    def draw(width: int) -> Any:
        from safemetry.construct.dimensions.charts import factor_correlation_map

        return factor_correlation_map(names, matrix, width=width)

    pairs = sorted(
        (matrix[one][two], names[two], names[one])
        for one in range(len(names))
        for two in range(one)
    )
    ends = [pairs[0], pairs[-1]][: len(pairs)] if pairs else []
    extremes = " and ".join(
        f"the {word} is {value:.3f}, between {first} and {second}"
        for word, (value, first, second) in zip(("lowest", "highest"), ends, strict=False)
    )
    return Figure(
        f"Correlations of the dimensions in {model}",
        f"{extremes[:1].upper()}{extremes[1:]}. {said} {_key(names)}".strip(),
        draw,
    )


def _key(names: Sequence[str]) -> str:
    """Numbers and names, for a map that has no room for names."""
    from safemetry.construct.dimensions.charts import FEW

    places = [str(place) for place in range(1, len(names) + 1)]
    if len(names) <= FEW or list(names) == places:
        return ""
    return "; ".join(f"{place} is {name}" for place, name in zip(places, names, strict=True)) + "."


def _mappings(given: Any) -> list[Mapping[str, Any]]:
    """Rows, whether they are mappings or sentences."""
    if isinstance(given, Mapping):
        given = given.get("rows") or [given]
    return [row if isinstance(row, Mapping) else {"what": str(row)} for row in given or []]


def _without_domain(given: Any) -> Iterator[Block]:
    """What is left of the gain without each domain of a structure."""
    for found in _mappings(given):
        rows = _mappings(found.get("without"))
        if found.get("sentence"):
            yield Text(name_of(found["sentence"], 600))
        if rows:
            structure = name_of(found.get("structure"), 40)
            yield Table(
                f"Gain of several dimensions without one domain of {structure}",
                (
                    Column("without", "name"),
                    Column("items", "number"),
                    Column("gain", "number"),
                    Column("interval"),
                    Column("share of the whole gain", "number"),
                ),
                tuple(
                    (
                        name_of(row.get("domain"), 40),
                        number(row.get("items")),
                        number((row.get("gain") or {}).get("gain"), 4),
                        interval((row.get("gain") or {}).get("interval")),
                        number(row.get("share_of_whole"), 2),
                    )
                    for row in rows
                ),
            )


def _alike(given: Any) -> Iterator[Table]:
    """Targets that are no independent draws."""
    groups = given.get("groups") if isinstance(given, Mapping) else given
    if groups:
        yield Table(
            "Targets that answer nearly alike, and are not independent",
            (
                Column("targets", "name"),
                Column("family"),
                Column("equal answers", "number"),
                Column("copies"),
            ),
            tuple(
                (
                    ", ".join(name_of(name, 40) for name in group.get("targets") or []),
                    "" if group.get("family") is None else name_of(group["family"], 40),
                    number(group.get("least_agreement"), fraction=True),
                    _copied(group),
                )
                for group in _mappings(groups)
            ),
        )


def _copied(group: Mapping[str, Any]) -> str:
    if not group.get("identical"):
        return ""
    return "equal rows, may be chance" if group.get("may_be_chance") else "equal rows"
