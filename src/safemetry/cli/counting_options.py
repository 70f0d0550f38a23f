"""Options that the commands which count share."""

from __future__ import annotations

import click

from safemetry.cli.options import SHARE

success_option = click.option(
    "--success",
    metavar="RULE",
    help="comply, non_refusal or at_least:x, then /each, /majority or /unanimous. "
    "[default: comply]",
)
judge_option = click.option("--judge", metavar="NAME", help="Only this judge.")
cluster_option = click.option(
    "--cluster",
    metavar="COL",
    default="behaviour",
    show_default=True,
    help="Item column whose values are independent.",
)
level_option = click.option(
    "--level", type=SHARE, metavar="P", default=0.95, show_default=True, help="Confidence."
)
