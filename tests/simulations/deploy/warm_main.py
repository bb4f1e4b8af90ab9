"""What children of the warm server run in tests in place of `flwr-clientapp`: arguments say what to do."""

import hashlib
import os
import random
import signal
import sys
import time


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "sleep":
        sleep(float(rest[0]))
    print(what, os.getpid(), flush=True)
    if what == "compute":
        print(computed(), flush=True)
    elif what == "surroundings":
        print(sys.argv[0], os.getcwd(), os.environ.get("OWN"), sys.path[0], sys.stdin.read())
        print("to stderr", file=sys.stderr)
    elif what == "drawn":
        import numpy as np

        print(random.random(), np.random.rand())
    elif what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "where":
        sys.path[:0] = rest
        import fedsuite

        print(fedsuite.__file__)
    sys.exit(int(rest[0]) if what == "exit" else 0)


def sleep(seconds: float) -> None:
    """Interrupted, it exits with 7; the line with the pid tells that it can be interrupted from now on."""
    try:
        print("sleep", os.getpid(), flush=True)
        time.sleep(seconds)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(7)
    sys.exit(0)


def computed() -> str:
    """A digest of what torch makes with two threads, and NumPy."""
    import numpy as np
    import torch

    from simulations.client_app import _node, _roster
    from simulations.systems import _settings_of

    assert not any(f.cache_info().currsize for f in (_node, _roster, _settings_of))
    torch.set_num_threads(2)
    torch.manual_seed(1)
    a = torch.rand(600, 600)
    layer = torch.nn.Sequential(torch.nn.Linear(600, 600), torch.nn.Dropout(0.5))
    for _ in range(5):
        a = torch.nn.functional.normalize(layer(a))
    a.sum().backward()
    gradient = next(layer.parameters()).grad
    assert gradient is not None
    b = np.random.default_rng(3).standard_normal((300, 300))
    found = [a.detach().numpy().tobytes(), gradient.numpy().tobytes(), (b @ b).tobytes()]
    return hashlib.sha256(b"".join(found)).hexdigest()


if __name__ == "__main__":
    main()
