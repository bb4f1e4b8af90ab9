"""What the shell completes on its own: names of shipped configurations, and of runs in runs/."""

from pathlib import Path

from simulations.shipped import shipped_names


def configs(incomplete: str) -> list[str]:
    """Shipped configurations; where none fits, the shell completes files."""
    return [name for name in shipped_names() if name.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Runs and experiments inside runs/, and the runs of an experiment once its name stands there."""
    parent, _, _ = incomplete.rpartition("/")
    folder = Path("runs") / parent
    if not folder.is_dir():
        return []
    inside = [p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")]
    names = sorted(f"{parent}/{p.name}".lstrip("/") for p in inside if _holds_runs(p))
    return [name for name in names if name.startswith(incomplete)]


def _holds_runs(folder: Path) -> bool:
    """A run, an experiment, or a variant's folder with a run per seed."""
    return any(folder.glob("config.json")) or any(
        any(folder.glob(f"{inner}experiment.json")) or any(folder.glob(f"{inner}config.json"))
        for inner in ("", "*/")
    )
