"""Carries a recipe out with every combination of options: sweep()."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from converter.commands.convert import Part, planned_part, staging_of
from converter.commands.executor import Ended, Executor, Task, executor_named, plain_error
from converter.commands.overview import in_the_way, put
from converter.commands.report import SWEEP, Files, Tracker, earlier, finish, link
from converter.errors import ModelyardError, UsageError, from_os_error
from converter.files import output_guard
from converter.files.digest import code_digest, digest_of, file_digest
from converter.files.scrub import scrub
from converter.options.recipe import find_recipe, own_fields
from converter.options.sweep import Cell, Sweep, read_axes
from converter.pipeline.cache import Cache
from converter.pipeline.kept_outputs import KeptOutputs, may_be_kept
from converter.pipeline.layers import overruled
from converter.pipeline.readings import CHANGED, Readings
from converter.pipeline.reads import paths_read, without_folder
from converter.pipeline.run import Listener, Silent
from converter.pipeline.work import describe_versions
from converter.report.compared import Compared, Row, rows_of
from converter.report.json_ import as_json, read_report, scrubbed

if TYPE_CHECKING:
    from converter.options.recipe_files import Recipe
    from converter.report.model import Report

PAGE = "report.html"
State = Literal["waiting", "done", "failed"]

_NOT_IN_KEYS = ("out", "overwrite", "dry_run", "offline", "cache", "reuse_source")


class CellReport(BaseModel):
    """A cell of a sweep, and what came of it."""

    model_config = ConfigDict(extra="ignore", json_schema_serialization_defaults_required=True)

    name: str = Field(description="Of its folder beside this file.")
    options: dict[str, str] = Field(description="What was chosen on each axis.")
    state: State = "waiting"
    kept: bool = Field(default=False, description="Whether an earlier run made it.")
    key: str = Field(default="", description="Of all that it depends on, where it has ended.")
    modules: str = Field(default="", description="Of what its source's code imported, if known.")
    seconds: float = Field(default=0.0, description="With others beside it.")
    error: dict[str, Any] | None = Field(default=None, description="As --json has errors.")


class SweepReport(Compared):
    """The contents of sweep.json: the cells, and the comparison of what they gave."""

    cells: list[CellReport] = Field(default=[])
    seal: str = Field(default="", description="Of this text with an empty one.")


class Watcher(Listener, Protocol):
    """Told how a sweep goes on: of steps, and of cells."""

    def cells(self, count: int, kept: int) -> None:
        """How many there are, and how many an earlier run made."""

    def ended(self, cell: CellReport) -> None:
        """One is done, or has failed."""


class _Unwatched(Silent):
    def cells(self, count: int, kept: int) -> None:
        """Nothing."""

    def ended(self, cell: CellReport) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Swept:
    """What a sweep gave.

    Attributes:
        out: Its folder; each cell's output is in it.
        report: The cells, and the comparison; of a dry run, the cells alone.
        page: The page; None for a dry run.
        errors: Of the cells that failed, by name.
    """

    out: Path
    report: SweepReport
    page: Path | None
    errors: Mapping[str, ModelyardError]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        made = self.report.model_dump(mode="json", exclude={"seal"})
        return {"out": str(self.out), "page": str(self.page) if self.page else None, **made}


def sweep(
    recipe: str | Recipe,
    *,
    axes: Mapping[str, Sequence[Any]] | None = None,
    exclude: Sequence[Mapping[str, Any]] = (),
    want: str | None = None,
    against: str | None = None,
    again: bool = False,
    files: Files | None = None,
    tracker: Tracker | None = None,
    trust_recipe: bool = False,
    set: Mapping[str, Any] | None = None,
    document: int | None = None,
    watcher: Watcher | None = None,
    executor: Executor | str = "local",
    known: Callable[[Exception], ModelyardError] | None = None,
    **options: Any,
) -> Swept:
    """Carries out a recipe with every combination of options.

    Args:
        recipe: As for :func:`converter.commands.convert.run_recipe`.
        axes: Options and their values, as a recipe writes them; they replace its own.
        exclude: Combinations that are left out, besides the recipe's own.
        want: The need that decides what to ship; see :mod:`converter.report.wants`.
        against: An earlier run: what changed since is told.
        again: Whether cells that an earlier run made are made again.
        files: What is written besides the page.
        tracker: Where the artifacts are logged.
        trust_recipe: Whether code and interpreters that the recipe names may run.
        set: The recipe's variables, by name.
        document: Which recipe of a file of several YAML documents, counted from 1.
        watcher: Told how it goes on.
        executor: Where cells are carried out; a text as ``--executor`` has it.
        known: Makes the user's error of whatever was raised.
        **options: Fields of a request that override the recipe's; ``out`` is the sweep's folder.

    Returns:
        The cells, those that failed among them: that raises nothing.

    Raises:
        UsageError: The recipe or the axes aren't right, something is in the way, or it isn't
            trusted.
    """
    from converter.options.recipe_files import open_recipe
    from converter.options.trust import require_trusted

    _require_names([options.get("source", ""), *(axes or {}).get("source", ())])
    found = open_recipe(find_recipe(recipe), set, document) if isinstance(recipe, str) else recipe
    values = overruled(found.values, {**options, **({"overwrite": True} if again else {})})
    if "parts" in values:
        raise UsageError(
            f"{found.where} has parts, and a sweep takes one model at a time", code="sweep"
        )
    asked: Sweep = values.pop("sweep", Sweep({}))
    more = read_axes(axes or {}, "the sweep", lambda own: own_fields(own, "the sweep", {}, Path()))
    asked = asked.beside(more, exclude)
    want = want or asked.want or None
    if isinstance(executor, str):
        executor = executor_named(executor)
    if want is not None:
        from converter.report.wants import read_want

        read_want(want)
    if not (trust_recipe or values.get("dry_run")):
        require_trusted(found)
    out = Path(values.pop("out", None) or f"build/{values.get('name') or found.path.stem}")
    before = earlier(against, out)  # which may be what this folder holds now
    made = _Sweep(out, asked.cells(found.where), values, known or plain_error)
    listening = watcher or _Unwatched()
    tasks = made.tasks(again)
    if values.get("dry_run"):
        made.tell(listening)
        return made.result(None)
    if tracker is not None:
        tracker.open(want)

    def ended(item: Ended) -> None:
        made.note(item)
        listening.ended(made.cells[item.name])

    with _held(out), KeptOutputs(made.cache) as made.outputs:
        made.write()
        tasks = tasks if again else made.without_kept(tasks)
        made.tell(listening)
        executor.carry_out(tasks, listening, ended)
        finish(made.report, out / PAGE, before, want)
        made.write()
        (files or Files()).write(made.report)
        if tracker is not None:
            tracker.log(made.report, out / PAGE)
            made.write()
    return made.result(out / PAGE)


def _require_names(sources: Sequence[Any]) -> None:
    """Refuses live models.

    Raises:
        UsageError: A source is one.
    """
    for source in sources:
        if not isinstance(source, (str, os.PathLike)):
            raise UsageError(
                f"a sweep can't take a live {type(source).__name__}: it is in the caller's "
                "process, and combinations may run elsewhere",
                hint="Save the model, and name its file.",
                code="option-value",
            )


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Holds the sweep's folder: its file is one sweep's at a time.

    Raises:
        UsageError: Another one holds it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        held = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise from_os_error(error, f"writing to {out}") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        hint = "Wait for it, or choose another --out."
        raise UsageError(
            f"another sweep is writing to {out}", code="output-busy", hint=hint
        ) from error
    else:
        yield
    finally:
        os.close(held)


class _Sweep:
    """A sweep's folder, and what is known of its cells."""

    def __init__(
        self, out: Path, cells: Sequence[Cell], values: Mapping[str, Any],
        known: Callable[[Exception], ModelyardError],
    ) -> None:  # fmt: skip
        self._out, self._known = out, known
        self._values = values
        self._asked = cells
        self.cells = {cell.name: CellReport(name=cell.name, options=dict(cell.options))
                      for cell in cells}  # fmt: skip
        self._rows: dict[str, list[Row]] = {}
        self._keys: dict[str, str] = {}
        self._parts: dict[str, Part] = {}
        self.cache = Cache(False)
        self.outputs: KeptOutputs
        self.errors: dict[str, ModelyardError] = {}
        self.report = SweepReport(title=scrub(out.resolve().name), rows=[])
        self._earlier = self._read()

    def _read(self) -> dict[str, CellReport]:
        """The cells that an earlier run left in the folder.

        Raises:
            UsageError: Something else is in the way.
        """
        hint = "Choose another --out."
        if self._out.exists() and not self._out.is_dir():
            raise UsageError(
                f"the sweep's folder {self._out} is a file", code="output-in-the-way", hint=hint
            )
        if why := in_the_way(self._out / PAGE):
            raise UsageError(
                f"the sweep's folder can't be {self._out}: {why}",
                code="output-in-the-way",
                hint=hint,
            )
        file = self._out / SWEEP
        if not os.path.lexists(file):
            return {}
        with suppress(OSError, ValueError):
            text = file.read_text(encoding="utf-8")
            report = SweepReport.model_validate_json(text)
            plain = text.replace(f'"seal": "{report.seal}"', '"seal": ""')
            if output_guard.seal_of(plain) == report.seal:
                return {cell.name: cell for cell in report.cells}
        raise UsageError(
            f"{file} was changed since a sweep wrote it", code="output-in-the-way", hint=hint
        )

    def tasks(self, again: bool) -> list[Task]:
        """What is to be carried out: the cells that can be, and that aren't there yet.

        Raises:
            UsageError: Something else is in the place of some, and isn't to be replaced.
        """
        planned: list[Task] = []
        versions = describe_versions()
        for cell in self._asked:
            fields = {"keep_going": True, **self._values, **cell.fields,
                      "out": str(self._out / cell.name)}  # fmt: skip
            try:
                if "source" not in fields:
                    raise UsageError(
                        "there is no source", code="option-missing", hint="Add: source: net.py:Net"
                    )
                self._parts[cell.name] = part = planned_part("", fields)
                self._keys[cell.name] = _key(part, versions)
                planned.append(Task(cell.name, fields, part))
            except Exception as error:
                self.note(Ended(cell.name, error=error))
        if planned:
            asked = planned[0].part.request  # the cache is an option of the whole sweep
            self.cache = Cache.of(replace(asked, cache=bool(asked.cache)) if asked.dry_run
                                   else asked)  # fmt: skip
        tasks = [task for task in planned if again or not self._is_there(task.name)]
        taken = [task.name for task in tasks if self._is_taken(task)]
        if taken:
            raise UsageError(
                f"the sweep's folder {self._out} holds outputs of other options, files or versions",
                code="output-in-the-way",
                details=taken,
                hint="Choose another --out, or pass --overwrite to replace them.",
            )
        return tasks

    def without_kept(self, tasks: Sequence[Task]) -> list[Task]:
        """Puts in place what the cache has of the cells' outputs; gives the cells that are left."""
        left = []
        for task in tasks:
            try:
                if not self._is_kept(task):
                    left.append(task)
            except Exception as error:
                self.note(Ended(task.name, error=error))
        return left

    def _is_kept(self, task: Task) -> bool:
        """Whether the cache had the cell's output, which is in its place now. Of code, which may
        read what nobody knows of, only where the user says so."""
        part, modules = task.part, self._modules(task.name)
        if modules is None or modules == CHANGED or not self._readings(task.name).reusable:
            return False
        if not may_be_kept(part.request, part.plan):
            return False
        with staging_of([part], Path(task.fields["out"]), part.request) as staging:
            if not self.outputs.get(self._keys[task.name] + modules, staging.folder):
                return False
            folder = staging.commit()
        report = read_report(folder / "report.json")
        self.cells[task.name].kept = True
        self.note(Ended(task.name, report, folder))
        return True

    def tell(self, listener: Watcher) -> None:
        """How many cells there are, and which couldn't be begun."""
        listener.cells(len(self.cells), sum(cell.kept for cell in self.cells.values()))
        for cell in self.cells.values():
            if cell.state == "failed" and not cell.kept:
                listener.ended(cell)

    def _readings(self, name: str) -> Readings:
        part = self._parts[name]
        return Readings(part.request, part.identity, self.cache)

    def _modules(self, name: str) -> str | None:
        """What is known of the modules that a cell's source imports (:meth:`Readings.modules`)."""
        return self._readings(name).modules(self._parts[name].plan.step("parse"))

    def _is_taken(self, task: Task) -> bool:
        """Whether something is in a cell's place that isn't to be replaced."""
        place = self._out / task.name
        there = os.path.lexists(place) and not (place.is_dir() and not any(place.iterdir()))
        return there and not task.part.request.overwrite

    def _is_there(self, name: str) -> bool:
        """Whether an earlier run made the cell, or its report of a missed gate, as it would be
        made now: what came of it is taken over."""
        before = self._earlier.get(name)
        if before is None or not before.key or before.key != self._keys[name]:
            return False
        if before.modules and self._modules(name) not in (None, before.modules):
            return False
        names = (f"{name}.failed", name) if before.state == "failed" else (name,)
        there = [folder for n in names if output_guard.is_ours(folder := self._out / n)]
        if not there or output_guard.strange(folder := there[0]):
            return False
        with suppress(OSError, ValueError):
            report = read_report(folder / "report.json")
            self.cells[name] = cell = before.model_copy(update={"kept": True})
            self._add(name, report, folder)
            if report.verdict != "failed":
                cell.state, cell.error = "done", None
            elif cell.error is not None:
                self.errors[name] = ModelyardError.told(cell.error)
            return True
        return False

    def note(self, item: Ended) -> None:
        """Notes what came of a cell, in the folder too."""
        cell = self.cells[item.name]
        cell.seconds = round(item.seconds, 3)
        cell.state = "failed" if item.error is not None else "done"
        cell.key = self._keys.get(item.name, "")
        report, folder = item.report, item.folder
        if item.error is not None:
            error = self._known(item.error.__cause__ if _is_wrapped(item.error) else item.error)  # type: ignore[arg-type]
            self.errors[item.name] = error
            cell.error = scrub(error.as_dict())
            if report is None and error.left is not None:
                report, folder = read_report(error.left / "report.json"), error.left
            elif report is None:  # it is tried again; what an earlier run made stays as it is
                before = self._earlier.get(item.name)
                cell.key = before.key if before is not None else ""
        if item.name in self._parts:
            cell.modules = self._modules(item.name) or ""
        if report is not None and folder is not None:
            self._keep(item, folder)
            self._add(item.name, report, folder)
        else:
            self._rows[item.name] = [self._failed(cell)]
        if not self._values.get("dry_run") and item.name in self._keys:
            self.write()

    def _keep(self, item: Ended, folder: Path) -> None:
        """Keeps an output that is whole, and that the cache hasn't given."""
        cell, part = self.cells[item.name], self._parts[item.name]
        if item.error is None and not cell.kept and may_be_kept(part.request, part.plan):
            self.outputs.put(cell.key + cell.modules, folder)

    def _add(self, name: str, report: Report, folder: Path) -> None:
        page = link(folder / PAGE, self._out)
        self._rows[name] = rows_of(scrubbed(report), name, page, self.cells[name].options)

    def _failed(self, cell: CellReport) -> Row:
        said = str((cell.error or {}).get("message", ""))
        names = {key: cell.options.get(key, "") for key in ("to", "precision")}
        return Row(
            name=cell.name, run=cell.name, target=names["to"], precision=names["precision"],
            verdict="error", why=said.splitlines()[0] if said else "", options=cell.options,
        )  # fmt: skip

    def write(self) -> None:
        """Writes sweep.json."""
        made = self.report
        made.rows = [row for name in self.cells for row in self._rows.get(name, ())]
        made.cells = [*self.cells.values()]
        made.seal = ""
        clean = scrubbed(made)
        clean.seal = made.seal = output_guard.seal_of(as_json(clean))
        put(self._out / SWEEP, as_json(clean))

    def result(self, page: Path | None) -> Swept:
        """What the sweep gave."""
        self.report.cells = [*self.cells.values()]
        return Swept(self._out, self.report, page, self.errors)


def _is_wrapped(error: Exception) -> bool:
    """Whether it stands for what nobody foresaw, which the command line has words for."""
    return type(error).__name__ == "InternalError" and isinstance(error.__cause__, Exception)


def _key(part: Part, versions: Mapping[str, str]) -> str:
    """The key of all that is known of a cell: options, contents of files, versions, our code."""
    request = part.request
    asked = {name: value for name, value in vars(request).items() if name not in _NOT_IN_KEYS}
    contents = sorted(file_digest(path) for path in paths_read(request, part.identity).values())
    asked["source"] = without_folder(request.source)
    return digest_of([code_digest(), dict(versions), asked, contents, dict(part.identity.versions)])
