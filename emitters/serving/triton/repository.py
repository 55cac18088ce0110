"""Adds a model version to a Triton repository that a server may be polling right now.

What a poll looks at (the server core's ``model_repository_manager.cc`` and
``model_lifecycle.cc``): every folder in the repository is a model, hidden ones too; every folder
in a model whose name *starts* with a number is a version; a change anywhere in a model's folder
has it looked at again, and a change to anything but its versions and its ``config.pbtxt``
reloads the versions that are running. So everything is first laid out in a folder that no
poll takes for a model or a version, and then appears by one rename, which fails where the name
is already taken by something that isn't empty.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from converter.errors import UsageError, from_os_error
from converter.files.locked import REPOSITORY_PREFIX, locked_folder
from converter.protocols.server import Announce
from emitters.packaging.selftest import NAME as SELFTEST
from emitters.serving.triton import litert
from emitters.serving.triton.config import (
    BACKEND,
    CONFIG_NAME,
    MODEL_FILE,
    describe_ports,
    read_config,
)
from emitters.serving.triton.engine import ENGINE_BACKEND, PLAN_FILE, PLATFORM

_TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}
_ATTEMPTS = 1000
_LARGEST_VERSION = 2**63 - 1  # Triton reads version numbers as int64


def no_one(made: Path, target: Path | str, aside: Path) -> None:
    """Nobody is told.

    Args:
        made: The folder, before it is renamed.
        target: What it is to be.
        aside: A folder on the same file system that no server looks into.
    """


def publish_model(
    model: Path, version: int, repository: Path, announce: Announce = no_one
) -> tuple[Path, list[str]]:
    """Adds the packaged ``model`` to ``repository``.

    A model that isn't there yet is added whole, as its version ``version``; one that is gets
    ``<highest version + 1>`` and keeps its configuration, warm-up and labels. Nothing that is
    there is written to. Publishers may run side by side.

    Args:
        model: The packaged model's folder.
        version: The version in it.
        repository: The folder that it goes to; made where it isn't there.
        announce: Called before the rename; see :data:`converter.protocols.server.Announce`.

    Returns:
        The new version's folder, and what was decided.

    Raises:
        UsageError: The repository can't be written, or holds a model of this name without a
            configuration or with another interface (every difference is listed), or one of a name
            that is the same but for its case.
        MachineError: The disk is full.
    """
    target = repository / model.name
    try:
        repository.mkdir(parents=True, exist_ok=True)
        for _ in range(_ATTEMPTS):
            if not os.path.lexists(target):
                require_apart(target.name, [item.name for item in repository.iterdir()], repository)
                if _place(model, target, repository, announce):
                    return target / str(version), [f"new model {model.name} in the repository"]
                continue  # someone else has just added it
            notes = require_same_interface(model, target)
            number = next_version(target)
            if _place(model / str(version), target / str(number), repository, announce):
                return target / str(number), [*notes, *policy_note(target, number)]
    except OSError as error:
        raise from_os_error(error, f"adding {model.name} to {repository}") from error
    raise UsageError(
        f"{target} changes faster than a version can be added to it", code="repository"
    )


def require_publishable(model: Path, repository: Path) -> None:
    """Refuses what :func:`publish_model` would refuse, before anything is added.

    Raises:
        UsageError: As there.
    """
    if os.path.lexists(repository / model.name):
        require_same_interface(model, repository / model.name)


def require_apart(name: str, there: Iterable[str], repository: Path | str) -> None:
    """Refuses a name that is another's but for its case: elsewhere both are one folder.

    Args:
        name: The model's.
        there: Names of the models that are there.
        repository: Where that is, for the message.

    Raises:
        UsageError: There is such a model.
    """
    for other in there:
        if other != name and other.casefold() == name.casefold():
            raise UsageError(
                f"{repository} has {other}, which differs from {name} only in upper and "
                "lower case: some file systems take these as one name",
                code="repository",
                hint="Choose another --name.",
            )


def next_version(target: Path) -> int:
    """One above every number that a name in the model's folder starts with."""
    found = [re.match(r"\d+", item.name) for item in target.iterdir()]
    number = max((int(match[0]) for match in found if match), default=0) + 1
    if number > _LARGEST_VERSION:
        raise UsageError(
            f"{target} has no version number left: it holds {number - 1}", code="repository"
        )
    return number


def _place(source: Path, target: Path, repository: Path, announce: Announce) -> bool:
    """Copies ``source`` and renames the copy to ``target``; False where that is taken."""
    aside = _staging_parent(target, repository)
    with locked_folder(aside, REPOSITORY_PREFIX) as folder:
        copy = folder / "content"
        _copy(source, copy)
        announce(copy, target, aside)
        try:
            copy.rename(target)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
        _sync_folder(target.parent)
    return True


def _copy(source: Path, target: Path) -> None:
    """Copies a folder's contents, and brings them to the disk.

    Modes and times are not copied: they are those of files made here and now, so that the
    server's user may read them and a poll sees that they are new.
    """
    target.mkdir()
    for item in sorted(source.iterdir()):
        if item.is_dir():
            _copy(item, target / item.name)
            continue
        shutil.copyfile(item, target / item.name)
        with (target / item.name).open("rb") as stream:
            os.fsync(stream.fileno())
    _sync_folder(target)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _staging_parent(target: Path, repository: Path) -> Path:
    """A folder on the target's file system in which to make what is added.

    Beside the repository where that can be, so that no poll sees it. A repository that is a
    mount of its own leaves only its inside: there Triton passes over it with a line in its
    log, as it has neither a model's configuration nor a number for a name.
    """
    beside = repository.resolve().parent
    same = beside.stat().st_dev == target.parent.stat().st_dev
    return beside if same and os.access(beside, os.W_OK | os.X_OK) else target.parent


def require_same_interface(model: Path, target: Path, place: str = "") -> list[str]:
    """Notes on what the repository's configuration keeps; raises where a client would break.

    Args:
        model: The package.
        target: The model's folder in the repository.
        place: What errors call that; its path, where that is left out.
    """
    place = place or str(target)
    if not (target / CONFIG_NAME).is_file():
        raise UsageError(
            f"{place} is in the repository, but has no {CONFIG_NAME} to compare with",
            code="repository",
            hint="Remove the folder, complete it, or choose another --name.",
        )
    ours, theirs = read_config(model / CONFIG_NAME), read_config(target / CONFIG_NAME)
    found = [*interface_differences(theirs, ours), *_label_differences(model, ours, target, theirs)]
    if found:
        raise UsageError(
            f"{place} has another interface than the new version of {model.name}",
            code="repository",
            details=found,
            hint="Publish it under another --name, or change its config.pbtxt first.",
        )
    kept = f"{CONFIG_NAME}, labels, warm-up and what {SELFTEST} compares with"
    notes = [f"{kept} of the repository's {model.name} are kept"]
    if _accelerators(ours) != _accelerators(theirs):
        notes.append(
            f"the repository's configuration has {_accelerators(theirs) or 'no accelerator'}, "
            f"the package's {_accelerators(ours) or 'none'}"
        )
    return notes


def _accelerators(config: Any) -> str:
    found = config.optimization.execution_accelerators.gpu_execution_accelerator
    return "; ".join(
        f"{item.name} ({', '.join(f'{k} {v}' for k, v in sorted(item.parameters.items()))})"
        for item in found
    )


def interface_differences(theirs: Any, ours: Any) -> list[str]:
    """What a client, or the backend, would notice between two configurations, a line each."""
    found = []
    there, here = _backend(theirs), _backend(ours)
    if there != here:
        found.append(f"backend: {there or 'none'} there, {here} here")
    file = {ENGINE_BACKEND: PLAN_FILE, litert.BACKEND: litert.CODE}.get(here, MODEL_FILE)
    if theirs.default_model_filename not in ("", file):
        found.append(f"model file: {theirs.default_model_filename} there, {file} here")
    if theirs.max_batch_size != ours.max_batch_size:
        found.append(f"max_batch_size: {theirs.max_batch_size} there, {ours.max_batch_size} here")
    old_states, new_states = (_states(config) for config in (theirs, ours))
    if old_states != new_states:
        found.append(f"states: {old_states or 'none'} there, {new_states or 'none'} here")
    for kind in ("input", "output"):
        old, new = (describe_ports(getattr(config, kind)) for config in (theirs, ours))
        found += [
            f"{kind} {name}: {old.get(name, 'none')} there, {new.get(name, 'none')} here"
            for name in dict.fromkeys((*old, *new))
            if old.get(name) != new.get(name)
        ]
    return found


def _states(config: Any) -> str:
    """What the server keeps between requests, and fills in."""
    batching = config.sequence_batching
    texts = [f"{state.input_name}={state.output_name}" for state in batching.state]
    return ", ".join([*texts, *(entry.name for entry in batching.control_input)])


_PLATFORMS = {"onnxruntime_onnx": BACKEND, PLATFORM: ENGINE_BACKEND}
"""Older names of the backends."""


def _backend(config: Any) -> str:
    name = config.backend or config.platform
    return str(_PLATFORMS.get(name, name))


def _label_differences(model: Path, ours: Any, target: Path, theirs: Any) -> Iterator[str]:
    there = {entry.name: entry.label_filename for entry in theirs.output}
    for entry in ours.output:
        name = there.get(entry.name)
        if name and entry.label_filename:
            old, new = _lines(target / name), _lines(model / entry.label_filename)
            if old != new:
                yield f"labels of {entry.name}: {name} differs ({len(old)} there, {len(new)} here)"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def policy_note(target: Path, number: int) -> list[str]:
    policy = read_config(target / CONFIG_NAME).version_policy
    if policy.HasField("specific") and number not in policy.specific.versions:
        return [
            f"version {number} is not served yet: the version_policy of {target.name} names "
            f"{', '.join(map(str, policy.specific.versions))}"
        ]
    return []
