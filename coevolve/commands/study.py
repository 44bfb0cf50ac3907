"""Studies: files that name arms, seeds and contrasts before any of the runs is made."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from coevolve.base.foreign import shown
from coevolve.base.shipped import configs
from coevolve.base.similar import file_meant
from coevolve.commands.grid import Plan
from coevolve.config.load import load_config
from coevolve.config.overrides import fault_report
from coevolve.config.run_files import run_file, text_of
from coevolve.yaml.structs import check_section
from coevolve.yaml.text import NotYamlError, parse_yaml
from protocols.errors import ConfigError
from protocols.numbers import Count

STUDIES = "studies"
"""The folder of ``configs/`` with the studies that coevolve carries."""

_ARM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
Pair = Annotated[tuple[str, ...], msgspec.Meta(min_length=2, max_length=2)]


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arms that are compared over the same seeds."""

    run_file: str
    """The run file that all arms share: a path, relative to the working folder or else to the
    study's, or a name."""

    seeds: Annotated[tuple[int, ...], msgspec.Meta(min_length=2, max_length=100)]
    """Seeds of the runs. Runs of equal seed begin with the same weights and are a pair."""

    settings: tuple[str, ...] = ()
    """What all arms change in the run file, each as ``KEY=VALUE``."""

    arms: Mapping[str, tuple[str, ...]]
    """Arm -> what it changes besides."""

    contrasts: tuple[Pair, ...]
    """Pairs of arms; the first one's score minus the second's is tested."""

    gap: Pair | None = None
    """Two arms, the lower first: the others' scores are also told as a share of this difference."""

    last_scores: Count = 3
    """How many of a run's last scores are averaged to its result."""


def study_of(name: str) -> Study:
    """Return the study in a file, or the one that coevolve carries under this name.

    Raises ConfigError if there is none, or if it or its run file's path breaks rules.
    """
    carried = configs() / STUDIES / f"{name}.yaml"
    path = carried if carried.is_file() and not Path(name).exists() else Path(name)
    if not path.is_file():
        known = ", ".join(each.stem for each in sorted((configs() / STUDIES).glob("*.yaml")))
        meant = file_meant(path) or f"; name a file, or one of: {known}"
        raise ConfigError(f"{name}: there is no such study{meant}")
    try:
        tree = parse_yaml(text_of(path))
    except NotYamlError as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from error
    faults: list[str] = []
    check_section(Study, tree, "$", faults)
    if not faults:
        study = msgspec.convert(tree, Study)
        named = _looked_up(study.run_file, path.parent)
        study = msgspec.structs.replace(study, run_file=named)
        faults = list(_faults(study))
        if not faults:
            return study
    raise ConfigError(fault_report(path, faults, ()))


def _looked_up(named: str, folder: Path) -> str:
    """Return the run file that is in ``folder`` if the working folder has none of this path."""
    beside = folder / named
    return f"{beside}" if beside.is_file() and not Path(named).exists() else named


def plans_of(study: Study, seeds: Sequence[int]) -> Sequence[Plan]:
    """Return the runs of these seeds, those of a seed together.

    Raises ConfigError if an arm's settings break rules.
    """
    path = run_file(study.run_file)
    return [
        Plan(
            arm=arm,
            seed=seed,
            run_file=path.absolute(),
            config=load_config(path, words := (*study.settings, *changed, f"seed={seed}")),
            overrides=words,
        )
        for seed in seeds
        for arm, changed in study.arms.items()
    ]


def _faults(study: Study) -> Iterator[str]:
    try:
        run_file(study.run_file)
    except ConfigError as error:
        yield f"$.run_file: {error}"
    if len(set(study.seeds)) < len(study.seeds):
        yield f"$.seeds: needs different seeds, found {list(study.seeds)}; name each once"
    for arm in study.arms or ("",):
        if not _ARM.fullmatch(arm):
            yield (
                "$.arms: needs names of 1 to 40 letters, digits, `.`, `_` and `-`, the first a "
                f"letter or digit, found {shown(arm)}"
            )
    named = [*study.contrasts, *([study.gap] if study.gap else [])]
    for one, other in named:
        if one == other:
            yield f"$.contrasts, $.gap: needs two different arms, found {one} twice"
    missing = sorted({arm for pair in named for arm in pair} - set(study.arms))
    for arm in missing:
        yield f"$.contrasts, $.gap: {arm!r} is none of the arms, which are {', '.join(study.arms)}"
