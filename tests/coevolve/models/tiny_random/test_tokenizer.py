import json
from pathlib import Path

import pytest

from coevolve.environments.tools.bfcl.environment import Bfcl
from coevolve.environments.tools.chat.renderer import ChatRenderer
from coevolve.models.chat_template import ChatTemplate
from coevolve.models.tiny_random.model import CHATML, ChatFormat, format_of, make_tokenizer
from protocols.config import ChatConfig, RunConfig

TEXTS = tuple(Bfcl(RunConfig(name="texts", environment={"use": "bfcl"})).texts())

OWN = ChatFormat(
    template="{% for message in messages %}<s>{{ message.role }}:{{ message.content }}<e>"
    "{% endfor %}{% if add_generation_prompt %}<s>assistant:{% endif %}",
    end="<e>",
    pad="<p>",
    special=("<p>", "<s>", "<e>"),
    words=("<call>",),
)
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer(CHATML, TEXTS).save_pretrained(folder)
    return folder


def test_tools_calls_and_answers_are_written_as_chatml_in_tags(folder: Path):
    call = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    rendered = ChatTemplate.load(folder, variables={}).render(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Rain?"},
            {"role": "assistant", "content": "", "tool_calls": [call, call]},
            {"role": "tool", "content": "yes"},
            {"role": "tool", "content": "no"},
            {"role": "assistant", "content": "Perhaps."},
        ],
        [WEATHER],
        prompts=True,
    )
    said = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    assert rendered == (
        "<|im_start|>system\nBe brief.\n\n# Tools\n\n<tools>\n"
        + json.dumps(WEATHER)
        + '\n</tools>\n\nA call: <tool_call>\n{"name": NAME, "arguments": OBJECT}\n</tool_call>'
        "<|im_end|>\n<|im_start|>user\nRain?<|im_end|>\n"
        f"<|im_start|>assistant\n{said}\n{said}<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nyes\n</tool_response>"
        "\n<tool_response>\nno\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\nPerhaps.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_policy_can_chat_with_it(folder: Path):
    renderer = ChatRenderer.load(folder, ChatConfig())
    assert renderer.form == "tags"


def test_text_survives_it(folder: Path):
    template = ChatTemplate.load(folder, variables={})
    text = "cd('Ünïcode files')  \n\t42 <|im_end|>"
    assert template.decode(template.encode(text)) == text


def test_the_same_tokenizer_is_made_every_time(tmp_path: Path, folder: Path):
    make_tokenizer(CHATML, TEXTS).save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()


def test_the_template_and_the_special_tokens_of_a_model_on_disk_are_kept(tmp_path: Path):
    make_tokenizer(OWN, TEXTS).save_pretrained(tmp_path)
    assert format_of(tmp_path) == OWN


def test_a_model_without_a_chat_template_gets_chatml(tmp_path: Path):
    assert format_of(None) == CHATML
    assert format_of(tmp_path) == CHATML
