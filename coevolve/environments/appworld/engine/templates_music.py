"""Templates about songs and playlists."""
# pyright: basic, reportMissingImports=false

import random
from typing import Any

from drawn import END, END_WITH, Change, Drawn, login

PLAYLIST = """
held = pages(apis.spotify.show_playlist_library, access_token=token)
(playlist,) = [p for p in held if p["title"] == {title!r}]
"""
SONGS = '\nsongs = [apis.spotify.show_song(song_id=s) for s in playlist["song_ids"]]\n'


def _songs_of(m: Any, playlist: Any) -> list[Any]:
    held = m.spotify.PlaylistSong.find_all(playlist_id=playlist.id)
    return [m.spotify.Song.by_id(each.song_id) for each in held]


def _playlists(m: Any, user: Any) -> list[Any]:
    owner = m.spotify.User.find_one(email=user.email)
    return m.spotify.Playlist.find_all(user_id=owner.id)


def _a_playlist(m: Any, rng: random.Random, user: Any) -> Any:
    return rng.choice(_playlists(m, user))


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
            login("spotify"),
            PLAYLIST.format(title=playlist.title) + SONGS,
            f"""
gone = [s["song_id"] for s in songs if s["genre"] == {genre!r}]
for song_id in gone:
    apis.spotify.remove_song_from_playlist(
        playlist_id=playlist["playlist_id"], song_id=song_id, access_token=token)
answer = len(gone)
""",
            END_WITH,
        ),
        changes={"spotify.PlaylistSong": Change(removed=tuple(gone))},
        answer=len(gone),
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
            login("spotify"),
            PLAYLIST.format(title=playlist.title) + SONGS,
            'titles = sorted(s["title"] for s in songs)',
            login("simple_note"),
            f'apis.simple_note.create_note(title={title!r}, content="\\n".join(titles), '
            "access_token=token)",
            END,
        ),
        changes={"simple_note.Note": Change(added=({"title": title, "content": content},))},
    )


def like_the_long_ones(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Like the songs of a playlist that are longer than some time."""
    playlist = _a_playlist(m, rng, user)
    songs = _songs_of(m, playlist)
    seconds = sorted(song.duration for song in songs)[rng.choice((3, 4))]
    liked = [song.id for song in songs if song.duration > seconds]
    return Drawn(
        instruction=f"I enjoy long tracks. Whatever on my Spotify playlist {playlist.title} takes "
        f"more than {seconds} seconds gets a like from me, please.",
        reference=(
            login("spotify"),
            PLAYLIST.format(title=playlist.title) + SONGS,
            f"""
for song in songs:
    if song["duration"] > {seconds}:
        apis.spotify.like_song(song_id=song["song_id"], access_token=token)
""",
            END,
        ),
        changes={"spotify.SongLike": Change(added=tuple({"song_id": each} for each in liked))},
        beside=("spotify.Song",),
    )


def rename_a_playlist(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Give a playlist another title, and show it to everybody."""
    playlist = _a_playlist(m, rng, user)
    title = f"{rng.choice(('Best of', 'Old', 'Loud'))} {playlist.title}"
    return Drawn(
        instruction=f"The playlist '{playlist.title}' in my Spotify account is to be called "
        f"'{title}' from now on, and everybody may see it.",
        reference=(
            login("spotify"),
            PLAYLIST.format(title=playlist.title),
            'apis.spotify.update_playlist(playlist_id=playlist["playlist_id"], '
            f"title={title!r}, is_public=True, access_token=token)",
            END,
        ),
        changes={
            "spotify.Playlist": Change(updated={playlist.id: {"title": title, "is_public": True}})
        },
    )


def how_many_of_a_genre(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Count the songs of a genre on all playlists, each song once."""
    songs = {each.id: each for p in _playlists(m, user) for each in _songs_of(m, p)}
    genre = rng.choice(sorted({song.genre for song in songs.values()}))
    count = sum(song.genre == genre for song in songs.values())
    return Drawn(
        instruction=f"Across all my playlists on Spotify, how many different {genre} songs do I "
        "have? Just the number.",
        reference=(
            login("spotify"),
            """
held = pages(apis.spotify.show_playlist_library, access_token=token)
ids = {song_id for playlist in held for song_id in playlist["song_ids"]}
""",
            f'answer = sum(apis.spotify.show_song(song_id=s)["genre"] == {genre!r} for s in ids)',
            END_WITH,
        ),
        answer=count,
    )


def a_playlist_of_a_genre(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Collect the songs of a genre of one playlist in a new one."""
    playlist = _a_playlist(m, rng, user)
    songs = _songs_of(m, playlist)
    genre = rng.choice(sorted({song.genre for song in songs}))
    title = f"Only {genre} {rng.randint(1, 99)}"
    chosen = [song.id for song in songs if song.genre == genre]
    return Drawn(
        instruction=f"Make me a new Spotify playlist '{title}' that others cannot see. Fill it "
        f"with everything that counts as {genre} on my playlist {playlist.title}, which itself "
        "stays as it is.",
        reference=(
            login("spotify"),
            PLAYLIST.format(title=playlist.title) + SONGS,
            f"made = apis.spotify.create_playlist(title={title!r}, access_token=token)",
            f"""
for song in songs:
    if song["genre"] == {genre!r}:
        apis.spotify.add_song_to_playlist(
            playlist_id=made["playlist_id"], song_id=song["song_id"], access_token=token)
""",
            END,
        ),
        changes={
            "spotify.Playlist": Change(added=({"title": title, "is_public": False},)),
            "spotify.PlaylistSong": Change(
                added=tuple(
                    {"song_id": each, "playlist_id": "new spotify.Playlist"} for each in chosen
                )
            ),
        },
    )


MUSIC = (
    *(without_a_genre, songs_as_a_note, like_the_long_ones, rename_a_playlist),
    *(how_many_of_a_genre, a_playlist_of_a_genre),
)
