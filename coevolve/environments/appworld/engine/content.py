"""The people and things of own worlds; every name is made up here.

This module runs in the engine's process, beside ``worlds.py``.
"""
# pyright: basic

import itertools
import random
from typing import Any

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
RELATIONS = ("friend", "coworker", "roommate", "sibling", "neighbor")
STREETS = ("Mill Lane", "Orchard Row", "Quay Street", "Station Road", "Abbey Walk")
CITIES = ("Brockton", "Elmhurst", "Fairview", "Oakdale")
TAGS = ("home", "ideas", "recipes", "travel")
TOPICS = ("Paint colours", "Gift list", "Soup", "Packing", "Bike repair", "Books to read")
THINGS = ("batteries", "candles", "flour", "rope", "stamps", "tape", "tea", "wool")
PROJECTS = ("Garden", "Kitchen rebuild", "Choir", "Newsletter", "Move")
CHORES = ("Call", "Order", "Measure", "Draw up", "Book", "Clean", "Print", "Compare")
OBJECTS = ("the plumber", "seedlings", "the shelves", "a budget", "the hall", "posters", "prices")
PRIORITIES = ("high", "medium", "low")
SUBJECTS = ("Minutes of the meeting", "Photos", "Invoice", "Trip plan", "Questions", "Spare key")
REASONS = ("lunch", "cinema", "taxi", "groceries", "concert", "petrol")
GROUPS = ("Cabin weekend", "Flat 12", "Rowing club", "Book circle")
PRODUCTS = ("kettle", "lamp", "backpack", "blanket", "headphones")
FOLDERS = ("reports", "photos", "letters")
ENDINGS = ("csv", "txt", "md", "tmp")


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


def _contacts(m: Any, rng: random.Random, now: Any) -> None:
    people = m.phone.User.all()
    mails = {each.phone_number: each.email for each in m.admin.MainUser.all()}
    for user in people:
        for other in people:
            if other.id == user.id:
                continue
            m.phone.Contact.create_save(
                user_id=user.id,
                first_name=other.first_name,
                last_name=other.last_name,
                email=mails[other.phone_number],
                phone_number=other.phone_number,
                relationships=[RELATIONS[(user.id + other.id) % len(RELATIONS)]],
                birthday=f"1980-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
                home_address=f"{rng.randint(1, 99)} {rng.choice(STREETS)}, {rng.choice(CITIES)}",
                work_address=f"{rng.randint(1, 99)} {rng.choice(STREETS)}, {rng.choice(CITIES)}",
                created_at=now.subtract(days=150),
            )


def _notes(m: Any, rng: random.Random, now: Any) -> None:
    for user in m.simple_note.User.all():
        for topic in rng.sample(TOPICS, 4):
            m.simple_note.Note.create_save(
                user_id=user.id,
                title=topic,
                content="\n".join(rng.sample(THINGS, 3)),
                tags=[rng.choice(TAGS)],
                pinned=rng.random() < 0.3,
                created_at=now.subtract(days=rng.randint(5, 90)),
                updated_at=now.subtract(days=4),
            )


def _projects(m: Any, rng: random.Random, now: Any) -> None:
    for user in m.todoist.User.all():
        for name in rng.sample(PROJECTS, 3):
            project = m.todoist.Project.create_save(
                user_id=user.id,
                name=name,
                color="blue",
                is_inbox=False,
                description="",
                created_at=now.subtract(days=80),
            )
            m.todoist.ProjectCollaboratorLink.create_save(
                project_id=project.id,
                user_id=user.id,
                is_favorite=False,
                is_archived=False,
                created_at=now.subtract(days=80),
            )
            pairs = rng.sample(list(itertools.product(CHORES, OBJECTS)), 6)
            for place, (chore, thing) in enumerate(pairs):
                m.todoist.Task.create_save(
                    project_id=project.id,
                    user_id=user.id,
                    title=f"{chore} {thing}",
                    description="",
                    due_date=now.add(days=rng.randint(-6, 20)),
                    priority=PRIORITIES[place % 3],
                    is_completed=place == 5,
                    order_index=place,
                    created_at=now.subtract(days=70),
                )


def _mails(m: Any, rng: random.Random, now: Any) -> None:
    people = m.gmail.User.all()
    for user in people:
        for sender in rng.sample([each for each in people if each.id != user.id], 4):
            _mail(m, sender, user, rng.choice(SUBJECTS), now.subtract(days=rng.randint(1, 60)))


def _mail(m: Any, sender: Any, user: Any, subject: str, sent: Any) -> None:
    email = m.gmail.Email.create_save(
        sender_id=sender.id,
        recipient_ids=[user.id],
        subject=subject,
        body=f"Hello {user.first_name}, see below. {sender.first_name}",
        created_at=sent,
    )
    thread = m.gmail.GlobalEmailThread.create_save(
        email_ids=[email.id], created_at=sent, updated_at=sent
    )
    for owner in (sender, user):
        m.gmail.UserEmailThread.create_save(
            global_email_thread_id=thread.id,
            user_id=owner.id,
            email_ids=[email.id],
            incoming=owner is user,
            outgoing=owner is sender,
            read=owner is sender or email.id % 2 == 0,
            starred=False,
            archived=False,
            spam=False,
            sender_email_addresses=[sender.email],
            sender_names=[f"{sender.first_name} {sender.last_name}"],
            recipient_email_addresses=[user.email],
            recipient_names=[f"{user.first_name} {user.last_name}"],
            has_attachments=False,
            created_at=sent,
            updated_at=sent,
        )


def _money(m: Any, rng: random.Random, now: Any) -> None:
    people = m.venmo.User.all()
    for user in people:
        user.venmo_balance = 500.0 + user.id
        user.save()
        others = [each for each in people if each.id != user.id]
        for other in rng.sample(others, 3):
            m.venmo.Friendship.create_save(
                user_id=user.id, friend_id=other.id, created_at=now.subtract(days=90)
            )
        for other in rng.sample(others, 5):
            m.venmo.Transaction.create_save(
                sender_id=other.id,
                receiver_id=user.id,
                amount=float(rng.randint(5, 60)),
                description=rng.choice(REASONS),
                created_at=now.subtract(days=rng.randint(2, 40)),
                updated_at=now.subtract(days=1),
                private=False,
            )
        for other in rng.sample(others, 3):
            m.venmo.PaymentRequest.create_save(
                sender_id=other.id,
                receiver_id=user.id,
                amount=float(rng.randint(4, 30)),
                description=rng.choice(REASONS),
                created_at=now.subtract(days=3),
                updated_at=now.subtract(days=3),
                private=False,
            )


def _groups(m: Any, rng: random.Random, now: Any) -> None:
    people = m.splitwise.User.all()
    for name in GROUPS:
        members = rng.sample(people, 5)
        group = m.splitwise.Group.create_save(
            user_id=members[0].id,
            name=name,
            description="",
            created_at=now.subtract(days=100),
            invitation_code=f"code-{name[:3].lower()}",
            deleted=False,
        )
        for member in members:
            m.splitwise.GroupMember.create_save(
                group_id=group.id, user_id=member.id, joined_at=now.subtract(days=100)
            )


def _shop(m: Any, rng: random.Random, now: Any) -> None:
    seller = m.amazon.Seller.create_save(name="Corner Goods", rating=4.0)
    products = [
        m.amazon.Product.create_save(
            product_type=kind,
            name=f"{adjective} {kind}",
            description=f"A {kind}.",
            seller_id=seller.id,
            price=float(10 + 7 * number + 3 * place),
            delivery_days=3,
            inventory_quantity=50,
            weight=1.0,
            length=10.0,
            width=10.0,
            height=10.0,
            color="blue",
            rating=4.0,
            seller_rating=4.0,
            has_variations=False,
        )
        for place, kind in enumerate(PRODUCTS)
        for number, adjective in enumerate(rng.sample(ADJECTIVES, 4))
    ]
    for user in m.amazon.User.all():
        chosen = rng.sample(products, 7)
        for product in chosen[:4]:
            m.amazon.CartEntry.create_save(
                user_id=user.id, product_id=product.id, quantity=1, gift_wrap_quantity=0
            )
        for product in chosen[4:]:
            m.amazon.WishListEntry.create_save(user_id=user.id, product_id=product.id, quantity=1)


def _files(m: Any, rng: random.Random, now: Any) -> None:
    for user in m.file_system.User.all():
        home = f"/home/{user.first_name.lower()}"
        made = {"created_at": now.subtract(days=30), "updated_at": now.subtract(days=9)}
        for path in ("/", "/home/", f"{home}/", *(f"{home}/{name}/" for name in FOLDERS)):
            m.file_system.Directory.create_save(path=path, user_id=user.id, **made)
        for name in FOLDERS:
            for number in range(6):
                amounts = [rng.randint(1, 99) for _ in range(4)]
                m.file_system.File.create_save(
                    path=f"{home}/{name}/{rng.choice(THINGS)}_{number}.{ENDINGS[number % 4]}",
                    user_id=user.id,
                    content="\n".join(map(str, amounts)),
                    **made,
                )


FILLS = (
    *(_people, _music, _alarms, _contacts, _notes, _projects, _mails, _money, _groups, _shop),
    _files,
)
"""What fills a world, in order; each gets its models, a generator, and its time."""
