"""When houses of a message train side by side, and what is refused."""

import pytest

from fedsuite.errors import InputError
from fedsuite.settings.unread import unread_lines
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.ineffective import UNREAD
from fedsuite.vln.stacking import replays, stacking_complaints, stacks
from tests.harness import changed

FOUR = changed(FedVLNConfig(), houses_per_message=4)
OWN = "tests.vln.test_stacking:decoder"


@pytest.mark.parametrize(
    ("changes", "cpu", "cuda"),
    [
        ({}, False, True),
        ({"stacked": "yes"}, True, True),
        ({"stacked": "no"}, False, False),
        ({"houses_per_message": 1, "stacked": "yes"}, False, False),
        ({"houses_per_message": 1, "cuda_graphs": "auto"}, False, False),
        ({"houses_per_message": 0, "cuda_graphs": "auto"}, False, False),
        ({"houses_per_message": 0}, False, False),
        ({"stage": "speaker", "stacked": "yes"}, False, False),
        ({"decoder": OWN}, False, False),
        ({"local_method": "apfl"}, False, False),
        ({"local_method": "ditto"}, False, True),
    ],
)
def test_who_is_stacked(changes: dict[str, object], cpu: bool, cuda: bool) -> None:
    config = changed(FOUR, **changes)
    assert (stacks(config, "cpu"), stacks(config, "cuda")) == (cpu, cuda)


def test_graphs_are_for_stacked_houses_on_a_gpu() -> None:
    graphs = changed(FOUR, cuda_graphs="auto")
    assert replays(graphs, "cuda") and not replays(graphs, "cpu")
    assert not replays(FOUR, "cuda")
    assert not replays(changed(graphs, stacked="no"), "cuda")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"stacked": "no"}, 'training.stacked = "no"'),
        ({"houses_per_message": 0}, "federation.houses-per-message = 0"),
        ({"houses_per_message": 1}, "federation.houses-per-message = 1"),
        ({"stage": "speaker"}, 'stage = "speaker"'),
    ],
)
def test_graphs_that_nothing_is_recorded_in_are_named(changes: dict[str, object], why: str) -> None:
    config = changed(FOUR, cuda_graphs="auto")
    assert unread_lines(config, UNREAD) == []
    lines = unread_lines(changed(config, **changes), UNREAD)
    assert f'training.cuda-graphs = "auto": nothing reads it with {why}' in lines


def test_houses_of_a_message_are_stacked_on_a_gpu_by_default_and_replayed_if_it_is_asked_for() -> (
    None
):
    several = changed(FedVLNConfig(), houses_per_message=4)
    assert stacks(several, "cuda") and not stacks(several, "cpu") and not replays(several, "cuda")
    assert not stacks(FedVLNConfig(), "cuda")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"decoder": OWN}, f'not agent.decoder = "{OWN}"'),
        ({"local_method": "apfl"}, 'federation.local-method = "apfl" takes every step'),
    ],
)
def test_what_cannot_be_stacked_is_refused_where_it_is_asked_for(
    changes: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=r"^training\.stacked: yes ") as refused:
        for complaint in stacking_complaints(changed(FOUR, stacked="yes", **changes)):
            raise InputError(complaint)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_without_several_houses_in_a_message_nothing_reads_it() -> None:
    alone = changed(FedVLNConfig(), stacked="yes")
    (line,) = unread_lines(alone, UNREAD)
    assert line.startswith('training.stacked = "yes": nothing reads it with federation.houses-')
    assert unread_lines(changed(FOUR, stacked="yes"), UNREAD) == []
