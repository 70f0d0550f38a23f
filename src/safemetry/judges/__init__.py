"""Whether a judge can be believed: class counts, collapse, spread, agreement, noise, correction."""
