"""Differential item functioning: items that differ between groups of equal ability."""
