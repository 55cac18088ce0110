"""Packages for browsers: a page that runs the model by ONNX Runtime Web or LiteRT.js.

The page's own files lie in ``page/`` and are copied as they are. ``prepare.js`` and ``answers.js``
do what ``stages.json`` declares, as :mod:`converter.preparation.stages` does it in Python.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from converter import plugins
from converter.errors import ModelError, Unsupported, UsageError, from_os_error
from converter.files.digest import file_digest
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.preparation.declared import Declaration
from converter.preparation.inputs import file_kind
from converter.preparation.staged.base import FILE as STAGES
from converter.preparation.staged.base import TYPES
from converter.protocols.emitter import Artifact
from converter.protocols.server import (
    Command,
    Endpoint,
    Environment,
    Evidence,
    Launch,
    Packaged,
    Server,
)
from converter.samples import Samples
from converter.serving.asking import answers
from emitters.packaging import Device, Package, Readme
from emitters.packaging.stages import stages_facts
from emitters.serving.files import place_artifact
from emitters.serving.labels import choose_labels
from emitters.serving.python.served import choose_name, with_meaning
from emitters.serving.request import serving
from emitters.serving.web import SPECS
from emitters.serving.web.runtimes import RUNTIMES, Runtime
from emitters.serving.web.takes import LARGEST, require_one_row, require_ports, unprepared
from emitters.templates import render

PAGE = Path(__file__).parent / "page"

FACTS, SCRIPT, FILES = "web.json", "serve.py", "runtime"
"""What the page knows of the model; what serves it; the folder of the runtime's files."""

_KINDS = {"picture": "a picture", "sound": "a sound"}

_POLICY = (
    "default-src 'self'",
    "script-src 'self' 'wasm-unsafe-eval' blob:{hash}",
    "worker-src 'self' blob:",
    "img-src 'self' blob: data:",
    "media-src 'self' blob:",
    "connect-src 'self' blob: data:",
    "base-uri 'none'",
    "form-action 'none'",
)

_START = """```
python serve.py --port 8000
```
Then open `http://127.0.0.1:8000/`. `modelyard serve .` does the same. Any other web server can
serve the folder. It has to send `.js` and `.mjs` as `text/javascript` and `.wasm` as
`application/wasm`. WASM uses several threads if the server also sends these headers, as `serve.py`
does: `Cross-Origin-Opener-Policy: same-origin`, `Cross-Origin-Embedder-Policy: require-corp`."""

_LOAD = """The page fetches the model and the runtime from this folder, and from no other host.
`sw.js` keeps the files in the browser: after the first visit the page works without a network.

- `?device=webgpu` runs the model on the GPU if the browser has WebGPU. Modelyard has not run that.
- `?threads=N` sets the threads of WASM.
- `?selftest` runs all samples and compares them with `expected/`.

In a page of your own:

```js
import { Model } from "./model.js";
const model = await Model.load({ progress: (share) => console.log(share) });
const { answer, times } = await model.ask(file);
```"""

_TLS = """Browsers allow threads, WebGPU and service workers on pages that come by HTTPS or from the
same machine. For phones and other machines, put the folder behind a server with HTTPS, or try
`modelyard serve . --host 0.0.0.0 --tls CERT KEY`."""

_FILES = [
    ("index.html", "the page, with `app.js`, `show.js` and `style.css`"),
    ("model.js", "the model for pages of your own"),
    ("prepare.js", "how files become inputs, with `sounds.js`"),
    ("answers.js", "what outputs mean, with `along.js`"),
    (STAGES, "the declaration of both"),
    (f"{FILES}/", "the runtime"),
    ("sw.js", "the service worker"),
    (SCRIPT, "a server for the folder"),
]


class WebServer(Server, spec=SPECS["web"]):
    """A static page."""

    name = "web"

    def check(self, model: Model, request: Request) -> None:
        """Refuses what can be known before anything is converted.

        Raises:
            UsageError: The name is none.
            UnsupportedError: Inputs that the runtime can't take; all of them.
            DependencyError: The runtime is neither in the cache nor can be fetched.
        """
        choose_name(serving(request))
        target = next((name for name in self.accepts if name in request.to), None)
        if target is None:
            return  # the plan refuses it
        runtime = RUNTIMES[target]
        require_ports(model.inputs, runtime, request.dims)
        for package in runtime.packages:
            package.require(offline=request.offline)

    def unprepared(self, declared: Declaration) -> list[Unsupported]:
        return unprepared(declared)

    def package(
        self,
        artifact: Artifact,
        model: Model,
        samples: Samples,
        request: Request,
        folder: Path,
        evidence: Evidence | None = None,
    ) -> Packaged:
        """Writes ``<folder>/<name>/``.

        Raises:
            UsageError: The folder is in the way.
            UnsupportedError: Inputs or outputs that the runtime can't take; all of them.
            ModelError: The runtime refuses the artifact, or it is too large for a browser.
            DependencyError: The runtime can't be fetched.
            MachineError: The disk is full.
        """
        runtime = RUNTIMES[artifact.target]
        name, notes = choose_name(serving(request))
        shipped = evidence.shipped if evidence else None
        declared = (shipped.declared if shipped else None) or Declaration()
        _require_one_file(artifact)
        inputs, outputs = _interface(artifact, model, samples, request)
        require_ports((*inputs, *outputs), runtime, ())
        require_one_row(inputs, declared)
        path = folder / name
        if path.exists():
            raise UsageError(
                f"{path.name} is in the way: the package folder already holds it",
                code="output-in-the-way",
                hint="Serve one precision at a time, or choose another --name.",
            )
        notes += [f"the page runs {runtime.title}, in WASM; WebGPU has not been run"]
        notes += _told_of(declared)
        try:
            path.mkdir(parents=True)
            place_artifact(artifact, path)
            for package in runtime.packages:
                package.place(path / FILES, offline=request.offline)
            notes += Package(
                name=name,
                server=self.name,
                title="A page for browsers",
                target=artifact.target,
                precision=artifact.precision,
                file=artifact.path.name,
                inputs=inputs,
                outputs=outputs,
                shipped=shipped,
                request=request,
                runs=Device(runtime.check, {"signature": None}),
                requires=runtime.requires,
                readme=Readme(start=_START, load=_LOAD, tls=_TLS, files=_FILES, notes=notes),
            ).write(path)
            self._write(path, runtime, name, artifact, (inputs, outputs), declared)
        except OSError as error:
            raise from_os_error(error, "writing the page") from error
        details = {"model": name, "runtime": runtime.title}
        return Packaged(self.name, path, details, notes)

    def _write(
        self,
        path: Path,
        runtime: Runtime,
        name: str,
        artifact: Artifact,
        ports: tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]],
        declared: Declaration,
    ) -> None:
        """The page's own files; the service worker last, which knows the others."""
        inputs, outputs = ports
        facts = {
            "name": name,
            "file": artifact.path.name,
            "bytes": artifact.path.stat().st_size,
            "target": artifact.target,
            "precision": artifact.precision,
            "runtime": runtime.title,
            **{
                part: [
                    {"name": s.name, "dtype": s.dtype, "shape": list(s.shape or ())} for s in specs
                ]
                for part, specs in (("inputs", inputs), ("outputs", outputs))
            },
        }
        texts = {
            **_page(runtime.engine),
            FACTS: _json(facts),
            STAGES: _json(stages_facts(declared, inputs, outputs)),
            "index.html": _index(name, declared, runtime),
            "manifest.webmanifest": _json(_manifest(name)),
        }
        for file, text in texts.items():
            (path / file).write_text(text, encoding="utf-8")
        values = {
            "version": json.dumps(_version(path)),
            "shell": json.dumps(["./", *sorted(set(texts) - {SCRIPT}), "modelyard.json"], indent=1),
        }
        text = render(__package__, "page/sw.js.j2", values)
        (path / "sw.js").write_text(text, encoding="utf-8")

    # -- started ---------------------------------------------------------------------

    def holds(self, folder: Path) -> bool:
        """Whether it has the page's files."""
        return all((folder / name).is_file() for name in (FACTS, SCRIPT, "sw.js"))

    def environment(self, folder: Path) -> Environment:
        """Nothing but a Python."""
        return Environment(self.name, (), 0)

    def command(self, launch: Launch) -> Command:
        script = str(launch.folder / SCRIPT)
        port = str(launch.ports["http"])
        return Command([str(launch.python), script, "--host", launch.host, "--port", port])

    def ready(self, launch: Launch) -> bool:
        return answers(f"http://{launch.address('http')}/{FACTS}")

    def endpoints(self, folder: Path) -> list[Endpoint]:
        """The page; no program asks it."""
        return [Endpoint("page", "http", "/")]


def _require_one_file(artifact: Artifact) -> None:
    size = artifact.path.stat().st_size
    if len(artifact.files) > 1 or size > LARGEST:
        raise ModelError(
            f"a browser takes a model in one file of at most {LARGEST:,} bytes, but "
            f"{artifact.path.name} has {max(len(artifact.files), 1)} files and {size:,} bytes",
            code="model-too-large",
            hint="A lower precision is smaller; --external-data makes several files.",
        )


def _interface(
    artifact: Artifact, model: Model, samples: Samples, request: Request
) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """The artifact's own inputs and outputs, with the meanings that the model knows."""
    session = plugins.load("emitters", artifact.target).open(artifact, request)
    try:
        known = {spec.name: spec for spec in (*model.inputs, *model.outputs)}
        inputs, outputs = (
            tuple(with_meaning(spec, known.get(spec.name)) for spec in specs)
            for specs in (session.inputs, session.outputs)
        )
    finally:
        session.close()
    labels, _ = choose_labels(outputs, samples.label_names, batched=True)
    return inputs, tuple(replace(spec, labels=labels.get(spec.name)) for spec in outputs)


def _port(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape or ())}


def _told_of(declared: Declaration) -> list[str]:
    if declared.prepare:
        return []
    return ["the page takes no files, only its samples: nothing declares how files become inputs"]


def _page(engine: str) -> dict[str, str]:
    """The files that are the same in every package, by name."""
    own = {
        file.name: file.read_text(encoding="utf-8")
        for file in sorted(PAGE.iterdir())
        if file.suffix != ".j2" and file.is_file() and not file.name.startswith("engine_")
    }
    return {**own, "engine.js": (PAGE / engine).read_text(encoding="utf-8")}


def _index(name: str, declared: Declaration, runtime: Runtime) -> str:
    kinds = list(dict.fromkeys(k for k in map(file_kind, declared.prepare) if k in _KINDS))
    imports = json.dumps({"imports": runtime.imports}) if runtime.imports else ""
    digest = b64encode(hashlib.sha256(imports.encode()).digest()).decode()
    values = {
        "name": name,  # of letters, digits, "_", "." and "-"
        "policy": "; ".join(_POLICY).format(hash=f" 'sha256-{digest}'" if imports else ""),
        "imports": imports,
        "choose": "Choose " + " or ".join(_KINDS[kind] for kind in kinds),
        "accept": ",".join(f"{said}*" for kind in kinds for said in TYPES[kind]),
    }
    return render(__package__, "page/index.html.j2", values)


def _manifest(name: str) -> dict[str, Any]:
    """See the W3C's "Web Application Manifest"."""
    icon = {"src": "icon.svg", "sizes": "any", "type": "image/svg+xml"}
    names = dict.fromkeys(("name", "short_name"), name)
    return {**names, "start_url": "./", "display": "standalone", "icons": [icon]}


def _version(path: Path) -> str:
    """A digest of all files of a package."""
    digest = hashlib.sha256()
    for file in sorted(item for item in path.rglob("*") if item.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{file_digest(file)}\n".encode())
    return digest.hexdigest()[:16]


def _json(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
