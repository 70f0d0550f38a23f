"""Calibration in one dimension: marginal likelihood over a lattice of abilities."""
