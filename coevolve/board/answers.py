"""What the board answers to each address, from the files of runs; it writes nothing."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import msgspec

from coevolve.board.overview import RunsFolder
from coevolve.board.pages import cells, compare_page, list_page
from coevolve.environments.registry import environment_to_read
from coevolve.history.directory import RunDirectory
from coevolve.history.gathering import Gathering
from coevolve.history.rollouts import every_group, group_of
from coevolve.history.run_history import RunHistory, suspects_of, visits_of
from coevolve.history.series import RunSeries, SeriesFile
from coevolve.journal.reader import run_reader
from coevolve.report.page import page
from coevolve.report.scripts import visible_tree
from coevolve.report.sections.lives import gaps_by_task, life_at
from coevolve.report.sections.metrics import metrics_data
from coevolve.report.sections.rollouts import group_data
from protocols.errors import RunError

HTML = "text/html; charset=utf-8"
JSON = "application/json"

MOST_RUNS = 21
"""Maximum number of runs that are compared at once."""

KEPT_PAGES = 4
"""Number of runs whose gathered data is kept."""


@dataclass(frozen=True)
class Answer:
    """The body of an answer."""

    kind: str
    body: bytes
    tag: str = ""
    """Identifies the content, so that it is not sent again; empty if it always is."""


@dataclass(frozen=True)
class KeptPage:
    """A run whose page was loaded."""

    gathering: Gathering
    data: RunHistory
    """As the page has it."""


class Answers:
    """Answers requests, one at a time: readers of a journal belong to one thread."""

    def __init__(self, folder: RunsFolder) -> None:
        self._folder = folder
        self._files: dict[str, SeriesFile] = {}
        self._kept: dict[str, KeptPage] = {}
        self._turn = threading.Lock()

    def to(self, path: str, query: Sequence[tuple[str, str]]) -> Answer | None:
        """Return the answer; None if there is nothing at ``path``. Raises CoevolveError."""
        with self._turn:
            return asyncio.run(self._to(path, query))

    async def _to(self, path: str, query: Sequence[tuple[str, str]]) -> Answer | None:
        chosen = [value for key, value in query if key == "run"]
        match [unquote(part) for part in path.strip("/").split("/")]:
            case [""]:
                return _html(list_page(str(self._folder.root), await self._folder.overviews()))
            case ["runs.json"]:
                return _json([[*map(str, cells(each))] for each in await self._folder.overviews()])
            case ["compare"]:
                return await self._compare(chosen)
            case ["compare", "curves.json"]:
                return self._curves(chosen)
            case ["runs", name]:
                return await self._run(name, chosen)
            case ["runs", name, "curves.json"]:
                return self._curves([name, *chosen])
            case ["runs", name, "rollouts.json"]:
                return await self._rollouts(name, dict(query).get("group", ""))
            case ["runs", name, "life.json"]:
                return self._life(name, dict(query).get("at", ""))
            case _:
                return None

    async def _compare(self, names: Sequence[str]) -> Answer:
        if not 1 <= len(names) <= MOST_RUNS:
            raise RunError(
                f"a comparison needs 1 to {MOST_RUNS} runs, got {len(names)}; choose them in the "
                "list of runs"
            )
        overviews = [await self._folder.overview(name) for name in names]
        return _html(compare_page(overviews, self._series(names)))

    async def _run(self, name: str, others: Sequence[str]) -> Answer:
        directory = self._folder.directory(name)
        gathering = await self._gathering(directory)
        data = await gathering.newest()
        sample = every_group(data.evolution, directory.config())
        series = self._series([name, *others])
        environment, reader = environment_to_read(directory.config()), run_reader(directory.path)
        sources = await environment.sources(reader, visits_of(data))
        suspects = await suspects_of(reader, data)
        data = replace(data, series=series, sample=sample, sources=sources, suspects=suspects)
        self._kept[name] = KeptPage(gathering, data)
        for old in list(self._kept)[:-KEPT_PAGES]:
            del self._kept[old]
        return _html(page(data, served=True))

    async def _gathering(self, directory: RunDirectory) -> Gathering:
        """Return the data of a run to be brought up to date; a new one if its settings changed."""
        config = directory.written_config()
        kept = self._kept.pop(directory.path.name, None)
        if kept is not None and kept.data.config == config:
            return kept.gathering
        environment = environment_to_read(directory.config())
        return await Gathering.begin(run_reader(directory.path), config, environment)

    async def _rollouts(self, name: str, group_id: str) -> Answer:
        directory = self._folder.directory(name)
        data = self._loaded(name)
        found = (g for g in data.sample.groups if g.summary.group_id == group_id)
        listed = next(found, None)
        if listed is None:
            raise RunError(f"{group_id}: no group of {name} has this id")
        group = await group_of(run_reader(directory.path), listed.summary)
        return _json(visible_tree(group_data(data, group)))

    def _life(self, name: str, anchor: str) -> Answer:
        data = self._loaded(name)
        try:
            return _json(str(life_at(data, anchor, gaps_by_task(data))))
        except KeyError as error:
            raise RunError(f"{anchor}: no signal or task of {name} has this id") from error

    def _loaded(self, name: str) -> RunHistory:
        """Return the data of a run whose page was loaded. Raises RunError for others."""
        kept = self._kept.get(name)
        if kept is None:
            raise RunError(f"{name}: load the page of the run first")
        return kept.data

    def _curves(self, names: Sequence[str]) -> Answer:
        tag = "-".join(self._file(name).tag() for name in names)
        answer = _json(visible_tree(metrics_data(self._series(names))))
        return replace(answer, tag=f'"{tag}"')

    def _series(self, names: Sequence[str]) -> list[RunSeries]:
        return [self._file(name).read() for name in names]

    def _file(self, name: str) -> SeriesFile:
        metrics = self._folder.directory(name).metrics
        return self._files.setdefault(name, SeriesFile(metrics, name))


def _html(text: str) -> Answer:
    return Answer(HTML, text.encode())


def _json(value: object) -> Answer:
    return Answer(JSON, msgspec.json.encode(value))
