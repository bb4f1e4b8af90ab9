"""`python -m tests.loopback_ray start ...`: Ray's own command line, whose 127.0.0.1 is not made the machine's address."""

import sys

from ray._private import services
from ray.scripts.scripts import main

if __name__ == "__main__":
    services.resolve_ip_for_localhost = str
    sys.argv[0] = "ray"
    main()
