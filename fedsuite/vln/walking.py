"""What a finished run has learnt, walked by hand: its agent, a house of its data, an instruction of one's own.

    from fedsuite.vln.walking import Walker
    walker = Walker.of_run("runs/fedvln-quickstart", house="0aB1c2D3e4F")
    walk = walker.walk("Leave the kitchen and stop at the sofa.")

Walks are greedy, as in evaluation. The data are those of the run's settings; generated houses are made anew where the cache
has lost them.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsuite.arrays import Arrays, load_arrays, under_prefix
from fedsuite.errors import InputError, one_line, suggestion
from fedsuite.roster.members import ROSTER, Roster, read_roster
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import read_config
from fedsuite.settings.values import shown
from fedsuite.storage.progress import Progress, silent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.ablations import without_words
from fedsuite.vln.data.dataset import House, Sample, join_houses, start_view
from fedsuite.vln.data.floor_plan import FloorPlan, floor_plan
from fedsuite.vln.data.instructions import Vocabulary, tokenize
from fedsuite.vln.data.roster import open_house
from fedsuite.vln.data.sources import Sources, open_sources, places_of, prepare_sources
from fedsuite.vln.environment import World
from fedsuite.vln.evaluation.following import InstructionWalk, follow
from fedsuite.vln.message_keys import TEST
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.shapes import Shapes
from fedsuite.vln.plan import initial_agent
from fedsuite.vln.stages import exchange_of, has_own
from fedsuite.vln.start import MODEL, checked_arrays, model_file, read_model

LONGEST_INSTRUCTION = 20_000  # characters
SPLITS = ("val_unseen", "val_seen", "train")  # in which a start is looked for


@dataclass(frozen=True)
class Walker:
    """One agent in one house. words: the agent's vocabulary; world: of this house alone."""

    config: FedVLNConfig
    house: House
    plan: FloorPlan
    agent: Agent
    world: World
    words: Vocabulary

    @classmethod
    def of_run(
        cls,
        run: Path | str,
        house: str = "",
        *,
        personal: bool = False,
        progress: Progress = silent,
    ) -> "Walker":
        """Open a completed run; InputError names what is missing, and the run's houses if `house` is none of them.

        personal: the house's own agent, where the run kept one (pre-exploration, local-only training).
        """
        folder = RunFolder(Path(run))
        config = _settings_of(folder)
        model_file(folder.path, "run")
        sources = _sources_of(config, progress)
        _check_house(folder, sources, house)
        roster = read_roster(folder.path / ROSTER)
        agent = initial_agent(config, roster).eval()
        shapes = {k: tuple(v.shape) for k, v in agent.state_dict().items()}
        load_arrays(agent, _arrays_of(config, folder, roster, shapes, house, personal))
        words = Vocabulary(roster.words)
        # True instructions, whatever a run was made to train with.
        true = replace(config, ablations=replace(config.ablations, shuffle_instructions=False))
        opened = open_house(true, sources, house, 0, words)
        plan = floor_plan(opened.graph, sources.generated)
        return cls(config, opened, plan, agent, join_houses([opened]), words)

    def walk(
        self,
        instruction: str | None = None,
        *,
        path: str = "",
        start: str = "",
        heading_rad: float | None = None,
    ) -> InstructionWalk:
        """Follow an instruction, or a path's own where none is given.

        path: id of an annotated path of this house (its first instruction), or of one of its instructions: start and
        reference are its. start: a viewpoint, or the first characters of its id; default: where the first annotated
        path starts. heading_rad: where the camera looks first, 0 = +y, clockwise; default: as the path says, 0 with a
        `start`.
        """
        if path and start:
            raise InputError("start: a path has its own start; give one of the two")
        annotated = self._annotated(path) if path else None
        sample = annotated or (self._from(start) if start else self._first_start())
        if instruction is not None:
            sample = self._told(sample, instruction)
        elif annotated is None:
            raise InputError("instruction: none was given; give words, or a path to take its own")
        if heading_rad is not None:
            if not math.isfinite(heading_rad):
                raise InputError(f"heading: expected a finite angle, got {heading_rad}")
            sample = replace(sample, start_view=start_view(heading_rad))
        secret = {s.instr_id for s in self.house.samples.get(TEST, ())}  # goals nobody knows
        known = annotated is not None and annotated.instr_id not in secret
        return follow(self.agent, self.world, self.house, sample, self.config, annotated=known)

    def _annotated(self, path: str) -> Sample:
        samples = [s for own in self.house.samples.values() for s in own]
        named = [s for s in samples if str(s.path_id) == path]
        named += [s for s in samples if s.instr_id == path]
        if named:
            return named[0]
        ids = {str(s.path_id) for s in samples if s.path_id != -1}
        known = sorted(ids, key=lambda i: (len(i), i))  # numbers in their order
        some = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        raise InputError(
            f"path: house {self.house.graph.scan} has no annotated path {shown(path)}; it has {some or 'none'}"
        )

    def _first_start(self) -> Sample:
        for split in SPLITS:
            if samples := self.house.samples.get(split):
                return samples[0]
        raise InputError(f"start: {self.house.graph.scan} has no annotated path; give a viewpoint")

    def _from(self, start: str) -> Sample:
        graph = self.house.graph
        usable = np.flatnonzero(graph.edge.any(axis=1)).tolist()
        found = [i for i in usable if graph.viewpoint_ids[i].startswith(start)]
        if len(found) != 1:
            what = "several viewpoints" if found else "no viewpoint that one can leave"
            raise InputError(
                f"start: {what} of {graph.scan} begins with {shown(start)}; give an id such as "
                f"{graph.viewpoint_ids[(found or usable)[0]]}"
            )
        return Sample("", graph.scan, (found[0],), start_view(0.0), self.words.encode("-", 3), "")

    def _told(self, sample: Sample, instruction: str) -> Sample:
        """The sample with another instruction."""
        if len(instruction) > LONGEST_INSTRUCTION:
            raise InputError(
                f"instruction: {len(instruction):,} characters long; give at most {LONGEST_INSTRUCTION:,}"
            )
        if not tokenize(instruction):
            raise InputError("instruction: it holds no word; say where to walk")
        tokens = self.words.encode(instruction, self.config.data.max_instruction_length)
        told = replace(sample, tokens=tokens, text=instruction)
        return without_words(told) if self.config.ablations.blind_to == "language" else told


def _settings_of(folder: RunFolder) -> FedVLNConfig:
    stored = read_stored_config(folder)
    if "stage" not in stored:
        system = shown(stored.get("system"))
        raise InputError(f"{folder.path}: a run of system {system}; give a run of FedVLN")
    config = read_config(FedVLNConfig, stored, str(folder.config))
    if config.stage == "speaker":
        raise InputError(f"{folder.path}: a speaker does not walk; give a run of an agent's stage")
    return config


def _sources_of(config: FedVLNConfig, progress: Progress) -> Sources:
    places = places_of(config)
    there = all(f.is_dir() for f in (places.data_dir, places.houses_dir, places.views_dir))
    return open_sources(config) if there else prepare_sources(config, progress)


def _check_house(folder: RunFolder, sources: Sources, house: str) -> None:
    kinds = {"seen": sources.training_scans, "unseen": sources.unseen_scans}
    kinds["test"] = sources.test_scans
    known = [scan for scans in kinds.values() for scan in scans]
    if not house:
        listed = "; ".join(f"{k}: {', '.join(scans)}" for k, scans in kinds.items() if scans)
        raise InputError(f"house: give one of {folder.path.name}; {listed}")
    if house not in known:
        hint = suggestion(house, known)
        raise InputError(f"house: {folder.path.name} has no {one_line(house, 60)!r}; {hint}")


def _arrays_of(
    config: FedVLNConfig, folder: RunFolder, roster: Roster, shapes: Shapes, house: str, own: bool
) -> Arrays:
    """The server's agent, or the house's own."""
    alone = config.federation.method == "local-only"
    if own and has_own(config):
        if not (file := folder.client(house) / MODEL).is_file():
            raise InputError(
                f"{file}: no such file; {house} keeps no agent of its own here, choose another house"
            )
        return checked_arrays(file, "personal", shapes)
    if own and alone and house in roster.names:
        # A server without a merge keeps every training house's agent (strategies/local_only.py).
        stored = read_model(folder.model, "personal")
        if arrays := under_prefix(stored, f"{roster.partition_of(house)}/"):
            return arrays
    if own:
        raise InputError(
            f"personal: {folder.path.name} keeps no agent of {house} alone; leave it out to walk with the server's"
        )
    if alone or not exchange_of(config).whole:
        raise InputError(
            f"run: {folder.path.name} leaves no whole agent with the server; give --personal (personal=True) and a house "
            "that trained its own"
        )
    return checked_arrays(folder.model, "run", shapes)
