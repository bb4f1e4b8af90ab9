"""`fedsuite slurm CONFIG ...`: an sbatch file that plays an experiment on several nodes of a SLURM cluster.

Every node starts Ray's own program, the first one as the head; the run joins them (`--cluster`). SLURM's warning before the
end of the time, or before the job gives way to another, ends the round and puts the job back into the queue; from there it
goes on by itself.
"""

import shlex
from string import Template
from typing import Annotated

import typer

from fedsuite.errors import InputError
from simulations.commands.options import Changes, Config, Only, check_used, print_file
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request

WARNING_S = 180  # between SLURM's signal and the end
LEAST_PORT, PORTS = 20_000, 20_000
_JOB = Template("""\
#!/bin/bash
$options
set -eu
cd "$${SLURM_SUBMIT_DIR:?submit this file with sbatch}"
export FLWR_TELEMETRY_ENABLED=0 RAY_USAGE_STATS_ENABLED=0

mapfile -t hosts < <(scontrol show hostnames "$$SLURM_JOB_NODELIST")
port=$$(($least_port + SLURM_JOB_ID % $ports))
address="$${hosts[0]}:$$port"
for number in "$${!hosts[@]}"; do
    role=(--address "$$address")
    if [ "$$number" = 0 ]; then role=(--head --port "$$port" --include-dashboard false); fi
    srun --nodes=1 --ntasks=1 --nodelist="$${hosts[$$number]}" \\
        ray start "$${role[@]}" --num-cpus $cpus --num-gpus $gpus --disable-usage-stats --block \\
        --min-worker-port 0 --max-worker-port 0 &  # free ones: another job's Ray on this node counts from the same number
done
trap 'kill $$(jobs -p) 2> /dev/null' EXIT

what=($new)
if [ -e $folder/config.json ] || [ -e $folder/experiment.json ]; then what=(--resume $folder); fi
fedsuite run "$${what[@]}" --engine ray --cluster "$$address" --hosts $nodes$more &
run=$$!
warned=
trap 'warned=yes; kill -TERM "$$run"' TERM
code=0
wait "$$run" || code=$$?
if [ -n "$$warned" ]; then
    wait "$$run" || code=$$?
    if [ "$$code" != 0 ]; then scontrol requeue "$$SLURM_JOB_ID"; fi
fi
exit "$$code"
""")


def slurm(
    config: Config,
    change: Changes = None,
    only: Only = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="S1,S2", help="Run every variant with each of these seeds."),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the job.")] = 1,
    cpus_per_node: Annotated[int, typer.Option(min=1, help="Cores of each.")] = 8,
    gpus_per_node: Annotated[int, typer.Option(min=0, help="GPUs of each.")] = 0,
    workers_per_gpu: Annotated[
        int | None, typer.Option(min=1, help="Workers on each GPU; default: 1.")
    ] = None,
    time: Annotated[str, typer.Option(help="Most time of a job, as sbatch has it.")] = "24:00:00",
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Another line of #SBATCH, as --partition=gpu; repeat."),
    ] = None,
) -> None:
    """Print an sbatch file that runs an experiment on several nodes of SLURM: `... > job.sbatch; sbatch job.sbatch`."""
    changes, chosen = change or [], only or []
    given = {text.partition("=")[0].strip(): text.partition("=")[2].strip() for text in changes}
    if gpus_per_node and given.get("device") == "cpu":
        raise InputError("--gpus-per-node: device=cpu uses no GPU; leave one of them out")
    if gpus_per_node and "device" not in given:
        changes = [*changes, "device=cuda"]
    # Checked on this host, which may have no GPU.
    here = [text for text in changes if text.partition("=")[0].strip() != "device"]
    here += ["device=auto"] if gpus_per_node else [t for t in changes if t not in here]
    experiment = plan_experiment(Request(config, here, only=chosen, seeds=seeds, dry=True))
    folder = experiment.folder
    typed = [str(config.absolute() if config.is_file() else config)]
    for text in changes:
        typed += ["--set", text]
    for label in chosen:
        typed += ["--only", label]
    typed += ["--seeds", seeds] if seeds is not None else []
    typed += [] if "name" in given else ["--set", f"name={folder.name}"]
    lines = [f"--job-name={folder.name}", f"--nodes={nodes}", "--ntasks-per-node=1"]
    lines += [f"--cpus-per-task={cpus_per_node}", f"--time={time}"]
    lines += [f"--gpus-per-node={gpus_per_node}"] if gpus_per_node else []
    lines += ["--requeue", "--open-mode=append", f"--signal=B:TERM@{WARNING_S}", *(option or [])]
    if bad := [line for line in lines if not line.startswith("--") or "\n" in line]:
        raise InputError(f"--option: expected one line as --partition=gpu, got {bad[0]!r}")
    check_used("--workers-per-gpu", workers_per_gpu, "--gpus-per-node", gpus_per_node)
    more = f" --workers-per-gpu {workers_per_gpu or 1}" if gpus_per_node else ""
    text = _JOB.substitute(
        options="\n".join(f"#SBATCH {line}" for line in lines),
        least_port=LEAST_PORT,
        ports=PORTS,
        cpus=cpus_per_node,
        gpus=gpus_per_node,
        nodes=nodes,
        more=more,
        new=shlex.join(typed),
        folder=shlex.quote(str(folder)),
    )
    print_file(text)
