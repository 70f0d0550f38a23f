"""Calibrations as directories: JSON for what was decided, Parquet for items and abilities.

=============================  =====================================================================
``calibration.json``           schema, model, population, settings, results, warnings, and the name
                               and SHA-256 of each table; written last
``items-<digest>.parquet``     ``item, slope_1 .. slope_K, intercept_1 .. intercept_C-1`` (null
                               beyond the last category of an item), ``lower, upper``, and further
                               columns of numbers such as standard errors (null: unknown)
``abilities-<digest>.parquet`` ``target, theta_1 .. theta_K, error_1 .. error_K``, and further ones
=============================  =====================================================================

Tables are named by their content, and the JSON file that names them is put in place in one step: a
reader sees the old calibration or the new one, and a crash leaves only tables that nobody reads.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from safemetry.errors import InputError
from safemetry.evidence.study_commits import publish, settle
from safemetry.findings import plain
from safemetry.irt.parameters import FloatArray, ItemModel, ItemParameters
from safemetry.irt.responses import Responses
from safemetry.irt.store_tables import (
    TABLE_NAME,
    Columns,
    StoredTable,
    damaged,
    further_columns,
    matrix_of,
    named_table,
    number_column,
    numbered,
    packed,
    read_table,
)

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION: Final = 1
FILE: Final = "calibration.json"
_LARGEST_JSON: Final = 16 << 20
_MOST_DIMENSIONS: Final = 100


@dataclass(frozen=True)
class StoredCalibration:
    """What a calibration keeps.

    Parameters
    ----------
    model
        Of the items.
    items, parameters
        Names and parameters of J items in K dimensions.
    targets, abilities, errors
        Names of N targets, their abilities and standard errors, shape ``(N, K)``; an error that is
        masked is unknown. Errors that were loaded are always a masked array.
    covariance
        Of the ability in the population, shape ``(K, K)``, around ``mean``.
    mean
        Of the ability in the population, shape ``(K,)``.
    settings
        Every setting with its resolved value (priors, method of abilities, digest of the
        responses), as plain JSON values.
    results
        Log-likelihood, information criteria and whatever else belongs to the fit, plain as well.
    warnings
        In whole sentences.
    item_columns, target_columns
        Further numbers for each item or target, None where one is unknown.
    """

    model: ItemModel
    items: tuple[str, ...]
    parameters: ItemParameters
    targets: tuple[str, ...]
    abilities: FloatArray
    errors: FloatArray
    covariance: FloatArray
    mean: FloatArray
    settings: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    item_columns: Columns = field(default_factory=dict)
    target_columns: Columns = field(default_factory=dict)


class _Record(BaseModel):
    """The JSON file; keys that a later version adds are passed over."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema", ge=1)
    kind: Literal["calibration"] = "calibration"
    made_by: str
    recorded: str
    model: ItemModel
    dimensions: int = Field(ge=1, le=_MOST_DIMENSIONS)
    categories: int = Field(ge=2, le=100)
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    settings: dict[str, Any]
    results: dict[str, Any]
    warnings: tuple[str, ...]
    items: StoredTable
    abilities: StoredTable


def save_calibration(
    calibration: StoredCalibration, directory: Path | str, *, replace: bool = False
) -> Path:
    """Write a calibration into a directory, whole or not at all.

    Parameters
    ----------
    calibration
        What to keep.
    directory
        Made where it does not exist.
    replace
        Whether an earlier calibration there may be replaced.

    Returns
    -------
    pathlib.Path
        The directory.

    Raises
    ------
    InputError
        Where the directory holds a calibration and `replace` is False, or cannot be written.
    ValueError
        For a number that is not finite.
    """
    folder = Path(directory)
    items, item_file = _prepared("items", _item_table(calibration))
    abilities, ability_file = _prepared("abilities", _ability_table(calibration))
    record = _Record(
        made_by=f"safemetry {version('safemetry')}",
        recorded=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        model=calibration.model,
        dimensions=calibration.parameters.dimensions,
        categories=calibration.parameters.intercepts.shape[1] + 1,
        mean=plain(calibration.mean),
        covariance=plain(calibration.covariance),
        settings=plain(calibration.settings),
        results=plain(calibration.results),
        warnings=calibration.warnings,
        items=items,
        abilities=abilities,
    )
    text = json.dumps(record.model_dump(mode="json", by_alias=True), indent=1, allow_nan=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / FILE).exists() and not replace:
            raise _exists(folder)
        _put(item_file, folder / items.file)
        _put(ability_file, folder / abilities.file)
        settle(folder)
        if replace:
            _put(text.encode(), folder / FILE)
            settle(folder)
        elif not publish(text.encode(), folder / FILE):
            raise _exists(folder)
        _forget(folder, {items.file, abilities.file})
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", file=str(folder)) from error
    return folder


def load_calibration(directory: Path | str) -> StoredCalibration:
    """Read a calibration and verify that it is whole and holds possible values.

    Nothing in it is executed, and sizes are bounded before anything is unpacked.

    Raises
    ------
    InputError
        Where there is none, it is damaged or altered, or a newer version of the program wrote it.
    """
    folder = Path(directory)
    record = _record(folder / FILE)
    dimensions, steps = record.dimensions, record.categories - 1
    slopes = [f"slope_{k + 1}" for k in range(dimensions)]
    intercepts = [f"intercept_{c + 1}" for c in range(steps)]
    names, columns = read_table(
        folder, record.items, "item", [*slopes, *intercepts, "lower", "upper"]
    )
    ladder = matrix_of(columns, intercepts, folder / record.items.file, missing=-np.inf)
    known = {
        name: matrix_of(columns, [name], folder / record.items.file)[:, 0]
        for name in (*slopes, "lower", "upper")
    }
    parameters = ItemParameters(
        np.stack([known[name] for name in slopes], axis=1), ladder, known["lower"], known["upper"]
    )
    _check_parameters(parameters, folder / record.items.file)
    thetas = [f"theta_{k + 1}" for k in range(dimensions)]
    errors = [f"error_{k + 1}" for k in range(dimensions)]
    targets, found = read_table(folder, record.abilities, "target", [*thetas, *errors])
    if {len(record.mean), len(record.covariance), *map(len, record.covariance)} != {dimensions}:
        raise damaged(folder / FILE, "the population has another number of dimensions")
    return StoredCalibration(
        record.model,
        names,
        parameters,
        targets,
        matrix_of(found, thetas, folder / record.abilities.file),
        np.ma.masked_invalid(
            matrix_of(found, errors, folder / record.abilities.file, missing=np.inf)
        ),
        np.array(record.covariance, np.float64),
        np.array(record.mean, np.float64),
        record.settings,
        record.results,
        record.warnings,
        further_columns(columns, {*slopes, *intercepts, "lower", "upper"}),
        further_columns(found, {*thetas, *errors}),
    )


def responses_digest(responses: Responses) -> str:
    """SHA-256 over names, weights and codes, by which a calibration says what it was fitted to."""
    digest = hashlib.sha256()
    digest.update(json.dumps([responses.targets, responses.items]).encode())
    digest.update(np.ascontiguousarray(responses.weights, "<f8").tobytes())
    digest.update(np.ascontiguousarray(responses.codes, np.int8).tobytes())
    return digest.hexdigest()


def _prepared(name: str, table: pa.Table) -> tuple[StoredTable, bytes]:
    """A table as the record names it, and its bytes."""
    content = packed(table)
    digest = hashlib.sha256(content).hexdigest()
    file = f"{name}-{digest[:32]}.parquet"
    return StoredTable(file=file, sha256=digest, rows=table.num_rows), content


def _item_table(calibration: StoredCalibration) -> pa.Table:
    import pyarrow as pa

    parameters = calibration.parameters
    columns: dict[str, Any] = {"item": pa.array(calibration.items, pa.string())}
    columns |= numbered("slope", parameters.slopes)
    columns |= numbered("intercept", parameters.intercepts, absent=-np.inf)
    columns |= {"lower": number_column(parameters.lower), "upper": number_column(parameters.upper)}
    return named_table(columns, calibration.item_columns)


def _ability_table(calibration: StoredCalibration) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, Any] = {"target": pa.array(calibration.targets, pa.string())}
    columns |= numbered("theta", calibration.abilities)
    columns |= numbered("error", np.ma.asarray(calibration.errors))
    return named_table(columns, calibration.target_columns)


def _put(content: bytes, path: Path) -> None:
    """Write a file beside its place and move it there in one step, over one that is there."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _forget(folder: Path, kept: set[str]) -> None:
    """Remove the tables of the calibration that was replaced."""
    for path in folder.iterdir():
        if re.match(TABLE_NAME, path.name) and path.name not in kept:
            path.unlink(missing_ok=True)


def _exists(folder: Path) -> InputError:
    return InputError(
        "holds a calibration already",
        file=str(folder),
        fix="give another directory, or say that it may be replaced",
    )


def _record(path: Path) -> _Record:
    try:
        with path.open("rb") as stream:
            text = stream.read(_LARGEST_JSON + 1)
    except FileNotFoundError as error:
        raise InputError(
            "holds no calibration", file=str(path.parent), fix=f"give a directory with {FILE}"
        ) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=str(path)) from error
    if len(text) > _LARGEST_JSON:
        raise damaged(path, f"it is larger than {_LARGEST_JSON >> 20} MiB")
    try:
        content = json.loads(text, parse_constant=_refuse)
        number = content["schema"]
        if isinstance(number, int) and number > SCHEMA_VERSION:
            raise InputError(
                f"was written by a newer version of safemetry (schema {number})",
                file=str(path),
                fix="upgrade safemetry",
            )
        return _Record.model_validate(content)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise damaged(path, said[:200]) from error


def _refuse(constant: str) -> None:
    msg = f"it holds {constant}"
    raise ValueError(msg)


def _check_parameters(parameters: ItemParameters, path: Path) -> None:
    within = (parameters.lower >= 0) & (parameters.lower <= parameters.upper)
    if not (within & (parameters.upper <= 1)).all():
        raise damaged(path, "an asymptote is not between 0 and 1, or the lower above the upper")
    first, second = parameters.intercepts[:, :-1], parameters.intercepts[:, 1:]
    if (second > first).any():
        raise damaged(path, "the intercepts of an item do not decrease")
