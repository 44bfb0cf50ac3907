"""A seeded storm over a run: who is struck, when and how, and how soon the run recovers."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.chaos.blows import Clock, Disk, cut_connection
from tests.chaos.population import LOSSES, PARTS, Living, by_kind
from tests.chaos.subject import Subject

LOOK_S = 0.05
PATIENCE_S = 400.0
"""Seconds without recovery after which a blow counts as fatal."""

MOST_OPEN = 6
"""Blows from which the run may be recovering when the next one comes."""

WEIGHTS = {
    **dict.fromkeys(PARTS, 5.0),
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
    back_s: float | None = None
    """Seconds until the part, or the run, worked again."""

    step_s: float | None = None
    """Seconds until the run took its next step."""


@dataclass
class Storm:
    """Strikes a run until it has had ``kills`` kills and stops, or ``minutes`` have passed."""

    subject: Subject
    random: Random
    kills: int
    minutes: float
    pace_s: float
    disk: Disk | None
    clock: Clock | None
    weights: Mapping[str, float]
    say: Callable[[str], None]
    blows: list[Blow] = field(default_factory=list[Blow])
    faults: list[str] = field(default_factory=list[str])
    _later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _expected: int = 0
    """Ends of the keeper that a blow explains."""

    def rage(self) -> None:
        """Strike until the end; then undo everything that would hold the run back."""
        ends = time.monotonic() + 60 * self.minutes
        due = time.monotonic()
        while self._struck() < self.kills and time.monotonic() < ends:
            self._tick()
            if time.monotonic() >= due and self._is_calm():
                self._strike()
                due = time.monotonic() + self.random.expovariate(1 / self.pace_s)
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

    def _struck(self) -> int:
        return sum(each.how in ("kill", "stop") for each in self.blows)

    def _open(self) -> list[Blow]:
        return [each for each in self.blows if each.step_s is None or each.back_s is None]

    def _is_calm(self) -> bool:
        """Return whether another blow may come: never amid a resumption."""
        opened = self._open()
        return len(opened) < MOST_OPEN and not any(_is_loss(each) for each in opened)

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
        return len(others) >= self.subject.usual.get(blow.kind, 0) or blow.kind not in PARTS

    def _strike(self) -> None:
        how = self._drawn(SIGNALS_SHARE)
        living = by_kind(self.subject.living)
        if how == "full disk" and self.disk is not None:
            self._fill_disk(self.disk)
        elif how == "clock" and self.clock is not None:
            self._step_clock(self.clock)
        elif how in ("kill", "stop", "cut") and "launcher" in living:
            both = [*living.get("guard", [])[:1], *living["launcher"][:1]]
            living = {**living, "guard and launcher": both}
            kind = self._drawn({each: self.weights.get(each, 0.0) for each in living})
            self._hit(how, kind, living[kind])

    def _hit(self, how: str, kind: str, candidates: list[Living]) -> None:
        both = kind == "guard and launcher"
        victims = candidates if both else [self.random.choice(candidates)]
        pids = tuple(each.pid for each in victims)
        if how == "cut" and not cut_connection(pids[0], self.random):
            return
        blow = self._note(how, kind, pids)
        if how == "stop":
            duration_s = min(60.0, self.random.expovariate(1 / 3.0))
            _send(pids, signal.SIGSTOP)
            self._later.append((blow.at + duration_s, lambda: _send(pids, signal.SIGCONT)))
        elif how == "kill":
            _send(pids, signal.SIGKILL)
            if kind == "keeper":
                # As systemd does, which kills the whole control group of a service.
                self._expected += 1
                self.subject.kill_all()

    def _fill_disk(self, disk: Disk) -> None:
        blow = self._note("full disk", "run's folder", ())
        disk.fill()
        self._expected += 1
        self._later.append((blow.at + self.random.uniform(1.0, 8.0), disk.free))

    def _step_clock(self, clock: Clock) -> None:
        seconds = self.random.choice((-86400, -3600, -5, 0, 5, 3600, 86400))
        self._note("clock", f"{seconds:+d} s", ())
        clock.step(seconds)

    def _note(self, how: str, kind: str, pids: tuple[int, ...]) -> Blow:
        subject = self.subject
        blow = Blow(
            how=how,
            kind=kind,
            at=time.monotonic(),
            pids=pids,
            step=subject.step,
            start=subject.start,
            newest=subject.newest,
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

    def _drawn(self, weights: Mapping[str, float]) -> str:
        return self.random.choices(list(weights), list(weights.values()))[0]


def _is_loss(blow: Blow) -> bool:
    return blow.how == "kill" and blow.kind in LOSSES


def _send(pids: tuple[int, ...], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
