"""Groups among known targets, under each re-run disagreement that has to be assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.audits.fingerprint.agreement import agreement_matrix
from safemetry.audits.fingerprint.answers import answer_counts, informative_items
from safemetry.audits.fingerprint.groups import Separation, TargetGroup, separate, target_groups
from safemetry.audits.fingerprint.kinship import Kinship, kinship
from safemetry.audits.fingerprint.roster import make_roster
from safemetry.audits.fingerprint.settings import FingerprintSettings
from safemetry.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class KnownGroups:
    """Groups of known targets under one re-run disagreement.

    Parameters
    ----------
    targets
        R names.
    disagreement
        Assumed or stated share of the informative items on which a re-run differs; None where it
        was estimated for each target.
    groups
        Targets that are not told apart.
    separation
        P values and likelihood ratios of all pairs.
    kinship
        Likeness of all pairs beyond their abilities.
    agreement
        Share of equal answers on the informative items, shape ``(R, R)``.
    informative_items
        How many.
    """

    targets: tuple[str, ...]
    disagreement: float | None
    groups: tuple[TargetGroup, ...]
    separation: Separation
    kinship: Kinship
    agreement: np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]
    informative_items: int

    def relatives(self, target: str) -> tuple[str, ...]:
        """Targets more alike to this one than their abilities explain, the most alike first.

        Those with evidence of at least -log level. They may be told apart and yet be relatives, as
        a derived model is. A second dimension that many targets share makes relatives too, of small
        likeness.
        """
        if target not in self.targets:
            raise InputError(f"there is no target {target!r} among the known ones")
        own = self.targets.index(target)
        least = -np.log(self.separation.level)
        return tuple(
            self.targets[place]
            for place in np.argsort(-self.kinship.likeness[own], kind="stable")
            if place != own and self.kinship.evidence[own, place] >= least
        )


def group_known(
    known: NDArray[np.integer],
    references: Sequence[str],
    *,
    settings: FingerprintSettings | None = None,
    rng: np.random.Generator,
) -> tuple[KnownGroups, ...]:
    """Which known targets can be told apart, once for each assumed re-run disagreement.

    Parameters
    ----------
    known
        Runs of R targets, shape ``(T, R, J)``, -1 for missing.
    references
        Their names.
    settings
        As for `compare_with_known`.
    rng
        Source of randomness.

    Returns
    -------
    tuple
        One entry if the disagreement is stated or can be estimated from repeated runs, otherwise
        one for each assumed.

    Raises
    ------
    InputError
        For shapes that do not fit, fewer than two targets, or no informative item.
    """
    chosen = settings or FingerprintSettings()
    runs, names = np.asarray(known), tuple(references)
    if runs.ndim != 3 or runs.shape[1] != len(names) or len(names) < 2:
        raise InputError(
            f"known answers have the shape {runs.shape} and not runs x {len(names)} targets x "
            "items, two targets at least"
        )
    counts = answer_counts(runs, max(int(runs.max()), 1) + 1)
    informative = informative_items(counts, chosen.least_difference)
    if not informative.any():
        raise InputError(
            "on no item do the targets differ enough to tell them apart",
            fix="use items that some of them pass and others fail",
        )
    counts = counts[:, informative]
    rates: list[float | None] = [chosen.disagreement]
    if chosen.disagreement is None and not (counts.sum(axis=-1) >= 2).any():
        rates = list(chosen.assumed)
    agreement = agreement_matrix(counts)
    made = []
    for rate in rates:
        roster = make_roster(names, counts, population=chosen.population, disagreement=rate)
        separation = separate(roster, chosen.level, chosen.simulations, rng)
        groups = target_groups(names, separation)
        alike = kinship(roster)
        made.append(
            KnownGroups(names, rate, groups, separation, alike, agreement, int(informative.sum()))
        )
    return tuple(made)
