"""A sweep of the toy system over two keys, for several test files."""

from pathlib import Path

SWEEP = """
[sweep]
metric = "train-loss"
targets = [20.0, 1]
lower = true
[sweep.vary]
width = [2, 3]
step-size = [0.1, 0.05]
"""
NAMES = [f"width-{w}_step-size-{s}" for w in (2, 3) for s in (0.1, 0.05)]


def write(folder: Path, end: str = SWEEP, top: str = "num-rounds = 3") -> Path:
    """exp.toml of the toy system, whose runs are called exp unless `top` says otherwise."""
    path = folder / "exp.toml"
    top = top if "name =" in top else f'name = "exp"\n{top}'
    path.write_text(f'system = "tests.toy:SYSTEM"\n{top}\n{end}')
    return path
