"""The image's health check: exit 0 when a SuperLink or a SuperNode answers, 1 with one line when it does not.

FEDSUITE_HEALTH is the address to ask, empty for containers that serve nothing (simulations). The certificate is not
checked: the question stays inside the container, and asks whether somebody answers, not who.
"""

import os
import ssl
import sys
import urllib.request

TIMEOUT_S = 4.0


def main() -> int:
    address = os.environ.get("FEDSUITE_HEALTH", "")
    if not address:
        print("FEDSUITE_HEALTH is empty: nothing to ask")
        return 0
    direct = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),
        urllib.request.HTTPSHandler(context=ssl._create_unverified_context()),
    )
    try:
        with direct.open(address, timeout=TIMEOUT_S) as reply:
            print(f"{address}: {reply.status}")
    except (OSError, ValueError) as error:
        # A refusing port, a status of 400 or more, no address at all.
        print(f"{address}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
