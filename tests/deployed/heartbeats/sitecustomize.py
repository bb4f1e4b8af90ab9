"""Python imports this by itself where it finds it: SuperNodes are missed after 12 s without a heartbeat, not after 60.

Only that: how long Flower gives a process to start stays as it is.
"""

import sys
from importlib import import_module

_PLACES = {
    "flower-supernode": ("flwr.supernode.fleet_http_connection", "flwr.supercore.heartbeat"),
    "flower-superlink": ("flwr.superlink.servicer.fleet.fleet_handlers",),
}
_NEW = {"HEARTBEAT_DEFAULT_INTERVAL": 6, "HEARTBEAT_MIN_INTERVAL": 1}  # two of the first may pass

for _program, _modules in _PLACES.items():
    if any(_word.endswith(_program) for _word in sys.orig_argv):
        for _module in map(import_module, _modules):
            for _name in _NEW.keys() & vars(_module).keys():
                setattr(_module, _name, _NEW[_name])
