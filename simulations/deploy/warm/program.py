"""The program that start.py puts on PATH under a name of Flower's: has the server run the real one, and ends as that ends.

Run by itself, with the standard library alone: SOCKET PROGRAM ARGUMENTS. Where the server does not answer, the real program
takes this process's place: slower, but the same. No message is handled twice: once the server has said that it starts a
child, the real program is not run here.
"""

import os
import signal
import socket
import sys

PATIENCE_S = 120.0  # for a server that still imports
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
STARTED = b"+"  # what the server says first; anything else is why it does not start a child


def main(address: str, program: str, *arguments: str) -> None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(PATIENCE_S)
        connection.connect(address)
        hand_over(connection, program, arguments)
        if (answer := connection.recv(1000))[:1] != STARTED:
            raise OSError(answer.decode() or "it has ended")
    except OSError as error:
        say(program, f"starts cold, the warm server is of no use: {error}")
        connection.close()
        os.execv(program, [program, *arguments])
    connection.settimeout(None)
    for number in FORWARDED:
        signal.signal(number, lambda caught, _: connection.send(bytes([caught])))
    try:
        end_as(exit_code(connection, answer[1:]))
    except OSError as error:
        say(program, f"the warm server is gone, and the process with it: {error}")
        sys.exit(1)


def hand_over(connection: socket.socket, program: str, arguments: tuple[str, ...]) -> None:
    """Folder, umask, program with its arguments, and environment, with stdin, stdout and stderr."""
    umask = os.umask(0o77)
    os.umask(umask)
    words = (program, *arguments)
    texts = [os.getcwdb(), b"%d" % umask, b"%d" % len(words), *map(os.fsencode, words)]
    texts += [name + b"=" + value for name, value in os.environb.items()]
    job = b"\0".join(texts)
    socket.send_fds(connection, [b"%16d" % len(job)], [0, 1, 2])
    connection.sendall(job)


def exit_code(connection: socket.socket, text: bytes) -> int:
    """The child's; -N where signal N ended it."""
    while part := connection.recv(16):
        text += part
    if not text:
        raise ConnectionError("no exit code")
    return int(text)


def end_as(code: int) -> None:
    if code >= 0:
        sys.exit(code)
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


def say(program: str, line: str) -> None:
    print(f"{os.path.basename(program)}: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
