import os
import sys
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.base.foreign import (
    DESCRIBED_CHARS,
    SHOWN_CHARS,
    boundary,
    bytes_of,
    check_values,
    described,
    masked,
    native_to_errors,
    plain,
    resolved,
    shown,
    values_in,
)
from protocols.errors import ConfigError, JournalError

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=40)
@given(value=ANYTHING)
def test_what_is_shown_is_short_and_printable(value: object) -> None:
    said = shown(value)
    assert len(said) <= SHOWN_CHARS
    assert said.isprintable()


@given(text=st.text())
def test_plain_text_is_short_and_printable(text: str) -> None:
    said = plain(text)
    assert len(said) <= SHOWN_CHARS
    assert said.isprintable()


@pytest.mark.parametrize(
    "value",
    [[1 << 100_000], ["a" * 10_000] * 10_000, {n: n for n in range(100_000)}, [[[[[[[["a"]]]]]]]]],
)
def test_a_large_value_is_shown_in_a_few_characters(value: object) -> None:
    assert len(shown(value)) <= SHOWN_CHARS


@pytest.mark.parametrize(
    "text",
    [
        "http://me:hunter2@host/v1",
        "https://hunter2@host",
        "s3://AKIA123:hunter2/x@bucket",
        "http://host/v1?api-key=hunter2",
        "http://host/v1?a=b&token=hunter2&c=d",
        "me:hunter2@host",
        "http://me:\u2028hunter2@host/v1",
        "http://me|\nhunter2@host/v1",
        "hunter2@[::1]",
        "sk-hunter2hunter2",
        "see http://me:hunter2@host/" + "v" * 5000,
        "http://me:hunter2" + "x" * 5000 + "@host",
        "a" * 5000 + "http://me:hunter2@host/",
    ],
)
def test_credentials_are_never_shown(text: str) -> None:
    assert "hunter2" not in masked(text)[:DESCRIBED_CHARS]
    assert "hunter2" not in shown(text)
    assert "hunter2" not in shown({"model": [text]})
    assert "hunter2" not in plain(text)
    assert "hunter2" not in described(ValueError(text))


def test_an_address_without_credentials_is_shown_as_it_is() -> None:
    assert shown("http://127.0.0.1:8000/v1") == "'http://127.0.0.1:8000/v1'"


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), MemoryError(), ValueError("y")])
def test_any_exception_becomes_the_readers_own(error: Exception) -> None:
    with (
        pytest.raises(ConfigError, match=rf"^a file: {type(error).__name__}: .*; mend it$"),
        boundary(ConfigError, "a file", "; mend it"),
    ):
        raise error


def test_an_error_that_has_no_message_is_described_by_its_type() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise ValueError

    with (
        pytest.raises(ConfigError, match=r"^a file: OddError: its message cannot be read$"),
        boundary(ConfigError, "a file"),
    ):
        raise OddError


@pytest.mark.parametrize("error", [ConfigError("x"), JournalError("y"), KeyError("z")])
def test_errors_of_this_project_and_those_named_pass_unchanged(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, boundary(ConfigError, "a", passes=(KeyError,)):
        raise error
    assert caught.value is error


def test_a_file_and_a_pipe_are_read_up_to_their_bound(tmp_path: Path) -> None:
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"12345")
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    for path in (file, pipe):
        os.write(writer, b"12345")
        with pytest.raises(ValueError, match="it needs at most 4 bytes, found more"):
            bytes_of(path, 4)
    os.close(writer)
    assert bytes_of(file, 5) == b"12345"


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    content = b"x" * 200_000
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    assert bytes_of(tmp_path / "pipe", 1 << 20) == content
    writer.join()


def test_a_pipe_without_a_writer_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"it is a pipe, and nobody wrote into it for 0\.01 s"):
        bytes_of(tmp_path / "pipe", 10, pipe_s=0.01)


def test_links_in_a_circle_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert not resolved(tmp_path / "a" / "c").exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def _values(tree: object) -> int:
    match tree:
        case dict() | list():
            children = tree.values() if isinstance(tree, dict) else tree
            return 1 + sum(map(_values, children))
        case _:
            return 1


@given(tree=JSON)
def test_no_value_of_a_document_escapes_the_count(tree: object) -> None:
    document = msgspec.json.encode(tree)
    assert values_in(document) >= _values(tree) - 1
    with pytest.raises(ValueError, match="values"):
        check_values(document, values_in(document) - 1)


def test_what_native_code_prints_goes_to_standard_error(capfd: pytest.CaptureFixture[str]):
    sys.stdout.write("before ")
    with native_to_errors():
        os.write(1, b"native ")
    sys.stdout.write("after")
    sys.stdout.flush()
    assert capfd.readouterr() == ("before after", "native ")
