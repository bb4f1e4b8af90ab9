"""Why Ray did not start: what it raised, and the last complaints of its programs."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from fedsuite.errors import one_line

RAY_LOGS = "ray-logs"  # in a run's folder
# Ray's own form, [time E process thread] (program) text, with E for errors and C for what ended the program.
_COMPLAINS = re.compile(r"^\[[^\]]* [EC] [^\]]*\] ")
_SPEAK_LAST = ("raylet", "gcs_server")


def keep_logs(logs: Path, folder: Path) -> None:
    """Copy Ray's logs to a run's folder."""
    with suppress(OSError):  # what goes on dying takes files away
        shutil.copytree(logs, folder / RAY_LOGS, symlinks=True, dirs_exist_ok=True)


def cause(logs: Path, error: Exception) -> str:
    """One line, from an exception and Ray's logs."""
    said = next((line for line in reversed(str(error).splitlines()) if line.strip()), "")
    told = f"{type(error).__name__}: {said}"
    return "; ".join(one_line(line.strip(), 300) for line in [told, *_last_words(logs)])


def _last_words(logs: Path) -> list[str]:
    """The last complaint of each of Ray's programs, opened by its name."""
    found = []
    for program in _SPEAK_LAST:
        lines = [
            line
            for file in (logs / f"{program}.out", logs / f"{program}.err")
            if file.is_file()
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
        ]
        complaints = [line for line in lines if _COMPLAINS.match(line)]
        found += [f"{program}: {_COMPLAINS.sub('', line)}" for line in complaints[-1:]]
    return found
