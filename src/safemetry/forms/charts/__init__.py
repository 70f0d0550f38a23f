"""Charts of forms and adaptive tests, from the rows of their findings."""
