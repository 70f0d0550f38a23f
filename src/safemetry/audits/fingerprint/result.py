"""What a fingerprint says: one row for each known target, and what the rows rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from safemetry.audits.fingerprint.groups import TargetGroup
from safemetry.audits.fingerprint.verdict import Verdict


@dataclass(frozen=True)
class FingerprintRow:
    """The unknown target beside one known target.

    Parameters
    ----------
    reference
        The known target.
    agreement
        Share of equal answers on the informative items that both answered, as the chance that a run
        of each agrees; None without any.
    interval
        Of the agreement, widened for clusters of items; its confidence is 1 - level.
    informative_items
        On which they were compared.
    log_likelihood_ratio
        In nats: a re-run of the known target gives these answers, against some other target of the
        population, whose ability is free. None with hardly an informative item in common.
    verdict
        `same` means: these items do not tell the unknown target from this one, and do tell it from
        the known targets outside `group`.
    group
        Known targets that the items do not tell apart, with this one in it.
    error_same
        Chance that a re-run of this target would be called different.
    error_different
        Chance that a re-run of another known target, of those that are told apart from this one,
        would be called the same; None where there is none.
    recognised
        Chance that a re-run of this target would be called the same.
    by_disagreement
        Assumed re-run disagreement -> verdict, where the noise is not known; empty otherwise.
    why
        Field that is None -> reason.
    """

    reference: str
    agreement: float | None
    interval: tuple[float, float] | None
    informative_items: int
    log_likelihood_ratio: float | None
    verdict: Verdict
    group: tuple[str, ...]
    error_same: float | None
    error_different: float | None
    recognised: float | None
    by_disagreement: Mapping[str, Verdict] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `why` only where something is None."""
        made = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "why"}
        return {**made, "why": dict(self.why)} if self.why else made


@dataclass(frozen=True)
class Fingerprint:
    """Which known target an unknown one is.

    Parameters
    ----------
    target
        The unknown target.
    rows
        One for each known target, the most likely first.
    groups
        Known targets that are not told apart.
    noise
        Where the re-run disagreement comes from: `estimated` from repeated runs, `stated`, or
        `assumed`.
    disagreement
        Known target -> share of the informative items on which two of its runs differ, observed,
        stated or assumed.
    population
        `irt` or `marginal`.
    informative_items
        Of all items.
    unlisted
        Chance that a run of a known target would be called the same as another one, were it missing
        from the list: a lower bound, since the thresholds still know of it. None without
        informative items.
    settings, warnings
        As in every result.
    why
        Field that is None -> reason.
    """

    target: str
    rows: tuple[FingerprintRow, ...]
    groups: tuple[TargetGroup, ...]
    noise: str
    disagreement: Mapping[str, float]
    population: str
    informative_items: int
    unlisted: float | None
    settings: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def nearest(self) -> FingerprintRow:
        """The row of the most likely known target."""
        return self.rows[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `why` only where something is None."""
        made = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "why"}
        return {**made, "why": dict(self.why)} if self.why else made

    def sentence(self) -> str:
        """The result in words that can be pasted."""
        first = self.nearest
        if first.agreement is None:
            return f"No informative item says which known target {self.target} is."
        name = first.reference
        if len(first.group) > 1:
            others = ", ".join(entry for entry in first.group if entry != name)
            name += f" (these items do not tell it from {others})"
        shared = (
            f"it agrees with it on {first.agreement:.1%} of {first.informative_items} informative "
            "items"
        )
        if first.verdict is Verdict.SAME:
            return f"{self.target} answers as {name} would again; {shared}."
        if all(row.verdict is Verdict.DIFFERENT for row in self.rows):
            if_so = ", if re-runs differ as seldom as is assumed" if self.noise == "assumed" else ""
            return (
                f"{self.target} is none of the known targets{if_so}; nearest is {name}; {shared}."
            )
        kept = sum(row.verdict is not Verdict.DIFFERENT for row in self.rows)
        return (
            f"The answers cannot tell which known target {self.target} is, or whether it is one: "
            f"{kept} of {len(self.rows)} are not ruled out; most likely is {name}; {shared}."
        )
