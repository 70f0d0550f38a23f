"""How often each judge gave each class, over the responses that every judge has judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.judges.panel import NO_VERDICT, IntArray, Panel
from safemetry.rates.intervals import wilson

if TYPE_CHECKING:
    from numpy.typing import NDArray

POOLED: Final = "all targets together"


@dataclass(frozen=True)
class ClassCounts:
    """Class counts of J judges over common responses, pooled and by target.

    Parameters
    ----------
    judges, classes
        Names; the first `ordered` classes are in the order.
    targets
        None for all targets together, then the T targets.
    counts
        Shape ``(1 + T, J, K)``.
    common
        Common responses, shape ``(1 + T,)``.
    """

    judges: tuple[str, ...]
    classes: tuple[str, ...]
    ordered: int
    targets: tuple[str | None, ...]
    counts: IntArray
    common: IntArray

    def rows(self) -> list[dict[str, Any]]:
        """One row per target, judge and class."""
        return [
            {
                "judge": judge,
                "class": name,
                "target": target,
                "count": int(self.counts[t, j, k]),
                "n_common": int(self.common[t]),
                **({"why": {"target": POOLED}} if target is None else {}),
            }
            for t, target in enumerate(self.targets)
            for j, judge in enumerate(self.judges)
            for k, name in enumerate(self.classes)
        ]


def count_classes(panel: Panel) -> ClassCounts:
    """Count the classes over the responses on which every judge has a verdict.

    Raises
    ------
    InputError
        Where the judges have no response in common, with the overlap of each pair.
    """
    require_overlap(panel)
    common = panel.common
    labels, target = panel.labels[common], panel.target.codes[common]
    sizes = (len(panel.target.names), len(panel.classes))
    by_target = np.stack(
        [tabulate(target, labels[:, place], sizes) for place in range(len(panel.judges))], axis=1
    )
    number = np.bincount(target, minlength=sizes[0])
    return ClassCounts(
        judges=panel.judges,
        classes=panel.classes,
        ordered=panel.ordered,
        targets=(None, *panel.target.names),
        counts=np.concatenate([by_target.sum(axis=0, keepdims=True), by_target]),
        common=np.concatenate([[number.sum()], number]),
    )


def tabulate(
    first: NDArray[np.integer], second: NDArray[np.integer], sizes: tuple[int, int]
) -> IntArray:
    """Cross table of two columns of codes, both from 0; shape `sizes`."""
    cells: IntArray = first.astype(np.int64) * sizes[1] + second
    found: IntArray = np.bincount(cells, minlength=sizes[0] * sizes[1]).reshape(sizes)
    return found


def overlaps(panel: Panel) -> IntArray:
    """Responses that both judges of a pair have judged, shape ``(J, J)``."""
    judged = (panel.labels != NO_VERDICT).astype(np.float32)
    found: IntArray = np.rint(judged.T @ judged).astype(np.int64)
    return found


def require_overlap(panel: Panel) -> None:
    """Refuse judges that have no response in common.

    Raises
    ------
    InputError
        With the pairs that share least.
    """
    if panel.common.any():
        return
    silent = (panel.labels == NO_VERDICT).all(axis=0)
    if silent.any():
        names = ", ".join(name for name, none in zip(panel.judges, silent, strict=True) if none)
        raise InputError(f"no verdict that counts of {names}", fix="leave it out with --filter")
    shared = overlaps(panel)
    judged = {name: int(shared[j, j]) for j, name in enumerate(panel.judges)}
    raise InputError(
        f"the {len(panel.judges)} judges have no response in common: {_said(panel, shared)}; "
        f"judged: {_listed(judged)}",
        fix="keep judges of the same responses with --filter judge=NAME, given once for each",
    )


def _said(panel: Panel, shared: IntArray, most: int = 4) -> str:
    pairs = [
        (int(shared[i, j]), panel.judges[i], panel.judges[j])
        for i in range(len(panel.judges))
        for j in range(i)
    ]
    return ", ".join(
        f"{first!r} and {second!r} share {count:,}" for count, second, first in sorted(pairs)[:most]
    )


def _listed(judged: Mapping[str, int], most: int = 12) -> str:
    more = f" and {len(judged) - most} more" if len(judged) > most else ""
    return ", ".join(f"{name} {count:,}" for name, count in list(judged.items())[:most]) + more


def design_effect(values: NDArray[np.floating], cluster: IntArray) -> float:
    """How many times larger than with independent responses the variance of a mean is; >= 1.

    The variance of a mean of n values in G clusters by the sums of their deviations
    (Kish 1965, Survey Sampling; the linearised variance with G / (G - 1)).

    Parameters
    ----------
    values
        Shape ``(n,)``.
    cluster
        Shape ``(n,)``, codes from 0.
    """
    away = values - values.mean()
    independent = float((away * away).sum())
    groups = int((np.bincount(cluster) > 0).sum())
    if independent <= 0 or groups < 2:
        return 1.0
    within = float(np.square(np.bincount(cluster, weights=away)).sum()) * groups / (groups - 1)
    return max(1.0, within / independent)


def share_interval(
    values: NDArray[np.floating], cluster: IntArray, level: float = 0.95
) -> tuple[float, float]:
    """Wilson's interval of a mean of values in [0, 1], on the effective number of responses.

    Parameters
    ----------
    values
        Shape ``(n,)``, at least one.
    cluster
        Shape ``(n,)``, codes from 0.
    level
        Confidence.
    """
    effective = len(values) / design_effect(values, cluster)
    low, high = wilson(float(values.mean()) * effective, effective, level)
    return float(low), float(high)
