"""Which uses of a wording contradict each other."""

from coevolve.validation.wordings import Wording, WordingBook

CAT, SORT = Wording("read #", "cat", 0), Wording("read #", "sort", 1)


def test_trusted_tasks_decide_where_they_use_a_wording():
    book = WordingBook()
    for key in ("made-1", "made-2"):
        book.add(key, [SORT], trusted=False)
    book.add("seed", [CAT], trusted=True)
    assert book.conflict([CAT]) is None
    book.add("made-3", [Wording("list", "find", 0)], trusted=False)
    conflict = book.conflict([Wording("list", "ls", 0), SORT])
    assert conflict is not None
    assert (conflict.trusted, conflict.other, conflict.tasks) == (True, "cat", 1)
    assert conflict.wording.turn == 1


def test_a_meaning_that_one_trusted_task_has_is_right_whatever_others_mean():
    book = WordingBook()
    book.add("seed-1", [CAT], trusted=True)
    for key in ("seed-2", "seed-3"):
        book.add(key, [SORT], trusted=True)
    book.add("made", [SORT], trusted=False)
    assert book.conflict([CAT]) is None
    assert book.conflict([SORT]) is None
    assert book.conflict([Wording("read #", "tail", 0)]) is not None


def test_without_them_the_other_meaning_of_most_tasks_is_named():
    book = WordingBook()
    book.add("a", [SORT], trusted=False)
    assert book.conflict([SORT]) is None
    for key, meaning in (("b", "cat"), ("c", "cat"), ("d", "tail")):
        book.add(key, [Wording("read #", meaning, 0)], trusted=False)
    conflict = book.conflict([SORT])
    assert conflict is not None
    assert (conflict.trusted, conflict.other, conflict.tasks) == (False, "cat", 2)


def test_a_task_that_left_contradicts_nothing():
    book = WordingBook()
    book.add("a", [CAT, CAT], trusted=True)
    book.add("a", [SORT], trusted=False)
    assert book.of("a") == (SORT,)
    book.discard("a")
    book.discard("unknown")
    assert book.conflict([CAT]) is None
