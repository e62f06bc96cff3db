"""Choosing ports on the loopback address."""

from __future__ import annotations

import random
import socket

HOST = "127.0.0.1"
# Below the ranges from which Linux and macOS take the ports of outgoing connections: a port of ours cannot be lent to
# a passing connection while its service is down.
_LOWEST, _HIGHEST = 20_000, 32_000


def is_free(port: int) -> bool:
    """Whether a server could listen on that port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def free_port(avoid: set[int]) -> int:
    """A free port that is not in `avoid`."""
    while True:
        port = random.SystemRandom().randrange(_LOWEST, _HIGHEST)
        if port not in avoid and is_free(port):
            return port
