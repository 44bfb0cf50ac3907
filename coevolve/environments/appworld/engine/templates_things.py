"""Templates about notes, chores, shopping and files."""
# pyright: basic, reportMissingImports=false

import random
from typing import Any

from drawn import END, END_WITH, LOGIN, Change, Drawn, login

NOTES = "\nnotes = pages(apis.simple_note.search_notes, access_token=token)\n"
PROJECT = """
projects = pages(apis.todoist.show_projects, access_token=token)
(project,) = [p for p in projects if p["name"] == {name!r}]
shown = apis.todoist.show_tasks(project_id=project["project_id"], access_token=token)
tasks = shown["no_section_tasks"]
"""


def _mine(m: Any, app: str, kind: str, user: Any) -> list[Any]:
    owner = m[app].User.find_one(email=user.email)
    return m[app][kind].find_all(user_id=owner.id)


def new_note(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Write a short note."""
    title, content = f"Reminder {rng.randint(1, 999)}", rng.choice(("Water the plants", "Pay rent"))
    return Drawn(
        instruction=f"Note down '{content}' in Simple Note, under the title '{title}'.",
        reference=(
            LOGIN.format(app="simple_note", by="email"),
            f"apis.simple_note.create_note(title={title!r}, content={content!r}, "
            "access_token=token)",
            END,
        ),
        changes={"simple_note.Note": Change(added=({"title": title, "content": content},))},
    )


def pin_by_tag(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Pin the notes with a tag that are not pinned yet."""
    notes = _mine(m, "simple_note", "Note", user)
    loose = [each for each in notes if not each.pinned] or notes
    tag = rng.choice(sorted({each.tags[0] for each in loose}))
    wanted = all(each.pinned for each in notes)
    chosen = [each.id for each in notes if tag in each.tags and each.pinned is wanted]
    words = "no longer be pinned" if wanted else "all be pinned"
    return Drawn(
        instruction=f"My notes in Simple Note that have the tag '{tag}' should {words}.",
        reference=(
            login("simple_note"),
            f"notes = pages(apis.simple_note.search_notes, tags=[{tag!r}], access_token=token)",
            f"""
for note in notes:
    if note["pinned"] is {wanted}:
        apis.simple_note.update_note(
            note_id=note["note_id"], pinned={not wanted}, access_token=token)
""",
            END,
        ),
        changes={
            "simple_note.Note": Change(updated={each: {"pinned": not wanted} for each in chosen})
        },
    )


def one_more_line(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Add a line at the end of a note."""
    note = rng.choice(_mine(m, "simple_note", "Note", user))
    line = f"{rng.choice(('Salt', 'Glue', 'Ask Rita'))} {rng.randint(2, 9)}"
    return Drawn(
        instruction=f"Under the last line of my note '{note.title}' in Simple Note, add one more: "
        f"{line}",
        reference=(
            login("simple_note"),
            NOTES + f"(found,) = [n for n in notes if n['title'] == {note.title!r}]",
            'note = apis.simple_note.show_note(note_id=found["note_id"], access_token=token)',
            f"content = note['content'] + '\\n' + {line!r}\n"
            'apis.simple_note.update_note(note_id=note["note_id"], content=content, '
            "access_token=token)",
            END,
        ),
        changes={
            "simple_note.Note": Change(updated={note.id: {"content": f"{note.content}\n{line}"}})
        },
    )


def drop_notes(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Delete the notes that mention something."""
    notes = _mine(m, "simple_note", "Note", user)
    thing = rng.choice(sorted({line for each in notes for line in each.content.split("\n")}))
    gone = [each.id for each in notes if thing in each.content.split("\n")]
    return Drawn(
        instruction=f"Delete each of my Simple Note notes that has '{thing}' as one of its lines.",
        reference=(
            login("simple_note"),
            NOTES,
            f"""
for found in notes:
    note = apis.simple_note.show_note(note_id=found["note_id"], access_token=token)
    if {thing!r} in note["content"].splitlines():
        apis.simple_note.delete_note(note_id=note["note_id"], access_token=token)
""",
            END,
        ),
        changes={"simple_note.Note": Change(removed=tuple(gone))},
    )


def _project(m: Any, rng: random.Random, user: Any) -> tuple[Any, list[Any]]:
    project = rng.choice(_mine(m, "todoist", "Project", user))
    return project, m.todoist.Task.find_all(project_id=project.id)


def finish_by_priority(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Tick off the open tasks of a priority in a project."""
    project, tasks = _project(m, rng, user)
    open_tasks = [each for each in tasks if not each.is_completed]
    priority = rng.choice(sorted({each.priority for each in open_tasks}))
    done = [each.id for each in open_tasks if each.priority == priority]
    return Drawn(
        instruction=f"All open tasks of {priority} priority in my Todoist project '{project.name}' "
        "are finished. Tick them off.",
        reference=(
            login("todoist"),
            PROJECT.format(name=project.name),
            f"""
for task in tasks:
    if task["priority"] == {priority!r} and not task["is_completed"]:
        apis.todoist.update_task(
            task_id=task["task_id"], is_completed=True, access_token=token)
""",
            END,
        ),
        changes={"todoist.Task": Change(updated={each: {"is_completed": True} for each in done})},
        beside=("todoist.Notification",),
    )


def new_chore(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Add a task to a project."""
    project, _ = _project(m, rng, user)
    title = f"{rng.choice(('Return', 'Fetch', 'Repair'))} the {rng.choice(('ladder', 'cart'))}"
    priority = rng.choice(("high", "low"))
    return Drawn(
        instruction=f"Put '{title}' into my Todoist project {project.name}. It has {priority} "
        "priority.",
        reference=(
            login("todoist"),
            PROJECT.format(name=project.name),
            f'apis.todoist.create_task(project_id=project["project_id"], title={title!r}, '
            f"priority={priority!r}, access_token=token)",
            END,
        ),
        changes={
            "todoist.Task": Change(
                added=({"project_id": project.id, "title": title, "priority": priority},)
            )
        },
        beside=("todoist.Notification",),
    )


def recolour_a_project(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Change name and colour of a project."""
    project, _ = _project(m, rng, user)
    colour, name = rng.choice(("red", "green", "yellow")), f"{project.name} {rng.randint(2, 99)}"
    return Drawn(
        instruction=f"In Todoist, rename my project {project.name} to '{name}', and make it "
        f"{colour}.",
        reference=(
            login("todoist"),
            PROJECT.format(name=project.name),
            'apis.todoist.update_project(project_id=project["project_id"], '
            f"name={name!r}, color={colour!r}, access_token=token)",
            END,
        ),
        changes={"todoist.Project": Change(updated={project.id: {"name": name, "color": colour}})},
        beside=("todoist.Notification",),
    )


def open_chores(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Count the open tasks of all projects."""
    ids = {each.id for each in _mine(m, "todoist", "Project", user)}
    tasks = [each for each in m.todoist.Task.all() if each.project_id in ids]
    priority = rng.choice(("high", "medium", "low"))
    count = sum(not each.is_completed and each.priority == priority for each in tasks)
    return Drawn(
        instruction=f"Counting all my Todoist projects, how many tasks of {priority} priority are "
        "not done yet? Answer with the number.",
        reference=(
            login("todoist"),
            """
projects = pages(apis.todoist.show_projects, access_token=token)
shown = [apis.todoist.show_tasks(project_id=p["project_id"], access_token=token) for p in projects]
tasks = [task for each in shown for task in each["no_section_tasks"]]
""",
            f"answer = sum(t['priority'] == {priority!r} and not t['is_completed'] for t in tasks)",
            END_WITH,
        ),
        answer=count,
    )


def more_in_the_cart(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Change the quantity of a product in the cart."""
    entry = rng.choice(_mine(m, "amazon", "CartEntry", user))
    product, count = m.amazon.Product.by_id(entry.product_id), rng.randint(2, 6)
    return Drawn(
        instruction=f"I need {count} of the {product.name} in my Amazon cart, not just one. Do not "
        "order yet.",
        reference=(
            login("amazon"),
            "cart = apis.amazon.show_cart(access_token=token)\n"
            f"(item,) = [i for i in cart['cart_items'] if i['product_name'] == {product.name!r}]",
            'apis.amazon.update_product_quantity_in_cart(product_id=item["product_id"], '
            f"quantity={count}, access_token=token)",
            END,
        ),
        changes={"amazon.CartEntry": Change(updated={entry.id: {"quantity": count}})},
    )


def cheapest_wish(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Put the cheapest product of a type on the wish list."""
    held = {each.product_id for each in _mine(m, "amazon", "WishListEntry", user)}
    products = sorted(m.amazon.Product.all(), key=lambda each: each.price)
    kinds = sorted({each.product_type for each in products})
    cheapest = {kind: next(p for p in products if p.product_type == kind) for kind in kinds}
    kind = rng.choice([each for each in kinds if cheapest[each].id not in held])
    return Drawn(
        instruction=f"Which {kind} on Amazon costs least? Put one of it on my wish list.",
        reference=(
            login("amazon"),
            f"found = pages(apis.amazon.search_products, product_type={kind!r})\n"
            'cheapest = min(found, key=lambda p: p["price"])',
            'apis.amazon.add_product_to_wish_list(product_id=cheapest["product_id"], '
            "access_token=token)",
            END,
        ),
        changes={
            "amazon.WishListEntry": Change(
                added=({"product_id": cheapest[kind].id, "quantity": 1},)
            )
        },
    )


def lighter_cart(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Remove what costs more than some price from the cart."""
    entries = _mine(m, "amazon", "CartEntry", user)
    prices = {each.id: m.amazon.Product.by_id(each.product_id).price for each in entries}
    border = sorted(prices.values())[rng.choice((0, 1, 2))]
    gone = [entry for entry, price in prices.items() if price > border]
    gone = gone or [entry for entry, price in prices.items() if price >= border]
    border = border if max(prices.values()) > border else border - 1
    return Drawn(
        instruction=f"Nothing in my Amazon cart may cost more than {border:g} dollars apiece: take "
        "out what does.",
        reference=(
            login("amazon"),
            "cart = apis.amazon.show_cart(access_token=token)",
            f"""
for item in cart["cart_items"]:
    if apis.amazon.show_product(product_id=item["product_id"])["price"] > {border}:
        apis.amazon.delete_product_from_cart(
            product_id=item["product_id"], access_token=token)
""",
            END,
        ),
        changes={"amazon.CartEntry": Change(removed=tuple(gone))},
    )


def _files(m: Any, rng: random.Random, user: Any) -> tuple[str, list[Any]]:
    """Return a folder with files, as a path from the home, and the files."""
    files = _mine(m, "file_system", "File", user)
    folder = rng.choice(sorted({each.tilde_path.rpartition("/")[0] for each in files}))
    return folder, [each for each in files if each.tilde_path.startswith(f"{folder}/")]


SHOWN = (
    "paths = apis.file_system.show_directory(directory_path='{folder}', entry_type='files', "
    "access_token=token)"
)


def clean_a_folder(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Delete the files of a kind in a folder."""
    folder, files = _files(m, rng, user)
    ending = rng.choice(sorted({each.path.rpartition(".")[2] for each in files}))
    gone = [each.id for each in files if each.path.endswith(f".{ending}")]
    return Drawn(
        instruction=f"The files ending in .{ending} in the folder {folder} of my file system are "
        "of no use any more. Delete them.",
        reference=(
            login("file_system"),
            SHOWN.format(folder=folder),
            f"""
for path in paths:
    if path.endswith(".{ending}"):
        apis.file_system.delete_file(file_path=path, access_token=token)
""",
            END,
        ),
        changes={"file_system.File": Change(removed=tuple(gone))},
        beside=("file_system.Directory",),
    )


def add_up_a_file(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Add up the numbers in a file."""
    _, files = _files(m, rng, user)
    chosen = rng.choice(files)
    return Drawn(
        instruction=f"My file {chosen.tilde_path} has a number on each line. What is their sum?",
        reference=(
            login("file_system"),
            f"held = apis.file_system.show_file(file_path={chosen.tilde_path!r}, "
            "access_token=token)",
            "answer = sum(map(int, held['content'].split()))",
            END_WITH,
        ),
        answer=sum(map(int, chosen.content.split())),
    )


def sums_of_a_folder(m: Any, rng: random.Random, user: Any) -> Drawn:
    """Write the sums of a folder's files into a new file."""
    folder, files = _files(m, rng, user)
    name = f"{folder}/sums_{rng.randint(1, 99)}.txt"
    total = sum(sum(map(int, each.content.split())) for each in files)
    home = files[0].path[: -len(files[0].tilde_path) + 2]
    path = home + name.removeprefix("~/")
    return Drawn(
        instruction=f"Add up all numbers in all files of {folder} in my file system, and store "
        f"the total, nothing else, in the new file {name}.",
        reference=(
            login("file_system"),
            SHOWN.format(folder=folder),
            """
texts = [apis.file_system.show_file(file_path=path, access_token=token)["content"]
         for path in paths]
total = sum(int(word) for text in texts for word in text.split())
""",
            f"apis.file_system.create_file(file_path={name!r}, content=str(total), "
            "access_token=token)",
            END,
        ),
        changes={"file_system.File": Change(added=({"path": path, "content": str(total)},))},
        beside=("file_system.Directory",),
    )


THINGS = (
    *(new_note, pin_by_tag, one_more_line, drop_notes, finish_by_priority, new_chore),
    *(recolour_a_project, open_chores, more_in_the_cart, cheapest_wish, lighter_cart),
    *(clean_a_folder, add_up_a_file, sums_of_a_folder),
)
