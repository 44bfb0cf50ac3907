"""Fakes that satisfy the interfaces of `protocols.interfaces`, as pyright checks."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from coevolve.environments.tools.commands import Failed, Observed, Passed, Tried, TriedTurn, Verdict
from coevolve.environments.tools.task import ToolTask, ToolTurn
from protocols.control import PartStatus
from protocols.errors import JournalError, PartDiedError, SimulatorError
from protocols.generation import Generation, GenerationRequest
from protocols.journal import StoredRecord
from protocols.learning import PolicyVersion, ServedWeights
from protocols.tasks import Seeded, Task, attempted, body_of

CALL, END, SAY, SEE = 1, 2, 3, 4
"""Tokens of `ScriptRenderer`: ends of a call and of a turn, starts of words and of an answer."""


def tool_task(*instructions: str, task_id: str = "task") -> Task:
    """Return a task whose reference has one call per turn, named like the instruction."""
    return Task(
        task_id=task_id,
        split="train",
        origin=Seeded(source="test"),
        skills=instructions,
        body=body_of(
            ToolTask(
                classes=("Fake",),
                world="{}",
                turns=tuple(
                    ToolTurn(instruction=text, reference=(f"{text}()",)) for text in instructions
                ),
            )
        ),
    )


async def instance(task: Task, number: int) -> Task | None:
    """Return an instance of a task whose id has more than one letter."""
    return tool_task("ls", task_id=attempted(task.task_id, number)) if task.task_id[1:] else None


class ScriptRenderer:
    """Encodes a character as its code point plus 100; a semicolon separates two calls."""

    stop_ids = (CALL, END)

    def opening(self, task: ToolTask) -> tuple[int, ...]:
        return self.instruction(task, 0)

    def instruction(self, task: ToolTask, turn: int, said: Sequence[int] = ()) -> tuple[int, ...]:
        return (SAY, *(100 + ord(c) for c in task.turns[turn].instruction))

    def observation(self, results: Sequence[str], said: Sequence[int] = ()) -> tuple[int, ...]:
        return tuple(token for each in results for token in (SEE, *(100 + ord(c) for c in each)))

    def parse(self, token_ids: Sequence[int], classes: Sequence[str] = ()) -> tuple[str, ...]:
        if token_ids[-1] == END:
            return ()
        if len(token_ids) < 2:
            raise ValueError("an empty call")
        return tuple("".join(chr(token - 100) for token in token_ids[:-1]).split(";"))

    def words(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(token - 100) for token in token_ids[:-1])

    def demonstration(self, task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (), ()


class ScriptGenerator:
    """Writes the given texts, one per request: a call, or the end of the turn for ``None``."""

    def __init__(self, script: Sequence[str | None], version: int = 0) -> None:
        self._script = list(script)
        self.version = version
        self.requests: list[GenerationRequest] = []
        self.released: list[str] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        self.requests.append(request)
        text = self._script.pop(0)
        ids = (END,) if text is None else (*(100 + ord(c) for c in text), CALL)
        ids = ids[: request.max_tokens]
        return Generation(
            token_ids=ids,
            logprobs=(-0.5,) * len(ids),
            versions=(self.version,) * len(ids),
            stopped=ids[-1] in request.stop_ids,
        )

    async def release(self, conversation_id: str) -> None:
        self.released.append(conversation_id)

    async def load(self, version: PolicyVersion) -> ServedWeights:
        self.version = version.version
        return ServedWeights(
            version=version.version,
            digest=version.digest,
            logprobs=version.probe.logprobs,
            precision="float32",
            form="whole",
            rows={},
            wall_s=0.0,
            pause_s=0.0,
        )

    def cpu_s(self) -> float:
        return 0.0

    async def close(self) -> None:
        return


class ScriptSimulator:
    """Answers every call with its text; a turn passes if its last call was in ``right``."""

    def __init__(self, right: Sequence[str], breaks: Callable[[str], bool] = lambda _: False):
        self._right = right
        self._breaks = breaks
        self._said: dict[str, str] = {}
        self.open: set[str] = set()
        self.judged: list[str] = []
        """The words of every turn."""

    async def reset(self, session: str, task: ToolTask) -> None:
        self.open.add(session)

    async def act(self, session: str, text: str) -> Observed:
        if self._breaks(session):
            raise SimulatorError("the child died")
        self._said[session] = text
        return Observed(result=f"<{text}>", failed=text not in self._right)

    async def grade(self, session: str, words: str = "") -> Verdict:
        self.judged.append(words)
        said = self._said.pop(session, "")
        return Passed() if said in self._right else Failed(reason="state")

    async def release(self, session: str) -> None:
        self.open.discard(session)

    async def trial(self, name: str, task: ToolTask, turns: Sequence[Sequence[str]]) -> Tried:
        played: list[TriedTurn] = []
        for calls in turns:
            observed = tuple([await self.act(name, call) for call in calls])
            said = repr((tuple(played), calls))
            played.append(TriedTurn(observed=observed, verdict=await self.grade(name), state=said))
        return Tried(initial="", turns=tuple(played))


class EmptyReader:
    """An empty journal."""

    async def read(self, sequences: Sequence[int]) -> Sequence[StoredRecord]:
        if sequences:
            raise JournalError("nothing is held")
        return ()

    async def scan(self, topic: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        return ()

    async def last(self, topic: str) -> StoredRecord | None:
        return None

    async def find(self, index: str, key: str, limit: int = 1000) -> Sequence[StoredRecord]:
        return ()


class ScriptPart:
    """A supervised part with scripted runs: each raises an exception, or stops for None."""

    def __init__(self, name: str, endings: Sequence[Exception | None]) -> None:
        self._name = name
        self._endings = list(endings)
        self.then: SteadyPart | None = None
        """What it does after its last ending."""

        self.runs = 0
        self.renewals = 0
        self.alive = True
        self.pid = 1
        self.done = 0

    @property
    def name(self) -> str:
        return self._name

    async def run(self) -> None:
        self.runs += 1
        await asyncio.sleep(0)
        if not self._endings and self.then is not None:
            await self.then.run()
            return
        ending = self._endings.pop(0)
        if ending is not None:
            raise ending

    async def renew(self) -> None:
        self.renewals += 1
        self.pid += 1

    async def stop(self) -> None:
        return

    async def end(self) -> None:
        self.alive = False

    async def status(self) -> PartStatus:
        return PartStatus(
            part=self._name,
            pid=self.pid if self.alive else None,
            waits_for="complete groups (5 of 8)",
            since_s=7.0,
            mailbox=0,
            done=self.done,
            policy_version=-1,
            last_error="",
            cpu_s=12.0,
            memory_bytes=34_000_000,
            peak_bytes=56_000_000,
        )

    async def cpu_s(self) -> float:
        return 0.0


class SteadyPart:
    """A supervised part that works until it is stopped or ended, or raises ``failure``."""

    def __init__(self, name: str, failure: Exception | None = None) -> None:
        self._name = name
        self._failure = failure
        self._ended = asyncio.Event()
        self.stopped = False
        self.alive = True
        self._pid = 1

    @property
    def name(self) -> str:
        return self._name

    async def run(self) -> None:
        if self._failure is not None:
            raise self._failure
        await self._ended.wait()
        if not self.stopped:
            raise PartDiedError(f"{self._name}: its process ended")

    async def renew(self) -> None:
        self._pid += 1

    async def stop(self) -> None:
        self.stopped = True
        self._ended.set()

    async def end(self) -> None:
        self.alive = False
        self._ended.set()

    async def status(self) -> PartStatus:
        return PartStatus(
            part=self._name,
            pid=self._pid if self.alive else None,
            waits_for="requests",
            since_s=0.0,
            mailbox=0,
            done=0,
            policy_version=-1,
            last_error="",
        )

    async def cpu_s(self) -> float:
        return 0.0


async def all_work(causes: Mapping[str, str]) -> None:
    """Take note of the parts that rest in a test in which none does."""
    raise AssertionError(causes)
