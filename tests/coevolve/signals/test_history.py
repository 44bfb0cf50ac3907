from coevolve.signals.history import History
from protocols.evolution_config import SignalsConfig
from tests.evolving import visit

MOST = 3


def test_the_tasks_that_were_visited_last_are_remembered():
    history = History(SignalsConfig(), ("ls",), most_tasks=MOST)
    for version, task in enumerate(("a", "b", "c", "a", "d", "a")):
        history.add(visit(task, 4, version))
    assert list(history.tasks) == ["c", "d", "a"]
    assert len(history.surprise) == MOST
    assert len(history.p_values) == 1, "only task a was visited twice"
    assert [each.version_min for each in history.tasks["a"].earlier()] == [0, 3]


def test_a_forgotten_task_counts_as_new():
    history = History(SignalsConfig(), ("ls",), most_tasks=MOST)
    for version, task in enumerate(("a", "a", "b", "c", "d", "a")):
        history.add(visit(task, 4, version))
    assert history.tasks["a"].earlier() == ()
    assert len(history.p_values) == 0
