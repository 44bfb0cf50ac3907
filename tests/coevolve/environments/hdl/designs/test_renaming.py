"""Instances of designs: other names of ports, at the same places, in all texts."""

import random
import re

import msgspec
import pytest

from coevolve.environments.hdl.designs.catalogue import Catalogue
from coevolve.environments.hdl.designs.design import Design
from coevolve.environments.hdl.designs.folders import load_all
from coevolve.environments.hdl.designs.renaming import instance, new_names, root_of
from coevolve.environments.hdl.designs.rtl import elaborate, ports_of
from coevolve.environments.hdl.parts import DESIGNS
from coevolve.environments.hdl.simulate.messages import SourceFile
from protocols.errors import JournalError
from tests.small_designs import COUNTER, counter

SHIPPED = {design.design_id: design for design in load_all(DESIGNS)}
BY_ID = pytest.mark.parametrize("design_id", SHIPPED)

COMMENTED = COUNTER.replace(
    "  always_ff",
    '  // count goes `up` by step, up to high\n  initial $display("up");\n  always_ff',
)
SPECIFICATION = "Set `up` to count up: `count[0]` is up_down. ```\nup = 1; clk = 0;\n``` It is up."


def names_of(design: Design) -> list[str]:
    return [port.name for port in design.ports]


def commented() -> Design:
    given = counter(specification=SPECIFICATION)
    files = (SourceFile(name="counter.sv", text=COMMENTED),)
    return msgspec.structs.replace(given, unit=msgspec.structs.replace(given.unit, files=files))


def test_all_ports_but_clock_and_reset_get_unused_names_of_the_same_form():
    given = counter()
    names = new_names(given, random.Random(0))
    assert list(names) == ["up", "step", "count", "high"]
    assert all(len(old) == len(new) for old, new in names.items())
    assert len({*names.values(), *names_of(given)}) == 4 + 6
    assert not any(name in COUNTER for name in names.values())


def test_source_is_renamed_by_identifier_and_prose_where_it_is_code():
    made = instance(commented(), 3)
    _, _, up, step, count, high = names_of(made)
    text = made.unit.files[0].text
    assert f"// count goes `{up}` by step, up to high" in text
    assert '$display("up")' in text
    assert f"else if ({up}) {count} <= {count} + {{4'd0, {step}}};" in text
    assert made.specification == (
        f"Set `{up}` to count up: `{count}[0]` is up_down. ```\n{up} = 1; clk = 0;\n``` It is up."
    )
    assert f"{up} <= 1; {step} <= 5;" in made.testbenches["good"]
    assert f"logic {up}" not in counter().testbenches["good"]
    assert high in text


def test_an_instance_depends_on_design_and_seed_alone():
    assert instance(counter(), 1) == instance(counter(), 1)
    assert names_of(instance(counter(), 1)) != names_of(instance(counter(), 2))
    assert names_of(instance(counter("other"), 1)) != names_of(instance(counter(), 1))


def test_an_id_names_design_and_seed():
    assert instance(counter(), 12).design_id == "counter~12"
    assert root_of("counter~12") == ("counter", 12)
    assert root_of("counter") is root_of("counter~") is root_of("counter.c1") is None


def test_the_catalogue_makes_instances_of_the_designs_it_knows():
    catalogue = Catalogue([counter()])
    made = catalogue.get("counter~4")
    assert made == instance(counter(), 4)
    assert catalogue.get("counter~4") is made
    with pytest.raises(JournalError, match="about the design 'other'"):
        catalogue.get("other~4")


@BY_ID
def test_texts_of_an_instance_are_as_long_and_elaborate_to_the_same_ports(design_id: str):
    given = SHIPPED[design_id]
    made = instance(given, 1)
    assert ports_of(elaborate(made.unit)) == made.ports
    for old, new in zip(given.unit.files, made.unit.files, strict=True):
        assert [*map(len, old.text.splitlines())] == [*map(len, new.text.splitlines())]
    assert len(made.specification) == len(given.specification)
    renamed = {*names_of(given)} - {*names_of(made)}
    assert len(renamed) >= len(given.ports) - 2
    code = "".join(re.findall(r"`[^`\n]+`", made.specification))
    assert not renamed & {*re.findall(r"\w+", code)}
