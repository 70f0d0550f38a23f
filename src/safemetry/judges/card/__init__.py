"""The report card of a judge: eight items, filled from evidence and notes."""
