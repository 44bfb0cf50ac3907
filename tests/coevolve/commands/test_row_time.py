import pytest
import torch

from coevolve.commands.row_time import row_seconds
from coevolve.models.model_folder import model_folder


@pytest.mark.parametrize("adapter", [False, True])
def test_a_micro_batch_of_unlike_lengths_is_timed_on_the_threads_of_a_learner(*, adapter: bool):
    before = torch.get_num_threads()
    same = [1, 2, 3, 4, 5, 6, 7, 8]
    one = row_seconds(model_folder("tiny"), [same * 20], before + 1, adapter=adapter)
    unlike = [[*same * 20, 9], [*same * 20, 10, 11], [7]]
    three = row_seconds(model_folder("tiny"), unlike, before + 1, adapter=adapter)
    assert min(*one, *three) > 0
    assert torch.get_num_threads() == before
