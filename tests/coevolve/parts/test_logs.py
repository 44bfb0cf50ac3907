from contextlib import closing
from pathlib import Path

from coevolve.parts.logs import BoundedFile


def test_a_log_keeps_its_end_and_is_bounded(tmp_path: Path):
    path = tmp_path / "part.jsonl"
    with closing(BoundedFile(path, most_bytes=1000)) as file:
        for number in range(500):
            file.write(f"line {number:04}\n")
    older = tmp_path / "part.jsonl.1"
    assert sorted(tmp_path.iterdir()) == [path, older]
    kept = (older.read_text() + path.read_text()).splitlines()
    assert kept == [f"line {number:04}" for number in range(500 - len(kept), 500)]
    assert 1000 <= older.stat().st_size + path.stat().st_size <= 2000 + len("line 0000\n")


def test_a_log_that_is_opened_again_is_continued(tmp_path: Path):
    for number in range(3):
        with closing(BoundedFile(tmp_path / "part.jsonl", most_bytes=1000)) as file:
            file.write(f"{number}\n")
    assert (tmp_path / "part.jsonl").read_text() == "0\n1\n2\n"
