"""One target under audit: whether it answers like itself, and like what it says it is."""

from safemetry.audits.audit import audit_target
from safemetry.audits.finding import AuditFinding
from safemetry.audits.settings import AuditSettings

__all__ = ["AuditFinding", "AuditSettings", "audit_target"]
