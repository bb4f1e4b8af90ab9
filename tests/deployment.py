"""A deployment's folder, a SuperLink that only says that it is there, and a SuperNode that says what a test wants."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path

from fedsuite.roster.members import Member, Roster
from simulations.deploy.kit.address import Address
from simulations.deploy.kit.bundle import hand_out, make_kit

NAMES = ("oak", "elm", "ash")
REFUSED = "Exit Code: 305\nFailed to initialize the connection.\n[code: 2004] Failed to activate SuperNode.\n"


def small_roster() -> Roster:
    members = tuple(Member(n, "seen", i, {"houses": [n]}) for i, n in enumerate(NAMES, 3))
    return Roster(members, {"feature-size": 8}, ("<PAD>", "<UNK>", "<EOS>", "left"))


def new_kit(folder: Path, port: int = 9092, host: str = "localhost") -> Path:
    """Folders of oak, elm and ash, with a roster."""
    make_kit(folder, NAMES, Address(host, port))
    hand_out(folder, small_roster())
    return folder


class Saying(BaseHTTPRequestHandler):
    """Answers as a SuperLink that is up."""

    behind_s = 0.0
    flower = version("flwr")  # "": it does not show it

    def do_GET(self) -> None:
        told = {"/health": ""}
        told |= (
            {"/openapi.json": json.dumps({"info": {"version": self.flower}})} if self.flower else {}
        )
        self.send_response(200 if self.path in told else 404)
        self.end_headers()
        self.wfile.write(told.get(self.path, "").encode())

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string((timestamp or time.time()) - self.behind_s)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(
    kit: Path, behind_s: float = 0.0, listen: str = "127.0.0.1", flower: str = Saying.flower
) -> Iterator[Address]:
    """A port that answers with the kit's certificate; its clock may be behind, its Flower another."""
    handler = type("Handler", (Saying,), {"behind_s": behind_s, "flower": flower})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kit / "server" / "server.pem", kit / "server" / "server.key")
    with HTTPServer((listen, 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Address("localhost", server.server_port)
        finally:
            server.shutdown()
            thread.join()


def write_program(file: Path, refusals: int, then: str, words: str = REFUSED) -> Path:
    """A SuperNode that fails `refusals` times with these words, then runs the Python lines `then`."""
    lines = [
        "#!/usr/bin/env python3",
        "import os, subprocess, sys, time",
        f"count = {str(file.with_suffix('.count'))!r}",
        "open(count, 'a').write('.')",
        f"if os.path.getsize(count) <= {refusals}:",
        f"    sys.exit(print({words!r}, end='', flush=True) or 1)",
        *then.splitlines(),
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    file.chmod(0o755)
    return file
