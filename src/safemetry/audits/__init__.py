"""One target under audit: whether it answers like itself, and like what it says it is."""
