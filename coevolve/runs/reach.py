"""What listens at an address: Ray itself would try for a minute, or wait without end."""

import socket

CONNECT_S = 3.0

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""With which a client of HTTP/2, the protocol of gRPC, begins: its preface, and empty settings."""

SETTINGS = 4
"""Type of the frame with which a server answers `HELLO`: the fourth byte of nine."""


def listens(address: str) -> bool:
    """Return whether a connection to ``host:port`` is taken; False also for what is no address."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def speaks_grpc(address: str) -> bool:
    """Return whether what listens at ``host:port`` answers as a gRPC server within `CONNECT_S`."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_S) as connection:
            connection.sendall(HELLO)
            answer = connection.recv(9, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 9 and answer[3] == SETTINGS
