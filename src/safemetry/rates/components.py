"""Where the variance of outcomes comes from: targets, items, epochs, judges.

Outcome = mean + target + item + judge + target:item + target:judge + item:judge + epoch (the
response within target and item, shared by its judges) + residual, all effects independent with
their own variances. Two outcomes that share exactly the indices S differ by half a mean square of
(total variance - variances of the effects they share); averaging over all such pairs and
subtracting gives each variance. Missing cells and unequal numbers need no balance for this to be
unbiased. The sums over pairs are sums over groups: n * sum y**2 - (sum y)**2 covers the pairs that
share at least S, and pairs that share more are taken off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safemetry.rates.intervals import FloatArray

IntArray = NDArray[np.int64]
Shared = frozenset[str]

ABSENT = {
    "target": "one target",
    "item": "one item",
    "judge": "one judge",
}


@dataclass(frozen=True)
class VarianceComponents:
    """Variances of an outcome; None where not estimable, with the reason in `why`.

    epoch: response within target and item, shared by the judges who read it.
    residual: what is left, a judge's own noise on one response included.
    why: reason for each component that is None.
    merged: for a component that is None, the component that contains it, if one does.
    truncated: raw negative estimates of components that are reported as 0.
    total: variance of one outcome among rows that share nothing.
    """

    target: float | None
    item: float | None
    judge: float | None
    target_item: float | None
    target_judge: float | None
    item_judge: float | None
    epoch: float | None
    residual: float | None
    why: dict[str, str]
    merged: dict[str, str]
    truncated: dict[str, float]
    total: float | None


def variance_components(
    outcome: ArrayLike, target: ArrayLike, item: ArrayLike, epoch: ArrayLike, judge: ArrayLike
) -> VarianceComponents:
    """Return the variance components of outcomes by the method of moments.

    Parameters: `outcome`, shape (rows,), numbers in [0, 1]; `target`, `item`, `epoch`, `judge`,
    shape (rows,), whole-number codes. Cells may be missing; epochs of different targets or items
    have nothing in common; several rows of one judge on one response are repeated calls.

    Returns: unbiased estimates, negative ones set to 0 and listed in `truncated`. A component that
    the design cannot separate is None, and `merged` names the component that contains it.

    Raises: ValueError for arrays of different shapes, codes that are not whole numbers, or
    outcomes outside [0, 1].

    Source: Brennan (2001), Generalizability Theory, section 7.1 (analogous mean squares);
    Hartley (1967), Biometrics 23, 105-114 (sums over pairs that share an index).

    >>> found = variance_components([0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1], [0] * 4, [0] * 4)
    >>> found.item, found.target, found.epoch, found.merged["epoch"]
    (0.5, 0.0, None, 'residual')
    """
    y, codes = _checked(outcome, target, item, epoch, judge)
    present = [name for name in ABSENT if codes[name].max(initial=0) > 0]
    spread, counts = _pairs_sharing_exactly(y, codes, present)

    why, merged = _absent(present)
    nothing: Shared = frozenset()
    if counts[nothing] == 0:
        reason = "no two rows differ in target, item and judge at once"
        parts = ("target", "item", "judge", "target_item", "target_judge", "item_judge")
        whole = {name: why.get(name, reason) for name in (*parts, "epoch", "residual", "total")}
        return VarianceComponents(
            None, None, None, None, None, None, None, None, whole, merged, {}, None
        )
    total = spread[nothing] / counts[nothing]

    raw: dict[str, float] = {}
    estimable = _shared_sets(present)
    for name, shared in estimable.items():
        if counts[shared] > 0:
            inside = sum(raw[other] for other in raw if estimable[other] < shared)
            raw[name] = total - spread[shared] / counts[shared] - inside
        else:
            why[name], merged[name] = NO_PAIRS[name], "residual"
    cell = "_".join(name for name in present if name != "judge")
    if "epoch" in raw and cell in why:
        # Judges read the same responses, and no response has a second one beside it.
        raw[cell] = raw.pop("epoch")
        del why[cell], merged[cell]
        why["epoch"], merged["epoch"] = NO_PAIRS["target_item"], cell
    raw["residual"] = total - sum(raw.values())
    # Differences of equal sums leave rounding of either sign.
    truncated = {name: value for name, value in raw.items() if value < -1e-12}
    values = {name: max(value, 0.0) for name, value in raw.items()}
    return VarianceComponents(
        target=values.get("target"),
        item=values.get("item"),
        judge=values.get("judge"),
        target_item=values.get("target_item"),
        target_judge=values.get("target_judge"),
        item_judge=values.get("item_judge"),
        epoch=values.get("epoch"),
        residual=values["residual"],
        why=why,
        merged=merged,
        truncated=truncated,
        total=total,
    )


def _checked(
    outcome: ArrayLike, target: ArrayLike, item: ArrayLike, epoch: ArrayLike, judge: ArrayLike
) -> tuple[FloatArray, dict[str, IntArray]]:
    y = np.asarray(outcome, np.float64)
    if y.ndim != 1 or not ((y >= 0) & (y <= 1)).all():
        raise ValueError("outcome must be a one-dimensional array of numbers in [0, 1]")
    codes: dict[str, IntArray] = {}
    given = {"target": target, "item": item, "epoch": epoch, "judge": judge}
    for name, values in given.items():
        array = np.asarray(values)
        if array.shape != y.shape or not (array.size == 0 or array.dtype.kind in "iu"):
            raise ValueError(f"{name} must hold one whole-number code for each outcome")
        codes[name] = np.unique(array, return_inverse=True)[1].astype(np.int64)
    codes["response"] = _combined([codes["target"], codes["item"], codes["epoch"]], y.size)
    # Half mean squares do not depend on the origin; sums of squares lose least around the mean.
    return y - (y.mean() if y.size else 0.0), codes


def _combined(codes: list[IntArray], rows: int) -> IntArray:
    """Return one code per distinct combination, compacted at each step so that none overflows."""
    combined = np.zeros(rows, np.int64)
    for code in codes:
        wide = combined * (int(code.max(initial=0)) + 1) + code
        combined = np.unique(wide, return_inverse=True)[1].astype(np.int64)
    return combined


def _pairs_sharing_exactly(
    y: FloatArray, codes: dict[str, IntArray], present: list[str]
) -> tuple[dict[Shared, float], dict[Shared, float]]:
    """Return sum of half squared differences and number of ordered pairs, by what they share."""
    spread: dict[Shared, float] = {}
    counts: dict[Shared, float] = {}
    # Largest sets first, so that pairs which share more are known when they are taken off.
    for shared in sorted(_closed_sets(present), key=len, reverse=True):
        group = _combined([codes[name] for name in sorted(shared)], y.size)
        n = np.bincount(group).astype(np.float64)
        sums, squares = np.bincount(group, y), np.bincount(group, y * y)
        more = [other for other in counts if shared < other]
        # Every row is also paired with itself, in every set; such pairs say nothing.
        counts[shared] = float((n * n).sum()) - y.size - sum(counts[other] for other in more)
        spread[shared] = float((n * squares - sums**2).sum()) - sum(spread[k] for k in more)
    return spread, counts


def _closed_sets(present: list[str]) -> list[Shared]:
    """Return every set of indices that two rows can share; a shared response shares its parts."""
    subsets: list[Shared] = [frozenset()]
    for name in present:
        subsets += [subset | {name} for subset in subsets]
    parts = frozenset(present) - {"judge"}
    return subsets + [subset | {"response"} for subset in subsets if parts <= subset]


def _shared_sets(present: list[str]) -> dict[str, Shared]:
    """Return the set of shared indices that belongs to each component of the design."""
    pairs = (("target", "item"), ("target", "judge"), ("item", "judge"))
    sets: dict[str, Shared] = {name: frozenset({name}) for name in present}
    for one, two in pairs:
        if one in present and two in present:
            sets[f"{one}_{two}"] = frozenset({one, two})
    sets["epoch"] = frozenset(present) - {"judge"} | {"response"}
    return sets


def _absent(present: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return reasons and containing components where a factor has one level only."""
    why = {name: reason for name, reason in ABSENT.items() if name not in present}
    merged: dict[str, str] = {}
    for one, two in (("target", "item"), ("target", "judge"), ("item", "judge")):
        lost = [name for name in (one, two) if name not in present]
        if lost:
            why[f"{one}_{two}"] = " and ".join(ABSENT[name] for name in lost)
            if len(lost) == 1:
                merged[f"{one}_{two}"] = two if lost == [one] else one
    return why, merged


NO_PAIRS = {
    "target": "no target has rows on two items by two judges",
    "item": "no item has rows of two targets by two judges",
    "judge": "no judge has rows of two targets on two items",
    "target_item": "one response for each target and item",
    "target_judge": "no judge has two items of one target",
    "item_judge": "no judge has two responses to one item",
    "epoch": "one judgement for each response",
}
