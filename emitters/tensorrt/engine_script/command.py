"""The command line of ``build_engine.py``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from emitters.tensorrt.engine_script.building import build_plan, import_library, make_log
from emitters.tensorrt.engine_script.lock import file_sha256, find_model, read_lock
from emitters.tensorrt.engine_script.refusals import GATE, MACHINE, USAGE, Stopped, shown
from emitters.tensorrt.engine_script.running import Engine, verify
from emitters.tensorrt.engine_script.switching import (
    CONFIG,
    PLAN,
    alone,
    refuse_rtx,
    require_folder,
    switch,
)

RTX = "tensorrt_rtx"


def main(arguments: Sequence[str] | None = None, folder: Path | None = None) -> int:
    """Builds, verifies and switches; gives the exit code."""
    options = _parser().parse_args(arguments)
    place = (folder or Path(__file__).parent).resolve()
    try:
        with nullcontext() if options.build_only or options.dry_run else alone(place):
            _run(options, place)
    except Stopped as stopped:
        print("\n".join(map(shown, stopped.lines())), file=sys.stderr)
        return stopped.code
    except OSError as error:
        print(shown(f"build_engine.py: {error}"), file=sys.stderr)
        return MACHINE
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build_engine.py",
        description="Builds the TensorRT engine that engine.lock.json describes on this machine's "
        "GPU, compares it with the source framework's outputs, and turns the Triton folder to it.",
        epilog="Exit codes: 0 done; 2 usage, or a file isn't the one locked; 3 the library can't "
        "read or build the model; 4 the engine isn't close enough to its source; 5 library or GPU "
        "missing; 6 the machine failed.",
    )
    add = parser.add_argument
    add("--library", choices=("tensorrt", RTX), default="tensorrt", help="default: tensorrt")
    add("--build-only", metavar="FILE", type=Path, help="write the engine there, and stop")
    add("--dry-run", action="store_true", help="check the files, say what would be done, and stop")
    add("--unverified", action="store_true", help="switch though the lock holds no samples")
    add("--replace-config", action="store_true", help="replace a config.pbtxt that was changed")
    add("--plugin", metavar="FILE", type=Path, action="append", default=[], help="as locked")
    add("--timing-cache", metavar="FILE", type=Path, help="keep the builder's timings there")
    add("--compute-capability", metavar="X.Y", action="append", default=[], help="for tensorrt_rtx")
    add("--verbose", action="store_true", help="print the library's own log")
    return parser


def _run(options: argparse.Namespace, folder: Path) -> None:
    lock = read_lock(folder)
    model = find_model(folder, lock)
    plugins = _find_plugins(options.plugin, lock)
    _require_usage(options, folder, lock)
    _say(f"{model.name}: as locked; {lock['precision']}, opset {lock['model']['opset']}")
    if options.dry_run:
        for line in _intentions(options, folder, lock):
            _say(line)
        return
    trt = import_library(options.library)
    log = make_log(trt, options.verbose)
    _say(f"building with {trt.__name__} {trt.__version__}")
    plan = build_plan(
        trt,
        model,
        lock,
        log=log,
        plugins=plugins,
        capabilities=options.compute_capability,
        timing_cache=options.timing_cache,
    )
    if options.build_only:
        options.build_only.write_bytes(plan)
        _say(f"wrote {options.build_only}, {len(plan)} bytes; it was not verified")
        return
    refuse_rtx(plan)
    _verify(trt, plan, log, folder, lock)
    for line in switch(folder, plan, lock):
        _say(line)
    _say(f"done: {folder.parent} has its engine; a server that doesn't poll has to load it anew")
    for line in release_lines(str(trt.__version__), lock["triton"]):
        _say(line)
    if lock["options"]["version_compatible"]:
        _say("start the server with --backend-config=tensorrt,version-compatible=true")


def _require_usage(options: argparse.Namespace, folder: Path, lock: Mapping[str, Any]) -> None:
    if options.build_only is None:
        if options.library == RTX:
            raise Stopped(
                USAGE,
                "Triton can't load plans of TensorRT-RTX",
                hint="Use --library tensorrt, or --build-only FILE for a plan to run elsewhere.",
            )
        require_folder(folder, lock, replace=options.replace_config)
        if lock["samples"] is None and not options.unverified:
            raise Stopped(
                GATE,
                "the lock holds no samples of the source framework to verify the engine with",
                hint="Package it with its check (without --no-check), or add --unverified.",
            )
    elif options.library == RTX:
        target = options.build_only.resolve().parent
        if any((place / CONFIG).is_file() for place in (target, target.parent)):
            raise Stopped(USAGE, f"{target} is a Triton folder, and Triton can't load RTX plans")
    if options.compute_capability and options.library != RTX:
        raise Stopped(
            USAGE,
            "--compute-capability only works with TensorRT-RTX: TensorRT "
            "builds for the GPU of this machine",
        )


def _find_plugins(given: Sequence[Path], lock: Mapping[str, Any]) -> list[Path]:
    wanted = {item["sha256"]: item["name"] for item in lock["plugins"]}
    found = {file_sha256(path): path for path in given if path.is_file()}
    strange = [str(path) for path in given if not path.is_file()]
    strange += [str(path) for digest, path in found.items() if digest not in wanted]
    if strange:
        raise Stopped(USAGE, "these aren't the plugin libraries of the lock", strange)
    missing = [name for digest, name in wanted.items() if digest not in found]
    if missing:
        raise Stopped(USAGE, "the engine needs plugin libraries; give each with --plugin", missing)
    return [found[digest] for digest in wanted]


def _intentions(options: argparse.Namespace, folder: Path, lock: Mapping[str, Any]) -> list[str]:
    count = len(lock["options"]["profiles"])
    lines = [f"would build it with {options.library}, {count} optimization profiles"]
    if options.build_only:
        return [*lines, f"would write {options.build_only}, not verified"]
    samples = lock["samples"]
    if samples is None:
        lines.append("would not verify it: there are no samples")
    else:
        lines.append(
            f"would compare it with {samples['reference']} on {_described(samples)}: "
            f"cosine at least {lock['gates']['cosine']}"
        )
    return [*lines, f"would put {PLAN} into {folder}, and switch {folder.parent / CONFIG} to it"]


def _verify(trt: Any, plan: bytes, log: Any, folder: Path, lock: Mapping[str, Any]) -> None:
    if lock["samples"] is None:
        _say("NOT VERIFIED: the lock holds no samples")
        return
    engine = Engine(trt, plan, log)
    samples = lock["samples"]
    against = f"{samples['reference']} on {_described(samples)}"
    _say(f"verifying on {engine.driver.name} against {against}")
    for line in verify(engine, folder, lock):
        _say(f"  {line}")


def _described(samples: Mapping[str, Any]) -> str:
    kind = "RANDOM INPUTS, as no samples were given" if samples["random"] else "samples"
    return f"{len(samples['items'])} {kind}"


def release_lines(version: str, triton: Mapping[str, Any]) -> list[str]:
    """Which Triton loads a plan of this TensorRT, as far as the lock's table knows."""
    known = [item for item in triton["releases"] if item["tensorrt"] == version]
    lines = [
        f"Triton {item['release']} has TensorRT {version} ({item['source']})" for item in known
    ]
    return lines or [
        f"a server with exactly TensorRT {version} loads this plan: see {triton['matrix']}"
    ]


def _say(text: str) -> None:
    print(shown(text), flush=True)
