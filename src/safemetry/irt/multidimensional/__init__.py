"""Calibration in several dimensions: variational fits, exact likelihoods, rotation."""
