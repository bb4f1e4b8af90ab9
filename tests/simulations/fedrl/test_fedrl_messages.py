"""What crosses between the parties: all messages of whole runs, by names, shapes, types, bytes and what it can depend on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.party import PartyClient, PartySite
from fedsuite.arrays import Arrays, num_bytes
from fedsuite.fedrl.gridworld.reward import MeetingReward
from fedsuite.fedrl.gridworld.world import GridWorld
from fedsuite.fedrl.open_world import open_world
from fedsuite.history import read_rows
from tests.fedrl_runs import ROLES, Letter, config_of, recorded, settings_from

A = 16  # joint actions
F32, I64 = "float32", "int64"
Form = dict[str, tuple[tuple[int, ...], str]]


def form(arrays: Arrays) -> Form:
    return {name: (a.shape, str(a.dtype)) for name, a in arrays.items()}


class Protocol:
    """What may cross, by part of the protocol: P parties, K envs, U minibatches of B records, L envs of a test."""

    def __init__(self, parties: int, envs: int, batch: int, tested: int, joint: bool) -> None:
        self.parties, self.envs, self.batch, self.tested = parties, envs, batch, tested
        self.joint = joint
        mlp = {"mlp.hidden.weight": (2 * A, parties * A), "mlp.hidden.bias": (2 * A,),
               "mlp.output.weight": (A, 2 * A), "mlp.output.bias": (A,)}  # fmt: skip
        self.mlp: Form = {name: (shape, F32) for name, shape in mlp.items()}

    def down(self, party: int, phase: str, updates: int, config: dict[str, Any]) -> Form:
        """What the relay may send to a party."""
        rows, q = (updates, self.batch), ((updates, self.batch, A), F32)
        partners = [p for p in range(1, self.parties) if p != party]
        others = [p for p in range(self.parties) if p != party]
        acted: Form = {"actions": ((self.envs,), I64), "episodes": ((self.envs,), I64)}
        walked: Form = {"actions": ((self.tested,), I64)} if config.get("tick") else {}
        forms: dict[str, Form] = {
            "propose": {}, "close": {}, "scores": {}, "rest": {}, "look": walked,
            "act": {f"q.{p}": ((self.envs, A), F32) for p in partners} | self.mlp,
            "answer": acted | {"ids": (rows, I64)},
            "learn-first": {"ids": (rows, I64)} | {f"{n}.{p}": q for p in partners for n in ("q", "q-next")},
            "learn": {"ids": (rows, I64), "targets": (rows, F32)} | {f"q.{p}": q for p in others} | self.mlp,
            "choose": {f"q.{p}": ((self.tested, A), F32) for p in partners} | self.mlp,
        }  # fmt: skip
        return forms[phase]

    def up(self, phase: str, updates: int) -> Form:
        """What a party may answer."""
        rows, q = (updates, self.batch), ((updates, self.batch, A), F32)
        proposal: Form = {"proposal": ((self.envs, A), F32)}
        forms: dict[str, Form] = {
            "propose": proposal, "close": {}, "scores": {}, "rest": {},
            "act": {"actions": ((self.envs,), I64), "episodes": ((self.envs,), I64), "ids": (rows, I64)},
            "answer": {"q": q, "q-next": q},
            "learn-first": {"targets": (rows, F32), "q": q} | self.mlp,
            "learn": proposal | ({} if self.joint else self.mlp),
            "look": {"q": ((self.tested, A), F32)}, "choose": {"actions": ((self.tested,), I64)},
        }  # fmt: skip
        return forms[phase]


PLACE = {"phase", "after-round", "message", "round", "checkpoint-rounds"}
PLAN = {"split", "noisy", "best", "number"}
CONFIG = {
    "propose": {"exchange"}, "act": {"exchange"}, "answer": {"exchange"}, "learn": {"exchange"},
    "learn-first": {"exchange"}, "look": {"tick", *PLAN}, "choose": {"tick", *PLAN},
    "scores": PLAN, "close": {"best"}, "rest": set(),
}  # fmt: skip
WHO = {
    "propose": "partner", "answer": "partner", "learn": "partner", "look": "partner",
    "act": "alpha", "learn-first": "alpha", "choose": "alpha", "scores": "alpha", "close": "both",
    "rest": "both",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "envs"),
    [
        ({}, 1),
        ({"parallel_episodes": 4}, 4),
        ({"parallel_episodes": 4, "mlp_updates": "joint", "test_noise": "noisy"}, 4),
        ({"parallel_episodes": 3, "parties": 3}, 3),
        ({"follow": "published-code", "q_clip": 1.0}, 1),
    ],
    ids=["paper", "four-envs", "joint", "three-parties", "published-code"],
)
def test_every_message_of_a_run_holds_what_the_protocol_names_and_nothing_else(
    cache: Path, tmp_path: Path, changes: dict[str, Any], envs: int
) -> None:
    config = config_of(cache, tmp_path, **changes)
    settings = settings_from(config)
    parties = len(settings.federation.roles)
    joint = settings.published.rules.mlp_updates == "joint"
    protocol = Protocol(parties, envs, 8, 5, joint)
    letters = recorded(config)
    identities = [letter for letter in letters if letter.phase == "identity"]
    assert len(identities) == parties
    assert all(not x.down and not x.up and set(x.config) == {"resume-round"} for x in identities)
    phases = set()
    for letter in (x for x in letters if x.phase != "identity"):
        phase, alpha = letter.phase, letter.partition == 0
        phases.add(phase)
        assert WHO[phase] in ("both", "alpha" if alpha else "partner")
        exchange = int(letter.config.get("exchange", -1))
        stored = (exchange + 1) * envs
        updates = envs if stored > 8 + 2 else 0
        down = protocol.down(letter.partition, phase, updates, letter.config)
        assert form(letter.down) == down, phase
        assert form(letter.up) == protocol.up(phase, updates), phase
        assert set(letter.config) == PLACE | CONFIG[phase], phase
        assert letter.names == (("arrays", "config"), ("arrays", "metrics", "timing"))
        if not alpha:  # no word of rewards, scores or losses, in either direction
            assert set(letter.metrics) == {"num-examples"}
    assert phases == set(CONFIG)


def test_bytes_of_a_gradient_step_are_those_of_the_papers_algorithms(
    cache: Path, tmp_path: Path
) -> None:
    """K = 1, B = 32, A = 16. Record numbers are int64 here, 8 bytes each, and go with both requests."""
    letters = recorded(config_of(cache, tmp_path, batch_size=32, round_length=40, num_rounds=1))
    step = [x for x in letters if x.partition == 1 and x.config.get("exchange") == 38]
    assert [x.phase for x in step] == ["answer", "learn"]
    answer, learn = step

    def size(arrays: Arrays, *names: str) -> int:
        return num_bytes(a for k, a in arrays.items() if k.startswith(names))

    assert size(answer.down, "ids") == size(learn.down, "ids") == 8 * 32  # j
    assert size(answer.down, "actions", "episodes") == 2 * 8
    assert (
        size(answer.up, "q") == 2 * 4 * 32 * A == 4096
    )  # C_beta, of the state and of its successor
    assert size(learn.down, "targets") == 4 * 32 == 128  # Y
    assert size(learn.down, "q.0") == 4 * 32 * A == 2048  # C_alpha
    assert size(learn.down, "mlp.") == size(learn.up, "mlp.") == 4 * 1584 == 6336
    assert size(learn.up, "proposal") == 4 * A == 64  # C_beta of the next step
    total = sum(num_bytes([*x.down.values(), *x.up.values()]) for x in step)
    assert total == 272 + 4096 + 256 + 128 + 2048 + 6336 + 6336 + 64 == 19_536


# --- what a message can depend on ------------------------------------------------------------------


def sites(config: dict[str, Any], folder: Path, party: int) -> PartyClient:
    settings = settings_from(config)
    role: Any = ROLES[party]
    return PartyClient(
        PartySite(party, role, settings, open_world(settings), folder / role, True, "cpu")
    )


def answered(client: PartyClient, letter: Letter) -> Arrays:
    """The reply to a message that was recorded, of another client."""
    config = {**letter.config, "array-names": "\n".join(letter.down)}
    arrays, _, metrics = client.fit(list(letter.down.values()), config)
    names = [name for name in metrics.pop("array-names").split("\n") if name]
    assert metrics == {}
    return dict(zip(names, arrays, strict=True))


@pytest.fixture
def no_reward_function(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No reward function can be made, and none of the rewards' rules be read."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("asked for a reward function")

    monkeypatch.setattr(GridWorld, "reward_function", refuse)
    monkeypatch.setattr(MeetingReward, "__init__", refuse)
    yield


@pytest.mark.parametrize("mode", ["alternating", "joint"])
def test_a_partner_that_cannot_make_a_reward_function_answers_every_message_alike(
    cache: Path, tmp_path: Path, mode: str, request: pytest.FixtureRequest
) -> None:
    """All that a partner says follows from what reached it and from its own view: no reward can be part of it."""
    config = config_of(cache, tmp_path, parallel_episodes=2, mlp_updates=mode, parties=3)
    letters = recorded(config)
    request.getfixturevalue("no_reward_function")
    poorer = config | {
        f"fedrl.world.{k}-reward": v
        for k, v in {"step": -7.0, "obstacle": 3.0, "meeting": -1.0}.items()
    }
    for party in (1, 2):
        client = sites(poorer, tmp_path / "alone", party)
        own = [x for x in letters if x.partition == party and x.phase != "identity"]
        assert len(own) > 50
        for letter in own:
            again = answered(client, letter)
            assert again.keys() == letter.up.keys()
            assert all(np.array_equal(again[k], letter.up[k]) for k in again), letter.phase
    with pytest.raises(AssertionError, match="asked for a reward function"):
        act = next(x for x in letters if x.phase == "act")
        answered(sites(config, tmp_path / "alone", 0), act)


@pytest.mark.parametrize("mode", ["alternating", "joint"])
def test_rewards_reach_a_partner_in_targets_and_what_alpha_learnt_only(
    cache: Path, tmp_path: Path, mode: str
) -> None:
    """4 more for every step: the partner can tell by targets that are higher by exactly that, and by nothing else."""
    quiet = {"reward_quota": 0.0, "num_rounds": 1, "mlp_updates": mode}
    low = recorded(config_of(cache, tmp_path, "low", **quiet))
    high = recorded(
        config_of(cache, tmp_path, "high", step_reward=1.0, obstacle_reward=-8.0, **quiet)
    )
    seen = [[x for x in letters if x.partition == 1] for letters in (low, high)]
    differing = 0
    for a, b in zip(*seen, strict=False):
        assert (a.phase, a.config) == (b.phase, b.config)
        differing += 1
        unequal = {k for k in a.down if not np.array_equal(a.down[k], b.down[k])}
        if unequal:
            break
    else:
        raise AssertionError("the partner saw no difference at all")
    assert a.phase == "learn" and differing > 10
    mlp = {name for name in a.down if name.startswith("mlp.")}
    assert unequal == ({"targets", "q.0"} | mlp if mode == "alternating" else {"targets"})
    np.testing.assert_allclose(b.down["targets"] - a.down["targets"], 4.0, atol=1e-4)


@pytest.mark.parametrize("envs", [1, 4])
def test_whole_numbers_that_cross_are_actions_running_numbers_and_nothing_else(
    cache: Path, tmp_path: Path, envs: int
) -> None:
    """Places and maps could hide in them only if they were other than counting gives."""
    letters = recorded(config_of(cache, tmp_path, parallel_episodes=envs, round_length=96))
    begun, stored = envs, 0
    for letter in letters:
        numbers = {k: a for k, a in letter.up.items() if a.dtype.kind != "f"}
        if letter.phase == "act":
            stored += envs
            new = numbers["episodes"][numbers["episodes"] != -1]
            assert new.tolist() == list(range(begun, begun + len(new)))
            begun += len(new)
            assert ((numbers["ids"] >= max(0, stored - 100)) & (numbers["ids"] < stored)).all()
            assert ((numbers["actions"] >= 0) & (numbers["actions"] < A)).all()
        elif letter.phase == "choose":
            assert ((numbers["actions"] >= -1) & (numbers["actions"] < A)).all()
        else:
            assert not numbers, letter.phase
    assert stored == 192 and begun > 10


@pytest.mark.parametrize(("phase", "name"), [("propose", "proposal"), ("answer", "q")])
def test_the_noise_on_what_is_sent_has_the_deviation_that_was_asked_for(
    cache: Path, tmp_path: Path, phase: str, name: str
) -> None:
    """Against a party that differs in sigma alone and gets the same messages: N(0, 2^2) is between them."""
    config = config_of(cache, tmp_path, parallel_episodes=32, noise_sigma=2.0, num_rounds=1)
    letters = [x for x in recorded(config) if x.partition == 1 and x.phase != "identity"]
    letter = next(x for x in letters if x.phase == phase and x.up[name].size)
    quiet = sites({**config, "fedrl.privacy.noise-sigma": 0.0}, tmp_path / "quiet", 1)
    for earlier in letters[: letters.index(letter)]:
        answered(quiet, earlier)
    noise = letter.up[name] - answered(quiet, letter)[name]
    assert noise.size >= 512
    assert noise.std() == pytest.approx(2.0, rel=0.1) and abs(noise.mean()) < 0.3


def released_by(letters: list[Letter], party: int) -> int:
    """Q-vectors of a party that left it: rows, counted once if the same row leaves again."""
    rows: set[bytes] = set()
    for letter in letters:
        for name in ("q", "q-next", "proposal"):
            if letter.partition == party and name in letter.up:
                flat = letter.up[name].reshape(-1, A)
                rows |= {row.tobytes() for row in flat if row.any()}
    return len(rows)


@pytest.mark.parametrize("envs", [1, 8])
def test_the_count_of_released_values_is_that_of_the_messages(
    cache: Path, tmp_path: Path, envs: int
) -> None:
    config = config_of(cache, tmp_path, parallel_episodes=envs, test_noise="noisy")
    letters = recorded(config)
    rows = read_rows(tmp_path / "run" / "history.jsonl")
    found = next(row["metrics"] for row in rows if row["kind"] == "closing")
    assert found["released.0"] == released_by(letters, 0)
    assert found["released.1"] == released_by(letters, 1)


def test_a_partners_site_is_told_nothing_of_rewards_when_asked_who_it_is(
    cache: Path, tmp_path: Path
) -> None:
    client = sites(config_of(cache, tmp_path), tmp_path, 1)
    told = client.get_properties({})
    allowed = {
        "partition", "name", "num-examples", "actions", "longest", "score", "envs.valid", "envs.test",
        *client.site.world.facts,
    }  # fmt: skip
    assert set(told) == allowed and not any("reward" in key for key in told)
