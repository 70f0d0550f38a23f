"""What `audit_differences` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from safemetry.construct.dif.bands import LackingBand
from safemetry.construct.dif.duplicates import NearDuplicates
from safemetry.construct.dif.groups import RefusedGroup


@dataclass(frozen=True)
class ItemDifference:
    """One item in one row of the table.

    Parameters
    ----------
    item
        Its name.
    statistic
        Absolute statistic in logits; None where it has no value.
    effect
        The difference on the delta scale: negative where the focal group has the lower chance of a
        rewarded response at equal ability. Of a non-uniform row the difference of the slopes.
    size
        A, B or C.
    p_value
        Of the item alone, by simulation.
    flagged
        Whether the statistic lies above the family-wise threshold.
    item_flagged
        Whether it lies above the threshold of this item alone.
    why
        Why the statistic has no value; empty where it has one.
    """

    item: str
    statistic: float | None
    effect: float | None
    size: str | None
    p_value: float | None
    flagged: bool
    item_flagged: bool
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `class` is the size, and `why` stands beside the fields that are None."""
        found: dict[str, Any] = {
            "item": self.item,
            "statistic": self.statistic,
            "effect": self.effect,
            "class": self.size,
            "p_value": self.p_value,
            "flagged": self.flagged,
            "item_flagged": self.item_flagged,
        }
        if self.why:
            none = [name for name, value in found.items() if value is None]
            found["why"] = dict.fromkeys(none, self.why)
        return found


@dataclass(frozen=True)
class DifferenceRow:
    """One combination of choices.

    Parameters
    ----------
    headline
        Whether this is the row that a sentence quotes; the others show what choices change.
    scope
        ``all items``, or the dimension whose items are compared and matched on.
    groups
        Reference and focal group.
    method, matching, bands, smoothing, penalty
        How the statistic is computed; None where a method has no such choice.
    prior, null
        Name of the priors of the fit that matrices are simulated from, and the null in words.
    simulations, alpha
        Simulated matrices and the error rate.
    flags, item_flags
        Items above the family-wise threshold, and above their own. Of `item_flags` about alpha
        times the number of items are expected without any difference.
    threshold, threshold_interval
        The family-wise threshold and its 95% interval as a simulated quantile.
    observed_max
        Largest statistic; None where no item has one.
    p_value
        Of the largest statistic, over all items.
    lacking_bands
        Bands without a target of one of the groups.
    band_count
        How many bands there are; None where there are none, or each score is one.
    items
        Every item of the scope.
    """

    headline: bool
    scope: str
    groups: tuple[str, str]
    method: str
    matching: str
    bands: str | None
    smoothing: float | None
    penalty: float | None
    prior: str
    null: str
    simulations: int
    alpha: float
    flags: int
    item_flags: int
    threshold: float
    threshold_interval: tuple[float, float]
    observed_max: float | None
    p_value: float | None
    lacking_bands: tuple[LackingBand, ...]
    band_count: int | None
    items: tuple[ItemDifference, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with the reason of every None."""
        found: dict[str, Any] = dict(vars(self))
        reasons = {
            "bands": "a regression needs no bands",
            "band_count": "there are no bands, or each score is one",
            "smoothing": "a regression smooths no sums",
            "penalty": "Mantel-Haenszel has no penalty",
            "observed_max": "no item has a statistic",
            "p_value": "no item has a statistic",
        }
        found["why"] = {name: why for name, why in reasons.items() if found[name] is None}
        return found

    @property
    def shared_bands(self) -> int | None:
        """How many bands hold targets of both groups; None where `band_count` is."""
        if self.band_count is None:
            return None
        return self.band_count - len({band.band for band in self.lacking_bands})

    @property
    def flagged(self) -> tuple[str, ...]:
        """Names of the flagged items, the largest statistic first."""
        held = [entry for entry in self.items if entry.flagged]
        held.sort(key=lambda entry: -(entry.statistic or 0.0))
        return tuple(entry.item for entry in held)


@dataclass(frozen=True)
class ComparedGroups:
    """Two groups that were compared.

    Parameters
    ----------
    groups, targets
        Reference and focal group, and how many targets each has.
    independent
        Clusters of each; the numbers of targets where no cluster has two.
    impact
        Difference of the mean abilities, focal minus reference, in standard deviations of the
        ability of all targets (headline null). Differences in ability are no item differences.
    """

    groups: tuple[str, str]
    targets: tuple[int, int]
    independent: tuple[int, int]
    impact: float


@dataclass(frozen=True)
class SkippedPart:
    """A part of the table that could not be computed.

    Parameters
    ----------
    scope, part
        Where it would have stood.
    why
        The reason.
    """

    scope: str
    part: str
    why: str


@dataclass(frozen=True)
class DifferencesAudit:
    """Item differences between groups of targets, under several choices.

    Parameters
    ----------
    rows
        The table; for each pair of groups and method the headline row first.
    compared, refused
        Pairs of groups, and groups that are too small.
    ungrouped
        Targets without a group; they take part in the fit and in bands of all targets.
    constant_items
        Items that all targets answered alike; they cannot differ and are left out.
    shared_answers
        For each cluster of two or more targets, how much of their answers they share (0 to 1) in
        the headline null.
    duplicates
        Near-duplicates among the targets.
    skipped
        Parts of the table that could not be computed.
    settings, warnings
        What decided the result, and what a reader must know.
    """

    rows: tuple[DifferenceRow, ...]
    compared: tuple[ComparedGroups, ...]
    refused: tuple[RefusedGroup, ...]
    ungrouped: tuple[str, ...]
    constant_items: tuple[str, ...]
    shared_answers: Mapping[str, float]
    duplicates: NearDuplicates
    skipped: tuple[SkippedPart, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def not_compared(self, name: str) -> list[str]:
        """Sentences on groups of the grouping `name` that are too small, and on lacking bands."""
        said = []
        if self.refused:
            groups = ", ".join(f"{group.group} ({group.targets})" for group in self.refused[:8])
            more = f" and {len(self.refused) - 8} more" if len(self.refused) > 8 else ""
            least = self.settings["minimum_group"]
            said.append(
                f"Of {name}, groups under {least} targets were not compared: {groups}{more}."
            )
        for row in self.rows:
            first = self.rows[0]
            if row.lacking_bands and (row.scope, row.prior) == (first.scope, first.prior):
                bands = [f"band {band.band} lacks {band.lacks}" for band in row.lacking_bands]
                said.append(f"{' and '.join(row.groups)}, {row.bands}: {', '.join(bands)}.")
        return list(dict.fromkeys(said))

    def headline(self, groups: tuple[str, str] | None = None) -> DifferenceRow:
        """The headline row of a pair of groups, the first pair by default.

        Raises
        ------
        KeyError
            For groups that were not compared.
        """
        for row in self.rows:
            if row.headline and groups in {None, row.groups}:
                return row
        raise KeyError(groups)
