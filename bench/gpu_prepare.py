"""Makes the folder that ``make gpu-test WHEELS=DIR`` needs on a machine without a network.

    python -m bench.gpu_prepare DIR [--without onnxruntime-gpu] [--wheel FILE] [--split 48]

``DIR/wheels`` holds what that machine's Python 3.12 lacks beside a torch, onnx, onnxruntime and
numpy of its own; ``DIR/cache`` the files of the models, as modelyard's cache keeps them;
``DIR/SHA256SUMS`` all of it, for ``sha256sum -c``. With ``--split``, ``DIR/parts`` holds the same
as one tar in parts of so many megabytes; there:

    cat parts/gpu.tar.* | tar x -C DIR
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

from converter.files.digest import file_digest

ROOT = Path(__file__).resolve().parents[1]

MODELS = ("zoo:efficientnet-lite0", "zoo:resnet50-random", "zoo:minilm")

GROUPS = {
    "modelyard": (
        "annotated-types", "click", "grpcio", "markdown-it-py", "mdurl", "onnx-ir", "onnxscript",
        "onnxsim", "onnxslim", "pillow", "protobuf", "pydantic", "pydantic-core", "pygments",
        "python-rapidjson", "pyyaml", "rich", "safetensors", "tritonclient", "typing-extensions",
        "typing-inspection",
    ),
    "pytest": ("iniconfig", "pluggy", "pytest", "pytest-timeout"),
    "tensorrt-rtx": ("tensorrt-rtx-cu13-bindings", "tensorrt-rtx-cu13-libs"),
    "onnxruntime-gpu": ("onnxruntime-gpu",),
}  # fmt: skip
"""What is carried. What torch, onnx and onnxruntime bring along themselves is not: jinja2, sympy,
networkx, ml_dtypes, packaging."""

BUILT = {"tensorrt-rtx": ("tensorrt-rtx", "tensorrt-rtx-cu13")}
"""What is published as source only: a few lines of Python each, made into wheels here."""

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_24_x86_64",
             "manylinux_2_17_x86_64", "manylinux2014_x86_64")  # fmt: skip
"""pip takes each exactly as it is named, and none that is older besides."""


def main(argv: Sequence[str] | None = None) -> None:
    """Makes the folder, and says how large it became."""
    asked = _arguments(argv)
    out: Path = asked.out.absolute()
    if (out / "wheels").exists():
        raise SystemExit(f"{out} is there already: give another folder, or remove it")
    groups = [name for name in GROUPS if name not in asked.without]
    fetch_wheels(out / "wheels", groups)
    for wheel in asked.wheel:
        shutil.copy2(wheel, out / "wheels")
    fetch_models(out / "cache")
    write_sums(out)
    _tell(out)
    if asked.split:
        pack(out, [out / "SHA256SUMS", *contents(out)], asked.split * 1_000_000)
        _tell(out / "parts")


def pack(folder: Path, files: Sequence[Path], size: int) -> Path:
    """Writes one tar in parts. The bytes depend on the files alone; nothing is compressed, as
    wheels are and weights can't be.

    Args:
        folder: What names in the tar are relative to; takes ``parts/gpu.tar.NNN``.
        files: What goes in, below ``folder``.
        size: Of a part, in bytes.
    """
    (folder / "parts").mkdir()
    names = [str(path.relative_to(folder)) for path in files]
    owner = ["--owner=0", "--group=0", "--numeric-owner", "--mode=644", "--mtime=@0"]
    tar = subprocess.Popen(["tar", "-c", "-C", folder, *owner, *names], stdout=subprocess.PIPE)
    parts = ["split", f"--bytes={size}", "-d", "-a3", "-", folder / "parts" / "gpu.tar."]
    subprocess.run(parts, stdin=tar.stdout, check=True)
    if tar.wait():
        raise SystemExit(f"tar ended with {tar.returncode}")
    return folder / "parts"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_prepare", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("out", type=Path)
    parser.add_argument("--without", action="append", default=[], choices=sorted(GROUPS))
    parser.add_argument("--wheel", action="append", default=[], type=Path, metavar="FILE")
    parser.add_argument("--split", type=int, metavar="MB")
    return parser.parse_args(argv)


def fetch_wheels(folder: Path, groups: Sequence[str]) -> None:
    """Wheels of ``groups`` for CPython 3.12 on Linux x86-64, at the versions of constraints.txt."""
    folder.mkdir(parents=True)
    target = ["--only-binary=:all:", "--python-version=312", "--implementation=cp"]
    target += [f"--platform={platform}" for platform in PLATFORMS]
    wanted = [name for group in groups for name in GROUPS[group]]
    _pip("download", folder, [*target, "-c", str(ROOT / "constraints.txt"), *wanted])
    built = [name for group in groups for name in BUILT.get(group, ())]
    if built:
        _pip("wheel", folder, ["-c", str(ROOT / "constraints.txt"), *built])


def _pip(command: str, folder: Path, rest: Sequence[str]) -> None:
    place = "--dest" if command == "download" else "--wheel-dir"
    line = [sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check"]
    subprocess.run([*line, "--no-deps", place, str(folder), *rest], check=True)


def fetch_models(cache: Path) -> None:
    """The files of :data:`MODELS`, into a cache folder of their own."""
    from zoo import catalogue

    with mock.patch.dict(os.environ, MODELYARD_CACHE=str(cache)):
        for reference in MODELS:
            catalogue.fetch(reference)


def contents(out: Path) -> Iterator[Path]:
    """The files to carry, in order."""
    for part in ("wheels", "cache"):
        yield from sorted(path for path in (out / part).rglob("*") if path.is_file())


def write_sums(out: Path) -> None:
    """``SHA256SUMS``, as sha256sum reads it."""
    lines = [f"{file_digest(path)}  {path.relative_to(out)}\n" for path in contents(out)]
    (out / "SHA256SUMS").write_text("".join(lines))


def _tell(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"{folder}: {len(files)} files, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
