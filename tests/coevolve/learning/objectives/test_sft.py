from coevolve.learning.objectives import sft


def test_the_best_rollouts_of_a_group_are_imitated():
    assert sft.best([0.0, 1.0, 0.0, 1.0]) == [1, 3]
    assert sft.best([0.2, 0.7, 0.5]) == [1]


def test_a_group_that_is_all_alike_has_no_best():
    assert sft.best([1.0, 1.0]) == []
