"""How a model's failures are counted, and what it is trusted with meanwhile."""

from collections.abc import Sequence

from coevolve.parts.status import StatusReporter
from coevolve.synthesis.serving import REST_AFTER, ServedModel
from protocols.errors import EndpointError
from protocols.evolution import ModelAnswers, ModelRests
from protocols.journal import Message
from tests.scripted import Stage, endpoint

DOWN = EndpointError("no route")


async def test_failures_at_once_count_once_and_one_signal_is_tried_until_one_succeeds():
    said: list[Message] = []

    async def append(messages: Sequence[Message]) -> tuple[int, ...]:
        said.extend(messages)
        return ()

    served = ServedModel(
        endpoint("glm"), Stage().open_model, StatusReporter("s"), append, longest_pause_s=60.0
    )
    assert not served.trusted
    await served.check()
    assert (served.trusted, served.at_most(4)) == (True, 4)
    for failures in range(1, REST_AFTER + 1):
        for _ in range(3):  # three signals that began together
            await served.failed(DOWN, failures - 1)
        assert (served.failures, served.trusted) == (failures, False)
        await served.check()
        assert (served.trusted, served.at_most(4)) == (True, 1)
    assert said == [ModelRests(synthesizer="glm", failures=REST_AFTER, reason="no route")]
    for _ in range(2):
        await served.answered()
    assert (served.failures, served.trusted, served.at_most(4)) == (0, True, 4)
    assert said[1:] == [ModelAnswers(synthesizer="glm")]
