"""A line that takes its time and loses packets, as a radio link does: a program that passes Ethernet frames between two
interfaces of its network namespace, where the kernel has no module for it (netem); as root.

    ip netns exec NAME python tests/deployed/far_line.py FIRST SECOND DELAY_S LOSS
    ip netns exec NAME python tests/deployed/far_line.py INTERFACE

A frame that comes in at one goes out at the other DELAY_S later, unless it is lost, with probability LOSS, both ways. Losses
fall one by one, independently. The second form has the kernel send real packets through an interface, each of one frame and
with its own checksum, in place of long ones that it expects network cards to cut up: hosts need it before they send.
"""

import ctypes
import fcntl
import random
import select
import socket
import struct
import sys
import time
from collections import deque

ALL, LARGEST = 3, 65_536  # ETH_P_ALL; bytes of a frame, at most
PACKET_IGNORE_OUTGOING, SOL_PACKET = 23, 263  # linux/if_packet.h; Python has no names for them
SIOCETHTOOL = 0x8946
# linux/ethtool.h: ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO
OFFLOADS = 0x17, 0x1F, 0x24, 0x2C


class Direction:
    """Frames from one socket to another, each of which leaves `delay_s` after it came."""

    def __init__(self, source: socket.socket, target: socket.socket, delay_s: float) -> None:
        self.source, self.target, self.delay_s = source, target, delay_s
        self.waiting: deque[tuple[float, bytes]] = deque()

    def take(self, loss: float) -> None:
        """One frame that has come."""
        frame = self.source.recv(LARGEST)
        if random.random() >= loss:
            self.waiting.append((time.monotonic() + self.delay_s, frame))

    def send(self) -> float:
        """All whose time has come; seconds until the next one's."""
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            self.target.send(self.waiting.popleft()[1])
        return self.waiting[0][0] - time.monotonic() if self.waiting else 60.0


def opened(interface: str) -> socket.socket:
    """All frames that come in there."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    end.bind((interface, 0))
    return end


def relay(first: str, second: str, delay_s: float, loss: float) -> None:
    """Until it is ended."""
    ends = opened(first), opened(second)
    ways = {ends[0]: Direction(*ends, delay_s), ends[1]: Direction(*ends[::-1], delay_s)}
    while True:
        pause = min(way.send() for way in ways.values())
        for end in select.select(ends, [], [], max(pause, 0))[0]:
            ways[end].take(loss)


def send_real_packets(interface: str) -> None:
    """In place of long ones for a network card to cut up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for command in OFFLOADS:
            value = bytearray(struct.pack("II", command, 0))  # a struct ethtool_value: off
            address = (ctypes.c_char * len(value)).from_buffer(value)
            request = struct.pack("16sP", interface.encode(), ctypes.addressof(address))
            fcntl.ioctl(asking, SIOCETHTOOL, request)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        send_real_packets(sys.argv[1])
    else:
        relay(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
