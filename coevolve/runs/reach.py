"""Whether anything listens at an address; Ray itself would try for up to a minute."""

import socket

CONNECT_S = 3.0


def listens(address: str) -> bool:
    """Return whether a connection to ``host:port`` is taken; False also for what is no address."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
