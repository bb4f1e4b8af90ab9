"""A SuperLink in the place of Flower's, over HTTP: says what a test has planned, and nothing by default."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from flwr.supernode.fleet_http_client import FleetHttpClient

NOTHING = b""  # of each of Flower's answers, the one with all fields left out
LOST = None  # the request has come, its answer does not arrive
Answer = bytes | int | None  # what is said, or an error


class SuperLink(HTTPServer):
    """answers: by the last word of a path, one after another, the last of them for ever; asked: these words."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def client(self, kind: type[FleetHttpClient]) -> FleetHttpClient:
        return kind.from_server_address(self.address, True, None, interceptors=[])

    def next(self, word: str) -> Answer:
        self.asked.append(word)
        left = self.answers.get(word, [NOTHING])
        return left.pop(0) if len(left) > 1 else left[0]


class _Handler(BaseHTTPRequestHandler):
    server: SuperLink

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        answer = self.server.next(self.path.rpartition("/")[2])
        if answer is LOST:
            self.close_connection = True
            return
        body, code = (b"", answer) if isinstance(answer, int) else (answer, 200)
        self.send_response(code)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[SuperLink]:
    with SuperLink() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
