"""Large files of simulated judgements, for benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import expit

from safemetry.errors import InputError
from safemetry.evidence.schema import BY_NAME, Intent, Reason
from safemetry.simulate.judges import (
    COMPLY,
    EVASIVE,
    GIBBERISH,
    LABELS,
    PANEL,
    REFUSE,
    simulate_calls,
)
from safemetry.simulate.matrix import numbered
from safemetry.simulate.missing import NONE, REASONS, STATUSES, status_codes
from safemetry.simulate.settings import ATTACKS, StudySettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGE_COLUMNS: Final = (
    "run",
    "target",
    "item",
    "epoch",
    "judge",
    "call",
    "label",
    "score",
    "status",
    "reason",
    "benchmark",
    "category",
    "attack",
    "behaviour",
    "intent",
)
"""Columns of the file, in order."""

_CHUNK_ROWS: Final = 1 << 20
_LOST: Final = 0.005
_STEADINESS: Final = 0.7


@dataclass(frozen=True, slots=True)
class LargeStudy:
    """What `simulate_large` wrote.

    Attributes
    ----------
    path
        The file.
    rows, targets, items, epochs, judges, calls
        Its size; with `rows` short of the full design the last targets are cut.
    labels, reasons
        Rows with each label, and rows without a label by reason; together all rows.
    """

    path: Path
    rows: int
    targets: int
    items: int
    epochs: int
    judges: int
    calls: int
    labels: dict[str, int]
    reasons: dict[str, int]


def simulate_large(
    path: str | PathLike[str],
    rows: int = 20_000_000,
    rng: np.random.Generator | int = 0,
    *,
    targets: int = 50,
    epochs: int = 2,
    judges: int = 5,
    calls: int = 4,
) -> LargeStudy:
    """Write a Parquet file of simulated judgements, one row group at a time.

    The default of 20 million rows is 50 targets x 10,000 items (1,000 behaviours, each with nine
    attacks and a benign twin) x 2 epochs x 5 judges x 4 calls: many items and a key of six columns,
    as in a year of evaluations with repeated judging. Another number of rows changes the number
    of behaviours. Rows are sorted by target, item, epoch, judge and call, and their keys are
    unique. Responses follow one ability a target and one difficulty a behaviour, item and attack;
    judges are those of the demo's panel (judge-3 and judge-5 collapse on comply), in turn.

    Parameters
    ----------
    path
        File to write; an existing one is replaced.
    rows
        Number of rows, at least 1.
    rng
        Generator or seed; the same seed and size give the same file.
    targets, epochs, judges, calls
        Shape of the design, each at least 1.

    Returns
    -------
    LargeStudy
        Size and exact counts of labels and reasons.

    Raises
    ------
    InputError
        For a size below 1.
    """
    if min(rows, targets, epochs, judges, calls) < 1:
        raise InputError("rows, targets, epochs, judges and calls must be at least 1")
    rng = np.random.default_rng(rng)
    width = len(ATTACKS) + 1
    behaviours = -(-rows // (targets * width * epochs * judges * calls))
    design = _Design(targets, behaviours, epochs, judges, calls)
    parameters = _draw_parameters(design, rng)
    labels = np.zeros(len(LABELS), dtype=np.int64)
    reasons = np.zeros(len(REASONS), dtype=np.int64)
    slots = judges * calls
    step = max(1, _CHUNK_ROWS // slots)
    responses = -(-rows // slots)
    names = _Names(design)
    # The Arrow schema is not stored, so that every engine reads plain text columns.
    # A file that is not finished keeps another name: an interrupted one would read as complete.
    path = Path(path)
    unfinished = path.with_name(f"{path.name}.unfinished")
    with pq.ParquetWriter(unfinished, _SCHEMA, store_schema=False) as writer:
        for start in range(0, responses, step):
            stop = min(start + step, responses)
            kept = min(rows - start * slots, (stop - start) * slots)
            chunk = _draw_chunk(design, parameters, np.arange(start, stop), rng)
            labels += np.bincount(chunk.label[:kept][chunk.reason[:kept] == NONE], minlength=4)
            seen = chunk.reason[:kept]
            reasons += np.bincount(seen[seen != NONE], minlength=len(REASONS))
            writer.write_table(names.table(chunk, kept), row_group_size=kept)
    unfinished.replace(path)
    return LargeStudy(
        path=path,
        rows=rows,
        targets=targets,
        items=behaviours * width,
        epochs=epochs,
        judges=judges,
        calls=calls,
        labels=dict(zip(LABELS, labels.tolist(), strict=True)),
        reasons={
            str(reason): count
            for reason, count in zip(REASONS, reasons.tolist(), strict=True)
            if count
        },
    )


_SCHEMA: Final = pa.schema(
    [
        pa.field(
            name,
            pa.dictionary(pa.int32(), pa.string())
            if BY_NAME[name].type == pa.string()
            else BY_NAME[name].type,
        )
        for name in LARGE_COLUMNS
    ]
)


@dataclass(frozen=True, slots=True)
class _Design:
    targets: int
    behaviours: int
    epochs: int
    judges: int
    calls: int

    @property
    def items(self) -> int:
        return self.behaviours * (len(ATTACKS) + 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Parameters:
    """Abilities (targets, 2) with caution second, intercepts (items,), matrices and rates."""

    abilities: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    confusion: NDArray[np.float64]
    missing: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Chunk:
    """Codes of consecutive rows, each (rows,)."""

    target: NDArray[np.int32]
    item: NDArray[np.int32]
    epoch: NDArray[np.int64]
    judge: NDArray[np.int32]
    call: NDArray[np.int64]
    label: NDArray[np.int8]
    reason: NDArray[np.int8]


def _draw_parameters(design: _Design, rng: np.random.Generator) -> _Parameters:
    panel = [PANEL[code % len(PANEL)] for code in range(design.judges)]
    effects = np.array([*(effect for _, effect in ATTACKS), 1.5])
    shared = rng.normal(1.0, 1.2, (design.behaviours, 1))
    intercepts = shared + effects + rng.normal(0.0, 0.5, (design.behaviours, len(effects)))
    return _Parameters(
        abilities=rng.standard_normal((design.targets, 2)) * [1.5, -1.0],
        intercepts=intercepts.ravel(),
        confusion=np.array([judge.confusion for judge in panel]),
        missing=np.array([judge.missing for judge in panel]),
    )


def _draw_chunk(
    design: _Design,
    parameters: _Parameters,
    response: NDArray[np.int64],
    rng: np.random.Generator,
) -> _Chunk:
    """Every judge call on the responses with these running numbers."""
    rest, epoch = np.divmod(response, design.epochs)
    target, item = np.divmod(rest, design.items)
    benign = item % (len(ATTACKS) + 1) == len(ATTACKS)
    ability = parameters.abilities[target, benign.astype(np.int64)]
    chance = expit(ability + parameters.intercepts[item])
    complied = (rng.random(len(response)) < chance) == benign
    otherwise = rng.choice(
        np.array([REFUSE, EVASIVE, GIBBERISH], np.int8),
        size=len(response),
        p=StudySettings().safe_classes,
    )
    labels = simulate_calls(
        np.where(complied, np.int8(COMPLY), otherwise),
        parameters.confusion,
        rng,
        calls=design.calls,
        steadiness=_STEADINESS,
    )
    failed = rng.random(labels.shape) < parameters.missing[:, None]
    lost = rng.random(len(response)) < _LOST
    reasons = np.where(failed, np.int8(REASONS.index(Reason.GRADER_FAILED)), np.int8(NONE))
    reasons[lost] = REASONS.index(Reason.NO_RESPONSE)
    slots = design.judges * design.calls
    count = len(response)
    return _Chunk(
        target=np.repeat(target.astype(np.int32), slots),
        item=np.repeat(item.astype(np.int32), slots),
        epoch=np.repeat(epoch + 1, slots),
        judge=np.tile(np.repeat(np.arange(design.judges, dtype=np.int32), design.calls), count),
        call=np.tile(np.arange(1, design.calls + 1), count * design.judges),
        label=labels.ravel(),
        reason=reasons.ravel(),
    )


class _Names:
    """Dictionaries of the text columns, made once so that every row group shares them.

    The words of a dictionary differ: Parquet gives up dictionary encoding, and the file is no
    longer the same for the same seed, where a word stands in it twice.
    """

    def __init__(self, design: _Design) -> None:
        categories = StudySettings().categories
        behaviours = numbered("behaviour", design.behaviours)
        attacks = [*(name for name, _ in ATTACKS), "benign"]
        self._width = len(attacks)
        self._categories = len(categories)
        panel = [PANEL[code % len(PANEL)].name for code in range(design.judges)]
        rounds = [code // len(PANEL) for code in range(design.judges)]
        self._dictionaries = {
            "run": ["simulated"],
            "benchmark": ["simulated"],
            "target": numbered("target", design.targets),
            "item": [f"{behaviour}-{attack}" for behaviour in behaviours for attack in attacks],
            "judge": [
                f"{name}-{again + 1}" if again else name
                for name, again in zip(panel, rounds, strict=True)
            ],
            "label": list(LABELS),
            "status": [str(status) for status in STATUSES],
            "reason": [str(reason) for reason in REASONS],
            "category": list(categories),
            "attack": attacks[:-1],
            "behaviour": [
                name for behaviour in behaviours for name in (behaviour, f"{behaviour}-benign")
            ],
            "intent": [str(Intent.HARMFUL), str(Intent.BENIGN)],
        }
        self._dictionaries = {
            name: pa.array(words, pa.string()) for name, words in self._dictionaries.items()
        }

    def table(self, chunk: _Chunk, rows: int) -> pa.Table:
        """The first `rows` rows of a chunk as a table."""
        behaviour, within = np.divmod(chunk.item, self._width)
        benign = within == self._width - 1
        zero = np.zeros(len(chunk.item), dtype=np.int32)
        codes = {
            "run": zero,
            "benchmark": zero,
            "target": chunk.target,
            "item": chunk.item,
            "judge": chunk.judge,
            "label": np.where(chunk.reason == NONE, chunk.label, -1),
            "status": status_codes(chunk.reason),
            "reason": chunk.reason,
            "category": behaviour % self._categories,
            "attack": np.where(benign, -1, within),
            "behaviour": 2 * behaviour + benign,
            "intent": benign,
        }
        columns = {
            name: self._column(name, values[:rows].astype(np.int32))
            for name, values in codes.items()
        }
        columns["epoch"] = pa.array(chunk.epoch[:rows])
        columns["call"] = pa.array(chunk.call[:rows])
        columns["score"] = pa.nulls(rows, pa.float64())
        return pa.table([columns[name] for name in LARGE_COLUMNS], schema=_SCHEMA)

    def _column(self, name: str, codes: NDArray[np.int32]) -> pa.DictionaryArray:
        absent = codes < 0
        indices = pa.array(codes, mask=absent if absent.any() else None)
        return pa.DictionaryArray.from_arrays(indices, self._dictionaries[name])
