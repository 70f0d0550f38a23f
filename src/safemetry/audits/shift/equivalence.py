"""Whether a difference of abilities is there, and whether it is small enough not to matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from safemetry.audits.shift.comparison import Alternative, Comparison, Replicates, tails

if TYPE_CHECKING:
    import numpy as np

_ONE_SIDE: Final = "the test looks for a fall only"


@dataclass(frozen=True)
class DifferenceTest:
    """Test of no difference.

    Parameters
    ----------
    p_value
        Of the alternative.
    root
        The observed signed root of the likelihood ratio; negative where the ability is lower.
    alternative
        ``two_sided``, or ``lower``: only a later ability below the earlier one counts.
    """

    p_value: float
    root: float
    alternative: Alternative


@dataclass(frozen=True)
class EquivalenceTest:
    """Two one-sided tests of a difference of at least the margin (Schuirmann 1987).

    Parameters
    ----------
    margin
        In units of ability.
    p_below
        Of a difference of -margin or less.
    p_above
        Of a difference of margin or more; None with the alternative ``lower``, which asks about one
        side only.
    p_value
        The larger of both: at most the level where the difference is shown to be smaller than the
        margin.
    why
        Reasons for what is None.
    """

    margin: float
    p_below: float
    p_above: float | None
    p_value: float
    why: Mapping[str, str] = field(default_factory=dict)


def difference_test(
    comparison: Comparison, rng: np.random.Generator, alternative: Alternative = "two_sided"
) -> tuple[DifferenceTest, Replicates]:
    """Test of one ability on both sides, by simulation at the most likely such ability.

    Parameters
    ----------
    comparison
        Both sides.
    rng
        Source of randomness.
    alternative
        See `DifferenceTest`.

    Returns
    -------
    tuple
        The test and the repetitions that it rests on, for a joint rate with other statistics.

    Notes
    -----
    The distribution of the signed root is simulated with abilities re-estimated from every pattern
    and item parameters drawn from their errors; simulated at the constrained estimate, its level is
    right to third order with known items (DiCiccio, Martin & Stern 2001, Canadian Journal of
    Statistics 29; Lee & Young 2005, Statistics & Probability Letters 71).
    """
    replicates = comparison.under(0, rng)
    root = comparison.root(0)
    return DifferenceTest(difference_p(replicates.roots, root, alternative), root, alternative), (
        replicates
    )


def difference_p(
    roots: np.ndarray[tuple[int, ...], np.dtype[np.float64]], root: float, alternative: Alternative
) -> float:
    """p-value of a root among simulated ones."""
    low, high = tails(roots, root)
    return low if alternative == "lower" else min(1.0, 2 * min(low, high))


def equivalence_test(
    comparison: Comparison,
    margin: float,
    rng: np.random.Generator,
    alternative: Alternative = "two_sided",
) -> EquivalenceTest:
    """Two one-sided tests, each by simulation at its own margin.

    Parameters
    ----------
    comparison
        Both sides, on a lattice of which the margin is a whole number of steps.
    margin
        In units of ability, above 0.
    rng
        Source of randomness.
    alternative
        With ``lower`` only a later ability that is lower by the margin is tested
        (non-inferiority).

    Notes
    -----
    Each of the two tests has the level, and so has the verdict (Schuirmann 1987, Journal of
    Pharmacokinetics and Biopharmaceutics 15; Berger & Hsu 1996, Statistical Science 11).
    """
    steps = round(margin / comparison.spacing)
    _, below = tails(comparison.under(-steps, rng).roots, comparison.root(-steps))
    if alternative == "lower":
        return EquivalenceTest(margin, below, None, below, {"p_above": _ONE_SIDE})
    above, _ = tails(comparison.under(steps, rng).roots, comparison.root(steps))
    return EquivalenceTest(margin, below, above, max(below, above))
