"""The smallest change of the full score that a form can see.

Two versions of a model are compared by the scores recovered from a form. What matters is the error
of the *difference*, and it is measured: on held-out targets, of which the true scores are known, so
that a model that does not fit counts as much as chance.

* Paired: both versions answer the same form. What the form's items do to both cancels.
* Unpaired: each version answers a form of its own. Nothing cancels.

Two versions of one model agree on more items than two different models do. Where the re-run
disagreement is known, the paired error is scaled to it: a difference of two scores is a sum over
the items on which they disagree, so its variance is in proportion to their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr, ndtri

from safemetry.errors import InputError
from safemetry.forms.evaluation.evaluate import HeldOutScores
from safemetry.irt.parameters import FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

NEAR: Final = 0.1
"""Largest difference of true scores of two targets that stand for two versions of one model."""

FEWEST_PAIRS: Final = 20


@dataclass(frozen=True)
class ChangeErrors:
    """Errors of recovered differences: recovered less true.

    Parameters
    ----------
    paired
        Of pairs of held-out targets with similar true scores on the same form, both orders.
    unpaired
        Of one target on the form of one split and one on that of another.
    disagreement
        Share of the items on which the targets of a pair differ, mean over the pairs; None where
        the responses were not given.
    targets
        Different targets behind the pairs. Pairs share targets, so this is nearer to the number of
        independent observations than their count is.
    """

    paired: FloatArray
    unpaired: FloatArray
    disagreement: float | None
    targets: int

    def chance(self, drop: float, gate: float, *, paired: bool = True) -> float | None:
        """Share of the errors with which a true drop is read as one of at least `gate`.

        Parameters
        ----------
        drop, gate
            True drop, and recovered drop at which a release is reverted, as fractions.
        paired
            Which errors.

        Returns
        -------
        float or None
            None without errors.
        """
        errors = self.paired if paired else self.unpaired
        return float((drop + errors >= gate - 1e-12).mean()) if errors.size else None


@dataclass(frozen=True)
class MinimumDetectableChange:
    """The smallest true change that a comparison by a form finds with a given chance.

    Parameters
    ----------
    paired, unpaired
        As fractions of the score; None where it cannot be told.
    power, level
        Chance of finding it, and two-sided level of the test.
    paired_error, unpaired_error
        Standard deviations of the recovered differences around the true ones.
    items, method, recovery
        Of the form.
    pairs, targets
        Pairs of held-out targets that the paired error rests on, and targets behind them.
    rerun_disagreement
        Share of items on which two runs of one model differ, where it was given; the paired figures
        are then scaled to it.
    why
        Why a field is None.
    """

    paired: float | None
    unpaired: float | None
    power: float
    level: float
    paired_error: float | None
    unpaired_error: float | None
    items: int
    method: str
    recovery: str
    pairs: int
    targets: int
    rerun_disagreement: float | None
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Visibility:
    """Whether a form can see a difference.

    Parameters
    ----------
    visible
        None where it cannot be told.
    reason
        In a sentence.
    """

    visible: bool | None
    reason: str


def change_errors(
    held: HeldOutScores, codes: Codes | None = None, *, near: float = NEAR
) -> ChangeErrors:
    """Errors of recovered differences among held-out targets.

    Parameters
    ----------
    held
        Recovered and true scores of held-out targets over several splits.
    codes
        Responses of all targets, for the disagreement of the pairs.
    near
        Largest difference of true scores within a pair.
    """
    paired: list[FloatArray] = []
    unlike: list[float] = []
    seen: set[int] = set()
    for targets, predicted, truth in zip(held.targets, held.predicted, held.truth, strict=True):
        error = predicted - truth
        first, second = np.triu_indices(truth.size, 1)
        close = np.abs(truth[first] - truth[second]) <= near
        first, second = first[close], second[close]
        paired.append(error[first] - error[second])
        seen |= {int(target) for target in targets[np.concatenate([first, second])]}
        if codes is not None:
            unlike += [
                _disagreement(codes[targets[one]], codes[targets[other]])
                for one, other in zip(first, second, strict=True)
            ]
    flat = np.concatenate(paired) if paired else np.zeros(0)
    known = [share for share in unlike if np.isfinite(share)]
    return ChangeErrors(
        np.concatenate([flat, -flat]),
        _unpaired(held),
        float(np.mean(known)) if known else None,
        len(seen),
    )


def _disagreement(first: Codes, second: Codes) -> float:
    both = (first >= 0) & (second >= 0)
    return float((first != second)[both].mean()) if both.any() else np.nan


def _unpaired(held: HeldOutScores) -> FloatArray:
    """Errors of targets on one form less those on the form of the next split, all pairs."""
    errors = [one - other for one, other in zip(held.predicted, held.truth, strict=True)]
    found = [
        (errors[place][:, None] - errors[place + 1][None, :]).ravel()
        for place in range(len(errors) - 1)
    ]
    flat = np.concatenate(found) if found else np.zeros(0)
    return np.concatenate([flat, -flat])


def minimum_detectable_change(
    held: HeldOutScores,
    codes: Codes | None = None,
    *,
    power: float = 0.8,
    level: float = 0.05,
    near: float = NEAR,
    rerun_disagreement: float | None = None,
) -> MinimumDetectableChange:
    """The smallest change that a form sees, from the errors of differences on held-out targets.

    (z(1 - level/2) + z(power)) times the standard deviation of the errors (Cohen 1988, chapter 2).

    Parameters
    ----------
    held
        Recovered and true scores of held-out targets for the form; see `FormEvaluation.scores`.
    codes
        Responses of all targets ``(N, J)``; needed with `rerun_disagreement`.
    power, level
        In (0, 1).
    near
        Largest difference of true scores of two targets that stand for two versions.
    rerun_disagreement
        Share of items on which two runs of one model differ.

    Raises
    ------
    InputError
        For a power, level or disagreement out of range, or a disagreement without responses.
    """
    if not (0 < power < 1 and 0 < level < 1 and near > 0):
        raise InputError("power and level lie between 0 and 1, and near above 0")
    if rerun_disagreement is not None and not (0 <= rerun_disagreement <= 1 and codes is not None):
        raise InputError(
            "a re-run disagreement is a share from 0 to 1, compared with that of the targets",
            fix="give the responses too",
        )
    errors = change_errors(held, codes, near=near)
    factor = float(ndtri(1 - level / 2) + ndtri(power))
    why: dict[str, str] = {}
    paired_error = unpaired_error = paired = unpaired = None
    if errors.paired.size < 2 * FEWEST_PAIRS:
        reason = f"{errors.paired.size // 2} pairs of held-out targets have similar scores"
        why |= dict.fromkeys(("paired", "paired_error"), reason)
    else:
        paired_error = float(np.sqrt((errors.paired**2).mean()))
        paired = factor * paired_error
    if errors.unpaired.size < 2 * FEWEST_PAIRS:
        reason = (
            "one split has one form"
            if len(held.truth) < 2
            else f"{errors.unpaired.size // 2} pairs of held-out targets on different forms"
        )
        why |= dict.fromkeys(("unpaired", "unpaired_error"), reason)
    else:
        unpaired_error = float(np.sqrt((errors.unpaired**2).mean()))
        unpaired = factor * unpaired_error
    if rerun_disagreement is None:
        why["rerun_disagreement"] = "not given"
    elif paired_error is not None and errors.disagreement:
        paired_error, paired = _scaled(
            paired_error, errors.disagreement, rerun_disagreement, factor
        )
    elif paired_error is not None:
        paired_error = paired = None
        reason = "the pairs differ on no item, so that nothing can be scaled to re-runs"
        why |= dict.fromkeys(("paired", "paired_error"), reason)
    return MinimumDetectableChange(
        paired,
        unpaired,
        power,
        level,
        paired_error,
        unpaired_error,
        held.items,
        held.method,
        held.recovery,
        errors.paired.size // 2,
        errors.targets,
        rerun_disagreement,
        why,
    )


def _scaled(error: float, between: float, within: float, factor: float) -> tuple[float, float]:
    """Error and detectable change of versions that disagree by re-runs and by the change itself."""
    change = factor * error
    scaled = error
    for _ in range(100):
        scaled = error * float(np.sqrt(min((within + change) / between, 1.0)))
        after = factor * scaled
        if abs(after - change) < 1e-9:
            break
        change = after
    return scaled, change


def chance_seen(error: float, drop: float, gate: float) -> float:
    """Chance that a true drop is recovered as one of at least `gate`, for normal errors.

    With a drop at or above the gate it is the chance to catch it; below, of a false alarm.

    Parameters
    ----------
    error
        Standard deviation of the recovered difference, above 0.
    drop, gate
        As fractions of the score.

    Examples
    --------
    The published case of a 100-item form, 12% at a gate of 5 points and a drop of 3, is that of an
    error of 1.7 points.

    >>> round(chance_seen(0.017, 0.03, 0.05), 2)
    0.12
    """
    if not error > 0:
        raise InputError(f"an error of {error:g} is not above 0")
    return float(ndtr((drop - gate) / error))


def can_see(
    change: MinimumDetectableChange, difference: float, *, paired: bool = True
) -> Visibility:
    """Whether a form can see a difference of the full score.

    Parameters
    ----------
    change
        Of the form.
    difference
        As a fraction of the score; its sign does not matter.
    paired
        Whether both versions answer the same form.

    Examples
    --------
    >>> form = MinimumDetectableChange(
    ...     0.04, 0.09, 0.8, 0.05, 0.0143, 0.032, 50, "greedy", "calibrated", 900, 60, None
    ... )
    >>> can_see(form, 0.03).visible, can_see(form, 0.05).visible
    (False, True)
    """
    kind = "paired" if paired else "unpaired"
    least = change.paired if paired else change.unpaired
    asked = abs(difference)
    if least is None:
        reason = change.why.get(kind, "the error of a difference is unknown")
        return Visibility(
            None, f"It cannot be told what this form of {change.items} items sees: {reason}."
        )
    visible = asked >= least
    verb = "sees" if visible else "cannot see"
    return Visibility(
        visible,
        f"A form of {change.items} items ({change.method}) {verb} a {kind} difference of "
        f"{asked:.1%}: the smallest that it finds with {change.power:.0%} power at a two-sided "
        f"level of {change.level:.0%} is {least:.1%}.",
    )
