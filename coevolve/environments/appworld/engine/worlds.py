"""Own worlds and tasks, written in AppWorld's layout of folders: no download, no text of theirs.

A world is a base of people with accounts and things, drawn from a seed. A task is an instance of a
template (``templates.py``) over it, so any number can be made.

This module runs in the engine's process, with AppWorld on the import path and nothing of coevolve.
"""
# pyright: basic, reportMissingImports=false

import contextlib
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from appworld.apps import get_all_apps
from appworld.apps.model_lib import get_db_home_path
from appworld.collections.api_docs import ApiDocCollection
from appworld.collections.models import ModelCollection
from appworld.common.constants import DB_VERSION
from appworld.common.datetime import DateTime
from appworld.common.utils import freeze_time
from content import ACCOUNTS, FILLS, NOW
from drawn import Drawn
from templates import TEMPLATES


def make_root(root: Path, seed: int) -> None:
    """Write a base world, the documents of all APIs, and the names of the templates.

    The environment variable ``APPWORLD_ROOT`` must be ``root``.
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
        for fill in FILLS:
            fill(m, rng, now)
        m.save(db_home_path=str(data / "base_dbs"), format="full", delete_if_exists=True)
        m.close()
    (data / "tasks").mkdir()
    (data / "templates.json").write_text(json.dumps([name.replace("_", "-") for name in TEMPLATES]))


def make_task(data: Path, task_id: str) -> None:
    """Write one task over the base world, ``TEMPLATE-SCENARIO_VARIANT``, if it is not there.

    The id determines the task. Several processes may write the same one.
    """
    folder = data / "tasks" / task_id
    if folder.exists():
        return
    # The engine takes what precedes the one underscore for the scenario.
    template = task_id.rpartition("_")[0].rpartition("-")[0].replace("-", "_")
    rng = random.Random(task_id)  # noqa: S311, no secret
    partial = Path(tempfile.mkdtemp(prefix=f".{task_id}-", dir=folder.parent))
    with freeze_time(DateTime(*NOW)):
        m = ModelCollection.load(
            to_db_home_path=f":memory:task_input-{task_id}",
            from_db_home_path=get_db_home_path(storage_type="disk", type="base"),
            load_apps=get_all_apps(),
        )
        user = rng.choice(m.admin.MainUser.all())
        drawn = TEMPLATES[template](m, rng, user)
        person = _supervisor(m, user, drawn.instruction)
        m.save(
            db_home_path=str(partial / "dbs"),
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
    (partial / "specs.json").write_text(json.dumps(specs))
    (partial / "reference.json").write_text(json.dumps(drawn.reference))
    _write_truth(partial / "ground_truth", drawn)
    partial.chmod(0o755)
    with contextlib.suppress(OSError):
        partial.rename(folder)
    shutil.rmtree(partial, ignore_errors=True)


def _supervisor(m: Any, user: Any, instruction: str) -> dict[str, str]:
    """Enter whom the task is for, with all passwords, and return what is public of that person."""
    person = {
        name: getattr(user, name) for name in ("first_name", "last_name", "email", "phone_number")
    }
    boss = m.supervisor.Supervisor.create_save(**person, birthday=user.birthday, sex=user.sex)
    for app in ACCOUNTS:
        by = "phone_number" if app == "phone" else "email"
        account = m[app].User.find_one(**{by: getattr(user, by)})
        m.supervisor.AccountPassword.create_save(
            supervisor_id=boss.id, account_name=app, password=account.password
        )
    m.supervisor.Task.create_save(supervisor_id=boss.id, instruction=instruction)
    return person


def _write_truth(folder: Path, drawn: Drawn) -> None:
    folder.mkdir()
    (folder / "evaluation.py").write_text(drawn.evaluation)
    labels = [{"requirement": name, "label": label} for name, label in drawn.requirements.items()]
    for name, content in {
        "answer": drawn.answer,
        "public_data": {},
        "private_data": drawn.private,
        "test_data": labels,
        "metadata": {
            "mode": "minimal",
            "difficulty": drawn.difficulty,
            "num_apps": drawn.apps,
            "num_apis": 1,
            "num_api_calls": 1,
            "num_solution_code_lines": 1,
        },
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
