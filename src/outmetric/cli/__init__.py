"""The `outmetric` command."""

from __future__ import annotations

import sys
from typing import Annotated

try:
    try:
        import rich  # noqa: F401
        import typer
    except ImportError:
        sys.exit("the outmetric command needs more packages: pip install 'outmetric[cli]'")

    from outmetric import __version__
    from outmetric.cli import demo, embed, models, paper, study, verify
except KeyboardInterrupt:  # the commands see to later ones
    print("stopped.", file=sys.stderr)
    sys.exit(130)

# Help and completion must not wait for NumPy: modules of this room import the library, and rich, only where a command works.
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (models.fit, models.predict, models.transform, models.neighbors, models.distance, models.inspect, models.export):
    app.command()(command)
app.command()(verify.verify)
app.command()(study.evaluate)
app.command("map")(study.draw_map)
app.command()(embed.embed)
app.command()(demo.demo)
app.add_typer(paper.commands, name="paper")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def outmetric(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Learn a non-linear map of your table, and the metric in its output space: neighbours, classes and pictures follow.

    \b
    outmetric evaluate cars.csv -t origin             how well can it be told?
    outmetric map cars.csv -t origin -o cars.html     look at it
    outmetric fit cars.csv -t origin -o cars.model    keep a model
    outmetric predict cars.model new-cars.csv         and use it
    outmetric neighbors cars.model my-car.csv -k 3
    """


def main() -> None:
    """Entry point of the command."""
    app()
