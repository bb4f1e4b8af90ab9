"""compose.yml and systemd units for the folder of a deployment.

Containers use the image of docker/Dockerfile and its user. Units use the folders /opt/fedsuite and /srv/fedsuite, which
whoever installs them puts right.
"""

from collections.abc import Sequence

COMPOSE_SUPERLINK = "superlink"  # the SuperLink's name among the containers
IMAGE_USER = 10001
NODE_PORT = 9094  # of a node's container, inside it


def compose_text(names: Sequence[str], port: int) -> str:
    """A SuperLink and these nodes."""
    head = f"""\
# SuperLink and nodes in containers, over TLS and with authenticated keys.
#   docker build -f docker/Dockerfile -t fedsuite .       in a checkout of fedsuite; once
#   sudo chown -R {IMAGE_USER}:{IMAGE_USER} server nodes              the user in the image
#   docker compose up -d {COMPOSE_SUPERLINK}
#   docker compose exec {COMPOSE_SUPERLINK} fedsuite deploy register /srv/server
#   docker compose up -d
#   docker compose exec {COMPOSE_SUPERLINK} fedsuite run RUN --engine deploy --connection /srv/server \\
#       --set roster=/srv/server/roster.json --set results-dir=/srv/server/runs
# Paths are the container's: a RUN.toml that lies in server/ is /srv/server/RUN.toml there.
# The image's own volumes stay empty; `docker compose down -v` deletes them. GPU for a node: add `gpus: all`.
services:
  {COMPOSE_SUPERLINK}:
    image: ${{FEDSUITE_IMAGE:-fedsuite}}
    init: true
    restart: unless-stopped
    stop_grace_period: 30s
    command: ["fedsuite", "deploy", "server", "/srv/server", "--listen", "0.0.0.0"]
    ports: ["{port}:{port}"]
    volumes: ["./server:/srv/server"]
    environment:
      FEDSUITE_HEALTH: https://127.0.0.1:{port}/health
"""
    return head + "".join(_service(name, port) for name in names)


def _service(name: str, port: int) -> str:
    return f"""\
  node-{name}:
    image: ${{FEDSUITE_IMAGE:-fedsuite}}
    init: true
    restart: unless-stopped
    stop_grace_period: 30s
    depends_on: ["{COMPOSE_SUPERLINK}"]
    command:
      ["fedsuite", "deploy", "node", "/srv/node/node.toml",
       "--superlink", "{COMPOSE_SUPERLINK}:{port}", "--port", "{NODE_PORT}"]
    volumes: ["./nodes/{name}:/srv/node"]
    environment:
      FEDSUITE_HEALTH: http://127.0.0.1:{NODE_PORT}/health
"""


def superlink_unit() -> str:
    return _unit("SuperLink", "server", "fedsuite-superlink", "server /srv/fedsuite/server")


def node_unit() -> str:
    """A template: %i is the node's name."""
    start = "node /srv/fedsuite/nodes/%i/node.toml"
    return _unit("node %i", "nodes/%i", "fedsuite-node@NAME", start)


def _unit(what: str, folder: str, name: str, start: str) -> str:
    return f"""\
# FILL IN, where yours differ:
#   /opt/fedsuite        the Python environment that fedsuite is installed in
#   /srv/fedsuite        where the folder of this machine lies ({folder.replace("%i", "NAME")} in it)
#   User=, Group=        who runs it, and owns that folder: chown -R fedsuite:fedsuite /srv/fedsuite
# Then: copy to /etc/systemd/system/, systemctl daemon-reload, systemctl enable --now {name}
[Unit]
Description=fedsuite {what}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
User=fedsuite
Group=fedsuite
WorkingDirectory=/srv/fedsuite/{folder}
ExecStart=/opt/fedsuite/bin/fedsuite deploy {start}
Restart=always
RestartSec=10
KillMode=mixed
TimeoutStopSec=30
SuccessExitStatus=130
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ReadWritePaths=/srv/fedsuite/{folder}

[Install]
WantedBy=multi-user.target
"""
