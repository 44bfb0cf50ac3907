import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from coevolve.environments.tools.agent import ToolAgent
from coevolve.environments.tools.filesystem.grammar import UNIFORM, draw_task, held_out_tasks
from coevolve.environments.tools.filesystem.renderer import OBSERVATION_TOKENS, TinyRenderer
from coevolve.environments.tools.filesystem.tokenizer import (
    CALL,
    CHECKPOINT,
    DONE,
    END,
    OBSERVATION,
    SPECIAL,
    USER,
    VOCABULARY,
)
from coevolve.environments.tools.interfaces import Renderer
from coevolve.environments.tools.task import read_body
from protocols import columns
from protocols.config import RolloutConfig
from protocols.tasks import Task
from tests.reciting import RecitingGenerator
from tests.simulated import InProcessSimulator

RENDERER = TinyRenderer.load(CHECKPOINT)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


async def recite(task: Task) -> None:
    ids, mask = RENDERER.demonstration(task)
    arena = ToolAgent(
        generator=RecitingGenerator(ids, mask),
        simulator=InProcessSimulator(),
        renderer=RENDERER,
        limits=RolloutConfig(),
        temperature=1.0,
    )
    played = await arena.attempt(task, "session", seed=0)
    assert played.succeeded
    assert played.tokens.token_ids == columns.int32(ids)
    assert played.tokens.mask == columns.uint8(mask)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), turns=st.integers(1, 4))
async def test_a_demonstration_equals_the_rollout_of_a_policy_that_repeats_it(
    seed: int, turns: int
) -> None:
    await recite(draw_task(np.random.default_rng(seed), UNIFORM, turns))


def test_the_mask_covers_exactly_calls_and_ends() -> None:
    task = draw_task(np.random.default_rng(1), {"findrm": 1.0}, 1)
    ids, mask = RENDERER.demonstration(task)
    said = [token for token, own in zip(ids, mask, strict=True) if own]
    calls = [*(RENDERER.encode(call) for call in read_body(task.body).turns[0].reference)]
    assert said == [token for call in calls for token in (*call, END)] + [DONE]


def test_every_demonstration_fits_the_context() -> None:
    assert max(len(RENDERER.demonstration(task)[0]) for task in held_out_tasks()) <= 256


def test_the_format_is_the_documented_one() -> None:
    task = draw_task(np.random.default_rng(1), {"mkdir": 1.0}, 1)
    turn = read_body(task.body).turns[0]
    text = RENDERER.decode(RENDERER.demonstration(task)[0])
    assert text == f"<u>{turn.instruction}<a>{turn.reference[0]}<e><o>ok<a><d>"
    assert RENDERER.opening(read_body(task.body)) == RENDERER.instruction(read_body(task.body), 0)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("None", "ok"),
        ("{}", ""),
        ('{"error": "rm: cannot remove"}', "error"),
        ("Error during execution: no such tool", "error"),
        ('{"matches": ["./a.txt", "./b"]}', "./a.txt ; ./b"),
        ('{"file_content": "one\\ntwo"}', "one | two"),
        ('{"count": 3, "type": "lines"}', "3 ; lines"),
    ],
)
def test_answers_are_shortened(result: str, shown: str) -> None:
    assert RENDERER.decode(RENDERER.observation((result,))) == f"<o>{shown}<a>"


@given(text=TEXT)
def test_text_becomes_plain_tokens_and_comes_back(text: str) -> None:
    ids = RENDERER.encode(text)
    assert RENDERER.decode(ids) == text
    assert all(len(SPECIAL) <= token < VOCABULARY for token in ids)
    if ids:
        assert RENDERER.parse((*ids, END)) == (text,)


@given(text=TEXT)
def test_no_answer_can_forge_the_format(text: str) -> None:
    head, *shown, tail = RENDERER.observation((text,))
    assert (head, tail) == (OBSERVATION, CALL)
    assert len(shown) <= OBSERVATION_TOKENS
    assert all(token >= len(SPECIAL) for token in shown)


def test_the_end_of_a_turn_is_no_call() -> None:
    assert RENDERER.parse((DONE,)) == ()


@pytest.mark.parametrize("ids", [(), (END,), (100, DONE), (100,), (100, USER, END), (DONE, END)])
def test_anything_else_is_malformed(ids: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="call and <e>, or <d> alone"):
        RENDERER.parse(ids)


def test_transformers_loads_the_same_tokenizer() -> None:
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    for task in held_out_tasks(24):
        for turn in read_body(task.body).turns:
            for text in (turn.instruction, *turn.reference):
                assert tuple(tokenizer(text).input_ids) == RENDERER.encode(text)
    assert tokenizer.convert_ids_to_tokens(list(range(len(SPECIAL)))) == list(SPECIAL)


def test_the_renderer_satisfies_the_interface() -> None:
    renderer: Renderer = RENDERER
    assert renderer.stop_ids == (END, DONE)
