"""`python -m safemetry.cli`."""

from safemetry.cli import main

main()
