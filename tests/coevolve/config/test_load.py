from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from coevolve.config.load import load_config
from coevolve.config.overrides import MAX_LINE_CHARS, fault_report
from coevolve.environments.hdl.config import LocalTeacher
from coevolve.environments.hdl.settings import hdl_settings
from coevolve.learning.objective_registry import objective_of
from coevolve.learning.objectives.grpo import Grpo
from coevolve.learning.objectives.gspo import Gspo
from protocols.config import RunConfig, TransformersEngine
from protocols.errors import ConfigError
from protocols.synthesizers import EndpointModel

CONFIGS = Path(__file__).parents[3] / "configs"


def written(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text)
    return path


def refusal(path: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_what_the_rules_of_skills_would_ignore_is_refused():
    skills = "signals.rules=skills"
    assert "found skills, which does not correct" in refusal(
        CONFIGS / "quickstart.yaml", skills, "signals.reward_flip_rate=0.1"
    )
    assert "placebo draws subjects" in refusal(CONFIGS / "quickstart.yaml", skills, "arm=placebo")


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_config_loads(path: Path):
    assert isinstance(load_config(path), RunConfig)


def test_an_override_reaches_the_field_it_names(quickstart: RunConfig):
    config = load_config(CONFIGS / "quickstart.yaml", ["learner.steps=3", "arm=static"])
    assert (config.learner.steps, config.arm) == (3, "static")
    assert config.rollout == quickstart.rollout


def test_all_faults_are_named_at_once_each_with_path_and_remedy(tmp_path: Path):
    text = refusal(
        written(
            tmp_path,
            "name: a\nsed: 1\nsimulator: {wokers: 2, workers: 0}\nrollout: {group_size: 1}\n",
        )
    )
    assert "4 problems" in text
    assert "$: unknown field 'sed'; did you mean 'seed'?" in text
    assert "$.simulator: unknown field 'wokers'; did you mean 'workers'?" in text
    assert "$.simulator.workers: needs a whole number, 1 to 1024, found 0" in text
    assert "$.rollout.group_size: needs a whole number, 2 to 65536, found 1" in text


def test_a_fault_of_any_length_makes_a_message_of_bounded_length(tmp_path: Path):
    text = refusal(written(tmp_path, f"name: a\ncluster: {{address: 'ray://{'a' * 20_000}'}}\n"))
    assert "$.cluster.address: ray://aaa" in text
    assert len(text) < MAX_LINE_CHARS + len(str(tmp_path)) + 50


def test_a_message_counts_the_faults_that_it_leaves_out():
    faults = [f"$.name: {letter * 1500}" for letter in "abcdef"]
    text = fault_report(Path("run.yaml"), faults, [])
    assert text.startswith("run.yaml: 6 problems:\n  $.name: aaa")
    assert text.endswith("ccc\n  and 3 more")


def test_a_wrong_type_says_what_is_required_and_what_was_found(tmp_path: Path):
    text = refusal(written(tmp_path, "name: a\nlearner: {steps: many}\n"))
    assert "$.learner.steps: needs a whole number, 1 to 1000000, found 'many'" in text


def test_a_missing_name_is_named(tmp_path: Path):
    assert "$.name: is required and missing" in refusal(written(tmp_path, "seed: 1\n"))


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, number: str):
    text = refusal(written(tmp_path, f"name: a\nlearner: {{learning_rate: {number}}}\n"))
    assert "$.learner.learning_rate" in text


def test_a_number_with_an_exponent_is_a_number():
    path = CONFIGS / "quickstart.yaml"
    assert load_config(path, ["learner.learning_rate=1e-3"]).learner.learning_rate == 1e-3


@pytest.mark.parametrize("word", ["off", "on", "no", "Yes"])
def test_only_true_and_false_are_no_words(tmp_path: Path, word: str):
    path = written(tmp_path, f"name: {word}\nvalidator: {{judge: FALSE}}\n")
    assert load_config(path).name == word
    assert load_config(path).validator.judge is False
    text = refusal(path, f"validator.judge={word}")
    assert f"override validator.judge: needs true or false, found '{word}'" in text


def test_a_choice_that_is_none_is_answered_with_those_there_are():
    text = refusal(CONFIGS / "quickstart.yaml", "arm=dynamic")
    assert (
        "override arm: needs one of full, random, placebo, coverage, oracle, uniform, static, "
        "found 'dynamic'" in text
    )


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("signals.kinds=[rare, boundry]", "override signals.kinds[1]: needs one of forgetting,"),
        ("trackers.use=[3]", "override trackers.use[0]: needs text, tensorboard,"),
        ("cluster.variables=[A, B, 1]", "override cluster.variables[2]: needs text, found 1;"),
    ],
)
def test_a_fault_inside_the_list_of_an_override_is_that_of_the_override(override: str, words: str):
    text = refusal(CONFIGS / "quickstart.yaml", override)
    assert text.startswith(words)
    assert "quickstart.yaml" not in text


def test_a_key_that_stands_twice_is_refused(tmp_path: Path):
    text = refusal(written(tmp_path, "name: a\nlearner: {steps: 1, steps: 2}\n"))
    assert "the key 'steps' stands twice in one section" in text


@pytest.mark.parametrize("value", ["2024-13-45", "9" * 5000, "[" * 3000])
def test_values_that_no_yaml_can_mean_are_refused(tmp_path: Path, value: str):
    assert "is not YAML" in refusal(written(tmp_path, f"name: a\nseed: {value}\n"))


def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path):
    for name in ("../a", "a/b", "a\\n", "a" * 101):
        assert "$.name" in refusal(written(tmp_path, f'name: "{name}"\n'))


def test_broken_yaml_names_the_line(tmp_path: Path):
    text = refusal(written(tmp_path, "name: [a\nseed: 1\n"))
    assert "is not YAML" in text
    assert "line 1, column 7" in text


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words\n"])
def test_a_file_without_settings_at_the_top_is_refused(tmp_path: Path, text: str):
    assert "needs a mapping of settings at the top" in refusal(written(tmp_path, text))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path):
    path = tmp_path / "run.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as UTF-8 text" in refusal(path)


def test_a_missing_file_suggests_its_neighbour():
    text = refusal(CONFIGS / "quickstrat.yaml")
    assert "there is no such run file; did you mean" in text
    assert "quickstart.yaml" in text


def unions(kind: type[msgspec.Struct], path: str = "") -> Iterator[tuple[str, msgspec.Struct]]:
    """Yield every section of several kinds, one of which is the default, with its default."""
    for field in msgspec.structs.fields(kind):
        inner = f"{path}{field.name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from unions(field.type, f"{inner}.")
        elif isinstance(field.default, msgspec.Struct):
            yield inner, field.default


def test_a_section_that_names_no_kind_is_of_the_default_one():
    found = dict(unions(RunConfig))
    assert {"rollout.engine", "synthesizer.model"} <= found.keys()
    for path, default in found.items():
        config = load_config(CONFIGS / "quickstart.yaml", [f"{path}={{}}"])
        assert attrgetter(path)(config) == default
    config = load_config(CONFIGS / "quickstart.yaml", ["learner.objective={clip_low: 0.3}"])
    assert objective_of(config.learner) == Grpo(clip_low=0.3)
    config = load_config(CONFIGS / "quickstart.yaml", ["rollout.engine.dtype=bfloat16"])
    assert config.rollout.engine == TransformersEngine(dtype="bfloat16")


def test_settings_that_would_wait_for_ever_together_are_refused():
    text = refusal(CONFIGS / "quickstart.yaml", "rollout.in_flight_groups=4")
    assert "can never fill a step of learner.groups_per_step = 8" in text
    assert "use at least 8" in text


def test_engines_that_would_never_work_are_refused(quickstart: RunConfig):
    most = quickstart.most_rollouts_in_flight
    text = refusal(CONFIGS / "quickstart.yaml", f"rollout.actors={most + 1}")
    assert f"are more than the {most} rollouts that may be in flight" in text
    assert load_config(CONFIGS / "quickstart.yaml", [f"rollout.actors={most}"])


@pytest.mark.parametrize("temperature", [0.0, 0.001, 0.0099])
def test_a_temperature_at_which_no_engine_samples_as_asked_is_refused(temperature: float):
    text = refusal(CONFIGS / "quickstart.yaml", f"rollout.temperature={temperature}")
    assert "0.01" in text
    assert "rollout.temperature" in text


def test_groups_that_would_all_be_stale_are_refused(quickstart: RunConfig):
    most = quickstart.most_groups_in_flight
    text = refusal(CONFIGS / "quickstart.yaml", f"rollout.in_flight_groups={most + 1}")
    assert f"use at most {most}" in text
    assert load_config(CONFIGS / "quickstart.yaml", [f"rollout.in_flight_groups={most}"])


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "learner.imitation.replay_per_step=500",
            "cannot be drawn from learner.imitation.replay_size",
        ),
        ("rollout.max_call_tokens=500", "a call is a part of its conversation"),
        ("signals.boundary_low=0.9", "leaves no room below signals.boundary_high = 0.9"),
        ("signals.kinds=[]", "needs at least one kind of signal, found none"),
        ("validator.judge=true", "needs a synthesizer.model of kind endpoint"),
        (
            "synthesizer.model={model: m}",
            "override synthesizer.model.model: belongs to kind endpoint, found kind policy; give "
            "synthesizer.model.kind=endpoint or leave it out",
        ),
        (
            "rollout.engine.gpus=1",
            "override rollout.engine.gpus: belongs to kind vllm, found kind transformers; give "
            "rollout.engine.kind=vllm or leave it out",
        ),
        ("synthesizer.model={kind: gpt}", "needs one of policy, endpoint, found 'gpt'"),
        (
            "synthesizer.model=gpt",
            "override synthesizer.model: needs a section of settings, found 'gpt'; write "
            "{kind: NAME}, with one of policy, endpoint",
        ),
        (
            "synthesizer.model={kind: endpoint, base_url: 'http://a/v1'}",
            "override synthesizer.model.model: is required and missing",
        ),
        (
            "synthesizer.model={kind: endpoint, base_url: nowhere, model: m}",
            "override synthesizer.model.base_url",
        ),
        (
            "synthesizer.model={kind: policy, weigths: newest}",
            "override synthesizer.model.weigths: unknown field; did you mean 'weights'?",
        ),
        ("learnr.steps=1", "override learnr: unknown field; did you mean 'learner'?"),
        ("learner.steps", "override 'learner.steps': has no '='; write learner.steps=VALUE"),
        ("learner. =3", "needs the form key.path=value"),
        ("seed.x=1", "'seed' is a value, not a section"),
        ("name=[", "the value is not YAML"),
        ("policy.device=gpu", "did you mean 'cuda'?"),
    ],
)
def test_an_impossible_override_is_refused_with_a_remedy(override: str, words: str):
    assert words in refusal(CONFIGS / "quickstart.yaml", override)


def test_fresh_tasks_for_every_group_need_the_grammar():
    text = refusal(CONFIGS / "quickstart.yaml", "arm=uniform", "environment.use=bfcl")
    assert (
        "override arm: uniform draws a fresh task for every group, found environment.use bfcl"
        in text
    )


@pytest.mark.parametrize("kind", ["sft", "dpo", "none"])
def test_a_divergence_that_the_objective_does_not_have_is_refused(kind: str):
    text = refusal(
        CONFIGS / "quickstart.yaml",
        f"learner.objective={{kind: {kind}}}",
        "learner.kl_coefficient=0.1",
    )
    assert (
        "override learner.kl_coefficient: 0.1 needs a policy gradient, found learner.objective "
        f"{kind}" in text
    )


@pytest.mark.parametrize("kind", ["sft", "dpo", "none"])
def test_turns_are_credited_by_a_policy_gradient_only(kind: str):
    path = CONFIGS / "quickstart.yaml"
    assert load_config(path, ["learner.credit=turn"]).learner.credit == "turn"
    text = refusal(path, "learner.credit=turn", f"learner.objective={{kind: {kind}}}")
    assert (
        f"override learner.credit: turn needs a policy gradient, found objective {kind}; choose "
        "rollout" in text
    )


def test_an_objective_that_replaces_groups_needs_a_bound_above_nothing():
    path, dapo = CONFIGS / "quickstart.yaml", "learner.objective={kind: dapo}"
    assert load_config(path, [dapo]).learner.refill_batches == 8
    text = refusal(path, dapo, "learner.refill_batches=0")
    assert (
        "override learner.refill_batches: the objective dapo replaces groups without variance"
        in text
    )


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["learner.guard.tasks=9"], "override learner.guard.tasks: 9 canaries cannot show a loss"),
        (["learner.guard.max_loss=1"], "override learner.guard.max_loss"),
        (
            [
                "learner.objective={kind: none}",
                "learner.imitation.weight=0",
                "learner.credit=rollout",
            ],
            "override learner.objective: none, without imitation, leaves nothing to learn from",
        ),
        (
            ["learner.warm_start.steps=9", "learner.imitation.weight=0"],
            "override learner.warm_start.steps: 9 steps that only imitate need "
            "learner.imitation.weight above 0, found 0; raise it, or set the steps to 0",
        ),
        (["learner.objective={kind: [grpo]}"], "override learner.objective.kind: needs one of"),
    ],
)
def test_settings_that_could_do_nothing_are_refused(overrides: list[str], words: str):
    assert words in refusal(CONFIGS / "quickstart.yaml", *overrides)


def test_with_a_policy_gradient_what_the_policy_writes_is_learned_from():
    path = CONFIGS / "hdl_tiny.yaml"
    gradient = "learner.objective={kind: grpo}"
    stages = "environment.stages=[{writers: [grammar, policy], groups: 4}, {writers: [policy]}]"
    assert hdl_settings(load_config(path, [gradient, stages])).stages[0].writers == (
        "grammar",
        "policy",
    )
    lends = "environment.stages=[{writers: [policy, grammar], groups: 4}, {writers: [policy]}]"
    assert "override environment.stages: with a policy gradient, what the policy" in refusal(
        path, gradient, lends
    )


def test_a_guard_that_does_nothing_is_one_of_the_choices():
    path = CONFIGS / "quickstart.yaml"
    assert load_config(path, ["learner.guard.action=none"]).learner.guard.action == "none"
    text = refusal(path, "learner.guard.action=never")
    assert "override learner.guard.action: needs one of return, warn, none, found 'never'" in text


@pytest.mark.parametrize(
    ("override", "words"),
    [
        *(
            (
                f"arm={arm}",
                "override arm: environment hdl trains on the designs that it is given and makes no "
                f"tasks of its own, so it needs static, found {arm}; choose static",
            )
            for arm in ("full", "random", "placebo", "uniform")
        ),
        (
            "learner.imitation.weight=1",
            "override learner.imitation.weight: 1.0, with learner.imitation.replay_per_step 0, "
            "needs tasks with references",
        ),
        (
            "learner.objective={kind: dpo}",
            "override learner.objective: policy.model tiny_hdl samples within a grammar, which dpo",
        ),
        (
            "policy.model=tiny",
            "with overrides: 1 problem:\n  $.environment.stages: the writer grammar needs",
        ),
        (
            "learner.credit=turn",
            "override learner.credit: turn needs tasks of several turns",
        ),
        (
            "environment.stages=[{}, {}]",
            "override environment.stages: every stage but the last needs groups of 1 or more",
        ),
        (
            "environment.stages=[{groups: 3}]",
            "override environment.stages: the last stage lasts to the run's end",
        ),
        (
            "environment.reward={mutants: 0.5}",
            "override environment.reward.trial.counts: a stimulus program has no checks",
        ),
        (
            "environment.teacher.model={base_url: 'http://a/v1', model: m}",
            "override environment.teacher.model.kind: needs one of endpoint, local, found nothing; "
            "did you mean 'endpoint'?",
        ),
    ],
)
def test_what_does_not_fit_a_run_on_designs_is_refused(override: str, words: str):
    assert words in refusal(CONFIGS / "hdl_tiny.yaml", override)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "environment.teacher={}",
            "override environment.teacher.model: the writer teacher of environment.stages needs",
        ),
        (
            "environment.teacher.model={kind: policy}",
            "override environment.teacher.model.kind: needs one of endpoint, local, found 'policy'",
        ),
        ("policy.model=tiny_hdl", "the writer teacher needs a policy with a chat template"),
        (
            "policy.chat.thinking=true",
            "override policy.chat.thinking: a teacher's answers come without",
        ),
        (
            "learner.objective={kind: dpo}",
            "override learner.objective: dpo needs environment.stages of the writer policy alone",
        ),
        (
            "environment.rarity_bonus=0.1",
            "override environment.rarity_bonus: 0.1 needs a policy gradient, found objective sft",
        ),
    ],
)
def test_what_does_not_fit_a_teacher_is_refused(override: str, words: str):
    taught = (
        "environment.stages=[{writers: [teacher]}]",
        "environment.teacher.model={kind: local, model: teacher}",
        "learner.objective={kind: sft}",
    )
    path = CONFIGS / "hdl_qwen3_4b.yaml"
    assert hdl_settings(load_config(path, taught)).teacher.model == LocalTeacher(model="teacher")
    assert words in refusal(path, *taught, override)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            ["rollout.engine.sleeps=true", "learner.devices=2"],
            "rollout.engine.sleeps: needs learner.devices = 1, found 2",
        ),
        (
            ["rollout.group_size=2000", "learner.groups_per_step=500", "learner.max_staleness=1"],
            "rollout.group_size: 2000000 rollouts would be in flight",
        ),
    ],
)
def test_settings_that_ask_for_too_much_together_are_refused(overrides: list[str], words: str):
    free = ("rollout.in_flight_groups=0", *overrides)
    assert words in refusal(CONFIGS / "quickstart_vllm.yaml", *free)


def test_the_largest_adapter_that_an_engine_serves_and_the_most_rollouts_are_accepted():
    adapter = ("rollout.engine={kind: vllm, deliver: adapter, kv_cache_mb: 100}",)
    load_config(
        CONFIGS / "quickstart_vllm.yaml", (*adapter, "policy.train=lora", "policy.lora_rank=512")
    )
    most = ("rollout.group_size=2000", "learner.groups_per_step=250", "learner.max_staleness=1")
    free = (*most, "rollout.in_flight_groups=0")
    assert load_config(CONFIGS / "quickstart.yaml", free).most_rollouts_in_flight == 1_000_000


def test_an_objective_is_read_with_its_own_settings(tmp_path: Path):
    path = written(tmp_path, "name: a\n")
    config = load_config(path, ["learner.objective={kind: gspo, clip_high: 1e-3}"])
    assert objective_of(config.learner) == Gspo(clip_high=1e-3)
    assert load_config(path, ["learner.objective={kind: none}"]).learner.only_imitates
    assert (
        "override learner.objective.kind: needs one of dapo, dpo, dr_grpo, grpo, gspo, none,"
        in refusal(path, "learner.objective={kind: ppo}")
    )


@pytest.mark.parametrize(("arm", "steps"), [("static", 0), ("uniform", 0), ("full", 10)])
def test_an_arm_that_makes_no_tasks_waits_for_none(tmp_path: Path, arm: str, steps: int):
    config = load_config(written(tmp_path, f"name: a\narm: {arm}\nevolve_every: 10\n"))
    assert config.cycle_steps == steps


def test_an_endpoint_is_read_with_its_defaults():
    model = "synthesizer.model={kind: endpoint, base_url: 'http://127.0.0.1:8000/v1', model: m}"
    config = load_config(CONFIGS / "quickstart.yaml", [model])
    assert config.synthesizer.model == EndpointModel(base_url="http://127.0.0.1:8000/v1", model="m")


def test_an_engine_that_could_not_serve_the_run_is_refused():
    run_file = CONFIGS / "quickstart_vllm.yaml"
    adapter = "rollout.engine={kind: vllm, deliver: adapter}"
    assert "override rollout.engine.deliver: adapter needs policy.train = lora" in refusal(
        run_file, adapter
    )
    assert "512, the most that vLLM serves" in refusal(
        run_file, adapter, "policy.train=lora", "policy.lora_rank=600"
    )
    text = refusal(run_file, "rollout.engine.kv_cache_mb=0", "rollout.engine.dtype=float16")
    assert (
        "override rollout.engine.kv_cache_mb: 0 on a CPU would take nearly all of its memory"
        in text
    )
    assert "override rollout.engine.dtype: float16 is for GPUs" in text
    text = refusal(run_file, "rollout.engine.gpus=2", "learner.devices=2", "learner.gpus=0.5")
    assert "override rollout.engine.gpus: 2 is more than the one GPU that an engine can use" in text
    assert "override learner.gpus: 0.5 needs learner.devices = 1, found 2" in text
    share = ("rollout.engine.gpus=0.5", "rollout.engine.kv_cache_mb=0")
    text = refusal(run_file, *share)
    assert "rollout.engine.gpu_memory_utilization: 0.9 of the memory leaves too little" in text
    load_config(run_file, (*share, "rollout.engine.gpu_memory_utilization=0.5"))
    text = refusal(run_file, "rollout.engine.sleeps=true", "evaluator.engine=own")
    assert "override rollout.engine.sleeps: needs evaluator.engine = rollout, found own" in text
    text = refusal(run_file, "rollout.engine.block_size=16", "rollout.engine.wokers=1")
    assert "override rollout.engine.block_size:" in text
    assert "override rollout.engine.wokers: unknown field" in text
