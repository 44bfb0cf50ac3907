"""Mistakes that people make in run files and overrides: each is answered with its remedy."""

from pathlib import Path

import pytest

from coevolve.config.load import load_config
from coevolve.yaml.structs import MOST_FAULTS
from protocols.errors import ConfigError

IN_FILES = [
    # Numbers.
    ("learner: {steps: many}", "$.learner.steps: needs a whole number, 1 to 1000000, found 'many'"),
    ("learner: {steps: '10'}", "found '10'; leave out the quotes"),
    ("learner: {steps: 1e3}", "found 1000.0; write 1000"),
    ("learner: {steps: -3}", "needs a whole number, 1 to 1000000, found -3"),
    ("learner: {steps: 99999999999999999999}", "needs a whole number below 2^63, found 99999"),
    ("learner: {learning_rate: 1e999}", "needs a finite number, found inf"),
    ("learner: {learning_rate: 1/1000}", "found '1/1000'; write 0.001"),
    ("learner: {learning_rate: '0,5'}", "write it with a decimal point: 0.5"),
    ("simulator: {memory_mb: 8GB}", "found '8GB'; give the number of megabytes alone"),
    ("rollout: {max_tokens: 10k}", "found '10k'; write 10000"),
    ("rollout:\n  max_tokens: 10,000", "write it without commas: 10000"),
    ("rollout: {max_tokens: 10,000}", "write a number of thousands without commas"),
    ("evolve_wait_s: 10m", "give the number of seconds alone"),
    ("evolve_wait_s: 1:30", "found '1:30'; give the number of seconds alone"),
    ("seed: 010", "found '010'; leave out the leading zero"),
    ("seed: \N{EN DASH}1", "is no sign of a number: type it anew"),
    ("pool: {synthetic_share: 75}", "needs a number, 0 to 1, found 75; 75 % is 0.75"),
    ("pool: {synthetic_share: 75%}", "found '75%'; write the share: 0.75"),
    # Truth values, text and choices.
    ("validator: {judge: yes}", "$.validator.judge: needs true or false, found 'yes'"),
    ("validator: {judge: 'true'}", "found 'true'; leave out the quotes"),
    ("policy: {model: 2024-01-01}", "needs text, found 2024-01-01; put it in quotes"),
    ("policy: {model: null}", "found nothing; give a value, or leave the setting out"),
    ("learner: {credit: Turn}", "needs one of rollout, turn, found 'Turn'; did you mean 'turn'?"),
    ("signals: {kinds: boundary}", "found 'boundary'; write a list: [boundary]"),
    ("signals: {kinds: [bondary]}", "$.signals.kinds[0]: needs one of"),
    ("synthesizer: {max_tokens_by_kind: {boundary: 0}}", "max_tokens_by_kind.boundary: needs a"),
    # Sections.
    ("learner:\nsteps: 3", "$.learner: needs a section of settings, found nothing; indent"),
    ("learner:\nsteps: 3", "did you mean synthesizer.steps or learner.steps or"),
    ("learner:\n  - steps: 3", "indented below it and without dashes"),
    ("learner: {learningRate: 0.1}", "did you mean 'learning_rate'?"),
    ("learner.steps: 3", "write it as a section: learner: {steps: ...}"),
    ("rollout: {learning_rate: 0.1}", "did you mean learner.learning_rate or"),
    ("learner:\n\N{NO-BREAK SPACE} steps: 3", "type plain spaces"),
    # Kinds.
    ("learner: {objective: grpo}", "found 'grpo'; write {kind: grpo}"),
    ("learner: {objective: {kind: GRPO}}", "found 'GRPO'; did you mean 'grpo'?"),
    ("learner: {objective: {clip_high: 0.3, beta: 1}}", "belongs to kind dpo, found kind grpo"),
    ("synthesizer: {model: {kind: endpoint, model: m, base_url: localhost}}", "http:// or https://"),
    ("synthesizer: {model: {kind: endpoint}}", "$.synthesizer.model.model: is required and"),
    ("synthesizer: {model: {kind: endpoint, base_url: 'http://me:hunter2@h/v1'}}", "found 'http://***@h/v1'"),
    ("synthesizer: {model: {kind: endpoint, base_url: 'http://h/v1?key=hunter2'}}", "found 'http://h/v1?key=***'"),
    ("synthesizer: {model: {kind: endpoint, model: m, base_url: 'http://[::1/v1'}}", "http:// or https://"),
    ("synthesizer: {model: {kind: endpoint, key_variable: sk-hunter2hunter2}}", "found 'sk-***'"),
    ("cluster: {address: 'ray://me:hunter2@h'}", "without user and password, found 'ray://***@h'"),
    ("simulator: {workers: 100000000}", "needs a whole number, 1 to 1024, found 100000000"),
    ("store: {copies: 's3://AKIA1:hunter2/x@b/c'}", "without user, password and query, found 's3"),
    # Environments.
    ("environment: bfcl", "needs a section of settings, found 'bfcl'; write {use: bfcl}"),
    ("environment:", "$.environment: needs a section of settings, found nothing; write {use:"),
    ("environment: {use: filesystm}", "did you mean 'filesystem'?"),
    ("environment: {use: filesystem, categories: [base]}", "(environment filesystem)"),
    ("environment: {use: hdl, stages: [{writer: [policy]}]}", "$.environment.stages[0]: unknown"),
    ("environment: {use: hdl, stages: [{groups: -1}]}", "$.environment.stages[0].groups: needs"),
    ("environment: {use: hdl, stages: {groups: 1}}", "put a dash before each entry"),
    # YAML.
    ("learner:\n\tsteps: 3", "line 3, column 1: found character '\\t' that cannot start"),
    ("learner:\n   steps: 3\n  threads: 2", "settings of one section need the same indentation"),
    ("learner:\n  steps: 3\n   threads: 2", "line 4, column 11: mapping values are not allowed"),
    ("policy: {model: 'abc}", "line 2, column 17: found unexpected end of stream; close the quote"),
    ("policy: {model: x", "close the bracket"),
    ("policy: {model: @x}", "put text that begins with this character in quotes"),
    ("policy: {model: *x}", "found undefined alias 'x'; put text that begins with"),
    ("seed: 1\nseed: 2", "line 3, column 1: the key 'seed' stands twice in one section; keep one"),
    ("---\nname: b", "a file holds one run"),
    ("seed: !!python/object:os.system 1", "leave the tag `!` out"),
    ("seed: !!int x", "line 2, column 7: found the tag 'tag:yaml.org,2002:int'; leave the tag"),
    ("? [a]\n: b", "found a list or section as the name of a setting; write each setting as"),
    ("policy: &p {model: *p}", "found an alias of a section within it; write the values without"),
    ("seed: " + "[" * 99, "line 2, column 30: found more than 24 nested levels; leave out some"),
    ("seed: " + "9" * 99, "found a number of 99 characters; give a number of fewer digits"),
    ('policy: {model: "a\\0"}', r"found the invisible character '\x00'; delete the invisible"),
    ("# " + "a" * 70_000, "it needs at most 65536 characters, found 70011; leave out what is not"),
    ("seed: 2024-13-45", "put text that looks like a date in quotes"),
    ("policy: {model: 'a\a'}", "delete the invisible character"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), IN_FILES)
def test_a_mistake_in_a_run_file_is_answered(tmp_path: Path, text: str, answer: str):
    assert answer in refusal(tmp_path, f"name: a\n{text}\n".encode())


IN_OVERRIDES = [
    ("learner.steps", "has no '='; write learner.steps=VALUE"),
    ("learner.steps=", "override learner.steps: needs a whole number, 1 to 1000000, found nothing"),
    ("learner..steps=3", "needs the form key.path=value"),
    ("other.yaml", "a command takes one run file"),
    ("seed.x=3", "'seed' is a value, not a section; give seed=value"),
    ("signals.kinds.0=boundary", "'kinds' is a list; give the whole of it: signals.kinds='[...]'"),
    ("signals.kinds[0]=boundary", "give the whole list of kinds"),
    ("signals.kinds=boundary,rare", "write a list: [boundary, rare]"),
    ("learner.objective={kind:grpo}", "write it with colon and space: kind: grpo"),
    ("learner={steps=3}", "write it with colon and space: steps: 3"),
    ("policy.lora_targets=[q_proj,", "needs quotes for the shell around the whole override"),
    ("store.copies=s3://me:hunter2@b/c", "override store.copies: needs text, a path, or a URL"),
    ("http://me:hunter2@h/v1", "override 'http://***@h/v1': has no '='; write"),
    ("$.learner.steps=0", "override learner.steps: needs a whole number, 1 to 1000000, found 0"),
]


@pytest.mark.parametrize(("override", "answer"), IN_OVERRIDES)
def test_a_mistake_in_an_override_is_answered(tmp_path: Path, override: str, answer: str):
    text = b"name: a\nseed: 1\nsignals: {kinds: [rare]}\n"
    assert answer in refusal(tmp_path, text, override)


FILES = [
    (b"", "needs a mapping of settings at the top, `name: value`, found nothing"),
    (b"# only a comment\n", "`coevolve config show quickstart` prints one to begin with"),
    (b"name=a\n", "found 'name=a'"),
    ("name: a".encode("utf-16"), "byte 1 is no part of it; save the file as UTF-8"),
    ("name: a\xfc".encode("latin-1"), "byte 8 is no part of it; save the file as UTF-8"),
    ("name: \xfcbung\n".encode(), "1 to 100 letters, digits, `.`, `_` and `-`, the first a letter"),
    (b"name: my run\n", "1 to 100 letters, digits"),
    (b"name: 12\n", "found 12; put it in quotes"),
    (b"seed: 1\n", "$.name: is required and missing; give text, 1 to 100 letters"),
]


@pytest.mark.parametrize(("text", "answer"), FILES)
def test_a_file_that_is_no_run_file_is_answered(tmp_path: Path, text: bytes, answer: str):
    assert answer in refusal(tmp_path, text)


@pytest.mark.parametrize("text", ["\ufeffname: a\n", "name: a\r\nlearner:\r\n  steps: 3\r\n"])
def test_what_editors_add_is_no_mistake(tmp_path: Path, text: str):
    file = tmp_path / "run.yaml"
    file.write_bytes(text.encode())
    assert load_config(file).name == "a"


def test_an_alias_is_a_copy(tmp_path: Path):
    file = tmp_path / "run.yaml"
    file.write_text("name: a\npool: &p {}\nsignals: *p\n")
    config = load_config(file, ["pool.capacity=7"])
    assert config.pool.capacity == 7


def test_many_mistakes_are_answered_in_a_few_lines(tmp_path: Path):
    text = "name: a\n" + "".join(f"key{number}: 1\n" for number in range(3000))
    said = refusal(tmp_path, text.encode())
    assert said.count("\n") == MOST_FAULTS
    assert f"{MOST_FAULTS} problems or more:" in said


def refusal(folder: Path, text: bytes, *overrides: str) -> str:
    file = folder / "run.yaml"
    file.write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, overrides)
    assert "hunter2" not in str(caught.value)
    return str(caught.value)
