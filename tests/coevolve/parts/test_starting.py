import gc
import json
from pathlib import Path

import pytest

from coevolve.parts.starting import starting, unexpected_logged
from protocols.errors import CoevolveError, ConfigError, GeneratorError


def logged(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "logs/part.jsonl").read_text().splitlines()]


def test_a_bug_leaves_its_traceback_in_the_log_of_the_part(tmp_path: Path) -> None:
    with pytest.raises(KeyError), starting(tmp_path, "part"):
        raise KeyError("while it starts")
    with pytest.raises(KeyError), unexpected_logged():
        raise KeyError("later")
    starts, later = logged(tmp_path)
    assert "KeyError: 'while it starts'" in starts["exception"]
    assert "KeyError: 'later'" in later["exception"]
    assert __file__ in later["exception"]
    assert gc.isenabled()


def test_a_bug_that_an_error_of_this_project_explains_leaves_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError), starting(tmp_path, "part"):
        raise GeneratorError("the model fails") from TypeError("unexpected keyword")
    assert "TypeError: unexpected keyword" in logged(tmp_path)[0]["exception"]


def test_an_error_of_this_project_leaves_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(CoevolveError), starting(tmp_path, "part"):
        raise ConfigError("a setting is wrong")
    assert logged(tmp_path) == []
