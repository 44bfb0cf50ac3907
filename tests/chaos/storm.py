"""A seeded storm over a run: who is struck, when and how, and how soon the run recovers.

The seed and its number decide a blow: what it does, to which kind of process, for how long, and the
pause before the next one. How fast the machine is decides only whether that kind lives then; if it
does not, the next number follows.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.chaos.blows import Clock, Disk, cut_connection
from tests.chaos.population import KEPT, LOSSES, PARTS, by_kind
from tests.chaos.subject import Subject

LOOK_S = 0.1
PATIENCE_S = 900.0
"""Seconds without recovery after which a blow counts as fatal."""

MOST_OPEN = 6
"""Blows from which the run may be recovering when the next one comes."""

WHOLE_EVERY = 5
"""Each blow of so many waits until the run has recovered from all others."""

TELL_S = 30.0

WEIGHTS = {
    **dict.fromkeys(PARTS, 5.0),
    "template": 1.0,
    "idle worker": 1.0,
    "child": 1.0,
    "Ray's monitor": 0.5,
    "Ray's dashboard": 0.5,
    "Ray's log monitor": 0.5,
    "guard": 1.0,
    **dict.fromkeys(LOSSES, 0.3),
}
"""How often a kind of process is struck, relative to the others."""

SIGNALS_SHARE = {"kill": 0.8, "stop": 0.12, "cut": 0.05, "full disk": 0.01, "clock": 0.02}


@dataclass
class Blow:
    """One blow, and what became of it; times in seconds of `time.monotonic`."""

    how: str
    kind: str
    at: float
    pids: tuple[int, ...]
    step: int
    start: int
    newest: int
    whole: bool
    """Whether the run was whole, and no other blow came before ``back_s``."""

    back_s: float | None = None
    """Seconds until the part, or the run, worked again."""

    step_s: float | None = None
    """Seconds until the run took its next step."""


@dataclass
class Storm:
    """Strikes a run until it has had ``kills`` kills and stops, or ``minutes`` have passed."""

    subject: Subject
    seed: int
    kills: int
    minutes: float
    pace_s: float
    disk: Disk | None
    clock: Clock | None
    weights: Mapping[str, float]
    say: Callable[[str], None]
    """Writes a line about each blow."""

    tell: Callable[[str], None]
    """Writes a line every `TELL_S` seconds."""

    blows: list[Blow] = field(default_factory=list[Blow])
    faults: list[str] = field(default_factory=list[str])
    _later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _expected: int = 0
    """Ends of the keeper that a blow explains."""

    _number: int = 0
    """Of the next blow."""

    def rage(self) -> None:
        """Strike until the end; then undo everything that would hold the run back."""
        began = due = told = time.monotonic()
        while (now := time.monotonic()) < began + 60 * self.minutes and self.struck() < self.kills:
            self._tick()
            if now >= due and self._is_calm():
                due = now + self._strike()
            if now >= told + TELL_S:
                told = now
                self.tell(f"{(now - began) / 60:.1f} min: {self._standing()}")
            time.sleep(LOOK_S)
        self.settle()

    def settle(self) -> None:
        """Undo what holds the run back, and wait until it has recovered from every blow."""
        for _, undo in self._later:
            undo()
        self._later.clear()
        ends = time.monotonic() + PATIENCE_S
        while self._open() and time.monotonic() < ends:
            self._tick()
            time.sleep(LOOK_S)

    def struck(self) -> int:
        """Return the number of kills and stops so far."""
        return sum(each.how in ("kill", "stop") for each in self.blows)

    def _standing(self) -> str:
        return (
            f"{self.struck()} of {self.kills} kills and stops, {len(self.blows)} blows, recovering "
            f"from {len(self._open())}, {self.subject.newest} records, {len(self.faults)} faults"
        )

    def _open(self) -> list[Blow]:
        return [each for each in self.blows if each.step_s is None or each.back_s is None]

    def _is_calm(self) -> bool:
        """Return whether the next blow may come: never amid a resumption."""
        opened = self._open()
        if self._number % WHOLE_EVERY == 0:
            return self._is_whole()
        return len(opened) < MOST_OPEN and not any(_is_loss(each) for each in opened)

    def _is_whole(self) -> bool:
        return not self._open() and not self._later

    def _tick(self) -> None:
        self.subject.look()
        now = time.monotonic()
        for due, undo in [each for each in self._later if each[0] <= now]:
            undo()
            self._later.remove((due, undo))
        for blow in self._open():
            self._follow(blow, now)
        if (ended := self.subject.ended()) is not None:
            self._begin_again(*ended)

    def _follow(self, blow: Blow, now: float) -> None:
        if blow.back_s is None and self._is_back(blow):
            blow.back_s = now - blow.at
        after = self.subject.start if _is_loss(blow) else blow.step
        if blow.step_s is None and blow.back_s is not None and self.subject.step > after:
            blow.step_s = now - blow.at
            self.say(
                f"recovered from {blow.how} {blow.kind}: back after {blow.back_s:.2f} s, "
                f"step after {blow.step_s:.2f} s"
            )
        if now - blow.at > PATIENCE_S and (blow.back_s is None or blow.step_s is None):
            self.faults.append(f"no recovery within {PATIENCE_S:.0f} s of {blow.how} {blow.kind}")
            self.say(f"NO RECOVERY after {blow}; {self.subject.said()}")
            blow.back_s = blow.back_s or now - blow.at
            blow.step_s = blow.step_s or now - blow.at
            self.subject.restart()

    def _is_back(self, blow: Blow) -> bool:
        if blow.how != "kill":
            return True
        if _is_loss(blow) or self.subject.start > blow.start:
            return self.subject.start > blow.start
        alive = by_kind(self.subject.living).get(blow.kind, [])
        others = [each for each in alive if each.pid not in blow.pids and each.started]
        if blow.kind == "store":
            return bool(others) and self.subject.newest > blow.newest
        return len(others) >= self.subject.usual.get(blow.kind, 0) or blow.kind not in KEPT

    def _strike(self) -> float:
        """Strike, if the process lives that the next number draws; return the pause after it."""
        random = Random(f"{self.seed}/{self._number}")
        self._number += 1
        how, kind = _drawn(random, SIGNALS_SHARE), _drawn(random, self.weights)
        pause_s = random.expovariate(1 / self.pace_s)
        if how == "full disk" and self.disk is not None:
            self._fill_disk(self.disk, random)
        elif how == "clock" and self.clock is not None:
            self._step_clock(self.clock, random)
        elif how not in ("kill", "stop", "cut") or not self._hit(how, kind, random):
            return 0.0
        return pause_s

    def _victims(self, kind: str, random: Random) -> tuple[int, ...]:
        """Return whom a blow strikes; nobody while the launcher is away."""
        living = by_kind(self.subject.living)
        if "launcher" not in living:
            return ()
        if kind == "guard and launcher":
            struck = [*living.get("guard", [])[:1], living["launcher"][0]]
        else:
            struck = random.choices(living[kind]) if kind in living else []
        return tuple(each.pid for each in struck)

    def _hit(self, how: str, kind: str, random: Random) -> bool:
        """Kill, stop or cut off a process of a kind, and return whether there was one."""
        pids = self._victims(kind, random)
        if not pids or (how == "cut" and not cut_connection(pids[0], random)):
            return False
        blow = self._note(how, kind, pids)
        if how == "stop":
            duration_s = min(60.0, random.expovariate(1 / 3.0))
            _send(pids, signal.SIGSTOP)
            self._later.append((blow.at + duration_s, lambda: _send(pids, signal.SIGCONT)))
        elif how == "kill":
            _send(pids, signal.SIGKILL)
            if kind == "keeper":
                # As systemd does, which kills the whole control group of a service.
                self._expected += 1
                self.subject.kill_all()
        return True

    def _fill_disk(self, disk: Disk, random: Random) -> None:
        blow = self._note("full disk", "run's folder", ())
        disk.fill()
        self._expected += 1
        self._later.append((blow.at + random.uniform(1.0, 8.0), disk.free))

    def _step_clock(self, clock: Clock, random: Random) -> None:
        seconds = random.choice((-86400, -3600, -5, 0, 5, 3600, 86400))
        self._note("clock", f"{seconds:+d} s", ())
        clock.step(seconds)

    def _note(self, how: str, kind: str, pids: tuple[int, ...]) -> Blow:
        subject, whole = self.subject, self._is_whole()
        for each in self._open():
            each.whole = each.whole and each.back_s is not None
        blow = Blow(
            how=how,
            kind=kind,
            at=time.monotonic(),
            pids=pids,
            step=subject.step,
            start=subject.start,
            newest=subject.newest,
            whole=whole,
        )
        self.blows.append(blow)
        self.say(f"{len(self.blows)}: {how} {kind} {pids} at step {subject.step}")
        return blow

    def _begin_again(self, code: int, said: str) -> None:
        """Start the keeper again, as systemd or a user does who has freed the disk."""
        for _, undo in self._later:
            undo()
        self._later.clear()
        if self._expected:
            self._expected -= 1
        else:
            self.faults.append(f"the run ended by itself with code {code}: {said}")
        self.say(f"the keeper ended with code {code}: {said}")
        self.subject.begin(resume=True)


def _drawn(random: Random, weights: Mapping[str, float]) -> str:
    return random.choices(list(weights), list(weights.values()))[0]


def _is_loss(blow: Blow) -> bool:
    return blow.how == "kill" and blow.kind in LOSSES


def _send(pids: tuple[int, ...], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
