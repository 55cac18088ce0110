"""Deployments of the packages that a run gives: refused early, then written beside them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from converter import plugins
from converter.errors import UsageError, from_os_error
from converter.options.request import Request
from converter.options.resolved import served_name
from converter.protocols.deployment import Deployable, Deployed, Deployment
from converter.protocols.server import Packaged, Server
from converter.report.model import DeploymentReport, Report

if TYPE_CHECKING:
    from converter.pipeline.flow_packages import FlowPackage
    from converter.pipeline.outcome import Outcome

FOLDER = "deploy"


def require_here(request: Request) -> None:
    """Refuses what this machine lacks, before the source is read.

    Raises:
        DependencyError: As the deployments have it.
    """
    for place in request.deploy:
        plugins.load("deployments", place).require(request)


def require_deployable(servers: Mapping[str, Server]) -> None:
    """Refuses servers that say nothing of how they are deployed.

    Raises:
        UsageError: There is one.
    """
    for name, server in servers.items():
        if type(server).deployed is Server.deployed:
            raise UsageError(
                f"--deploy: the server {name} doesn't say how it runs in an image",
                code="deployment",
                hint="Leave --deploy out, or choose another server.",
            )


def check_early(request: Request, name: str) -> None:
    """Refuses names and options before anything is converted.

    Raises:
        UsageError: As the deployments have it.
    """
    for place in request.deploy:
        deployment: Deployment = plugins.load("deployments", place)
        for precision in request.precision:
            deployment.check(served_name(request, name, precision), request)


@dataclass(frozen=True)
class _Given:
    """A package that is given, and the most memory its artifact took."""

    packaged: Packaged
    memory: int | None
    flow: bool = False


def deploy(
    outcomes: Sequence[Outcome],
    flows: Sequence[FlowPackage],
    report: Report,
    request: Request,
    root: Path,
) -> None:
    """Writes ``deploy/NAME/SERVER/MODEL/`` for every package in the report.

    All are made before the first is written. The report and the package's README then name them.

    Args:
        outcomes: The runs that made the packages.
        flows: Packages of flows, over all parts.
        report: Says which packages are given; the deployments are added to it.
        request: ``deploy``: which deployments.
        root: The output folder.

    Raises:
        UsageError: What was asked contradicts what was measured, or two would have one place.
        MachineError: The disk is full.
    """
    made: dict[Path, tuple[Deployable, Deployment, Deployed]] = {}
    listed = {item.path: item for item in report.packages}
    for given in _given(outcomes, flows, report):
        if given.packaged.path.relative_to(root).as_posix() not in listed:
            continue
        for name in request.deploy:
            place = root / FOLDER / name / given.packaged.server / given.packaged.path.name
            if place in made:
                raise UsageError(
                    f"--deploy {name}: two packages are called {place.name}",
                    code="deployment",
                    hint="Leave --one-name out, or convert one precision at a time.",
                )
            deployment: Deployment = plugins.load("deployments", name)
            package = _deployable(given, request, root)
            made[place] = package, deployment, deployment.deploy(package)
    try:
        for place, (package, deployment, deployed) in made.items():
            _write(place, deployed)
            path = place.relative_to(root).as_posix()
            _tell(package.package, path, deployment.name, deployed)
        for place, (package, deployment, deployed) in made.items():
            listed[package.package.relative_to(root).as_posix()].deployments.append(
                DeploymentReport(
                    name=deployment.name,
                    path=place.relative_to(root).as_posix(),
                    checks={**deployed.checks, **deployment.attempt(package, place)},
                    decisions=list(deployed.decisions),
                )
            )
    except OSError as error:
        raise from_os_error(error, "writing a deployment") from error


def _given(
    outcomes: Sequence[Outcome], flows: Sequence[FlowPackage], report: Report
) -> Iterator[_Given]:
    known = {
        (item.part, item.target, item.precision): max(p.resident for p in item.memory.phases)
        for item in report.artifacts
        if item.memory is not None and item.memory.phases
    }
    took: dict[Path, int | None] = {}
    for outcome in outcomes:
        for step in outcome.done("package"):
            packaged: Packaged = outcome.run.result(step.id)
            took[packaged.path] = known.get((outcome.part, step.target, step.precision))
            yield _Given(packaged, took[packaged.path])
    for flow in flows:
        parts = [took.get(path) for path in flow.parts]
        memory = [item for item in parts if item is not None]
        yield _Given(flow.packaged, sum(memory) if len(memory) == len(parts) else None, flow=True)


def _deployable(given: _Given, request: Request, root: Path) -> Deployable:
    folder = given.packaged.path
    server: Server = plugins.load("servers", given.packaged.server)
    served = server.deployed(folder)
    if served is None:
        raise UsageError(
            f"--deploy: the package {folder.name} of {server.name} can't run in an image",
            code="deployment",
            hint="Leave --deploy out, or choose another server.",
        )
    name, beside = folder.name, server.calls(folder)
    return Deployable(
        name, server.name, served, folder, beside, given.flow, root, given.memory, request
    )


def _write(place: Path, deployed: Deployed) -> None:
    for name, text in deployed.files.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _tell(package: Path, place: str, name: str, deployed: Deployed) -> None:
    """Adds the lines that deploy it to the package's README."""
    lines = "\n".join(line.format(here=shlex.quote(place)) for line in deployed.lines)
    text = f"\n## Deploy: {name}\nIn the output's folder:\n```\n{lines}\n```\n"
    readme = package / "README.md"
    before = readme.read_text(encoding="utf-8")
    readme.unlink()  # a repository may have it by a link
    readme.write_text(before + text, encoding="utf-8")
