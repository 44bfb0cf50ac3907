"""What the owner of an engine's process makes of silence, nonsense and a process that ends."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from coevolve.environments.appworld import engines
from coevolve.environments.appworld.engines import Engine, Link, make_data
from coevolve.environments.appworld.frames import LENGTH_BYTES
from protocols.errors import SimulatorError


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    mine, theirs = socket.socketpair()
    mine.settimeout(0.05)
    with theirs:
        link = Link(mine)
        yield link, theirs
        link.close()


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(LENGTH_BYTES, "little") + content


def test_an_answer_that_comes_too_late_answers_no_other_order(
    ends: tuple[Link, socket.socket],
) -> None:
    link, engine = ends
    with pytest.raises(SimulatorError, match="does not answer: timed out"):
        link.answer({"order": "completed"}, bool)
    with pytest.raises(BrokenPipeError):
        engine.sendall(framed(b'{"answer": true}'))
    with pytest.raises(SimulatorError, match="does not answer"):
        link.answer({"order": "completed"}, bool)


@pytest.mark.parametrize(
    "answer",
    [
        framed(b"{"),
        framed(b'{"answer": 1}'),
        framed(b"{}"),
        framed(b"[" * 100_000),
        b"\xff\xff\xff\xff",
    ],
)
def test_nonsense_is_a_failure_of_the_engine(
    ends: tuple[Link, socket.socket], answer: bytes
) -> None:
    link, engine = ends
    engine.sendall(answer)
    with pytest.raises(SimulatorError, match="does not answer"):
        link.answer({"order": "completed"}, bool)


def test_a_failed_order_leaves_the_world_open(ends: tuple[Link, socket.socket]) -> None:
    link, engine = ends
    engine.sendall(framed(b'{"failure": "no such table"}') + framed(b'{"answer": true}'))
    with pytest.raises(SimulatorError, match="fails: no such table"):
        link.answer({"order": "digests"}, dict[str, str])
    assert link.answer({"order": "completed"}, bool)


@pytest.mark.parametrize(
    ("said", "quoted"),
    [("Traceback:\n  no package x\n\n", "no package x"), ("\n", "ended with|exit status 1")],
)
def test_a_process_that_ends_early_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, quoted: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '{said}' >&2\nexit 1\n")
    python.chmod(0o700)
    monkeypatch.setattr(engines, "plain_python", lambda: python)
    monkeypatch.setattr(engines, "engine_folder", lambda: tmp_path)
    with pytest.raises(SimulatorError, match=f"makes no worlds in {tmp_path}: .*({quoted})"):
        make_data(tmp_path, seed=0)
    with pytest.raises(SimulatorError, match=f"does not start on the data in .*: .*({quoted})"):
        Engine(tmp_path / "data").open("task_1")


def test_a_server_that_is_killed_while_it_starts_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, starts = tmp_path / "python", tmp_path / "starts"
    python.write_text(f"#!/bin/sh\necho start >> {starts}\nkill -9 $$\n")
    python.chmod(0o700)
    monkeypatch.setattr(engines, "plain_python", lambda: python)
    monkeypatch.setattr(engines, "engine_folder", lambda: tmp_path)
    with pytest.raises(SimulatorError, match=r"does not start .*: it ended with -9"):
        Engine(tmp_path / "data").open("task_1")
    assert starts.read_text().split() == ["start", "start"]
