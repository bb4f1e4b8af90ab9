"""Proxies that the environment names: none is asked for addresses of this machine, and a failure says which one was."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

HERE = ("127.0.0.1", "localhost", "::1")
NAMES = ("NO_PROXY", "no_proxy")


def directly(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Both spellings of NO_PROXY, with what either has and with HERE. Of programs some read one, some the other."""
    named = [host.strip() for name in NAMES for host in environment.get(name, "").split(",")]
    hosts = ["*"] if "*" in named else dict.fromkeys([*filter(None, named), *HERE])
    return dict.fromkeys(NAMES, ",".join(hosts))


def asked_for(host: str, secure: bool = True) -> str:
    """Which proxy is asked for this host, and what to do if none should be; "" if none is. Passwords are left out."""
    known = getproxies()
    proxy = known.get("https" if secure else "http") or known.get("all")
    if not proxy or host in HERE or proxy_bypass(host):
        return ""
    place = urlsplit(proxy if "//" in proxy else f"//{proxy}").netloc.rpartition("@")[2]
    return (
        f"the proxy {place} is asked for it; if {host} is to be reached without, add it to NO_PROXY"
    )
