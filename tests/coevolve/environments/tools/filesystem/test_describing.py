import asyncio

import pytest

from coevolve.environments.tools.filesystem.describing import ENOUGH, FEW, MANY, Describer
from coevolve.environments.tools.filesystem.renderer import TinyRenderer
from coevolve.environments.tools.filesystem.tokenizer import CHECKPOINT, DONE
from coevolve.environments.tools.filesystem.walk import Slice
from coevolve.environments.tools.synthesis.brief import ToolContext
from protocols.evolution import CallFailed, ModelCall
from protocols.generation import Generation, GenerationRequest
from protocols.synthesis import Anything, Brief
from protocols.tasks import body_of
from tests.fakes import ScriptGenerator

RENDERER = TinyRenderer.load(CHECKPOINT)
READ = Slice(calls=("cat(file_name='a.txt')",), results=('{"file_content": "red"}',))
BOTH = Slice(
    calls=("cd(folder='docs')", "cat(file_name='a.txt')"),
    results=('{"current_working_directory": "docs"}', '{"file_content": "red"}'),
)
BRIEF = Brief(
    signal_id="s",
    kind="rare",
    about=Anything(),
    attempts=(),
    context=body_of(ToolContext(starts=())),
    steps=12,
    seed=0,
    policy_version=0,
)


class Speaker(ScriptGenerator):
    """Always writes the same text, each token with the same probability."""

    def __init__(self, text: str, logprob: float) -> None:
        super().__init__([])
        self._ids = (*RENDERER.encode(text), DONE)
        self._logprob = logprob

    async def generate(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        count = len(self._ids)
        return Generation(
            token_ids=self._ids,
            logprobs=(self._logprob,) * count,
            versions=(0,) * count,
            stopped=True,
        )


class Log:
    async def recorded(self, ordinal: int) -> ModelCall | None:
        return None

    async def allow(self, prompt_tokens: int, answer_tokens: int, cost_usd: float) -> None:
        self.allowed = prompt_tokens, answer_tokens

    async def note(self, call: ModelCall) -> None:
        self.noted = call

    async def failed(self, call: CallFailed) -> None:
        raise AssertionError(call)


@pytest.mark.parametrize(
    ("each", "text", "logprob", "samples"),
    [
        (READ, "Show me 'a.txt'.", -0.1, FEW),
        (READ, "Show me 'b.txt'.", -0.1, MANY),
        (READ, "Show me 'a.txt'.", -3.0, FEW),
        (BOTH, "Go into 'docs' and read 'a.txt'.", -0.1, ENOUGH),
        (BOTH, "Go into 'docs' and read 'a.txt'.", -3.0, FEW),
    ],
)
def test_more_instructions_are_written_only_while_the_result_is_open(
    each: Slice, text: str, logprob: float, samples: int
) -> None:
    speaker, log = Speaker(text, logprob), Log()
    describer = Describer(speaker, RENDERER, 1.0, "policy@0")
    name, (said,) = asyncio.run(describer.describe(BRIEF, [each], log))
    assert name == "policy@0"
    assert {sample.text for sample in said} == {text}
    assert len(said) == len(speaker.requests) == len(speaker.released) == samples
    assert len({request.seed for request in speaker.requests}) == samples
    assert log.noted.prompt_tokens <= log.allowed[0]
    assert log.noted.answer_tokens <= log.allowed[1]


def test_words_and_names_have_separate_probabilities() -> None:
    describer = Describer(Speaker("Show the last 3 lines of 'a.txt'.", -1.0), RENDERER, 1.0, "p")
    _, (said,) = asyncio.run(describer.describe(BRIEF, [READ], Log()))
    assert (said[0].names, said[0].wording) == (-4.0, -9.0)


def test_without_slices_the_model_is_not_called() -> None:
    describer = Describer(ScriptGenerator([]), RENDERER, 1.0, "policy@0")
    assert asyncio.run(describer.describe(BRIEF, [], Log())) == ("policy@0", [])
