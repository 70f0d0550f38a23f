"""Fingerprints: which known target a target is, and whether it is still the one it was."""

from safemetry.audits.fingerprint.compare import compare_with_known, fingerprint
from safemetry.audits.fingerprint.known_groups import KnownGroups, group_known
from safemetry.audits.fingerprint.rerun_rate import (
    RerunRate,
    estimated_rate,
    known_rate,
    rate_of_runs,
)
from safemetry.audits.fingerprint.result import Fingerprint, FingerprintRow
from safemetry.audits.fingerprint.separating import SeparatingSet, separating_items
from safemetry.audits.fingerprint.settings import FingerprintSettings
from safemetry.audits.fingerprint.stream import (
    DriftSettings,
    DriftState,
    DriftVerdict,
    drift_paths,
    resume,
    update,
)
from safemetry.audits.fingerprint.verdict import Verdict

__all__ = [
    "DriftSettings",
    "DriftState",
    "DriftVerdict",
    "Fingerprint",
    "FingerprintRow",
    "FingerprintSettings",
    "KnownGroups",
    "RerunRate",
    "SeparatingSet",
    "Verdict",
    "compare_with_known",
    "drift_paths",
    "estimated_rate",
    "fingerprint",
    "group_known",
    "known_rate",
    "rate_of_runs",
    "resume",
    "separating_items",
    "update",
]
