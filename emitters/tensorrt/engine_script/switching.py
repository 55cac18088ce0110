"""Turns a Triton folder that serves ``model.onnx`` into one that serves ``model.plan``.

Every step is one rename, and after each of them the folder is one that Triton serves:

1. ``model.plan`` appears in the version's folder: the onnxruntime backend doesn't look at it.
2. The configuration that was there is kept as ``config.onnxruntime.pbtxt``.
3. ``config.engine.pbtxt``, made when the folder was, takes the place of ``config.pbtxt``.
4. The ONNX file goes to ``onnx/<version>``, where the next build finds it.

So a script that was killed is run again, and goes on.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emitters.tensorrt.engine_script.lock import LOCK_NAME, ONNX_FOLDER, file_sha256
from emitters.tensorrt.engine_script.refusals import USAGE, Stopped

CONFIG = "config.pbtxt"
ENGINE_CONFIG = "config.engine.pbtxt"
ONNX_CONFIG = "config.onnxruntime.pbtxt"
PLAN = "model.plan"

_RTX = b"vtrt"
"""What a plan of TensorRT-RTX begins with (seen in those of 1.7.1); Triton can't load one."""


@contextmanager
def alone(version: Path) -> Iterator[None]:
    """Keeps a second script out of the folder as long as this one works in it.

    Raises:
        Stopped: There is one already.
    """
    with (version / LOCK_NAME).open("rb") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Stopped(USAGE, f"another build_engine.py works in {version}") from None
        yield


def refuse_rtx(plan: bytes) -> None:
    """Keeps a plan of TensorRT-RTX out of a Triton folder."""
    if plan.startswith(_RTX):
        raise Stopped(
            USAGE,
            "this is a plan of TensorRT-RTX, which Triton's tensorrt backend can't load",
            hint="Build it with --library tensorrt.",
        )


def require_folder(version: Path, lock: Mapping[str, Any], *, replace: bool) -> None:
    """Refuses to switch a folder that isn't one packaged for it.

    Args:
        version: The version's folder, in which the lock lies.
        lock: The lock.
        replace: Whether a configuration that was changed since may be replaced.
    """
    model = version.parent
    if not lock.get("triton") or not (version / ENGINE_CONFIG).is_file():
        raise Stopped(
            USAGE,
            f"{version} isn't a version of a Triton model that was packaged for an engine",
            hint="Use --build-only FILE to build the engine alone.",
        )
    if not (model / CONFIG).is_file():
        raise Stopped(USAGE, f"{model} has no {CONFIG}")
    found = file_sha256(model / CONFIG)
    known = (lock["triton"]["config_sha256"], file_sha256(version / ENGINE_CONFIG))
    if found not in known and not replace:
        raise Stopped(
            USAGE,
            f"{CONFIG} was changed since it was packaged, and the change would be lost",
            hint=f"Make the same change in {version.name}/{ENGINE_CONFIG}, and add "
            "--replace-config.",
        )
    _require_versions(version, lock["triton"]["version_policy"])


def _require_versions(version: Path, policy: Mapping[str, Any]) -> None:
    """Refuses where the configuration would serve another version, and that has no plan."""
    numbers = sorted(int(item.name) for item in version.parent.iterdir() if item.name.isdecimal())
    served = numbers[-policy["latest"] :] if "latest" in policy else numbers
    if "specific" in policy:
        served = [number for number in numbers if number in policy["specific"]]
    if int(version.name) not in served:
        raise Stopped(USAGE, f"version {version.name} isn't among the served versions: {served}")
    lacking = [
        str(number)
        for number in served
        if number != int(version.name) and not (version.parent / str(number) / PLAN).is_file()
    ]
    if lacking:
        raise Stopped(
            USAGE,
            f"version {', '.join(lacking)} is served as well, but has no {PLAN}",
            hint="Build its engine first (--build-only), or serve the newest version only.",
        )


def switch(version: Path, plan: bytes, lock: Mapping[str, Any]) -> list[str]:
    """Puts the plan in and turns the folder to it; gives what was done, a line each.

    Args:
        version: The version's folder.
        plan: The engine.
        lock: What ``engine.lock.json`` says.

    Raises:
        Stopped: It is a plan of TensorRT-RTX.
    """
    refuse_rtx(plan)
    model, done = version.parent, []
    _write(version / PLAN, plan)
    done.append(f"wrote {version.name}/{PLAN}, {len(plan)} bytes")
    engine = file_sha256(version / ENGINE_CONFIG)
    if file_sha256(model / CONFIG) != engine:
        _copy(model / CONFIG, model / ONNX_CONFIG)
        done.append(f"kept {CONFIG} as {ONNX_CONFIG}")
        _copy(version / ENGINE_CONFIG, model / CONFIG)
        done.append(f"{version.name}/{ENGINE_CONFIG} is now {CONFIG}")
    return done + _move_onnx(version, lock)


def _move_onnx(version: Path, lock: Mapping[str, Any]) -> list[str]:
    files = [lock["model"], *lock["model"]["weights"]]
    target = version.parent / ONNX_FOLDER / version.name
    done = []
    for name in [item["file"] for item in files]:
        if (version / name).is_file():
            target.mkdir(parents=True, exist_ok=True)
            _rename(version / name, target / name)
            done.append(f"moved {version.name}/{name} to {ONNX_FOLDER}/{version.name}/{name}")
    return done


def _copy(source: Path, target: Path) -> None:
    _write(target, source.read_bytes())


def _write(target: Path, content: bytes) -> None:
    """Writes a file that appears whole, by a rename.

    What a killed script left of it is written over: its name is always the same.
    """
    temporary = target.with_name(f".{target.name}.new")
    with temporary.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    _rename(temporary, target)


def _rename(source: Path, target: Path) -> None:
    source.replace(target)
    handle = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
