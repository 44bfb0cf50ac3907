from coevolve.learning.losses.imitation import imitated
from coevolve.learning.rows import Conversation


def test_each_written_token_but_the_first_has_the_weight_of_its_sequence():
    row = imitated(Conversation(token_ids=[7, 8, 9, 6], mask=[1, 0, 1, 1]), 8.0, "replay")
    (stream,) = row.streams
    assert (list(stream.weights), stream.targets, row.source) == ([8.0, 8.0], (), "replay")
