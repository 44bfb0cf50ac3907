"""Facts about LMDB and its Python binding."""

import errno
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

MAP_BYTES = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def env(folder: str) -> Iterator[lmdb.Environment]:
    with lmdb.open(folder, lib_version=0, map_size=MAP_BYTES, max_dbs=4) as env:
        yield env


def in_a_process(code: str, *arguments: object, **variables: str) -> str:
    """Return what a process of its own prints."""
    command = [sys.executable, "-c", f"import lmdb, os, sys\n{code}", *map(str, arguments)]
    environment = {**os.environ, **variables}
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


GROWS = """
with lmdb.open(sys.argv[1], lib_version=0, map_size=int(sys.argv[2])) as env:
    for number in range(40):
        with env.begin(write=True) as txn:
            txn.put(b"%d" % number, b"x" * 100_000)
"""


def test_a_process_opens_a_file_once(folder: str):
    """A second environment of the same file in one process is refused with `lmdb.Error`.

    Needed by: coevolve/journal/reader.py
    """
    with lmdb.open(folder), pytest.raises(lmdb.Error):
        lmdb.open(folder)


def test_a_file_is_another_one_after_it_was_replaced_with_its_lock_file(tmp_path: Path):
    """A folder with new data and lock files opens beside an environment of the files before.

    Needed by: coevolve/journal/reader.py
    """
    with lmdb.open(str(tmp_path / "a"), lib_version=0) as old:
        (tmp_path / "a").rename(tmp_path / "b")
        with lmdb.open(str(tmp_path / "a"), lib_version=0) as new:
            assert new.info()["last_txnid"] == 0
        assert old.begin().id() == 0


def test_a_reader_may_reserve_more_than_the_writer_s_map(folder: str, env: lmdb.Environment):
    """A reader whose map is larger than its writer's sees a file that outgrew the writer's map.

    Needed by: coevolve/journal/opening.py
    """
    env.close()
    with lmdb.open(folder, lib_version=0, map_size=1 << 40, readonly=True) as reader:
        in_a_process(GROWS, folder, 1 << 24)
        with reader.begin() as txn:
            assert txn.stat()["entries"] == 40


def test_a_file_that_outgrew_the_map_is_refused(folder: str, env: lmdb.Environment):
    """A transaction on a file that has outgrown the process's map raises MapResizedError.

    Needed by: coevolve/journal/reader.py
    """
    env.close()
    with lmdb.open(folder, lib_version=0, map_size=MAP_BYTES, readonly=True) as reader:
        in_a_process(GROWS, folder, 1 << 24)
        with pytest.raises(lmdb.MapResizedError):
            reader.begin()


def test_a_new_map_size_ends_open_transactions(env: lmdb.Environment):
    """`set_mapsize` ends the open read transactions of its process, which raise errors then.

    Needed by: coevolve/journal/reader.py
    """
    txn = env.begin()
    assert txn.get(b"k") is None
    env.set_mapsize(2 * MAP_BYTES)
    with pytest.raises(lmdb.Error):
        txn.get(b"k")


def test_the_format_of_a_new_file_can_be_named(folder: str):
    """`lib_version=0` makes a file of LMDB 0.9, whatever LMDB_DEFAULT_LIB_VERSION says.

    Needed by: coevolve/journal/layout.py
    """
    code = "print(lmdb.open(sys.argv[1], lib_version=0).lib_version()[:2])"
    assert in_a_process(code, folder, LMDB_DEFAULT_LIB_VERSION="1") == "(0, 9)"


def test_a_variable_chooses_the_format_that_nobody_names(folder: str):
    """LMDB_DEFAULT_LIB_VERSION=1 gives a new file without `lib_version` the format of LMDB 1.

    Needed by: coevolve/journal/layout.py
    """
    code = "print(lmdb.open(sys.argv[1]).lib_version()[0])"
    assert in_a_process(code, folder, LMDB_DEFAULT_LIB_VERSION="1") == "1"


def test_a_file_of_another_format_is_invalid(folder: str):
    """A file of LMDB 1 that is opened with `lib_version=0` raises InvalidError.

    Needed by: coevolve/journal/opening.py
    """
    lmdb.open(folder, lib_version=1).close()
    with pytest.raises(lmdb.InvalidError):
        lmdb.open(folder, lib_version=0)


def test_too_little_address_space_is_a_memory_error(folder: str, env: lmdb.Environment):
    """A map beyond the process's limit of address space raises `lmdb.MemoryError`.

    Needed by: coevolve/journal/opening.py
    """
    env.close()
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))
try:
    lmdb.open(sys.argv[1], lib_version=0, map_size=1 << 40, readonly=True)
except lmdb.MemoryError:
    lmdb.open(sys.argv[1], lib_version=0, map_size=1 << 20, readonly=True)
    print("refused, then opened")
"""
    assert in_a_process(code, folder) == "refused, then opened"


def test_a_head_is_where_and_as_we_read_it(tmp_path: Path, env: lmdb.Environment):
    """Pages 0 and 1 hold magic number, version, map size, trees, last page and transaction in turn.

    Needed by: coevolve/journal/heads.py, coevolve/journal/synced_file.py
    """
    for _ in range(3):
        with env.begin(write=True) as txn:
            txn.put(b"k", b"v")
    env.sync(True)
    page_bytes, info = env.stat()["psize"], env.info()
    content = (tmp_path / "data.mdb").read_bytes()
    heads = [struct.unpack_from("<QHH4xIIQQ48s48sQQ", content, n * page_bytes) for n in (0, 1)]
    for number, (page, _, kind, magic, version, _, map_bytes, free, *_) in enumerate(heads):
        assert (page, kind, magic, version) == (number, 8, 0xBEEFC0DE, 1)
        assert (map_bytes, int.from_bytes(free[:4], "little")) == (MAP_BYTES, page_bytes)
    newest = max(heads, key=lambda head: head[-1])
    assert newest[-2:] == (info["last_pgno"], info["last_txnid"])
    assert sorted(head[-1] for head in heads) == [info["last_txnid"] - 1, info["last_txnid"]]


def test_the_table_of_readers_has_rows_of_64_bytes(tmp_path: Path):
    """`lock.mdb` has rows of 64 bytes from byte 128 on, a reader's transaction and process each.

    Needed by: coevolve/journal/stale_readers.py
    """
    with lmdb.open(str(tmp_path), lib_version=0, max_readers=8) as env:
        with env.begin(write=True) as txn:
            txn.put(b"k", b"v")
        with env.begin() as txn:
            table = (tmp_path / "lock.mdb").read_bytes()
            assert struct.unpack_from("<QI", table, 128) == (txn.id(), os.getpid())
        table = (tmp_path / "lock.mdb").read_bytes()
        assert struct.unpack_from("<QI", table, 128) == ((1 << 64) - 1, os.getpid())
        assert len(table) >= 128 + 8 * 64


def test_readers_are_listed_by_process_and_transaction(env: lmdb.Environment):
    """A line of `Environment.readers` begins with the process and ends with its transaction.

    Needed by: coevolve/journal/stale_readers.py
    """
    with env.begin(write=True) as txn:
        txn.put(b"k", b"v")
    with env.begin() as txn:
        rows = [line.split() for line in env.readers().splitlines()]
        assert [str(os.getpid()), str(txn.id())] in [[row[0], row[-1]] for row in rows]


def test_a_transaction_without_a_lock_file_is_possible(tmp_path: Path):
    """With `lock=False` LMDB makes no `lock.mdb`, whose map a full disk would make deadly.

    Needed by: coevolve/journal/repair.py, coevolve/journal/opening.py
    """
    with lmdb.open(str(tmp_path), lib_version=0, lock=False) as env:
        with env.begin(write=True) as txn:
            txn.put(b"k", b"v")
        assert [each.name for each in tmp_path.iterdir()] == ["data.mdb"]


def test_a_key_has_at_most_511_bytes(env: lmdb.Environment):
    """A key has at most 511 bytes.

    Needed by: coevolve/journal/layout.py
    """
    with env.begin(write=True) as txn:
        assert txn.put(b"k" * 511, b"")
        with pytest.raises(lmdb.BadValsizeError):
            txn.put(b"k" * 512, b"")


def test_integer_keys_are_in_order_of_their_numbers(env: lmdb.Environment):
    """Integer keys of 8 little-endian bytes are in the order of their numbers.

    Needed by: coevolve/journal/layout.py
    """
    table = env.open_db(b"records", integerkey=True)
    numbers = [1, 255, 256, 1 << 40]
    with env.begin(write=True, db=table) as txn:
        for number in reversed(numbers):
            txn.put(number.to_bytes(8, "little"), b"")
        keys = [int.from_bytes(key, "little") for key, _ in txn.cursor()]
    assert keys == numbers


def test_the_list_of_tables_holds_other_rows_too(env: lmdb.Environment):
    """The main table, which lists the others, also takes rows of our own.

    Needed by: coevolve/journal/layout.py
    """
    env.open_db(b"records")
    with env.begin(write=True) as txn:
        txn.put(b"root", b"value")
    with env.begin() as txn:
        assert [key for key, _ in txn.cursor()] == [b"records", b"root"]
        assert txn.get(b"root") == b"value"


def test_a_cursor_begins_at_the_first_sequence_that_is_not_smaller(env: lmdb.Environment):
    """`set_range_dup` goes to an entry's first integer that is not smaller, and finds none beyond.

    Needed by: coevolve/journal/queries.py
    """
    table = env.open_db(b"indexes", dupsort=True, dupfixed=True, integerdup=True)
    with env.begin(write=True, db=table) as txn:
        for number in (2, 256, 300):
            txn.put(b"entry", number.to_bytes(8, "little"))
        cursor = txn.cursor()
        assert cursor.set_range_dup(b"entry", (3).to_bytes(8, "little"))
        found = [int.from_bytes(each, "little") for each in cursor.iternext_dup()]
        assert found == [256, 300]
        assert not cursor.set_range_dup(b"entry", (301).to_bytes(8, "little"))


def test_a_reader_s_pages_are_not_used_again(env: lmdb.Environment):
    """No commit changes what an older read transaction sees, however many follow.

    Needed by: coevolve/journal/sync_point.py, coevolve/journal/reader.py
    """
    with env.begin(write=True) as txn:
        txn.put(b"k", b"old" * 1000)
    with env.begin(buffers=True) as before:
        view = before.get(b"k")
        for number in range(20):
            with env.begin(write=True) as txn:
                txn.put(b"k", b"%03d" % number * 1000)
        assert view is not None
        assert bytes(view) == b"old" * 1000


def test_a_full_map_rolls_the_transaction_back(env: lmdb.Environment):
    """A transaction for which the map has no room raises MapFullError and leaves no trace.

    Needed by: coevolve/journal/committer.py
    """

    def write() -> None:
        with env.begin(write=True) as txn:
            txn.put(b"a", b"v")
            txn.put(b"b", b"x" * MAP_BYTES)

    with pytest.raises(lmdb.MapFullError):
        write()
    with env.begin(write=True) as txn:
        assert txn.stat()["entries"] == 0
        assert txn.put(b"a", b"v")


def test_an_error_carries_the_number_of_the_system_s(tmp_path: Path):
    """`lmdb.Error.code` is the number of the system's error.

    Needed by: coevolve/journal/committer.py
    """
    with pytest.raises(lmdb.Error) as failure:
        lmdb.open(str(tmp_path / "missing"), lib_version=0, create=False, readonly=True)
    assert failure.value.code == errno.ENOENT


def test_a_transaction_knows_its_number(env: lmdb.Environment):
    """A write transaction's `id` is one more than the last one's, and the file's after the commit.

    Needed by: coevolve/journal/transaction.py, coevolve/journal/repair.py
    """
    before = env.info()["last_txnid"]
    with env.begin(write=True) as txn:
        txn.put(b"k", b"v")
        assert txn.id() == before + 1
    assert env.info()["last_txnid"] == before + 1


def test_a_path_that_is_no_text_is_a_unicode_error(tmp_path: Path):
    """A folder whose name is not UTF-8 raises UnicodeEncodeError.

    Needed by: coevolve/journal/opening.py
    """
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    Path(odd).mkdir()
    with pytest.raises(UnicodeEncodeError):
        lmdb.open(odd, lib_version=0)
    shutil.rmtree(odd)


def test_statistics_count_three_kinds_of_pages(env: lmdb.Environment):
    """A table's statistics count branch, leaf and overflow pages under these names.

    Needed by: coevolve/journal/sync_point.py
    """
    with env.begin(write=True) as txn:
        txn.put(b"k", b"x" * 50_000)
        counted = txn.stat()
    assert (counted["branch_pages"], counted["leaf_pages"]) == (0, 1)
    assert counted["overflow_pages"] == -(-50_016 // env.stat()["psize"])
