"""A server on the loopback interface that breaks the rules of HTTP, JSON and chat completions.

It writes bytes to a socket, so that it can break every rule. `BEHAVIOURS` names them. Each request
gets the next behaviour of those that `misbehaving` was given, in turn, until the block ends.
"""

import gzip
import itertools
import json
import socket
import socketserver
import struct
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

MB = 1 << 20
DRIP_S = 0.02


@dataclass(frozen=True)
class Wire:
    """One accepted request, whose answer is still to be written."""

    socket: socket.socket
    closing: threading.Event

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def head(self, *headers: str, status: str = "200 OK") -> None:
        lines = (f"HTTP/1.1 {status}", *headers)
        self.write("\r\n".join((*lines, "", "")).encode("latin-1"))

    def answer(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        self.head(
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *headers,
            status=status,
        )
        self.write(body)


Behaviour = Callable[[Wire], None]


def status(line: str, *headers: str, body: bytes = b'{"error": {"message": "no"}}') -> Behaviour:
    return lambda wire: wire.answer(body, *headers, status=line)


def body(data: bytes, *headers: str) -> Behaviour:
    return lambda wire: wire.answer(data, *headers)


def raw(data: bytes) -> Behaviour:
    return lambda wire: wire.write(data)


def completion(content: object, **fields: object) -> bytes:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(
        {"id": "x", "object": "chat.completion", "choices": [choice]} | fields
    ).encode()


def usage(**counts: object) -> bytes:
    return completion('{"summary": "s"}', usage=counts)


def drips(wire: Wire) -> None:
    wire.head("Content-Length: 100000")
    while not wire.closing.wait(DRIP_S):
        wire.write(b" ")


def drips_headers(wire: Wire) -> None:
    wire.write(b"HTTP/1.1 200 OK\r\n")
    while not wire.closing.wait(DRIP_S):
        wire.write(b"X: y\r\n")


def is_silent(wire: Wire) -> None:
    wire.closing.wait(30.0)


def hangs_up(wire: Wire) -> None:
    del wire


def resets(wire: Wire) -> None:
    wire.head("Content-Length: 100")
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.socket.close()


def half_closes(wire: Wire) -> None:
    wire.head("Content-Length: 100")
    wire.socket.shutdown(socket.SHUT_WR)
    wire.closing.wait(DRIP_S)


def floods(line: str = "200 OK") -> Behaviour:
    """Return a behaviour that sends 300 MB, unless the client stops reading."""

    def flood(wire: Wire) -> None:
        wire.head(f"Content-Length: {300 * MB}", status=line)
        for _ in range(300):
            wire.write(b"x" * MB)

    return flood


def floods_in_chunks(wire: Wire) -> None:
    wire.head("Transfer-Encoding: chunked")
    while not wire.closing.is_set():
        wire.write(f"{MB:x}\r\n".encode() + b"x" * MB + b"\r\n")


def floods_headers(wire: Wire) -> None:
    wire.write(b"HTTP/1.1 200 OK\r\n")
    for number in itertools.count():
        wire.write(b"X-%d: %s\r\n" % (number, b"y" * 4096))


def informs_for_ever(wire: Wire) -> None:
    while not wire.closing.is_set():
        wire.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")


def lies_about_keep_alive(wire: Wire) -> None:
    wire.answer(b"{", "Connection: keep-alive", "Keep-Alive: timeout=600")
    wire.socket.close()


def _completion_of(text: bytes) -> bytes:
    return b'{"choices": [{"message": {"content": ' + text + b"}}]}"


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_BOMB = gzip.compress(bytes(100 * MB), 9)
_GZIP = "Content-Encoding: gzip"
_FINE = completion('{"summary": "s"}')
_TOOL = {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}]}

BEHAVIOURS: dict[str, Behaviour] = {
    **{
        f"status {code}": status(f"{code} No")
        for code in (201, 204, 206, 400, 401, 403, 404, 405, 409, 413, 418, 422, 425, 451)
    },
    **{f"status {code}": status(f"{code} No") for code in (500, 501, 502, 503, 504, 529, 599)},
    "status 429, retry after a week": status("429 No", "Retry-After: 604800"),
    "status 429, retry after nonsense": status("429 No", "Retry-After: \xff-nan, 99999999999"),
    "status 429, retry after NaN": status("429 No", "Retry-After: nan"),
    "status 999": status("999 No"),
    "status of letters": raw(b"HTTP/1.1 abc No\r\n\r\n"),
    "a redirect to itself": status("307 No", "Location: /v1/chat/completions"),
    "a redirect to another server": status("302 No", "Location: http://127.0.0.1:9/v1"),
    "a redirect to nowhere": status("301 No"),
    "a redirect to a broken address": status("308 No", "Location: http://[::/\xff"),
    "hints for ever": informs_for_ever,
    "a slow drip": drips,
    "a slow drip of headers": drips_headers,
    "silence": is_silent,
    "no byte at all": hangs_up,
    "a reset": resets,
    "a half-closed connection": half_closes,
    "a length that is too long": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{}"),
    "a length that is too short": raw(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + completion("{}")
    ),
    "a negative length": raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    "two lengths": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n{}"),
    "a length of letters": raw(b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n{}"),
    "chunks of garbage": raw(_CHUNKED + b"zz\r\nhello\r\n"),
    "a chunk of 16 EB": raw(_CHUNKED + b"ffffffffffffffff\r\nhello"),
    "chunks without an end": raw(_CHUNKED + b"5\r\nhello\r\n"),
    "chunks for ever": floods_in_chunks,
    "300 MB": floods(),
    "300 MB of an error": floods("500 No"),
    "headers for ever": floods_headers,
    "a header of 1 MB": raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * MB + b"\r\n\r\n"),
    "headers that are none": raw(b"HTTP/1.1 200 OK\r\n\x00\xff: \x01\r\n\r\n"),
    "TLS": raw(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + bytes(range(120))),
    "HTTP/2": raw(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + bytes(18)),
    "another protocol": raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "HTTP/0.9": raw(b"<html>hello</html>"),
    "keep-alive that does not": lies_about_keep_alive,
    "a gzip bomb": body(_BOMB, _GZIP),
    "gzip that is none": body(_FINE, _GZIP),
    "an unknown coding": body(_FINE, "Content-Encoding: br, zstd, x-none"),
    "no body": body(b""),
    "invalid UTF-8": body(_completion_of(b'"\xff\xfe\x80"')),
    "UTF-16": body(_FINE.decode().encode("utf-16")),
    "a byte order mark": body(b"\xef\xbb\xbf" + _FINE),
    **{
        f"an error in the charset {charset}": lambda wire, charset=charset: wire.answer(
            b"\xff\x00{}", f"Content-Type: text/plain; charset={charset}", status="400 No"
        )
        for charset in ("base64", "idna", "undefined", "rot13", "zip", "x-user-defined", "\xff")
    },
    "NaN": body(usage(prompt_tokens=float("nan"))),
    "a number beyond floats": body(b'{"choices": 1e999999}'),
    "a number of 100,000 digits": body(
        _FINE[:-1] + b', "usage": {"prompt_tokens": ' + b"9" * 100_000 + b"}}"
    ),
    "a billion billion tokens": body(usage(prompt_tokens=10**18, completion_tokens=10**18)),
    "fewer than no tokens": body(usage(prompt_tokens=-1, completion_tokens=-(2**70))),
    "tokens in words": body(usage(prompt_tokens="many")),
    "deep JSON": body(b'{"choices": ' + b"[" * 200_000),
    "deep JSON in what is ignored": body(_FINE[:-1] + b', "x": ' + b'{"a":' * 50_000),
    "JSON that breaks off": body(_FINE[:-9]),
    "two answers in one": body(_FINE + _FINE),
    "a list": body(b"[]"),
    "null": body(b"null"),
    "a stream of events": body(b"data: " + _FINE + b"\n\ndata: [DONE]\n\n"),
    "a web page": body(b"<html>It works!</html>"),
    "an error as an answer": body(b'{"error": {"message": "overloaded"}}'),
    "no choices": body(b'{"choices": []}'),
    "choices that are null": body(b'{"choices": null}'),
    "duplicate keys": body(_FINE[:-1] + b', "choices": [], "choices": null}'),
    "no content": body(completion(None)),
    "content that is a number": body(completion(17)),
    "content in parts": body(completion([{"type": "text", "text": "{}"}])),
    "tool calls": body(completion(None, **_TOOL)),
    "a lone surrogate": body(_completion_of(rb'"\ud800"')),
    "a surrogate in the answer": body(completion(r'{"summary": "\ud800"}')),
    "null characters": body(completion("\0" * 1000)),
    "terminal escapes": body(completion("\x1b]0;owned\x07\x1b[2J\u202e")),
    "only thoughts": body(completion("<think>" + "hm " * 20_000)),
    "plain words": body(completion("ok", id="another-id", model="another-model")),
    "another JSON object": body(completion('{"ok": true}')),
    "other types": body(completion('{"summary": {"x": [1]}, "focus_pattern": 5}')),
    "braces": body(completion("{" * 100_000)),
    "deep JSON in the answer": body(completion('{"summary": ' + "[" * 90_000)),
    "deep JSON that is ignored": body(
        completion('{"summary": "s", "x": ' + '{"a":' * 20_000 + "1" + "}" * 20_001)
    ),
    "a long number in the answer": body(completion('{"summary": ' + "9" * 90_000 + "}")),
}
"""What a server can do instead of giving an answer that the work can use, by name."""

GOOD = "a reflection"
"""The only answer that the work can use. It passes the check of a model, and nothing else."""

TAUNTS = tuple(name for bad in BEHAVIOURS for name in (GOOD, bad))
"""A server that seems to work before each thing that it does."""


@dataclass
class Misbehaving:
    """The server, as a test uses it."""

    base_url: str
    met: Counter[str] = field(default_factory=Counter[str])
    """How many requests got each behaviour."""


@contextmanager
def misbehaving(names: Sequence[str] = tuple(BEHAVIOURS)) -> Generator[Misbehaving]:
    """Serve on the loopback interface until the block ends; the requests get ``names`` in turn."""
    closing = threading.Event()
    turns: Iterator[str] = itertools.cycle(names)
    lock = threading.Lock()
    server: Any = None

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the client may have given up
                while _read_request(self.request):
                    with lock:
                        name = next(turns)
                        told.met[name] += 1
                    answer = body(_FINE) if name == GOOD else BEHAVIOURS[name]
                    answer(Wire(self.request, closing))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    told = Misbehaving(f"http://127.0.0.1:{server.server_address[1]}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join(5.0)


def _read_request(connection: socket.socket) -> bool:
    """Read one request; return False at the end of the connection."""
    seen = b""
    while b"\r\n\r\n" not in seen:
        got = connection.recv(1 << 16)
        if not got:
            return False
        seen += got
    head, _, rest = seen.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    left = int(fields[b"content-length"]) - len(rest)
    while left > 0:
        got = connection.recv(1 << 16)
        if not got:
            return False
        left -= len(got)
    return True
