"""What `audit_target` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from safemetry.audits.fingerprint.result import Fingerprint
from safemetry.audits.fingerprint.stream import DriftState
from safemetry.audits.fingerprint.verdict import Verdict
from safemetry.audits.person_fit.achieved import AchievedRate
from safemetry.audits.person_fit.fit import PersonFit
from safemetry.audits.person_fit.misfit import CategoryMisfit, ItemMisfit
from safemetry.audits.person_fit.selective import Selective
from safemetry.audits.shift.shift import AbilityShift
from safemetry.audits.shift.union import UnionTest
from safemetry.findings import Finding, plain

SOURCES: Final = (
    (
        "Drasgow, F., Levine, M. V. & Williams, E. A. (1985). Appropriateness measurement with "
        "polychotomous item response models and standardized indices. British Journal of "
        "Mathematical and Statistical Psychology 38, 67-86."
    ),
    (
        "Snijders, T. A. B. (2001). Asymptotic null distribution of person fit statistics with "
        "estimated person parameter. Psychometrika 66, 331-342."
    ),
    (
        "Schuirmann, D. J. (1987). A comparison of the two one-sided tests procedure and the power "
        "approach. Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680."
    ),
    (
        "Waudby-Smith, I. & Ramdas, A. (2024). Estimating means of bounded random variables by "
        "betting. Journal of the Royal Statistical Society B 86, 1-27."
    ),
)
QUANTILES: Final = (1, 5, 25, 50, 75, 95, 99)
_MOST_ITEMS: Final = 400


@dataclass(frozen=True, kw_only=True)
class AuditFinding(Finding):
    """Whether a target answers like itself, and like what it says it is.

    Parameters
    ----------
    target
        Its name.
    items, answered
        Items that were calibrated, and how many of these it answered.
    fit
        Person fit; None without a calibration.
    null_quantiles
        Statistic -> its quantiles (`QUANTILES`) among answers that fit.
    misfit
        Property -> misfit in each category.
    misfit_items, categories
        The least expected responses first, and the category of items.
    selective
        Property -> the scan for selective behaviour.
    shift
        Against the history; None without one.
    union
        Shift and person fit as one test; None without a history.
    fingerprint
        Against known targets.
    stream
        Against its own past item by item; None without earlier answers.
    out_of_sample
        How often other targets are flagged that took no part in the calibration.
    agreement
        Names, and the agreement of each two on the informative items that both answered.
    why
        Why a part is None.
    """

    command: ClassVar[str] = "audit"
    sources: ClassVar[tuple[str, ...]] = SOURCES

    target: str
    items: int
    answered: int
    fit: PersonFit | None
    null_quantiles: Mapping[str, Sequence[float]]
    misfit: Mapping[str, Sequence[CategoryMisfit]]
    misfit_items: Sequence[ItemMisfit]
    categories: Mapping[str, str]
    selective: Mapping[str, Selective]
    shift: AbilityShift | None
    union: UnionTest | None
    fingerprint: Fingerprint | None
    stream: DriftState | None
    out_of_sample: tuple[AchievedRate, ...] | None
    agreement: Mapping[str, Any] | None
    why: Mapping[str, str] = field(default_factory=dict)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row for each statistic of person fit."""
        return self._fit_rows() or []

    def own_keys(self) -> dict[str, Any]:
        """The keys of the contract."""
        return {
            "target": self.target,
            "items": self.items,
            "answered": self.answered,
            "ability": self._ability(),
            "person_fit": self._fit_rows(),
            "joint_null_rate": None if self.fit is None else self.fit.joint_null_rate,
            "union": self._union(),
            "out_of_sample": plain(self.out_of_sample),
            "misfit": self._misfit(),
            "misfit_items": self._misfit_items(),
            "selective": self._selective(),
            "selective_scan": {
                by: {"p_value": one.p_value, "null_rate": one.null_rate, "flagged": one.flagged}
                | ({"why": dict(one.why)} if one.why else {})
                for by, one in self.selective.items()
            },
            "ability_shift": _explained(self.shift),
            "shift_and_fit": _explained(self.union),
            "fingerprint": None
            if self.fingerprint is None
            else [_explained(row) for row in self.fingerprint.rows],
            "identity": self._identity(),
            "agreement_matrix": plain(self.agreement),
            "stream": self._stream(),
            **({"why": why} if (why := self._reasons()) else {}),
        }

    def _reasons(self) -> dict[str, str]:
        """Of all keys that are unknown."""
        own = {} if self.fit is None else self.fit.why
        return {**self.why, **{name: own[name] for name in ("joint_null_rate",) if name in own}}

    def _ability(self) -> dict[str, Any] | None:
        if self.fit is None:
            return None
        theta, error = self.fit.theta, self.fit.theta_error
        found: dict[str, Any] = {"theta": theta, "se": error, "interval": None}
        if error is None:
            return found | {"why": dict.fromkeys(("se", "interval"), "the responses say nothing")}
        return found | {"interval": [theta - 1.96 * error, theta + 1.96 * error]}

    def _fit_rows(self) -> list[dict[str, Any]] | None:
        if self.fit is None:
            return None
        rows = []
        for row in self.fit.rows:
            found = {name: plain(value) for name, value in vars(row).items() if name != "why"}
            found["null_quantiles"] = list(self.null_quantiles.get(row.statistic, ()))
            rows.append(found | ({"why": dict(row.why)} if row.why else {}))
        return rows

    def _union(self) -> dict[str, Any] | None:
        if self.fit is None:
            return None
        found: dict[str, Any] = {
            "p_value": self.fit.union_p_value,
            "level": self.fit.level,
            "null_rate": self.fit.union_null_rate,
            "flagged": self.fit.flagged,
        }
        if self.fit.union_p_value is None:
            reason = self.fit.why.get("union_p_value", "no statistic is known")
            found["why"] = dict.fromkeys(("p_value", "null_rate"), reason)
        return found

    def _misfit(self) -> list[dict[str, Any]]:
        rows = []
        for by, parts in self.misfit.items():
            for part in parts:
                found = {
                    name: plain(value)
                    for name, value in vars(part).items()
                    if name not in {"why", "adjusted", "target"}
                }
                found |= {"by": by, "p_adjusted": part.adjusted}
                why = {
                    "p_adjusted" if name == "adjusted" else name: said
                    for name, said in part.why.items()
                }
                rows.append(found | ({"why": why} if why else {}))
        return rows

    def _misfit_items(self) -> list[dict[str, Any]]:
        rows = []
        for one in self.misfit_items[:_MOST_ITEMS]:
            found: dict[str, Any] = plain(one)
            del found["target"]
            category = self.categories.get(one.item)
            found |= {"category": category, "observed": found.pop("code")}
            if category is None:
                found["why"] = {"category": "the item has none"}
            rows.append(found)
        return rows

    def _selective(self) -> list[dict[str, Any]]:
        rows = []
        for by, scan in self.selective.items():
            for part in scan.rows:
                chances = [p for p in (part.shift_adjusted, part.fit_adjusted) if p is not None]
                found: dict[str, Any] = {
                    "by": by,
                    "category": part.condition,
                    "items": part.items,
                    "difference": part.shift,
                    "se": part.shift_error,
                    "fit": part.fit,
                    "p_adjusted": min(chances) if chances else None,
                    "flagged": part.flagged,
                }
                reasons = dict(part.why)
                names = {"difference": "shift", "se": "shift_error", "p_adjusted": "shift_adjusted"}
                why = {
                    name: reasons.get(names.get(name, name), "it does not vary")
                    for name, value in found.items()
                    if value is None
                }
                rows.append(found | ({"why": why} if why else {}))
        return rows

    def _identity(self) -> dict[str, Any] | None:
        found = self.fingerprint
        if found is None:
            return None
        kept = [row.reference for row in found.rows if row.verdict is Verdict.SAME]
        open_ = [row.reference for row in found.rows if row.verdict is Verdict.CANNOT_TELL]
        verdict = "same" if kept else "cannot_tell" if open_ else "different"
        made = {
            "verdict": verdict,
            "references": kept or open_,
            "groups": [list(group.targets) for group in found.groups],
            "noise": found.noise,
            "disagreement": plain(found.disagreement),
            "informative_items": found.informative_items,
            "unlisted": found.unlisted,
        }
        return made | ({"why": dict(found.why)} if found.why else {})

    def _stream(self) -> dict[str, Any] | None:
        state = self.stream
        if state is None:
            return None
        made = {
            "verdict": str(state.verdict),
            "items": state.items,
            "skipped": state.skipped,
            "stopped_at": state.decided_at,
            "log_e_values": list(state.log_e_values),
            "log_e_same": list(state.log_e_same),
            "log_threshold": state.settings.threshold,
            "differing": state.differing / state.items if state.items else None,
            "level": state.settings.level,
            "margin": state.settings.margin,
        }
        why = {}
        if state.decided_at is None:
            why["stopped_at"] = "no limit was reached"
        if not state.items:
            why["differing"] = "no item was answered before and now"
        return made | ({"why": why} if why else {})

    # --- in words --------------------------------------------------------------------------------

    def sentence(self) -> str:
        """Whether it fits, where it does not, whether it moved, and which target it is."""
        return " ".join(
            said
            for said in (
                self._fit_in_words(),
                self._selective_in_words(),
                self._shift_in_words(),
                "" if self.fingerprint is None else self.fingerprint.sentence(),
                self._stream_in_words(),
            )
            if said
        )

    def _fit_in_words(self) -> str:
        fit = self.fit
        if fit is None:
            return f"{self.target}: person fit is unknown, {self.why.get('person_fit', '')}."
        over = f"{self.target}, {fit.answered:,} items"
        if fit.union_p_value is None or fit.union_null_rate is None:
            return f"{over}: no statistic of person fit has a value."
        rate = f"a rule that flags {fit.union_null_rate:.1%} of answers that fit"
        others = self._others_in_words()
        if not fit.flagged:
            return f"{over}: the answers fit the ability ({rate}).{others}"
        named = [row.statistic for row in fit.rows if row.flagged]
        by = f", by {', '.join(named)}" if named else ""
        return f"{over}: the answers do not fit the ability{by} ({rate}).{others}"

    def _others_in_words(self) -> str:
        """How often the rule flags other targets, where that is more than chance allows."""
        for row in self.out_of_sample or ():
            if (
                row.rule == "union"
                and row.rate is not None
                and row.low is not None
                and row.low > row.level
            ):
                return (
                    f" It flags {row.rate:.0%} of the {row.targets:,} other targets when they take "
                    "no part in the calibration: one ability does not describe them, and a flag "
                    "says little by itself."
                )
        return ""

    def _selective_in_words(self) -> str:
        named = [
            (part.condition, part.shift)
            for scan in self.selective.values()
            for part in scan.rows
            if part.flagged
        ]
        if not named:
            return ""
        listed = ", ".join(
            f"{name} ({'lower' if (shift or 0) < 0 else 'higher'} there)"
            for name, shift in named[:4]
        )
        more = f" and {len(named) - 4} more" if len(named) > 4 else ""
        return f"It behaves differently in {listed}{more}."

    def _shift_in_words(self) -> str:
        shift = self.shift
        if shift is None:
            return ""
        low, high = shift.interval
        about = (
            f"{shift.difference:+.2f} ({low:+.2f} to {high:+.2f}), {shift.points:+.1f} points of "
            "the expected score"
        )
        words = {
            "shifted": f"Its ability has shifted by {about}.",
            "same": f"Its ability is the same within the margin: {about}.",
            "cannot_tell": f"Whether its ability has shifted cannot be told: {about}.",
        }
        return words[shift.verdict]

    def _stream_in_words(self) -> str:
        state = self.stream
        if state is None or not state.items:
            return ""
        words = {
            "different": f"It is not what it was, as {state.decided_at} items were enough to say.",
            "same": f"It is what it was within the margin, after {state.decided_at} items.",
            "cannot_tell": f"{state.items:,} items do not tell whether it is what it was.",
        }
        return words[str(state.verdict)]

    def chart(self) -> Any:
        """Statistics of person fit with the target marked among answers that fit."""
        from safemetry.audits.charts.person_fit import person_fit_chart

        return person_fit_chart(self._fit_rows() or [])


def _explained(part: Any) -> dict[str, Any] | None:
    """A part as JSON, without an empty `why`."""
    if part is None:
        return None
    found: dict[str, Any] = plain(part)
    if not found.get("why", True):
        del found["why"]
    return found
