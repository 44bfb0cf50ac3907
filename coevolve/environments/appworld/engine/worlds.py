"""Own worlds and tasks, written in AppWorld's layout of folders: no download, no text of theirs.

A world is a base of people with accounts and things, drawn from a seed. A task is an instance of a
template: an instruction, a reference as blocks of code, and an evaluator in the engine's form. It
is derived from the world by the template alone, so any number can be made.

This module runs in the engine's process, with AppWorld on the import path and nothing of coevolve.
"""
# pyright: basic, reportMissingImports=false

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appworld.apps import get_all_apps
from appworld.apps.model_lib import get_db_home_path
from appworld.collections.api_docs import ApiDocCollection
from appworld.collections.models import ModelCollection
from appworld.common.constants import DB_VERSION
from appworld.common.datetime import DateTime
from appworld.common.utils import freeze_time

NOW = (2024, 3, 14, 9, 30, 0)
FIRST_NAMES = ("Iris", "Jonas", "Katrin", "Leo", "Mina", "Noah", "Olga", "Piet")
LAST_NAMES = ("Adler", "Brandt", "Costa", "Diaz", "Ekberg", "Falk", "Grau", "Holm")
ACCOUNTS = (
    *("gmail", "phone", "spotify", "venmo", "file_system", "amazon", "splitwise", "simple_note"),
    "todoist",
)
GENRES = ("ambient", "blues", "ska", "techno")
ADJECTIVES = ("Amber", "Broken", "Quiet", "Distant", "Electric", "Frozen", "Golden", "Hollow")
NOUNS = ("Harbour", "Lantern", "Meadow", "Orbit", "Parade", "River", "Signal", "Winter")
MOODS = ("Running", "Cooking", "Late shift", "Sunday", "Train", "Rain")
LABELS = ("Medicine", "Gym", "Stand-up", "School run", "Bread oven", "Plants")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")

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


def _people(m: Any, rng: random.Random, now: Any) -> None:
    for index, (first, last) in enumerate(zip(FIRST_NAMES, LAST_NAMES, strict=True)):
        email, phone = f"{first}.{last}@example.org".lower(), f"444200{index:04d}"
        m.admin.MainUser.create_save(
            first_name=first,
            last_name=last,
            email=email,
            phone_number=phone,
            birthday=f"1988-0{index + 1}-11",
            sex=("female", "male")[index % 2],
        )
        password = f"{last}{rng.randrange(10**6):06d}!"
        for app in ACCOUNTS:
            kind = m[app].User
            given = {
                "first_name": first,
                "last_name": last,
                "password": password,
                "email": email,
                "phone_number": phone,
                "verified": True,
                "created_at": now.subtract(days=200),
                "last_logged_in": now.subtract(days=2),
            }
            known = kind.schema()["properties"]
            kind.create_save(**{name: value for name, value in given.items() if name in known})


def _music(m: Any, rng: random.Random, now: Any) -> None:
    artists = [
        m.spotify.Artist.create_save(
            name=f"The {noun}s", genre=GENRES[n % 4], created_at=now.subtract(days=900)
        )
        for n, noun in enumerate(NOUNS)
    ]
    songs = [
        m.spotify.Song.create_save(
            title=f"{adjective} {noun}",
            artist_ids=[artists[(n + k) % 8].id],
            duration=rng.randint(90, 400),
            release_date=now.subtract(days=rng.randint(50, 3000)),
            genre=GENRES[(n + k) % 4],
        )
        for n, adjective in enumerate(ADJECTIVES)
        for k, noun in enumerate(NOUNS)
    ]
    for user in m.spotify.User.all():
        for mood in rng.sample(MOODS, 3):
            playlist = m.spotify.Playlist.create_save(
                title=mood, user_id=user.id, is_public=False, created_at=now.subtract(days=40)
            )
            for song in rng.sample(songs, 7):
                m.spotify.PlaylistSong.create_save(
                    playlist_id=playlist.id, song_id=song.id, added_at=now.subtract(days=30)
                )


def _alarms(m: Any, rng: random.Random, now: Any) -> None:
    for user in m.phone.User.all():
        for label in rng.sample(LABELS, 4):
            m.phone.Alarm.create_save(
                user_id=user.id,
                time=f"{rng.randint(5, 22):02d}:{rng.choice((0, 15, 30)):02d}",
                repeat_days=rng.sample(DAYS, 2),
                label=label,
                enabled=True,
                created_at=now.subtract(days=60),
            )


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

EVALUATION = """import json


def predicted_answer(models):
    said = models.end.supervisor.Task.first().answer
    return said and json.loads(said)


def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
"""


def make_root(root: Path, instances: int, seed: int) -> list[str]:
    """Write a base world, the documents of all APIs, and tasks; return the tasks' ids.

    Each template has ``instances`` scenarios of three variants. The environment variable
    ``APPWORLD_ROOT`` must be ``root``.
    """
    data, now = root / "data", DateTime(*NOW)
    documents = ApiDocCollection.build()
    folder = data / "api_docs" / "standard"
    folder.mkdir(parents=True)
    for app in get_all_apps(skip_admin=True):
        told = {api: {**document, "canary_string": ""} for api, document in documents[app].items()}
        (folder / f"{app}.json").write_text(json.dumps(told))
    rng = random.Random(f"world {seed}")  # noqa: S311, no secret
    with freeze_time(now):
        m = ModelCollection.load(
            to_db_home_path=":memory:base",
            from_db_home_path=":memory:base",
            load_apps=get_all_apps(),
            create_db=True,
        )
        for fill in (_people, _music, _alarms):
            fill(m, rng, now)
        m.save(db_home_path=str(data / "base_dbs"), format="full", delete_if_exists=True)
        m.close()
    ids = [
        make_task(data, template, scenario, variant, seed)
        for template in TEMPLATES
        for scenario in range(instances)
        for variant in range(1, 4)
    ]
    (data / "datasets").mkdir()
    (data / "datasets" / "own.txt").write_text("\n".join(ids))
    return ids


def make_task(data: Path, template: str, scenario: int, variant: int, seed: int) -> str:
    """Write one task over the base world, and return its id."""
    # The engine takes what precedes the one underscore for the scenario.
    task_id = f"{template.replace('_', '-')}-{scenario}_{variant}"
    rng = random.Random(f"{task_id} {seed}")  # noqa: S311, no secret
    with freeze_time(DateTime(*NOW)):
        m = ModelCollection.load(
            to_db_home_path=f":memory:task_input-{task_id}",
            from_db_home_path=get_db_home_path(storage_type="disk", type="base"),
            load_apps=get_all_apps(),
        )
        user = rng.choice(m.admin.MainUser.all())
        drawn = TEMPLATES[template](m, rng, user)
        person = {
            name: getattr(user, name)
            for name in ("first_name", "last_name", "email", "phone_number")
        }
        boss = m.supervisor.Supervisor.create_save(**person, birthday=user.birthday, sex=user.sex)
        for app in ACCOUNTS:
            by = "phone_number" if app == "phone" else "email"
            account = m[app].User.find_one(**{by: getattr(user, by)})
            m.supervisor.AccountPassword.create_save(
                supervisor_id=boss.id, account_name=app, password=account.password
            )
        m.supervisor.Task.create_save(supervisor_id=boss.id, instruction=drawn.instruction)
        folder = data / "tasks" / task_id
        m.save(
            db_home_path=str(folder / "dbs"),
            format="changes",
            app_names=list(get_all_apps()),
            delete_if_exists=True,
            save_model_hashes=True,
        )
        m.close()
    specs = {
        "instruction": drawn.instruction,
        "supervisor": person,
        "datetime": DateTime(*NOW).isoformat(),
        "db_version": DB_VERSION,
    }
    (folder / "specs.json").write_text(json.dumps(specs))
    (folder / "reference.json").write_text(json.dumps(drawn.reference))
    _write_truth(folder / "ground_truth", drawn)
    return task_id


def _write_truth(folder: Path, drawn: Drawn) -> None:
    folder.mkdir()
    (folder / "evaluation.py").write_text(EVALUATION + drawn.evaluation)
    labels = [{"requirement": name, "label": "no_op_fail"} for name in drawn.requirements]
    for name, content in {
        "answer": drawn.answer,
        "public_data": {},
        "private_data": drawn.private,
        "test_data": labels,
        "metadata": {
            "mode": "minimal",
            "difficulty": 1,
            "num_apps": 1,
            "num_apis": 1,
            "num_api_calls": 1,
            "num_solution_code_lines": 1,
        },
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
