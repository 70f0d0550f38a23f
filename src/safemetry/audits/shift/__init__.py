"""Ability of one target against its history, alone and in union with person fit."""

from __future__ import annotations

from safemetry.audits.shift.comparison import Alternative, Comparison, make_comparison, make_scale
from safemetry.audits.shift.equivalence import DifferenceTest, EquivalenceTest
from safemetry.audits.shift.paired import PairedShift
from safemetry.audits.shift.resolution import Resolution
from safemetry.audits.shift.settings import ShiftSettings
from safemetry.audits.shift.shift import AbilityShift, Verdict, ability_shift
from safemetry.audits.shift.sides import StoredAbility, stored_ability
from safemetry.audits.shift.union import UnionPart, UnionTest, audit_union, min_p_union

__all__ = [
    "AbilityShift",
    "Alternative",
    "Comparison",
    "DifferenceTest",
    "EquivalenceTest",
    "PairedShift",
    "Resolution",
    "ShiftSettings",
    "StoredAbility",
    "UnionPart",
    "UnionTest",
    "Verdict",
    "ability_shift",
    "audit_union",
    "make_comparison",
    "make_scale",
    "min_p_union",
    "stored_ability",
]
