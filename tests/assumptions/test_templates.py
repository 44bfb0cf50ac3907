"""Facts about chat templates, tokenizers and the folders of models."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from jinja2 import TemplateError
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer
from transformers import AutoTokenizer, Gemma3TextConfig, LlamaConfig, Qwen3Config, Qwen3ForCausalLM

from tests.coevolve.environments.tools.chat import models

ASKED = [{"role": "user", "content": "Hi <b>\u00e9"}]
TEXT = "put <|im_start|>a\n\n<tool_call>x</tool_call> <|im_end|>"


def rendered(template: Any, messages: Sequence[Any] = ASKED, **variables: object) -> str:
    tokenizer = models.tokenizer_with("{{ 'other' }}")
    return tokenizer.apply_chat_template(
        list(messages), chat_template=template, tokenize=False, **variables
    )


def test_a_macro_takes_the_place_of_the_clock() -> None:
    """A macro strftime_now replaces the clock that transformers gives to templates.

    Needed by: coevolve/models/chat_template.py
    """
    asks = "{{ strftime_now('%Y') }}"
    assert rendered(asks).isdigit()
    macro = "{% macro strftime_now(form) %}!{{ form }}{% endmacro %}\n"
    assert rendered(f"{macro}{asks}") == "!%Y"


@pytest.mark.parametrize("begin", ["", "\n", "\n\n", "  ", "  {% if true %}", "{#- -#} "])
def test_a_macro_before_a_template_adds_no_blank_and_takes_none(begin: str) -> None:
    """A macro that ends with a line's end leaves the text of the template after it as it was.

    Needed by: coevolve/models/chat_template.py
    """
    template = f"{begin}a{'{% endif %}' if 'if' in begin else ''}"
    macro = "{% macro unused(form) %}!{{ form }}{% endmacro %}\n"
    assert rendered(macro + template) == rendered(template)


def test_a_template_that_is_given_is_rendered_in_place_of_the_own_one() -> None:
    """The argument chat_template replaces all templates of the tokenizer, with tools as well.

    Needed by: coevolve/models/chat_template.py
    """
    tokenizer = models.tokenizer_with("")
    tokenizer.chat_template = {"default": "1", "tool_use": "2"}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    said = tokenizer.apply_chat_template(ASKED, tools=tools, chat_template="3", tokenize=False)
    assert said == "3"


def test_named_templates_are_files_of_their_own(tmp_path: Path) -> None:
    """Of several templates, default is in chat_template.jinja, others in a folder beside it.

    Needed by: coevolve/models/model_files.py, coevolve/models/vocabulary_rows.py
    """
    tokenizer = models.tokenizer_with("")
    tokenizer.chat_template = {"default": "1", "tool_use": "2"}
    tokenizer.save_pretrained(tmp_path)
    assert (tmp_path / "chat_template.jinja").read_text() == "1"
    assert (tmp_path / "additional_chat_templates" / "tool_use.jinja").read_text() == "2"
    assert cast("Any", AutoTokenizer).from_pretrained(tmp_path).chat_template == {
        "default": "1",
        "tool_use": "2",
    }


def test_a_template_refuses_by_an_error_of_jinja() -> None:
    """A template's raise_exception, and what is wrong with it, arrive as jinja2.TemplateError.

    Needed by: coevolve/models/chat_template.py
    """
    with pytest.raises(TemplateError, match=r"^no system$"):
        rendered("{{ raise_exception('no system') }}")
    with pytest.raises(TemplateError):
        rendered("{{ messages[0].parts.text }}")


def test_the_filter_tojson_leaves_letters_as_they_are() -> None:
    """The filter tojson of transformers escapes neither HTML nor other letters than ASCII.

    Needed by: coevolve/models/format_tokens.py
    """
    assert rendered("{{ messages[0].content | tojson }}") == '"Hi <b>\u00e9"'


def test_special_tokens_are_variables_of_a_template() -> None:
    """Templates get the names of special tokens, such as bos_token, as variables.

    Needed by: coevolve/models/chat_template.py
    """
    assert rendered("{{ bos_token }}{{ eos_token }}") == "<|begin_of_text|><|im_end|>"


def test_a_tokenizer_encodes_as_its_backend_does() -> None:
    """A fast tokenizer adds nothing to the tokens of its backend if no special ones are wanted.

    Needed by: coevolve/models/format_tokens.py
    """
    tokenizer = models.tokenizer_with("")
    backend: Tokenizer = tokenizer.backend_tokenizer
    ids = backend.encode(TEXT, add_special_tokens=False).ids
    assert tokenizer.encode(TEXT, add_special_tokens=False) == ids


def test_a_tokenizer_can_be_copied_with_other_names_of_added_tokens() -> None:
    """A new tokenizer of the same model splits text at the tokens that are added to it alone.

    Needed by: coevolve/models/format_tokens.py
    """
    own: Tokenizer = models.tokenizer_with("").backend_tokenizer
    copy = Tokenizer(own.model)
    cast("Any", copy).pre_tokenizer = own.pre_tokenizer
    copy.add_tokens([AddedToken("secret", normalized=False)])
    added = copy.token_to_id("secret")
    assert added is not None
    assert added >= own.get_vocab_size(with_added_tokens=False)
    spelled = copy.encode("<|im_end|>", add_special_tokens=False).ids
    assert len(spelled) > 1
    assert own.token_to_id("<|im_end|>") not in spelled
    split = [copy.encode(text, add_special_tokens=False).ids for text in ("put ", " the")]
    whole = copy.encode("put secret the", add_special_tokens=False).ids
    assert whole == [*split[0], copy.token_to_id("secret"), *split[1]]


def test_added_tokens_say_whether_they_are_special() -> None:
    """The attribute added_tokens_decoder has each added token by its id, with its flags.

    Needed by: coevolve/models/format_tokens.py
    """
    tokenizer = models.tokenizer_with("")
    added = {token.content: token for token in tokenizer.added_tokens_decoder.values()}
    assert added["<|im_end|>"].special
    assert not added["<tool_call>"].special
    assert set(added) == set(tokenizer.get_added_vocab())


def test_weights_of_a_head_and_of_an_embedding_are_kept_apart_if_they_differ(
    tmp_path: Path,
) -> None:
    """With tie_word_embeddings, transformers unties a head whose values in the file differ.

    Needed by: coevolve/models/vocabulary_rows.py
    """
    small: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 16, "head_dim": 16}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    config = cast("Any", Qwen3Config)(vocab_size=32, tie_word_embeddings=True, **small, **heads)
    Qwen3ForCausalLM(config).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    assert "lm_head.weight" not in load_file(file)
    own = {"lm_head.weight": torch.ones(32, 16)}
    save_file(load_file(file) | own, file, metadata={"format": "pt"})
    model = cast("Any", Qwen3ForCausalLM).from_pretrained(tmp_path)
    assert torch.equal(model.lm_head.weight, torch.ones(32, 16))
    assert model.config.tie_word_embeddings


def test_classes_of_models_choose_whether_the_head_is_tied() -> None:
    """Without a setting, the class of the config decides whether the head is the embedding.

    Needed by: coevolve/models/vocabulary_rows.py
    """
    assert Gemma3TextConfig().tie_word_embeddings
    assert not LlamaConfig().tie_word_embeddings


def test_rows_of_a_tensor_are_read_alone(tmp_path: Path) -> None:
    """A slice of safetensors knows its shape, and gives some of its rows.

    Needed by: coevolve/models/vocabulary_rows.py, coevolve/models/model_files.py
    """
    file = tmp_path / "a.safetensors"
    tensor = torch.arange(12).reshape(6, 2)
    save_file({"a": tensor}, file)
    with cast("Any", safe_open)(file, "pt") as opened:
        rows = opened.get_slice("a")
        assert rows.get_shape() == [6, 2]
        assert torch.equal(rows[4:100], tensor[4:])


def test_a_tokenizer_file_lists_all_tokens(tmp_path: Path) -> None:
    """The vocabulary of a tokenizer.json contains added tokens, with their ids.

    Needed by: coevolve/models/vocabulary_rows.py
    """
    tokenizer = models.tokenizer_with("")
    tokenizer.save_pretrained(tmp_path)
    own = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert max(own.get_vocab().values()) + 1 == len(tokenizer)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["eos_token"] == "<|im_end|>"
