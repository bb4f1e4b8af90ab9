"""What arrays tell of a model: its kind, its sizes, and the setting in which two differ."""

import dataclasses
import re
from typing import Any

import pytest

from fedsuite.vln.model.agent import AgentSizes, build_agent
from fedsuite.vln.model.shapes import AGENT, ENCODER, SPEAKER, Shapes, difference, kind_of, sizes_of
from fedsuite.vln.model.speaker import SpeakerSizes, build_speaker

SIZES = {"vocabulary": 11, "feature": 6, "angle": 4, "hidden": 8, "word": 5}


def agent(**changes: Any) -> Shapes:
    sizes = AgentSizes(**{**SIZES, "action": 3, **changes})
    return {k: tuple(v.shape) for k, v in build_agent(sizes, 0).state_dict().items()}


def speaker(**changes: Any) -> Shapes:
    model = build_speaker(SpeakerSizes(**{**SIZES, **changes}), 0)
    return {k: tuple(v.shape) for k, v in model.state_dict().items()}


def test_kinds() -> None:
    encoder = {k: v for k, v in agent().items() if k.startswith("encoder.")}
    assert [kind_of(s) for s in (agent(), speaker(), encoder)] == [AGENT, SPEAKER, ENCODER]
    assert kind_of({"conv1.weight": (1,)}) == kind_of({}) == ""


def test_sizes_are_those_that_it_was_built_with() -> None:
    common = {"words": 11, "agent.word-embedding-size": 5, "agent.hidden-size": 8, "view width": 10}
    own = {"agent.action-embedding-size": 3, "agent.angle-feature-size": 4}
    assert sizes_of(agent()) == common | own | {"agent.dead-layers": 0}
    assert sizes_of(speaker(dead_layers=True)) == common | {"agent.dead-layers": 1}


CASES = {
    "vocabulary": ({"vocabulary": 12}, "knows 12 words, this run 11; .* data.vocabulary=W"),
    "word": ({"word": 7}, "agent.word-embedding-size 7, this run 5; set agent.word-embedding-size=7"),
    "hidden": ({"hidden": 6}, "agent.hidden-size 6, this run 8; set agent.hidden-size=6"),
    "feature": ({"feature": 9}, "together 13 numbers, this run's have 10; give data.features"),
    "dead": ({"dead_layers": True}, "is with the layers .* set agent.dead-layers=true"),
}  # fmt: skip
AGENTS_OWN = {
    "action": ({"action": 2}, "set agent.action-embedding-size=2"),
    "angle": ({"angle": 8}, "agent.angle-feature-size 8, this run 4; set agent.angle-feature-size=8"),
}  # fmt: skip


OF_BOTH = [(make, *case) for make in (agent, speaker) for case in CASES.values()]
OF_AGENTS = [(agent, *case) for case in AGENTS_OWN.values()]


@pytest.mark.parametrize(("make", "changes", "text"), OF_BOTH + OF_AGENTS)
def test_the_setting_that_differs_is_named(make: Any, changes: dict[str, Any], text: str) -> None:
    assert re.search(text, difference(make(**changes), make(), "W"))
    assert difference(make(**changes), make(**changes), "W") == ""
    if "dead_layers" in changes:
        back = difference(make(), make(**changes), "W")
        assert "is without the layers" in back and "agent.dead-layers=false" in back


def test_one_model_where_another_is_wanted() -> None:
    assert f"is {SPEAKER}, where {AGENT} is needed (it lacks critic." in difference(
        speaker(), agent(), "W"
    )
    assert f"is {AGENT}, where {SPEAKER} is needed" in difference(agent(), speaker(), "W")
    encoder = {k: v for k, v in agent().items() if k.startswith("encoder.")}
    assert f"is {ENCODER}, where {AGENT} is needed" in difference(encoder, agent(), "W")


def test_sizes_of_both_have_every_field() -> None:
    """A new size of a model asks for its place in `sizes_of`."""
    fields = {f.name for f in dataclasses.fields(AgentSizes)}
    assert fields == {*SIZES, "dead_layers", "action"}
