"""A server of this machine's own users: it listens on the loopback interface alone."""

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from protocols.errors import RunError

HOST = "127.0.0.1"


class LoopbackServer(ThreadingHTTPServer):
    """Serves HTTP, each request in a thread. Close it after use."""

    daemon_threads = True

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        """Listen on ``port``, or on a free one if it is 0. Raises RunError."""
        try:
            super().__init__((HOST, port), handler)
        except OSError as error:
            raise _refused(port, error) from error

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])


def listener(port: int) -> socket.socket:
    """Return a socket that listens on ``port``, or on a free one if it is 0. Raises RunError."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise _refused(port, error) from error


def _refused(port: int, error: OSError) -> RunError:
    return RunError(
        f"--port {port}: cannot be listened on: {error.strerror}; give another one, or 0 for a "
        "free one"
    )
