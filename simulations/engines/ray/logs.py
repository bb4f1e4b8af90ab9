"""Why a simulation failed whose server could not say it: from Flower's log of the run, and from Ray's own logs."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from fedsuite.errors import one_line

FLOWER_LOG, RAY_LOGS = "flower.log", "ray-logs"
_RAISED = re.compile(r"^(?:[\w.]+\.)?(?:\w*(?:Error|Exception|Exit|Interrupt)): (.+)$")
# What Flower raises because of the exception that counts.
_WRAPPERS = ("Simulation Runtime crashed.", "An error was encountered. Ending simulation.")
# Ray's own form, [time E process thread] (program) text, with E for errors and C for what ended the program.
_COMPLAINS = re.compile(r"^\[[^\]]* [EC] [^\]]*\] ")
_SPEAK_LAST = ("raylet", "gcs_server")


def keep_logs(home: Path, said: str, folder: Path) -> None:
    """Copy the logs of a launch in `home` to a run's folder; said: Flower's log of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    superlink = home / "superlink.log"
    before = superlink.read_text(errors="replace") if superlink.is_file() else ""
    (folder / FLOWER_LOG).write_text(f"{before}\n{said}".strip() + "\n", encoding="utf-8")
    if (logs := _of_ray(home)).is_dir():
        with suppress(OSError):  # what goes on dying takes files away
            shutil.copytree(logs, folder / RAY_LOGS, symlinks=True, dirs_exist_ok=True)


def cause(home: Path, said: str) -> str:
    """What ended a simulation, one line; "" if nothing tells."""
    raised = [
        line for line in said.splitlines() if (m := _RAISED.match(line)) and m[1] not in _WRAPPERS
    ]
    return "; ".join(one_line(line, 300) for line in [*raised[-1:], *_last_words(_of_ray(home))])


def _of_ray(home: Path) -> Path:
    return home / "ray" / "session_latest" / "logs"


def _last_words(logs: Path) -> list[str]:
    """The last complaint of each of Ray's programs, opened by its name."""
    found = []
    for program in _SPEAK_LAST:
        lines = [
            line
            for file in (logs / f"{program}.out", logs / f"{program}.err")
            if file.is_file()
            for line in file.read_text(errors="replace").splitlines()
        ]
        complaints = [line for line in lines if _COMPLAINS.match(line)]
        found += [f"{program}: {_COMPLAINS.sub('', line)}" for line in complaints[-1:]]
    return found
