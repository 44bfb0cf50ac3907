"""A `Run` whose parts do nothing, on a cluster whose rooms a test sets."""

from collections.abc import Mapping, Sequence

from coevolve.history.directory import RunDirectory
from coevolve.history.progress import Progress
from coevolve.journal.local_store import LocalStore
from coevolve.runs.drive import Run
from coevolve.runs.run_parts import RunParts
from coevolve.runs.scaling import EnginePool
from protocols.config import RunConfig
from protocols.errors import CoevolveError
from protocols.journal import Message
from tests.fakes import SteadyPart


class Host:
    """A cluster whose rooms and whose refusal a test sets."""

    def __init__(self, rooms: Mapping[str, int]) -> None:
        self.free: Mapping[str, int] = rooms
        self.refuses = ""
        self.small: Sequence[str] = ()
        self.failure: CoevolveError | None = None
        self.started: dict[str, list[SteadyPart]] = {}
        self.places: dict[str, str] = {}

    async def rooms(self) -> Mapping[str, int]:
        return self.free

    def too_small(self) -> Sequence[str]:
        return self.small

    async def refusal(self, actors: int) -> str:
        return self.refuses and f"{actors}: {self.refuses}"

    def start(self, name: str, place: str) -> SteadyPart:
        part = SteadyPart(name, self.failure)
        self.started.setdefault(name, []).append(part)
        self.places[name] = place
        return part


class Shown:
    """A display that keeps what it shows."""

    look = None

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def begin(self, phase: str) -> None:
        del phase

    def show(self, message: Message, progress: Progress) -> None:
        del progress
        self.messages.append(message)

    def say(self, text: str) -> None:
        del text

    def close(self) -> None:
        return


async def idle_run(
    config: RunConfig, directory: RunDirectory, store: LocalStore, shown: Shown
) -> Run:
    """Return a run of one engine and a learner."""
    pool, learner = EnginePool(Host({"": 1}), 1), SteadyPart("learner")
    await pool.open()
    return Run(
        config,
        directory,
        RunParts(supervised=[*pool.parts, learner], pool=pool, models=[learner]),
        store=store,
        reader=store,
        labels={},
        display=shown,
        started=0.0,
    )
