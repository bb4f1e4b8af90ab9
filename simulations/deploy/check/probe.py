"""Asks a SuperLink over TLS whether it answers: what is wrong with a certificate, an address or a clock shows here first."""

import email.utils
import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPResponse
from pathlib import Path
from typing import cast

from fedsuite.errors import InputError
from fedsuite.storage.files import telling
from simulations.deploy.kit.address import Address

TIMEOUT_S = 10.0
_EXPIRED, _NOT_YET, _OTHER_NAME, _OTHER_IP = 10, 9, 62, 64  # OpenSSL's X509_V_ERR_*


class Unreachable(Exception):
    """Nobody answers there, now."""


@dataclass(frozen=True)
class Answer:
    """ahead_s: how far this machine's clock is ahead of the SuperLink's, None where it tells no time; until: when the
    SuperLink's certificate ends."""

    ahead_s: float | None
    until: datetime


def ask(address: Address, authority: Path, timeout_s: float = TIMEOUT_S) -> Answer:
    """What the SuperLink there says; Unreachable if nothing, InputError with the cure for a wrong certificate."""
    secure = _Handler(_context(authority))
    try:
        with _opened(address, secure, "health", timeout_s) as reply:
            return Answer(_ahead_s(reply.headers.get("Date")), secure.until)
    except urllib.error.HTTPError as error:
        raise Unreachable(f"{address} answers {error.code}, which no SuperLink does") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise InputError(_complaint(reason, address, authority)) from None
        if isinstance(reason, ssl.SSLError):
            raise Unreachable(f"{address} does not speak TLS ({reason.reason or reason})") from None
        raise Unreachable(f"{address} cannot be reached ({reason})") from None


def flower_version(address: Address, authority: Path, timeout_s: float = TIMEOUT_S) -> str:
    """The version of Flower that the SuperLink there has, by its own description of its API; "" where it shows none.

    A proxy that passes on what nodes need, and nothing else, hides it.
    """
    try:
        with _opened(address, _Handler(_context(authority)), "openapi.json", timeout_s) as reply:
            return str(json.load(reply)["info"]["version"])
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return ""


def _opened(address: Address, secure: "_Handler", path: str, timeout_s: float) -> HTTPResponse:
    direct = urllib.request.ProxyHandler({} if address.is_local else None)
    opener = urllib.request.build_opener(direct, secure)
    return cast(HTTPResponse, opener.open(f"https://{address}/{path}", timeout=timeout_s))


class _Handler(urllib.request.HTTPSHandler):
    """Notes when the certificate ends that it was shown last."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self.context, self.until = context, datetime.max.replace(tzinfo=UTC)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        handler = self

        class Connection(http.client.HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                shown = self.sock.getpeercert() or {}
                end = ssl.cert_time_to_seconds(str(shown["notAfter"]))
                handler.until = datetime.fromtimestamp(end, UTC)

        return self.do_open(Connection, request, context=self.context)


def _context(authority: Path) -> ssl.SSLContext:
    with telling(authority):
        authority.open("rb").close()
    try:
        return ssl.create_default_context(cafile=str(authority))
    except ssl.SSLError:
        raise InputError(
            f"{authority}: no certificate in PEM form; copy ca.crt from the server's folder"
        ) from None


def _complaint(error: ssl.SSLCertVerificationError, address: Address, authority: Path) -> str:
    if error.verify_code == _EXPIRED:
        return (
            f"{address}: the SuperLink's certificate, or its authority's, has expired; have it renewed "
            "(`fedsuite deploy renew`), or set the clock"
        )
    if error.verify_code == _NOT_YET:
        return f"{address}: the SuperLink's certificate is not valid yet; set this machine's clock"
    if error.verify_code in (_OTHER_NAME, _OTHER_IP):
        return (
            f"{address}: the SuperLink's certificate is not for {address.host}; use the host that `fedsuite deploy init` "
            "was given"
        )
    return (
        f"{address}: the SuperLink's certificate is not signed by the authority in {authority} "
        f"({error.verify_message}); copy ca.crt from the server's folder"
    )


def _ahead_s(date: str | None) -> float | None:
    """From a Date header, whose seconds are whole: right to half a second."""
    if not date:
        return None
    now = time.time()
    try:
        told = email.utils.parsedate_to_datetime(date)
    except ValueError:
        return None
    if told.tzinfo is None:
        told = told.replace(tzinfo=UTC)
    return (datetime.fromtimestamp(now, UTC) - told).total_seconds() - 0.5
