"""All settings are explained, and what is explained is what the decoder does."""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from coevolve.config.reference import ENVIRONMENT, Setting, everything, find, plain_path
from coevolve.config.run_files import carried
from coevolve.config.text import explanation, overview
from coevolve.environments.registry import check_environment, config_types
from coevolve.learning.objective_registry import check_objective
from coevolve.yaml.structs import check_section
from coevolve.yaml.text import parse_yaml
from protocols.config import RunConfig
from protocols.errors import ConfigError

SETTINGS = list(everything())


def named(setting: Setting) -> str:
    return " of ".join([setting.path, *setting.of])


def test_every_setting_and_kind_has_a_meaning():
    assert len(SETTINGS) > 200
    assert not [named(each) for each in SETTINGS if not each.meaning]
    kinds = [kind for each in SETTINGS for kind in each.kinds if kind.name]
    assert not [kind.name for kind in kinds if not kind.meaning]


def given(tree: Any, path: str = "") -> Iterator[str]:
    """Yield the path of every setting of a run file."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            inner = f"{path}.{key}" if path else str(key)
            if key != "kind":
                yield inner
            yield from given(value, inner)
    elif isinstance(tree, list):
        for each in tree:
            yield from given(each, path)


@pytest.mark.parametrize("path", carried().values(), ids=lambda path: path.stem)
def test_every_setting_of_a_carried_run_file_can_be_explained(path: Path):
    tree = parse_yaml(path.read_text())
    use = tree[ENVIRONMENT]["use"]
    paths = list(given(tree))
    assert len(paths) > 15
    for each in paths:
        assert each in explanation(find(each, use)).replace("[]", "")


BOUNDS = {
    r"at least ([\d.-]+)": (lambda n, down, up: (down, n)),
    r"above ([\d.-]+)": (lambda n, down, up: (n, up)),
    r"at most ([\d.-]+)": (lambda n, down, up: (up, n)),
    r"below ([\d.-]+)": (lambda n, down, up: (n, down)),
    r"number, ([\d.-]+) to": (lambda n, down, up: (down, n)),
    r"number, .* to ([\d.-]+)": (lambda n, down, up: (up, n)),
}
"""Words of a range -> of the bound and its neighbours, what is refused and what is accepted."""


def bounds(setting: Setting) -> Iterator[tuple[float, float]]:
    whole = setting.form.startswith("whole")
    for words, sides in BOUNDS.items():
        found = re.search(words, setting.form)
        if found:
            n = int(found[1]) if whole else float(found[1])
            down = n - 1 if whole else math.nextafter(n, -math.inf)
            up = n + 1 if whole else math.nextafter(n, math.inf)
            yield sides(n, down, up)


def faults(setting: Setting, value: Any) -> list[str]:
    """What the decoder has against one value of a setting, in the kinds that it belongs to."""
    *outer, last = setting.path.split(".")
    kinds = [each.partition(" ")[2] for each in setting.of if each.startswith("kind ")]
    tree: Any = {last: value} | ({"kind": kinds[0]} if kinds else {})
    for name in reversed(outer):
        tree = {name.removesuffix("[]"): [tree] if name.endswith("[]") else tree}
    found: list[str] = []
    if outer[:1] == [ENVIRONMENT]:
        use = setting.of[0].partition(" ")[2]
        check_section(config_types()[use], tree[ENVIRONMENT], "$.environment", found)
    elif outer == ["learner", "objective"]:
        check_objective(tree["learner"]["objective"], found)
    else:
        check_section(RunConfig, tree, "$", found)
    path = re.escape(setting.path).replace(re.escape("[]"), r"\[0\]")
    return [each for each in found if re.match(rf"\$\.{path}: ", each)]


NUMBERS = [each for each in SETTINGS if re.match("(whole )?number", each.form)]


def test_every_number_has_a_range():
    assert len(NUMBERS) > 100
    assert not [named(each) for each in NUMBERS if not list(bounds(each))]


ABSURD = (-1e300, -(10**30), 10**17, 10**30, 1e300, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("setting", NUMBERS, ids=named)
def test_no_number_may_be_absurd(setting: Setting):
    named = ("environment.world", "environment.domain")
    seed = setting.path.endswith("seed") or setting.path in named
    for value in ABSURD:
        assert faults(setting, value) or (seed and value == 10**17), value


@pytest.mark.parametrize("setting", NUMBERS, ids=named)
def test_an_explained_range_is_the_decoders(setting: Setting):
    for refused, accepted in bounds(setting):
        assert faults(setting, refused)
        assert not faults(setting, accepted)


def test_every_explained_default_is_accepted():
    own = [each for each in SETTINGS if each.default and not each.kinds]
    own = [each for each in own if each.path != "environment.use"]
    assert len(own) > 150
    for setting in own:
        assert not faults(setting, parse_yaml(setting.default or "")), named(setting)


def test_a_setting_is_found_as_errors_and_overrides_write_it():
    steps = find("learner.steps")
    assert find("$.learner.steps") == find("learner.steps=3") == steps
    assert find("environment.stages[0].groups") == find("environment.stages.groups")
    assert plain_path(find("environment.stages.0.groups")[0].path) == "environment.stages.groups"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lr", "learner.learning_rate"),
        ("learner.lr", "learner.learning_rate"),
        ("rate", "learner.learning_rate"),
        ("step", "learner.steps"),
    ],
)
def test_a_name_that_is_not_a_setting_suggests_the_nearest(name: str, meant: str):
    with pytest.raises(ConfigError, match=r"did you mean .*") as refused:
        find(name)
    assert meant in str(refused.value).partition("did you mean ")[2]


def test_a_setting_of_several_kinds_is_explained_once_with_each_default():
    said = explanation(find("learner.objective.clip_high"))
    assert said.startswith("learner.objective.clip_high  (kind dapo, dr_grpo, grpo, gspo)\n")
    assert "default 0.28 (dapo, grpo), 0.2 (dr_grpo), 0.0004 (gspo)" in said
    assert said.count("above 1") == 1


def test_a_setting_is_explained_in_the_environments_that_have_it():
    said = explanation(find("environment.seeds"))
    assert "(environment filesystem)" in said
    assert "(environment bfcl)" in said
    only = find("environment.seeds", "bfcl")
    assert [each.of for each in only] == [("environment bfcl",)]
    own = find("environment.tasks", "package.module:Class")
    assert own[0].default is None


def test_the_name_of_a_type_adds_what_its_values_mean():
    said = explanation(find("store.durability"))
    assert "`power`: also a power cut" in said
    assert "one of process, power\n    default process\n" in said


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("lerner.steps", "did you mean learner.steps"),
        ("steps", "did you mean synthesizer.steps or learner.steps or"),
        ("learner.learning_rat", "did you mean learner.learning_rate"),
        ("clip_hihg", "learner.objective.clip_high"),
        ("qqq", "`coevolve config explain` lists the sections"),
    ],
)
def test_an_unknown_setting_is_answered_with_near_ones(name: str, answer: str):
    with pytest.raises(ConfigError) as caught:
        find(name)
    assert answer in str(caught.value)


def test_an_unknown_environment_is_refused():
    with pytest.raises(ConfigError, match="needs the name of an environment"):
        find("environment.seeds", "bfc")


def test_the_overview_has_every_section():
    assert all(f"    {field}: " in overview() for field in RunConfig.__struct_fields__)


def test_an_environment_without_use_is_the_default_one():
    found: list[str] = []
    check_environment({"seeds": 3}, found)
    assert not found
