"""What a local Ray cluster leaves on the machine, without Ray itself."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from coevolve.launcher import session
from protocols.errors import RunError


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


def test_the_folder_is_the_users_alone_and_goes_with_the_block(base: Path, tmp_path: Path):
    with session.session_folder(tmp_path) as folder:
        assert folder.parent == base
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / session.INNER).mkdir()
    assert not list(base.iterdir())
    assert not (tmp_path / "logs").exists()


def lose(folder: Path) -> None:
    """Leave logs as Ray does, and fail."""
    logs = folder / session.INNER / "session_1_2" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker.err").write_text("x" * session.KEPT_BYTES + "it broke \x1b[2J")
    (logs / "link.err").symlink_to("/etc/passwd")
    (folder / session.INNER / "session_latest").symlink_to(logs.parent)
    raise ValueError("lost")


def test_after_a_failure_the_run_keeps_the_ends_of_rays_logs(base: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="lost"), session.session_folder(tmp_path) as folder:
        lose(folder)
    assert not list(base.iterdir())
    (kept,) = (tmp_path / "logs" / "ray").iterdir()
    assert kept.name == "worker.err"
    assert kept.read_text().endswith(r"it broke \u001b[2J")


def test_a_folder_that_cannot_be_made_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RAY_TMPDIR", os.devnull)
    with (
        pytest.raises(RunError, match="Ray cannot reach or start a local cluster: "),
        session.session_folder(tmp_path),
    ):
        pass


def test_a_folder_without_room_for_rays_logs_is_refused_before_the_start(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    usage = shutil.disk_usage(base)._replace(free=session.NEEDED_BYTES - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with (
        pytest.raises(RunError, match=r"needs 10 MB .* found 10\.0 MB free; make room there"),
        session.session_folder(tmp_path),
    ):
        pass
    assert not list(base.iterdir())


def test_secrets_are_withheld_by_the_names_of_their_variables(monkeypatch: pytest.MonkeyPatch):
    secret = (
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "db_password",
        "APIKEY",
        "GLMKEY",
    )
    plain = ("TOKENIZERS_PARALLELISM", "KEYBOARD", "RAY_AUTH_TOKEN_PATH", "MONKEY", "KEPT_TOKEN")
    for name in (*secret, *plain):
        monkeypatch.setenv(name, f"value of {name}")
    with session.withheld(["KEPT_TOKEN"], ["GLMKEY"]) as secrets:
        assert set(secret) <= set(secrets)
        assert not set(secrets) & set(os.environ)
        assert set(plain) <= set(os.environ)
    assert os.environ["HF_TOKEN"] == secrets["HF_TOKEN"] == "value of HF_TOKEN"


def test_an_interface_has_an_address_or_is_refused_with_those_that_there_are():
    assert session.address_of("lo") == "127.0.0.1"
    with pytest.raises(RunError, match=r"found 'nope0'; the interfaces are .*\blo\b"):
        session.address_of("nope0")


def test_rays_token_becomes_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    session.hide_token()
    file = tmp_path / session.TOKEN_FILE
    file.parent.mkdir()
    file.write_text("token")
    file.chmod(0o644)
    session.hide_token()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
