"""What the rate probably is, given human labels of some responses."""
