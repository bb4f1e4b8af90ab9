"""How commands are stopped: Ctrl-C, a closed terminal and `kill` mean the same."""

import signal

EXIT_STOPPED = 130


def stop_as_ctrl_c() -> None:
    """SIGTERM and SIGHUP stop a command as Ctrl-C does; what is ignored (nohup) stays ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
