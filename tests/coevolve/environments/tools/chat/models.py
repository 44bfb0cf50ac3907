"""Tiny tokenizers with chat templates that have the structure of well-known ones.

Each template is our own and keeps all that matters for exact token accounting: where messages begin
and end, how tools are listed, how calls and answers are written, and how thinking is handled.
"""

from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

from coevolve.environments.tools.bfcl.catalogue import load_tasks
from coevolve.environments.tools.bfcl.stock import DOCUMENTS
from coevolve.environments.tools.task import read_body
from coevolve.environments.tools.toolsets import tool_documents

TAGS = """
{%- if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}

{% endif %}Functions in <tools>:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
Call them in <tool_call> as {"name": ..., "arguments": ...}<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}<|im_start|>user
{{ message.content }}<|im_end|>
{% elif message.role == 'assistant' %}<|im_start|>assistant
{{ message.content }}
{%- for call in message.tool_calls or [] %}
{%- if message.content or not loop.first %}{{ '\n' }}{% endif %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% elif message.role == 'tool' %}
{%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}
{{- '\n' }}<tool_response>
{{ message.content }}
</tool_response>
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>
{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""ChatML, tools and calls in tags (Hermes, Qwen2.5)."""

THINKING = (
    TAGS.replace(
        """{% elif message.role == 'assistant' %}<|im_start|>assistant
{{ message.content }}
""",
        """{% elif message.role == 'assistant' %}<|im_start|>assistant
{% if '</think>' in message.content %}
{%- set content = message.content.split('</think>')[-1].lstrip('\n') %}
{%- else %}{% set content = message.content %}{% endif %}
{%- if loop.last %}<think>

</think>

{% endif %}{{ content }}
""",
    )
    + """{% if add_generation_prompt and enable_thinking is false %}<think>

</think>

{% endif %}"""
)
"""The same with thinking, which earlier messages lose (Qwen3)."""

JSON = """{{ bos_token }}<|start_header_id|>system<|end_header_id|>

Today Date: {{ date_string if date_string is defined else strftime_now('%d %b %Y') }}
{%- if messages[0].role == 'system' %}

{{ messages[0].content | trim }}{% set messages = messages[1:] %}{% endif %}<|eot_id|>
{%- for message in messages %}
{%- if message.role == 'tool' %}<|start_header_id|>ipython<|end_header_id|>

{{ message.content | tojson }}<|eot_id|>
{%- elif 'tool_calls' in message %}
{%- if message.tool_calls | length != 1 %}{{ raise_exception('One call at a time!') }}{% endif %}
{%- set function = message.tool_calls[0].function %}<|start_header_id|>assistant<|end_header_id|>

{"name": "{{ function.name }}", "parameters": {{ function.arguments | tojson }}}<|eot_id|>
{%- else %}<|start_header_id|>{{ message.role }}<|end_header_id|>

{% if loop.first and tools %}Answer with a call, {"name": ..., "parameters": ...}.
{% for tool in tools %}{{ tool | tojson(indent=4) }}

{% endfor %}{% endif %}{{ message.content | trim }}<|eot_id|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}"""
"""Headers, tools in the first instruction, one JSON call a message, role ipython (Llama 3)."""

PYTHONIC = """{{ bos_token }}
{%- for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>

{% if loop.first and tools %}Tools, called as [name(parameter=value)]:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}{% endif %}
{%- if message.tool_calls is defined %}[
{%- for call in message.tool_calls %}{{ call.function.name }}(
{%- for name, value in call.function.arguments.items() %}
{{- name }}={{ value | tojson }}{% if not loop.last %}, {% endif %}
{%- endfor %}){% if not loop.last %}, {% endif %}
{%- endfor %}]
{%- else %}{{ message.content }}{% endif %}<|eot_id|>
{%- endfor %}
{%- if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}"""
"""Headers and lists of Python calls (Llama 3.2 pythonic)."""

PLAIN = """
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""ChatML that knows no tools."""

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
)
WORDS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
"""Words that are single tokens but not special ones."""


@cache
def trained() -> str:
    """Return a small byte-pair tokenizer over the texts of some tasks."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    texts = [document.description for name in DOCUMENTS for document in tool_documents(name)]
    for task in load_tasks(["base"])[:40]:
        for turn in read_body(task.body).turns:
            texts += [turn.instruction, *turn.reference]
    trainer = BpeTrainer(
        vocab_size=1000,
        special_tokens=list(SPECIAL),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in WORDS])
    return tokenizer.to_str()


def tokenizer_with(template: str, *, end: str = "<|im_end|>") -> Any:
    """Return a tokenizer that has ``template`` and ends texts by ``end``."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(trained()),
        eos_token=end,
        bos_token="<|begin_of_text|>",
    )
    tokenizer.chat_template = template
    return tokenizer


def save(template: str, folder: Path, *, end: str = "<|im_end|>") -> Path:
    """Write the tokenizer of a model folder."""
    tokenizer_with(template, end=end).save_pretrained(folder)
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    return folder
