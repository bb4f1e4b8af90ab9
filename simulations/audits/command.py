"""`fedsuite audit RUN`: what the messages and the model of a finished run tell, measured."""

from pathlib import Path
from typing import Annotated

import typer

from fedsuite.errors import RunFailed
from fedsuite.storage.escaping import PlainConsole
from simulations.commands.options import AsJson, print_json
from simulations.commands.stopping import EXIT_STOPPED, stop_as_ctrl_c


def add_to(app: typer.Typer) -> None:
    app.command()(audit)


def audit(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Completed run, or experiment (path or name).")
    ],
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of an attack, words.houses=2 say; repeat."
        ),
    ] = None,
    attacks: Annotated[
        str, typer.Option(metavar="A,B", help="These attacks alone; default: all of the system's.")
    ] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the attacks.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer shadow models.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier audit found.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Attack a finished run where its data are: its words, its members, its epsilon; findings go into audit.csv."""
    from fedsuite.history import load_runs
    from fedsuite.history.experiments import folder_of, run_folders
    from fedsuite.privacy.attacks.attack_settings import AttackSettings
    from fedsuite.settings.config import parse_text, read_config
    from simulations.audits.on_runs import audit_run, refuted, request_of
    from simulations.audits.shown import means, print_audit, print_means, records
    from simulations.experiments.progress import Preparing
    from simulations.experiments.request import split_changes

    stop_as_ctrl_c()
    typed = split_changes(change or [])
    values = {key: parse_text(AttackSettings, key, text) for key, text in typed.items()}
    settings = read_config(AttackSettings, values, "--set")
    request = request_of(settings, attacks, seed, quick, overwrite)
    folders = run_folders(folder_of(Path(run).expanduser()))
    wrong: list[str] = []
    try:
        with Preparing(PlainConsole(stderr=True)) as progress:
            for folder in folders:
                rows = audit_run(folder, request, progress)
                wrong += filter(None, [refuted(rows) and f"{folder.name}: {refuted(rows)}"])
    except KeyboardInterrupt:
        PlainConsole(stderr=True).print("stopped; what was found is kept, and the audit can go on")
        raise typer.Exit(EXIT_STOPPED) from None
    runs = load_runs(folders)
    if as_json:
        over = [mean.record() for mean in means(runs)]
        print_json({"findings": records(runs), "means": over})
    else:
        print_audit(PlainConsole(), runs)
        print_means(PlainConsole(), runs)
    if wrong:
        raise RunFailed("; ".join(wrong))
