"""The documentation of the apps' APIs, as a folder of data has it."""

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from coevolve.environments.tools.toolset import ToolDocument


class ApiDocuments:
    """The documents of all APIs."""

    def __init__(self, by_app: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
        self._by_app = by_app

    @classmethod
    def read(cls, data: Path) -> "ApiDocuments":
        files = sorted((data / "api_docs" / "standard").glob("*.json"))
        return cls({path.stem: json.loads(path.read_text()) for path in files})

    @property
    def apps(self) -> tuple[str, ...]:
        """The names of all apps."""
        return tuple(self._by_app)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all APIs, as ``app.api``."""
        return tuple(f"{app}.{api}" for app, held in self._by_app.items() for api in held)

    @cached_property
    def tools(self) -> Mapping[str, ToolDocument]:
        """The APIs as tools, without their apps' names."""
        return {
            api: ToolDocument(
                name=api,
                description=str(document["description"]),
                parameters={"properties": {each["name"]: each for each in document["parameters"]}},
            )
            for held in self._by_app.values()
            for api, document in held.items()
        }

    def texts(self, names: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the documents of the named APIs as JSON, without names those of all apps."""
        if not names:
            return tuple(json.dumps(held) for held in self._by_app.values())
        return tuple(
            json.dumps(self._by_app[app][api])
            for app, _, api in (name.partition(".") for name in names)
            if api in self._by_app.get(app, {})
        )

    def words(self, names: Iterable[str]) -> str:
        """Return the documents of the named APIs, and the names of all apps, as text."""
        return "\n".join((*self._by_app, *self.texts(names)))

    def outline(self, apps: Iterable[str] = ()) -> str:
        """Return the names of all APIs, a line for each app.

        Those of ``apps`` have a line each, with their parameters; one with a star is optional.
        """
        return "\n".join(
            "\n".join(
                f"{app}.{api}({', '.join(map(_starred, _parameters(document)))})"
                for api, document in held.items()
            )
            if app in set(apps)
            else f"{app}: {', '.join(held)}"
            for app, held in self._by_app.items()
        )

    def brief(self, names: Iterable[str]) -> str:
        """Return each named API with its description and parameters, one on a line."""
        lines: list[str] = []
        for name in dict.fromkeys(names):
            app, _, api = name.partition(".")
            document = self._by_app.get(app, {}).get(api)
            if document is None:
                continue
            shown = {
                "name": name,
                "description": document["description"],
                "parameters": {each["name"]: _told(each) for each in _parameters(document)},
                "returns": document["response_schemas"]["success"],
            }
            lines.append(json.dumps(shown, ensure_ascii=False))
        return "\n".join(lines)


def _parameters(document: Mapping[str, Any]) -> "list[dict[str, Any]]":
    return cast("list[dict[str, Any]]", document["parameters"])


def _starred(parameter: Mapping[str, Any]) -> str:
    return f"{parameter['name']}{'' if parameter['required'] else '*'}"


def _told(parameter: Mapping[str, Any]) -> str:
    """Return type, description and limits of a parameter, and its default if it has one."""
    left_out = "required" if parameter["required"] else f"default {parameter['default']!r}"
    limits = "".join(f"; {limit}" for limit in parameter["constraints"])
    return f"{parameter['type']}, {left_out}{limits}: {parameter['description']}"
