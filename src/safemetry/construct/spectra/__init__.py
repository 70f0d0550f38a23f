"""Eigenvalues of item correlations, and what chance and one dimension make of them."""
