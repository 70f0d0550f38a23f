"""What a score measures: saturation, spectrum, dimensionality, item differences, factors."""
