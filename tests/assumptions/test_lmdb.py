"""Facts about LMDB and its Python binding."""

from pathlib import Path

import lmdb
import pytest


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


def test_a_process_opens_a_file_once(folder: str):
    """A second environment of the same file in one process is refused with `lmdb.Error`.

    Needed by: coevolve/journal/reader.py
    """
    with lmdb.open(folder), pytest.raises(lmdb.Error):
        lmdb.open(folder)


def test_a_key_has_at_most_511_bytes(folder: str):
    """A key has at most 511 bytes.

    Needed by: coevolve/journal/layout.py
    """
    with lmdb.open(folder, lib_version=0) as env, env.begin(write=True) as txn:
        assert txn.put(b"k" * 511, b"")
        with pytest.raises(lmdb.BadValsizeError):
            txn.put(b"k" * 512, b"")
