"""Whether a judge can be believed: class counts, collapse, spread, agreement, noise, correction."""

from safemetry.judges.audit import audit_judges
from safemetry.judges.card.notes import CardNotes, read_notes
from safemetry.judges.correction.sampling import Sampling, read_sampling
from safemetry.judges.finding import JudgesFinding
from safemetry.judges.settings import JudgeSettings

__all__ = [
    "CardNotes",
    "JudgeSettings",
    "JudgesFinding",
    "Sampling",
    "audit_judges",
    "read_notes",
    "read_sampling",
]
