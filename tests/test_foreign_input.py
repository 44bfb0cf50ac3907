"""Whatever a stranger writes, its reader reads it or refuses it in a clear sentence, in time.

`python -m tests.bench mutations` does the same with 10,000 inputs of each kind.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.bench.mutations import KINDS, fault_of, made, measured
from tests.foreign_models import MODEL_READERS
from tests.foreign_readers import READERS

MOST_BYTES = 8_192
"""Larger known inputs take most of the time."""


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_input_is_read_or_refused(kind: str) -> None:
    inputs = 40 if kind in MODEL_READERS else 120
    outcome = measured(kind, made(kind, inputs, seed=1, most_bytes=MOST_BYTES))
    assert not outcome.faults
    assert not outcome.over
    assert outcome.read
    assert outcome.refused


@pytest.mark.parametrize("kind", READERS)
def test_arbitrary_input_is_read_or_refused(kind: str) -> None:
    reader = READERS[kind]()

    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(content=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
    def check(content: bytes) -> None:
        _, fault = fault_of(reader, content)
        assert not fault

    check()
