"""Proxies of the environment: who is asked without, and what is said where one is in the way."""

import urllib.request
from collections.abc import Mapping

import httpx
import pytest

from simulations.engines.flower import flower_settings
from simulations.engines.proxies import NAMES, asked_for, directly

DEAD = "http://me:secret@127.0.0.1:9"
HERE = "127.0.0.1,localhost,::1"


@pytest.fixture(autouse=True)
def behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", *NAMES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", DEAD)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, HERE),
        ({"no_proxy": "lan.example"}, f"lan.example,{HERE}"),  # as curl and wget spell it
        ({"NO_PROXY": "a, b,", "no_proxy": "b,c"}, f"a,b,c,{HERE}"),
        ({"NO_PROXY": HERE}, HERE),
        ({"no_proxy": "*"}, "*"),  # beside others urllib takes it for a name
    ],
)
def test_who_is_asked_directly(environment: Mapping[str, str], told: str) -> None:
    assert directly(environment) == {"NO_PROXY": told, "no_proxy": told}


def test_programs_and_libraries_keep_to_it(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "lan.example")
    settings = flower_settings(tmp_path_factory.mktemp("home"))
    assert {settings[name] for name in NAMES} == {f"lan.example,{HERE}"}
    for name in NAMES:
        monkeypatch.setenv(name, settings[name])
    with httpx.Client() as client:
        for host in ("127.0.0.1", "localhost", "[::1]", "lan.example", "far.example"):
            direct = (
                client._transport_for_url(httpx.URL(f"https://{host}:9092")) is client._transport
            )
            bare = host.strip("[]")
            assert direct == bool(urllib.request.proxy_bypass(bare)) == (host != "far.example")


def test_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "the proxy 127.0.0.1:9 is asked for it; if far.example is to be reached without, add it to NO_PROXY"
    assert asked_for("far.example") == told
    assert asked_for("far.example", secure=False) == ""
    monkeypatch.setenv("no_proxy", "far.example")
    assert asked_for("far.example") == ""
    monkeypatch.delenv("no_proxy")
    monkeypatch.delenv("https_proxy")
    assert asked_for("far.example") == ""
    monkeypatch.setenv("ALL_PROXY", "127.0.0.1:9")
    assert asked_for("far.example") == told
    for text in ("http://me:secret@proxy.example/", "proxy.example", "http://proxy.example:port"):
        monkeypatch.setenv("all_proxy", text)
        said = asked_for("far.example")
        assert (
            said.startswith("the proxy proxy.example")
            and "None" not in said
            and "secret" not in said
        )
