"""Logs a comparison to MLflow: a run for each artifact, and what to ship as a registered version.

The server is the one that MLFLOW_TRACKING_URI names, or that the caller gave MLflow's own client.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from converter.commands.report import REPORT
from converter.errors import DependencyError, MachineError, UsageError
from converter.files.digest import digest_of, file_digest
from converter.files.output_guard import NAME
from converter.plugins import extras
from converter.report.compared import Compared, Logged, Row
from converter.report.json_ import read_report

if TYPE_CHECKING:
    from mlflow import MlflowClient

_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",  # seven, its own, take minutes
    "GIT_PYTHON_REFRESH": "quiet",
}
"""What MLflow's client is told, unless the user says otherwise."""

_FIGURES = {
    "cosine": "cosine", "max_abs": "max_abs", "drop": "drop", "p50_ms": "p50_ms",
    "p95_ms": "p95_ms", "throughput": "throughput", "bytes": "size_bytes",
    "memory": "memory_bytes", "nodes": "nodes",
}  # fmt: skip
"""Figures of rows, and what they are called in MLflow."""

_FOLDER = "model"
"""Of a run's artifacts: the model itself."""

_KEY = "modelyard.key"
_LONGEST = 500
"""Characters of a parameter that every MLflow server takes."""


class MlflowTracker:
    """An experiment on an MLflow server; see :class:`converter.commands.report.Tracker`.

    Args:
        experiment: Its name; it is made where it isn't there.
        register: ``MODEL`` or ``MODEL@ALIAS``: what to ship becomes a version of that registered
            model, which gets the alias.
    """

    def __init__(self, experiment: str, register: str | None = None) -> None:
        self._experiment = experiment
        self._model, at, self._alias = (register or "").partition("@")
        if register is not None and not (self._model and (self._alias or not at)):
            raise UsageError(f"--mlflow-register {register!r} isn't MODEL or MODEL@ALIAS",
                             code="option-value")  # fmt: skip

    def open(self, want: str | None) -> None:
        """Finds the experiment, before anything is made.

        Args:
            want: The need that decides what to ship.

        Raises:
            UsageError: No server is named, or a version is to be registered and no need says which.
            DependencyError: MLflow isn't installed.
            MachineError: The server doesn't answer.
        """
        if self._model and want is None:
            raise UsageError(
                "--mlflow-register needs --want, which decides what to register",
                hint='Add --want "p95<20ms size<10MB".',
                code="option-missing",
            )
        if find_spec("mlflow") is None:
            hint = extras.pip_line([extras.in_range("mlflow-skinny", "mlflow")])
            raise DependencyError("--mlflow needs MLflow", hint=hint, code="package-missing")
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient, get_tracking_uri
        from mlflow.tracking import is_tracking_uri_set

        if not is_tracking_uri_set():
            raise UsageError(
                "--mlflow needs the server's address",
                hint="Set MLFLOW_TRACKING_URI=http://HOST:PORT.",
                code="option-missing",
            )
        self._uri = _without_password(get_tracking_uri())
        with self._asking("opening the experiment"):
            self._client: MlflowClient = MlflowClient()
            found = self._client.get_experiment_by_name(self._experiment)
            self._id: str = (
                found.experiment_id if found else self._client.create_experiment(self._experiment)
            )

    def log(self, compared: Compared, page: Path) -> None:
        """Logs each row that isn't there yet, and registers what to ship; notes where.

        Args:
            compared: The comparison.
            page: Its page, which the rows' links start from.

        Raises:
            MachineError: The server gave out.
        """
        runs = {row.name: self._run(row, page.parent) for row in compared.rows}
        version = ""
        if self._model and compared.ship:
            with self._asking(f"registering {self._model}"):
                version = self._registered(runs[compared.ship], "\n".join(compared.reasons))
        where = f"{self._uri}/#/experiments/{self._id}"
        compared.logged = Logged(
            where=where if self._uri.startswith("http") else f"{self._uri} ({self._experiment})",
            runs=runs, model=self._model, version=version, alias=self._alias if version else "",
        )  # fmt: skip

    def _run(self, row: Row, beside: Path) -> str:
        """The ID of a row's run: made now, or by an earlier call."""
        folder = (beside / unquote(row.report)).parent if row.report else None
        report = file_digest(folder / REPORT) if folder else row.model_dump(mode="json")
        key = digest_of([row.part, row.target, row.precision, report])
        with self._asking(f"logging {row.name}"):
            said = f"tags.`{_KEY}` = '{key}'"
            if known := self._client.search_runs([self._id], said, max_results=1):
                return str(known[0].info.run_id)
            id: str = self._client.create_run(
                self._id, tags=_tags(row), run_name=row.name
            ).info.run_id
            try:
                self._fill(id, row, folder)
            except BaseException:  # Ctrl-C too: no run may stay "running"
                with suppress(Exception):  # the server gave out, and may not hear this either
                    self._client.set_terminated(id, "KILLED")
                raise
            self._client.set_tag(id, _KEY, key)  # last: a run that was cut short has none
            self._client.set_terminated(id, "FINISHED" if row.usable else "FAILED")
        return id

    def _fill(self, id: str, row: Row, folder: Path | None) -> None:
        from mlflow.entities import Metric, Param

        now = self._client.get_run(id).info.start_time
        params = [Param(name, value[:_LONGEST]) for name, value in _params(row, folder).items()]
        metrics = [Metric(name, value, now, 0) for name, value in _metrics(row).items()]
        self._client.log_batch(id, metrics=metrics, params=params)
        if folder is None:
            return
        for name in ("report.html", REPORT, NAME):
            self._client.log_artifact(id, str(folder / name))
        made = next((item for item in read_report(folder / REPORT).artifacts
                     if (item.part, item.target, item.precision)
                     == (row.part, row.target, row.precision)), None)  # fmt: skip
        path = folder / made.path if made is not None and made.path else None
        if path is None or not path.exists():  # it missed a gate
            return
        if path.is_file() and made is not None and made.files > 1:  # with its weights
            path = path.parent
        log = self._client.log_artifacts if path.is_dir() else self._client.log_artifact
        log(id, str(path), _FOLDER)

    def _registered(self, run: str, why: str) -> str:
        """The number of the model's version that is a run's: made now, or by an earlier call."""
        from mlflow.exceptions import MlflowException

        client, name = self._client, self._model
        try:
            client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        found = client.search_model_versions(f"name = '{name}' and run_id = '{run}'")
        version = (
            found[0]
            if found
            else client.create_model_version(name, f"runs:/{run}/{_FOLDER}", run, description=why)
        )
        if self._alias:
            client.set_registered_model_alias(name, self._alias, version.version)
        return str(version.version)

    @contextmanager
    def _asking(self, doing: str) -> Iterator[None]:
        """Makes an error of the user's of what MLflow raises."""
        from mlflow.exceptions import MlflowException

        try:
            yield
        except (MlflowException, OSError, ImportError) as error:
            said = re.sub(r"//[^/@\s]*@", "//", str(error).strip()).splitlines()
            raise MachineError(
                f"MLflow at {self._uri}: {doing} failed: {said[0] if said else type(error)}",
                hint="Check MLFLOW_TRACKING_URI. `modelyard report OUT --mlflow "
                f"{self._experiment}` logs what is there, once the server answers.",
                code="store-failed",
            ) from error


def tracker(experiment: str | None, register: str | None) -> MlflowTracker | None:
    """What logs to an experiment; None where nothing is to be logged.

    Raises:
        UsageError: Something is to be registered, and nothing logged.
    """
    if experiment is not None:
        return MlflowTracker(experiment, register)
    if register is not None:
        raise UsageError("--mlflow-register needs --mlflow EXPERIMENT", code="option-missing")
    return None


def _params(row: Row, folder: Path | None) -> Mapping[str, str]:
    """What an artifact was made of: the options that differ from their defaults, by their names."""
    params = dict(row.options)
    if folder is not None:
        import json

        request = json.loads((folder / NAME).read_bytes())["request"]
        params = {name: str(value) for name, value in request.items()} | params
    own = {"source": row.model, "part": row.part, "target": row.target, "precision": row.precision}
    return params | {name: value for name, value in own.items() if value}


def _metrics(row: Row) -> Mapping[str, float]:
    found: dict[str, Any] = {said: getattr(row, name) for name, said in _FIGURES.items()}
    if row.metric:
        found[row.metric] = row.value
    return {name: float(value) for name, value in found.items()
            if value is not None and math.isfinite(value)}  # fmt: skip


def _tags(row: Row) -> dict[str, str]:
    tags = {"verdict": row.verdict, "why": row.why, "doubt": row.doubt, "run": row.run,
            "machine": row.machine}  # fmt: skip
    return {f"modelyard.{name}": value for name, value in tags.items() if value}


def _without_password(uri: str) -> str:
    """An address as it may be shown."""
    place = urlsplit(uri)
    return place._replace(netloc=place.netloc.rpartition("@")[2]).geturl().rstrip("/")
