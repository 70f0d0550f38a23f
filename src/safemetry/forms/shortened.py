"""What `shorten` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from safemetry.findings import Finding, plain
from safemetry.forms.change import MinimumDetectableChange
from safemetry.forms.evaluation.rows import EvaluationRow, RandomCatch
from safemetry.forms.form import Form

SOURCES: Final = (
    ("van der Linden, W. J. (2005). Linear Models for Optimal Test Design. Springer."),
    (
        "Polo, F. M. et al. (2024). tinyBenchmarks: evaluating LLMs with fewer examples. "
        "arXiv:2402.14992."
    ),
    (
        "Vivek, R. et al. (2024). Anchor points: benchmarking models with much fewer examples. "
        "arXiv:2309.08638."
    ),
)


@dataclass(frozen=True, kw_only=True)
class ShortenFinding(Finding):
    """A short form, and how well such forms recover the full score.

    Parameters
    ----------
    form
        The form as it is kept.
    details
        One row for each of its items: parameters, information at the mean ability, weight in a
        mean, and properties.
    parallel
        Item names of forms of equal information, chosen beside the form; empty where one is asked
        for.
    information_gap
        Largest relative difference of the information of parallel forms; None for one form.
    evaluation
        Method x budget, read by the chosen recovery; None where there are too few targets.
    by_recovery
        The same for every recovery.
    random_as_good
        From which budget on random items do as well.
    change
        The minimum detectable change of forms of this length; None without an evaluation.
    targets, items
        How many the form was made from.
    curve
        Information of the form over abilities, with the target population's density.
    why
        Why a part is None.
    """

    command: ClassVar[str] = "shorten"
    sources: ClassVar[tuple[str, ...]] = SOURCES

    form: Form
    details: Sequence[Mapping[str, Any]]
    parallel: tuple[tuple[str, ...], ...]
    information_gap: float | None
    evaluation: tuple[EvaluationRow, ...] | None
    by_recovery: tuple[EvaluationRow, ...] | None
    random_as_good: tuple[RandomCatch, ...] | None
    change: MinimumDetectableChange | None
    targets: int
    items: int
    curve: Mapping[str, Any]
    why: Mapping[str, str] = field(default_factory=dict)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row for each item of the form."""
        return self.details

    def own_keys(self) -> dict[str, Any]:
        """The keys of the contract."""
        return {
            "items": list(self.form.items),
            "details": plain(list(self.details)),
            "targets": self.targets,
            "all_items": self.items,
            "parallel_forms": [list(names) for names in self.parallel],
            "information_gap": self.information_gap,
            "evaluation": None if self.evaluation is None else [_flat(r) for r in self.evaluation],
            "evaluation_by_recovery": (
                None if self.by_recovery is None else [_flat(row) for row in self.by_recovery]
            ),
            "random_as_good": plain(self.random_as_good),
            "minimum_detectable_change": _change(self.change),
            "curve": plain(self.curve),
            **({"why": dict(self.why)} if self.why else {}),
        }

    def row(self, method: str, items: int) -> EvaluationRow | None:
        """How well forms of a method and length do; None where it was not evaluated."""
        for row in self.evaluation or ():
            if (row.method, row.items) == (method, items):
                return row
        return None

    def sentence(self) -> str:
        """What the form is worth, beside random items, and what it can see."""
        count = len(self.form.items)
        said = [f"{count:,} of {self.items:,} items, chosen by {self.form.method}."]
        row = self.row(self.form.method, count)
        if row is None:
            reason = self.why.get("evaluation", "forms of this length could not be made")
            return f"{said[0]} How well they recover the full score is unknown: {reason}."
        rank = "" if row.spearman is None else f", rank correlation {row.spearman:.2f}"
        said.append(
            f"On targets that were held out such forms miss the full score by {row.rmse:.1%} "
            f"(root mean square{rank}); random items by {row.random_rmse.mean:.1%}."
        )
        said.append(self._catch_in_words())
        if self.change is not None:
            said.append(_change_in_words(self.change))
        return " ".join(said)

    def _catch_in_words(self) -> str:
        for catch in self.random_as_good or ():
            if catch.method == self.form.method:
                if catch.items is None:
                    said = catch.why.get(
                        "items", "no length was found from which random is as good"
                    )
                    return f"{said[0].upper()}{said[1:]}."
                return f"From {catch.items:,} items on, random items are as good."
        return ""

    def chart(self) -> Any:
        """Error of recovered scores against the number of items, with the random band."""
        from safemetry.forms.charts.budget import budget_chart

        rows = [] if self.evaluation is None else [_flat(row) for row in self.evaluation]
        return budget_chart(rows)


def _flat(row: EvaluationRow) -> dict[str, Any]:
    """A row of the contract: the random band is its mean, and its ends beside."""
    found = {name: plain(value) for name, value in vars(row).items() if name != "why"}
    band = row.random_rmse
    found["random_rmse"] = band.mean
    found["random_band"] = [band.low, band.high]
    return {**found, "why": dict(row.why)} if row.why else found


def _change(change: MinimumDetectableChange | None) -> dict[str, Any] | None:
    if change is None:
        return None
    found: dict[str, Any] = plain(change)
    if not found["why"]:
        del found["why"]
    return found


def _change_in_words(change: MinimumDetectableChange) -> str:
    if change.paired is None and change.unpaired is None:
        return f"Which change they can see is unknown: {change.why.get('paired', 'not measured')}."
    parts = [
        f"{value:.1%} {words}"
        for value, words in (
            (change.paired, "when both versions answer the same form"),
            (change.unpaired, "on different forms"),
        )
        if value is not None
    ]
    return (
        f"With {change.power:.0%} power the smallest change that they can see is "
        f"{' and '.join(parts)}."
    )
