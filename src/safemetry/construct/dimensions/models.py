"""The models that are compared: one dimension, several explored ones, structures of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from safemetry.errors import InputError
from safemetry.irt.parameters import ItemModel
from safemetry.irt.structure import Structure, make_structure

ONE_DIMENSION: Final = (ItemModel.ONE_PL, ItemModel.TWO_PL, ItemModel.THREE_PL)


@dataclass(frozen=True)
class CandidateModel:
    """One model of the comparison.

    Parameters
    ----------
    name
        ``"1D 2PL"``, ``"3D exploratory"`` or ``"type (3D confirmatory)"``.
    item_model
        Item model; several dimensions take the 2PL.
    dims
        Number of explored dimensions, or a structure of the items.
    marginal
        Whether the fit is by marginal likelihood over a lattice (one dimension only), rather than
        variational.
    """

    name: str
    item_model: ItemModel
    dims: int | Structure
    marginal: bool = False

    @property
    def dimensions(self) -> int:
        """Number of dimensions."""
        return self.dims if isinstance(self.dims, int) else len(self.dims.dimensions)

    @property
    def structure(self) -> Structure | None:
        """The structure of a confirmatory model."""
        return None if isinstance(self.dims, int) else self.dims


def candidate_models(
    items: Sequence[str],
    structures: Mapping[str, Mapping[str, str]] | None = None,
    *,
    max_dims: int = 10,
) -> tuple[CandidateModel, ...]:
    """1PL, 2PL and 3PL in one dimension, 1 to `max_dims` explored ones, and every structure.

    Parameters
    ----------
    items
        Names of the J items, in the order of the responses.
    structures
        Name of a structure -> item -> its dimension.
    max_dims
        Most explored dimensions, at least 1.

    Raises
    ------
    InputError
        For a structure with one dimension, or one that leaves an item without a dimension.
    """
    if max_dims < 1:
        raise InputError(f"{max_dims} dimensions cannot be explored", fix="ask for 1 or more")
    found = [
        CandidateModel(f"1D {_label(model)}", model, 1, marginal=True) for model in ONE_DIMENSION
    ]
    found += [
        CandidateModel(f"{size}D exploratory", ItemModel.TWO_PL, size)
        for size in range(1, max_dims + 1)
    ]
    for name, loads_on in (structures or {}).items():
        structure = make_structure(items, loads_on)
        size = len(structure.dimensions)
        if size < 2:
            raise InputError(
                f"structure {name!r} has one dimension", fix="give items at least two dimensions"
            )
        found.append(CandidateModel(f"{name} ({size}D confirmatory)", ItemModel.TWO_PL, structure))
    return tuple(found)


def _label(model: ItemModel) -> str:
    return str(model).upper()
