"""The `fedsuite` command: run an experiment, look at runs, prepare data.

Exit codes: 0 done; 1 the run failed; 2 bad input, found before training starts wherever that is
possible; 130 stopped.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from fedsuite import __version__
from fedsuite.errors import InputError, RunFailed, one_line, understood
from fedsuite.storage.escaping import PlainConsole, replace_what_stdout_lacks
from simulations.app.run_config import as_toml
from simulations.audits.command import add_to as add_audit
from simulations.cdl import commands as cdl
from simulations.commands.configs import add_to as add_shipped
from simulations.commands.data_export import export_data
from simulations.commands.deploy import deploy
from simulations.commands.envdrop import export_envdrop, import_envdrop
from simulations.commands.options import (
    Attach,
    Changes,
    Cluster,
    Config,
    ConfigUnlessResumed,
    Gpus,
    Hosts,
    Only,
    Resume,
    Start,
    Workers,
    WorkersPerGpu,
    given_beside,
    print_file,
)
from simulations.commands.results import add_to as add_look_commands
from simulations.commands.roster import make_roster, prepare_node
from simulations.commands.slurm import slurm
from simulations.commands.stopping import EXIT_STOPPED, stop_as_ctrl_c
from simulations.engines.ray.placement import Resources
from simulations.experiments.attaching import attach as attach_to
from simulations.experiments.launching import Engine
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from simulations.experiments.running import run_request
from simulations.experiments.sweep import SweepOptions
from simulations.fedrl import commands as fedrl
from simulations.fedvln.commands import add_to as add_walk
from simulations.results.report import add_to as add_report

EXIT_FAILED, EXIT_INPUT = 1, 2

app = typer.Typer(
    help="Federated embodied learning on Flower.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
data = typer.Typer(help="Prepare data.", no_args_is_help=True)
app.add_typer(data, name="data")
app.add_typer(deploy, name="deploy")
add_shipped(app)
add_report(app)
add_look_commands(app)
add_audit(app)
add_walk(app)
data.command("export")(export_data)
data.command("import-envdrop")(import_envdrop)
data.command("export-envdrop")(export_envdrop)
data.command("prepare-node")(prepare_node)
data.command("make-roster")(make_roster)
app.command("slurm")(slurm)
cdl.add_to(app)
fedrl.add_to(app, data)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"fedsuite {__version__}")
        raise typer.Exit


@app.callback()
def every_command(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Federated embodied learning on Flower."""


@app.command(
    "sweep", help="Run all combinations of some keys' values: which reaches targets soonest?"
)
@app.command()
def run(
    context: typer.Context,
    config: ConfigUnlessResumed = None,
    change: Changes = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="S1,S2", help="Run every variant with each of these seeds."),
    ] = None,
    start: Start = "",
    resume: Resume = "",
    attach: Attach = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is there; with --only these runs.")
    ] = False,
    only: Only = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2", help="Sweep this key over these values."),
    ] = None,
    metric: Annotated[str, typer.Option(help="Metric of the rounds to judge a sweep by.")] = "",
    target: Annotated[
        list[str] | None, typer.Option(metavar="NUMBER", help="Value to be reached in a sweep.")
    ] = None,
    lower: Annotated[bool, typer.Option("--lower", help="Lower values are better.")] = False,
    variant: Annotated[
        str, typer.Option(metavar="NAME", help="The variant to sweep, of a CONFIG with variants.")
    ] = "",
    optuna: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Try N combinations of a sweep, which optuna chooses; it ends bad runs early.",
        ),
    ] = 0,
    engine: Annotated[
        Engine,
        typer.Option(
            help="Clients run in workers, in this process, on the nodes of a SuperLink (deploy), or as suits the system."
        ),
    ] = "auto",
    workers: Workers = None,
    gpus: Gpus = None,
    workers_per_gpu: WorkersPerGpu = None,
    cluster: Cluster = "",
    hosts: Hosts = 0,
    connection: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The SuperLink (deploy): connection of Flower's config.toml, or a server folder.",
        ),
    ] = "",
    log: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRACKER",
            help="Tell a tracker every round: tensorboard, wandb, mlflow, trackio, or module:NAME; repeat for more.",
        ),
    ] = None,
) -> None:
    """Run an experiment, of one run or one per variant, seed or combination of a sweep, or continue it."""
    stop_as_ctrl_c()
    if attach:
        if others := given_beside(context, {"attach", "connection"}):
            raise InputError(f"--attach watches a run as it is; leave out {', '.join(others)}")
        attach_to(attach, connection)
        return
    swept = context.info_name == "sweep" or any((vary, metric, target, lower, variant, optuna))
    typed = (
        SweepOptions(vary or [], metric, target or [], lower, variant, optuna) if swept else None
    )
    request = Request(config, change or [], start, resume, overwrite, only or [], seeds, typed)
    resources = Resources(workers, gpus, workers_per_gpu, cluster, hosts)
    run_request(request, engine, resources, connection, log or [])


@app.command("config")
def print_config(
    config: Config,
    change: Changes = None,
    only: Only = None,
) -> None:
    """Print the resolved run-config of one run, ready for `flwr run . --stream -c FILE`."""
    experiment = plan_experiment(Request(config, change or [], only=only or [], dry=True))
    if len(experiment.chosen) > 1:
        labels = ", ".join(experiment.chosen)
        raise InputError(f"{config}: describes several runs; choose one with --only: {labels}")
    print_file(as_toml(experiment.plans[experiment.chosen[0]].run_config))


@data.command()
def prepare(
    features: Annotated[Path, typer.Argument(help="View features, .tsv or .hdf5.")],
    connectivity: Annotated[Path, typer.Argument(help="Folder of <scan>_connectivity.json.")],
    out: Annotated[Path, typer.Argument(help="New folder to write <scan>.npy to.")],
    feature_size: Annotated[
        int, typer.Option(help="Width F to keep; 1000 logits behind it are cut off.", min=0)
    ] = 0,
) -> None:
    """Convert view features once, to one memory-mapped array per house."""
    from fedsuite.storage.files import make_folder
    from fedsuite.vln.data.prepare import prepare_views
    from simulations.experiments.progress import Preparing

    console = PlainConsole()
    with Preparing(console) as progress:

        def fill(folder: Path) -> None:
            width = prepare_views(features, connectivity, folder, progress, feature_size)
            console.print(f"{out}: features of width {width}", highlight=False)

        if not make_folder(out, fill, progress):
            raise InputError(
                f"{out}: is there already, nothing in it was touched; give a new folder"
            )


def main() -> None:
    """Entry point: known errors become one line and an exit code."""
    replace_what_stdout_lacks()
    try:
        _command()()
    except KeyboardInterrupt:  # before a command has begun
        raise SystemExit(EXIT_STOPPED) from None
    except Exception as error:
        if (known := understood(error)) is None:
            raise
        raise _ended(known) from error


@cache
def _command() -> Callable[[], object]:
    """Typer would make it anew at every call."""
    return typer.main.get_command(app)


def _ended(error: InputError | RunFailed) -> SystemExit:
    """The exit of a known error, which is said in one line."""
    with suppress(OSError):  # whoever was to read it may be gone
        print("error:", one_line(" ".join(str(error).split()), 2000), file=sys.stderr)
    return SystemExit(EXIT_INPUT if isinstance(error, InputError) else EXIT_FAILED)


if __name__ == "__main__":
    main()
