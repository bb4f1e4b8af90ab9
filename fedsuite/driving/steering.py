"""Steering with what a finished CDL run has learnt: pictures in, angles out (Do et al. 2024).

    pilot = Pilot.of_run("runs/cdl-quickstart/cdl", silo="silo-03")   # without silo: the average of all silos' networks
    angles = pilot.steer(["frame1.png", "frame2.png"])                # float32 [n], left positive, in pilot.unit

Pictures are prepared as the run's own were: those of drives are cropped as DroNet's (readers/pictures.py), square ones are
taken whole where the run drove on generated roads. Networks run without dropout.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from fedsuite.arrays import Arrays, under_prefix
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.data.given import Given, held_out_frames, joined, read_given
from fedsuite.driving.data.readers.angles import IN_DEGREES
from fedsuite.driving.evaluation.predict import predict
from fedsuite.driving.message_keys import SEALED_MIXED, SILOS
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.driving.training.silo_networks import BACKBONE
from fedsuite.errors import InputError, suggestion
from fedsuite.history.finished import model_of, open_finished
from fedsuite.roster.members import ROSTER, Roster, read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Versions


@dataclass(frozen=True, eq=False)
class Pilot:
    """One network of a run. silo: whose it is, "" = the average; unit: of its angles, in words."""

    config: CDLConfig
    roster: Roster
    silo: str
    unit: str
    device: str
    network: torch.nn.Module = field(repr=False)
    tensors: Mapping[str, torch.Tensor] = field(repr=False)

    @classmethod
    def of_run(cls, folder: Path | str, silo: str = "", device: str = "cpu") -> "Pilot":
        """The average network of the run in `folder`, or a silo's own, each with the statistics that it steers with.

        InputError: not a completed CDL run; no such silo; a network that is whole at the silos alone asked
        for without a silo; tensors that a silo on a real node kept to itself.
        """
        run, config = open_finished(folder, CDLConfig)
        roster = read_roster(run.path / ROSTER)
        if silo and silo not in (names := silo_names(roster)):
            raise InputError(f"--silo: no silo {silo!r} in {folder}; {suggestion(silo, names)}")
        network = initial_network(config)
        local = names_of(network, config).local
        if local and not silo:
            raise InputError(
                f"{folder}: every silo has tensors of its own (network.batch-norm = local, or federation.share), so no "
                f"average network can steer; name a silo: {', '.join(silo_names(roster))}"
            )
        sealed = config.federation.sealed
        arrays = _sealed(run, roster, silo) if sealed else _mixed(model_of(run), roster, silo)
        if local:
            arrays |= _private(run, roster, silo, local)
        tensors = {k: torch.tensor(v, device=device) for k, v in arrays.items()}
        unit = str(roster.facts.get("unit", "radians"))
        return cls(config, roster, silo, unit, device, network.to(device), tensors)

    @property
    def degrees_per_unit(self) -> float | None:
        """Degrees that an angle of 1 stands for; None where the unit is a share of full lock."""
        return IN_DEGREES.get(self.unit)

    def steer(self, paths: Sequence[Path | str]) -> np.ndarray:
        """Angles float32 [n], left positive, of pictures, folders of pictures and drives, in order."""
        return self.steer_frames(self.read(paths).images)

    def steer_frames(self, images: np.ndarray) -> np.ndarray:
        """Angles float32 [n] of prepared frames, uint8 [n, C, H, W] of the run's size."""
        frames = Frames(images, np.zeros(len(images), np.float32))
        size = self.config.evaluation.batch_size
        return predict(self.network, self.tensors, frames, size, self.device)

    def read(self, paths: Sequence[Path | str]) -> Given:
        """Pictures, folders of pictures and drives, prepared for this network."""
        return read_given([Path(p) for p in paths], self.config.data, self.unit)

    def test_frames(self) -> Given:
        """What the silo holds back for testing; without a silo what all do."""
        silos = [self.silo] if self.silo else silo_names(self.roster)
        return joined([held_out_frames(self.config, self.roster, name) for name in silos])


def silo_names(roster: Roster) -> list[str]:
    """All silos of a run, in order."""
    return [name for member in roster.members for name in member.names("names")]


def direction(angle: float) -> str:
    """Which way an angle turns."""
    return "straight" if angle == 0 else "left" if angle > 0 else "right"


def _mixed(model: Arrays, roster: Roster, silo: str) -> Arrays:
    """What neighbours mix: the average, or the silo's row."""
    if not silo:
        return {k: v for k, v in model.items() if not k.startswith(SILOS)}
    row = silo_names(roster).index(silo)
    return {k: v[row] for k, v in under_prefix(model, SILOS).items()}


def _sealed(run: RunFolder, roster: Roster, silo: str) -> Arrays:
    """The backbone of a silo whose run nobody else has seen, where it keeps it."""
    cure = f"name a silo: {', '.join(silo_names(roster))}"
    if not silo:
        raise InputError(
            f"{run.path}: models were sealed (federation.sealed), so there is no average; {cure}"
        )
    kept = Versions(run.client(silo) / SEALED_MIXED, silo).load(sys.maxsize)
    if kept is None:
        raise InputError(
            f"{run.client(silo)}: models were sealed (federation.sealed), and {silo}'s does not lie here; steer where its "
            "node keeps its state, or with a run made in simulation"
        )
    return {name: values[0] for name, values in kept[0].items()}


def _private(run: RunFolder, roster: Roster, silo: str, local: frozenset[str]) -> Arrays:
    """Tensors that the silo has kept to itself."""
    member = next(m for m in roster.members if silo in m.names("names"))
    kept = Versions(run.client(member.name), member.name).load(sys.maxsize)
    if kept is None:
        raise InputError(
            f"{run.client(member.name)}: {silo} has kept tensors to itself (network.batch-norm = local, or "
            "federation.share), and nothing of them lies here; steer where the silo's node keeps its state, or with a run "
            "made in simulation"
        )
    row = member.names("names").index(silo)
    own = under_prefix(kept[0], BACKBONE)
    return {k: own[k][row] for k in sorted(local)}
