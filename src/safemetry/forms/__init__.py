"""Short forms and adaptive tests: which items are worth running."""
