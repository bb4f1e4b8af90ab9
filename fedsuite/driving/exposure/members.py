"""Whether a silo trained on a frame, told from the error of a backbone that it sends (Yeom et al. 2018, 1709.01604).

Score: -log of the squared error, as Carlini et al. (2022) take the negative logarithm of a loss. Members are training
frames, others the frames that silos hold back. The control is a copy of a silo's backbone that has learnt some of its
frames by heart.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from fedsuite.arrays import Arrays, module_arrays
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.visits import ExposedSilo
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.privacy.attacks.membership import Separation, separation
from fedsuite.privacy.findings import Finding
from fedsuite.randomness import rng_for
from fedsuite.settings.config import with_keys

NAME = "membership"
SMALLEST = 1e-12  # squared error, so that the logarithm stays finite
CONTROL_FRAMES, CONTROL_RATE = 64, 1e-3
LEAST_AUC, LEAST_TPR = 0.8, 0.2
ENOUGH = 2000  # others, below which a share of 1 % false positives rests on few frames
PIECE = 256  # frames in one pass


def scores_of(silo: ExposedSilo, backbone: Arrays, frames: Frames) -> np.ndarray:
    """-log squared error [n] of frames under a backbone, without dropout: the higher, the rather a member."""
    predictions = [
        silo.predictions(
            backbone, Frames(frames.images[i : i + PIECE], frames.angles[i : i + PIECE])
        )
        for i in range(0, len(frames), PIECE)
    ]
    errors = np.concatenate(predictions).astype(np.float64) - frames.angles
    return np.asarray(-np.log(np.maximum(errors**2, SMALLEST)))


def member_findings(
    silos: Sequence[ExposedSilo], seed: int, most: int, steps: int
) -> Iterator[Finding]:
    """most: frames of either kind; steps: of the control's training."""
    rng = rng_for(seed, "membership of frames")
    each = max(1, most // len(silos))
    kinds = [[_some(part, each, rng) for part in (s.silo.train, s.silo.test)] for s in silos]
    scored = [
        [scores_of(silo, silo.backbone, frames) for frames in own]
        for silo, own in zip(silos, kinds, strict=True)
    ]
    found = separation(*_labelled(scored), rng)
    learnt = _by_heart(silos[0], steps, seed)
    control = separation(*_labelled([learnt]), rng)
    note = f"loss threshold, each silo's own backbone as last mixed; the control has learnt {CONTROL_FRAMES} frames by heart"
    if found.others < ENOUGH:
        note += f"; only {found.others} others"
    if kept := names_of(initial_network(silos[0].config), silos[0].config).local:
        note += f"; {len(kept)} arrays that silos keep to themselves are taken as known"
    yield from _rows(found, control, note)


def _rows(found: Separation, control: Separation, note: str) -> Iterator[Finding]:
    for measure, value, (low, high), chance, reached, least in (
        ("AUC", found.auc, found.auc_interval, 0.5, control.auc, LEAST_AUC),
        ("TPR at 1 % FPR", found.tpr, found.tpr_interval, 0.01, control.tpr, LEAST_TPR),
    ):
        yield Finding(
            NAME, "server", "whether a silo trained on a frame", measure, value, chance, reached, least,
            found.members + found.others, low, high, note,
        )  # fmt: skip


def _by_heart(silo: ExposedSilo, steps: int, seed: int) -> list[np.ndarray]:
    """Scores of frames that a backbone has learnt by heart, and of held-out ones."""
    rng = rng_for(seed, "frames by heart")
    own, others = (_some(part, CONTROL_FRAMES, rng) for part in (silo.silo.train, silo.silo.test))
    network = initial_network(with_keys(silo.config, {"network.dropout": 0.0})).train()
    network.load_state_dict({k: torch.from_numpy(v) for k, v in silo.backbone.items()})
    optimizer = torch.optim.Adam(network.parameters(), CONTROL_RATE)
    # Down to 0, for with a rate that stays it is luck how well the last step knows them.
    rates = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    images, angles = torch.from_numpy(np.array(own.images)).float(), torch.from_numpy(own.angles)
    for _ in range(steps):
        rows = torch.from_numpy(rng.permutation(len(own))[:32])
        loss = (network(images[rows]).predictions - angles[rows]).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        rates.step()
    return [scores_of(silo, module_arrays(network), frames) for frames in (own, others)]


def _some(frames: Frames, most: int, rng: np.random.Generator) -> Frames:
    rows = np.sort(rng.permutation(len(frames))[:most])
    return Frames(np.array(frames.images[rows]), np.array(frames.angles[rows]))


def _labelled(scored: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (scores of members, of others) -> all scores, and which of them are members."""
    scores = [x for pair in scored for x in pair]
    member = [np.full(len(x), i == 0) for pair in scored for i, x in enumerate(pair)]
    return np.concatenate(scores), np.concatenate(member)
