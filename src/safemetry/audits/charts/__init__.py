"""Charts of the audit of one target, from the rows of its finding."""
