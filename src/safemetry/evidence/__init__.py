"""Evidence: schema, validation, maps, the study store, success rules, the response matrix."""
