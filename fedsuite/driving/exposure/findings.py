"""All attacks on a finished CDL run, by name; sizes of each, and of its quick form.

One that tells nothing of the run is left out, and says why.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from fedsuite.averaging.privacy_settings import CLIENT
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.exposure.features import feature_findings
from fedsuite.driving.exposure.members import member_findings
from fedsuite.driving.exposure.pictures import picture_findings
from fedsuite.driving.exposure.recognised import recognition_findings
from fedsuite.driving.exposure.sums import clip_of
from fedsuite.driving.exposure.visits import head_of, silos_of
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.plan import initial_network, mixing_of
from fedsuite.privacy.findings import Finding
from fedsuite.roster.members import ROSTER, Roster, read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.progress import Progress

VISITS, QUICK_VISITS = 44, 6  # steps attacked in each way
PICTURES, QUICK_PICTURES = 3, 1
MATCHING_STEPS, QUICK_MATCHING_STEPS = 600, 40
FRAMES, CONTROL_STEPS = 4000, 300


def undivided(config: CDLConfig) -> str:
    """Why features cannot be had by division from a step of one frame; "" if they can."""
    network = initial_network(config)
    if not (head := head_of(network)):
        return f"{config.network.model} has no linear layer from features to the angle"
    if not {f"{head}.weight", f"{head}.bias"} <= {*names_of(network, config).mixed}:
        return f"{head} stays in its silo with federation.share = {config.federation.share}"
    return never_alone(config)


def never_alone(config: CDLConfig) -> str:
    """Why no step of one frame can be made; "" if one can."""
    network, side = initial_network(config).train(), config.data.image_size
    try:
        with torch.random.fork_rng(devices=[]):
            network(torch.zeros(1, config.data.channels, side, side))
    except ValueError as error:
        return f"BatchNorm cannot learn from one frame of {side} pixels ({error})"
    return ""


def inversion(
    config: CDLConfig, folder: Path, seed: int, progress: Progress, quick: bool = False
) -> Iterator[Finding]:
    """Features and angles by division."""
    if why := undivided(config):
        progress(f"inversion: left out, {why}")
        return
    head = head_of(initial_network(config))
    progress("features are read off the changes of silos' last layers")
    run, visits = RunFolder(folder), QUICK_VISITS if quick else VISITS
    pairs = mixes_in_pairs(config, read_roster(run.path / ROSTER))
    yield from feature_findings(silos_of(config, folder), head, visits, pairs, clip_of(run))


def recognition(
    config: CDLConfig, folder: Path, seed: int, progress: Progress, quick: bool = False
) -> Iterator[Finding]:
    """Frames of a step, by signs of their gradients."""
    if why := never_alone(config):
        progress(f"recognition: left out, {why}")
        return
    progress("frames are recognised in the steps that they were in")
    run, visits = RunFolder(folder), QUICK_VISITS if quick else VISITS
    pairs = mixes_in_pairs(config, read_roster(run.path / ROSTER))
    yield from recognition_findings(silos_of(config, folder), visits, pairs, clip_of(run))


def mixes_in_pairs(config: CDLConfig, roster: Roster) -> bool:
    """Whether some silo gets the plain mean of its own backbone and that of a single other one."""
    plain = (
        config.federation.merge == "mean" and not LOCAL_OPTIMIZERS[config.training.optimizer].relays
    )
    mixed = np.count_nonzero(mixing_of(config, roster).matrix(0), axis=1)
    return plain and config.privacy.unit != CLIENT and bool((mixed == 2).any())


def matching(
    config: CDLConfig, folder: Path, seed: int, progress: Progress, quick: bool = False
) -> Iterator[Finding]:
    """Pictures by optimisation."""
    if config.federation.secure_sum:
        progress("matching: left out, a server of secure sums is shown no silo's gradient")
        return
    frames, steps = (QUICK_PICTURES, QUICK_MATCHING_STEPS) if quick else (PICTURES, MATCHING_STEPS)
    progress("pictures are searched that leave the same gradients")
    yield from picture_findings(silos_of(config, folder), seed, frames, steps)


def membership(
    config: CDLConfig, folder: Path, seed: int, progress: Progress, quick: bool = False
) -> Iterator[Finding]:
    """Members by their error."""
    progress("frames that silos trained on are told from others")
    most = FRAMES // 10 if quick else FRAMES
    yield from member_findings(silos_of(config, folder), seed, most, CONTROL_STEPS)
