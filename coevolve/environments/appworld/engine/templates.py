"""Templates of own tasks: each draws a task from a world.

A task is an instruction, a reference as blocks of code, and an evaluator in the engine's form. What
the instruction asks for, the reference does, and the evaluator accepts are derived from the same
draw. This module runs in the engine's process, beside ``worlds.py``.
"""
# pyright: basic

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LOGIN = """
passwords = {{a["account_name"]: a["password"] for a in apis.supervisor.show_account_passwords()}}
profile = apis.supervisor.show_profile()
token = apis.{app}.login(username=profile["{by}"], password=passwords["{app}"])["access_token"]
"""
PLAYLIST = """
pages = [apis.spotify.show_playlist_library(access_token=token, page_index=n) for n in range(4)]
(playlist,) = [p for page in pages for p in page if p["title"] == {title!r}]
"""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One task, drawn from a world."""

    instruction: str
    reference: tuple[str, ...]
    """Blocks of code that solve it."""

    evaluation: str
    """Body of the engine's ``evaluate`` function."""

    requirements: tuple[str, ...]
    """The names of the evaluator's tests; doing nothing fails each."""

    answer: Any = None
    private: dict[str, Any] = field(default_factory=dict)


def _songs_of(m: Any, playlist: Any) -> list[Any]:
    held = m.spotify.PlaylistSong.find_all(playlist_id=playlist.id)
    return [m.spotify.Song.by_id(each.song_id) for each in held]


def _a_playlist(m: Any, rng: random.Random, user: Any) -> Any:
    owner = m.spotify.User.find_one(email=user.email)
    return rng.choice(m.spotify.Playlist.find_all(user_id=owner.id))


def without_a_genre(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Remove the songs of a genre from a playlist, and count them."""
    playlist = _a_playlist(m, rng, user)
    genre = rng.choice(sorted({song.genre for song in _songs_of(m, playlist)}))
    held = m.spotify.PlaylistSong.find_all(playlist_id=playlist.id)
    gone = [each.id for each in held if m.spotify.Song.by_id(each.song_id).genre == genre]
    return Drawn(
        instruction=f"My Spotify playlist called {playlist.title} should have no {genre} in it. "
        "Take those songs off it, and answer with how many there were.",
        reference=(
            LOGIN.format(app="spotify", by="email"),
            PLAYLIST.format(title=playlist.title),
            f"""
gone = [s for s in playlist["song_ids"]
        if apis.spotify.show_song(song_id=s)["genre"] == {genre!r}]
for song_id in gone:
    apis.spotify.remove_song_from_playlist(
        playlist_id=playlist["playlist_id"], song_id=song_id, access_token=token)
""",
            "apis.supervisor.complete_task(answer=len(gone))",
        ),
        evaluation="""
    added, updated, removed = models.changed_records("spotify.PlaylistSong")
    with test("only songs of playlists change"):
        test.case(models.changed_model_names(), "==", {"spotify.PlaylistSong"})
    with test("the genre's songs are gone and no other"):
        test.case(sorted(each.id for each in removed), "==", sorted(private_data.gone))
        test.case(len(added) + len(updated), "==", 0)
    with test("the answer is their number"):
        test.answer(predicted_answer(models), ground_truth_answer)
""",
        requirements=(
            "only songs of playlists change",
            "the genre's songs are gone and no other",
            "the answer is their number",
        ),
        answer=len(gone),
        private={"gone": gone},
    )


def songs_as_a_note(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Write the titles of a playlist into a new note."""
    playlist = _a_playlist(m, rng, user)
    title = f"{playlist.title} list {rng.randint(1, 99)}"
    content = "\n".join(sorted(song.title for song in _songs_of(m, playlist)))
    return Drawn(
        instruction=f"Write a note in Simple Note with the title '{title}'. It should hold the "
        f"titles of the songs on my Spotify playlist {playlist.title}, one on each line, sorted "
        "alphabetically, and nothing else.",
        reference=(
            LOGIN.format(app="spotify", by="email"),
            PLAYLIST.format(title=playlist.title),
            'titles = sorted(apis.spotify.show_song(song_id=s)["title"] '
            'for s in playlist["song_ids"])',
            LOGIN.format(app="simple_note", by="email"),
            f'apis.simple_note.create_note(title={title!r}, content="\\n".join(titles), '
            "access_token=token)\napis.supervisor.complete_task()",
        ),
        evaluation="""
    added, updated, removed = models.changed_records("simple_note.Note")
    with test("only notes change"):
        test.case(models.changed_model_names(), "==", {"simple_note.Note"})
    with test("one note is added, and no other is touched"):
        test.case(len(added), "==", 1)
        test.case(len(updated) + len(removed), "==", 0)
    with test("it has the title and the songs"):
        test.case(added[0].title, "==", private_data.title)
        test.case(added[0].content.strip(), "==", private_data.content)
""",
        requirements=(
            "only notes change",
            "one note is added, and no other is touched",
            "it has the title and the songs",
        ),
        private={"title": title, "content": content},
    )


def later_alarm(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Move one alarm, and turn another off."""
    owner = m.phone.User.find_one(phone_number=user.phone_number)
    moved, stopped = rng.sample(m.phone.Alarm.find_all(user_id=owner.id), 2)
    hour, minute = map(int, str(moved.time).split(":")[:2])
    minutes = rng.choice((10, 20, 40))
    later = f"{hour + (minute + minutes) // 60:02d}:{(minute + minutes) % 60:02d}"
    return Drawn(
        instruction=f"On my phone, let the alarm '{moved.label}' ring {minutes} minutes later than "
        f"now, and switch the alarm '{stopped.label}' off without deleting it.",
        reference=(
            LOGIN.format(app="phone", by="phone_number"),
            "pages = [apis.phone.show_alarms(access_token=token, page_index=n) for n in range(3)]\n"
            'alarms = {a["label"]: a for page in pages for a in page}',
            f"""
moved = alarms[{moved.label!r}]
hour, minute = map(int, moved["time"].split(":"))
minute += {minutes}
later = f"{{hour + minute // 60:02d}}:{{minute % 60:02d}}"
apis.phone.update_alarm(alarm_id=moved["alarm_id"], time=later, access_token=token)
apis.phone.update_alarm(
    alarm_id=alarms[{stopped.label!r}]["alarm_id"], enabled=False, access_token=token)
apis.supervisor.complete_task()
""",
        ),
        evaluation="""
    added, updated, removed = models.changed_records("phone.Alarm")
    with test("only alarms change"):
        test.case(models.changed_model_names(), "==", {"phone.Alarm"})
    with test("these two alarms change"):
        test.case(sorted(each.id for each in updated), "==", sorted(private_data.both))
        test.case(len(added) + len(removed), "==", 0)
    with test("one rings later, the other is off"):
        by_id = {each.id: each for each in updated}
        test.case(by_id[private_data.both[0]].time, "==", private_data.later)
        test.case(by_id[private_data.both[0]].enabled, "==", True)
        test.case(by_id[private_data.both[1]].enabled, "==", False)
        test.case(by_id[private_data.both[1]].time, "==", private_data.time)
""",
        requirements=(
            "only alarms change",
            "these two alarms change",
            "one rings later, the other is off",
        ),
        private={"both": [moved.id, stopped.id], "later": later, "time": str(stopped.time)},
    )


TEMPLATES: dict[str, Callable[[Any, random.Random, Any], Drawn]] = {
    "without_a_genre": without_a_genre,
    "songs_as_a_note": songs_as_a_note,
    "later_alarm": later_alarm,
}
