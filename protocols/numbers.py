"""Numeric ranges for settings. Each has both ends: a number beyond them is a slip.

Seeds leave room for those that are made by adding to them, which have to stay below 2^63. Seconds
are up to eleven days; the kernel's waits, which count milliseconds, end after 24.
"""

from typing import Annotated

import msgspec

MOST = 1_000_000
MOST_MB = 1 << 24
MOST_TOKENS = 1 << 24

Count = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
NonNegative = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Processes = Annotated[int, msgspec.Meta(ge=1, le=1024)]
AtOnce = Annotated[int, msgspec.Meta(ge=1, le=65_536)]
Tries = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Tokens = Annotated[int, msgspec.Meta(ge=1, le=MOST_TOKENS)]
TokenBudget = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
Megabytes = Annotated[int, msgspec.Meta(ge=64, le=MOST_MB)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62) - 1)]

Seconds = Annotated[float, msgspec.Meta(gt=0.0, le=1e6)]
NonNegativeSeconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e6)]
Positive = Annotated[float, msgspec.Meta(gt=0.0, le=1e9)]
Dollars = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
Weight = Annotated[float, msgspec.Meta(ge=0.0, le=1e6)]
LearningRate = Annotated[float, msgspec.Meta(gt=0.0, le=10.0)]
Temperature = Annotated[float, msgspec.Meta(ge=0.0, le=100.0)]
MIN_TEMPERATURE = 0.01
"""Lowest temperature above 0 at which every engine samples as asked: vLLM raises lower ones to it,
and the learner would score its tokens at another temperature than they were sampled at."""

TrainedTemperature = Annotated[float, msgspec.Meta(ge=MIN_TEMPERATURE, le=100.0)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
