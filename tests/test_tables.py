"""The tables that stand as JSON beside their code: complete, consistent, and part of every package."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.data.rendering.light import TIMES, WEATHERS, light_of
from fedsuite.driving.data.rendering.looks import CorridorLook, RoadLook
from fedsuite.driving.data.rendering.presets import Character, law_of, look_of, steering_of
from fedsuite.fedrl.text2action.lexicon import TOPICS, WORDS
from fedsuite.storage.files import read_table
from fedsuite.vln.generator import catalog, phrases

ROOT = Path(__file__).parent.parent
CHARACTERS: tuple[Character, ...] = ("udacity", "gazebo", "carla")


def test_rooms_hold_known_objects_in_known_colours_and_materials() -> None:
    for room in catalog.ROOMS.values():
        assert 0 <= room.area_m2[0] < room.area_m2[1]
        for name, probability, most in room.furniture:
            assert name in catalog.KIND_INDEX and 0 < probability <= 1 and most >= 1
    for kind in catalog.KINDS:
        assert set(kind.colours) <= set(catalog.COLOURS)
        assert set(kind.materials) <= set(catalog.MATERIALS)
        assert kind.place in ("wall", "middle", "hung", "floor", "ceiling", "fixture")
    assert len(catalog.KIND_INDEX) == len(catalog.KINDS)
    assert {*catalog.WANTED_DOWNSTAIRS, *catalog.WANTED_UPSTAIRS} <= catalog.ROOMS.keys()


def test_phrases_have_known_gaps_and_speak_of_known_things() -> None:
    known = {"thing", "room", "source", "door", "hall", "way", "number", "go", "stairs"}
    for forms in phrases.FORMS.values():
        assert forms and set(re.findall(r"\{(\w+)\}", " ".join(forms))) <= known
    assert phrases.RARE_NOUNS.keys() | phrases.DOOR_NOUNS.keys() <= catalog.KIND_INDEX.keys()
    assert phrases.RARE_ROOMS.keys() <= catalog.ROOMS.keys()


@pytest.mark.parametrize("character", CHARACTERS)
def test_every_look_and_law_is_complete(character: Character) -> None:
    assert steering_of(character).limit_rad > 0
    for silo in range(6):
        look = look_of(character, silo, np.random.default_rng(silo))
        assert isinstance(look, CorridorLook if character == "gazebo" else RoadLook)
        assert all(getattr(look, f.name) is not None for f in fields(look))
        assert 0 < law_of(character, silo, np.random.default_rng(silo)).p_turn < 1


def test_every_weather_has_a_light_at_every_hour() -> None:
    for weather in ("clear", *WEATHERS):
        assert len({light_of(weather, time).sky_top for time in TIMES}) == len(TIMES)


def test_words_of_texts_are_different_and_not_empty() -> None:
    lists = [*WORDS.values(), *(w for t in TOPICS for w in (t.verbs, t.nouns, t.adjectives))]
    assert all(words and len(set(words)) == len(words) for words in lists)


def test_tables_cannot_be_changed() -> None:
    table = read_table(catalog.__file__, "catalog.json")
    assert isinstance(table["kinds"], tuple) and isinstance(table["kinds"][0]["nouns"], tuple)


def test_packages_and_bundles_hold_the_tables() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tool["setuptools"]["package-data"]["fedsuite"][0] == "**/*.json"
    tables = {str(path.relative_to(ROOT)) for path in (ROOT / "fedsuite").rglob("*.json")}
    assert tables and tables <= set(tool["flwr"]["app"]["fab-include"])
