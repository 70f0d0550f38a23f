"""Charts of a judge audit."""
