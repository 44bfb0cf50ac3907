import pytest

from coevolve.base.dependencies import extra, lacking, refuse, require
from protocols.errors import DependencyError


def first() -> None:
    raise DependencyError("no first")


def second() -> None:
    raise DependencyError("no second")


def test_a_package_that_is_there_is_not_asked_for():
    require("msgspec", "the journal", "")


def test_a_package_that_is_not_there_is_named_with_the_remedy():
    with pytest.raises(DependencyError) as caught:
        require("no_such_package", "the export", extra("export"))
    assert str(caught.value) == (
        "the export needs the package no_such_package, which is not installed; "
        "pip install 'coevolve[export]'"
    )


def test_everything_that_is_missing_is_collected_once():
    assert lacking(first, list, second, first) == ["no first", "no second"]


def test_one_message_lists_what_is_missing():
    refuse([])
    with pytest.raises(DependencyError, match=r"^no first$"):
        refuse(["no first"])
    with pytest.raises(DependencyError, match=r"^2 things are missing:\n  no first\n  no second$"):
        refuse(["no first", "no second"])
