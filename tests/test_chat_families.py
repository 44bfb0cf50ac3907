"""The page on models holds what the command prints that makes its table."""

from pathlib import Path

import pytest

from tests.chat_families import NAMES, TRL, WAYS, renderer_of, rows, verdict

PAGE = (Path(__file__).parents[1] / "coevolve" / "docs" / "models.md").read_text("utf-8")


def test_the_table_has_all_newest_templates_that_are_no_patches() -> None:
    names = {file.stem for file in TRL.glob("*.jinja")}
    older = ("gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "lfm2_2_5", "lfm2_2_5_vl")
    originals = {name for name in names if not name.endswith("_training")}
    assert originals - {*older, "diffusion_gemma"} == {*NAMES}
    assert len(NAMES) >= 25


@pytest.mark.parametrize("name", NAMES)
def test_a_family_holds_the_conversation_as_the_page_says(name: str) -> None:
    (line,) = rows(TRL, {name: NAMES[name]})
    assert line in PAGE.splitlines()
    assert line.endswith("| yes |")


@pytest.mark.parametrize("name", ["qwen2_5", "glm4moe", "gptoss", "gemma"])
def test_openings_do_not_depend_on_the_process(name: str) -> None:
    template = (TRL / f"{name}.jinja").read_text("utf-8")
    one, other = (renderer_of(name, template, "prompt") for _ in WAYS)
    assert one.stop_ids == other.stop_ids
    assert one.observation(("1", "<|im_end|>")) == other.observation(("1", "<|im_end|>"))


def test_a_template_without_a_special_token_after_messages_is_told_apart() -> None:
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
    assert verdict("plain", template, "prompt") == "no: ends messages with no special token"
