"""Hints at what a misspelt name means."""

from pathlib import Path

from coevolve.base.similar import did_you_mean, file_meant


def test_the_nearest_name_is_offered_if_one_is_similar():
    assert did_you_mean("colour", ["color", "size"]) == "; did you mean 'color'?"
    assert did_you_mean("colour", ["size"]) == ""
    assert did_you_mean("x" * 10**6, ["x" * 10**6]) == ""


def test_a_missing_file_means_a_similar_one_beside_it(tmp_path: Path):
    tasks = tmp_path / "tasks.jsonl"
    tasks.touch()
    assert file_meant(tmp_path / "task.jsonl") == f"; did you mean {str(tasks)!r}?"
    assert file_meant(tmp_path / "missing.jsonl") == f"; did you mean {str(tasks)!r}?"
    assert file_meant(tmp_path / "missing.yaml") == file_meant(tmp_path / "missing") == ""
    (link := tmp_path / "link.jsonl").symlink_to(link)
    assert "link" not in file_meant(link)
    assert file_meant(tasks) == file_meant(tmp_path / "none" / "task.jsonl") == ""
