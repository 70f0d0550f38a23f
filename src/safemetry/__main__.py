"""`python -m safemetry`."""

from safemetry.cli import main

main()
