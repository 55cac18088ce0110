"""``python -m bench.files``: from a JPEG to labels on Triton, prepared by the client or the server.

Writes "From a file" of docs/serving.md. One machine, one model (EfficientNet-Lite0 of the zoo), one
server, one run: what is compared takes turns, and each caller is a process of its own. Beside the
package of ``--prepare server``, the same model without dynamic batching, and an ensemble by hand of
a stage before the model and one behind it, as Triton's documentation has it.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import psutil
from PIL import Image

from bench.measure import write_section
from converter import api
from converter.machine import describe_machine
from emitters.serving.triton.front_files import CODE
from emitters.serving.triton.running import REQUIREMENTS

ROOT = Path(__file__).resolve().parent.parent
PAGE, HEAD = ROOT / "docs" / "serving.md", "## From a file"
NAME, VERSION = "net", "1"
PHOTOS, SIZE = 20, (512, 384)
CALLERS = (1, 4)

ENSEMBLE = """name: "ensemble" platform: "ensemble"
input { name: "file" data_type: TYPE_STRING dims: [1] }
output { name: "answer" data_type: TYPE_STRING dims: [1] }
ensemble_scheduling {
  step { model_name: "before" model_version: -1 input_map { key: "file" value: "file" }
    output_map { key: "image" value: "image" } output_map { key: "seen" value: "seen" } }
  step { model_name: "net_model" model_version: -1 input_map { key: "image" value: "image" }
    output_map { key: "scores" value: "scores" } }
  step { model_name: "behind" model_version: -1 input_map { key: "scores" value: "scores" }
    input_map { key: "seen" value: "seen" } output_map { key: "answer" value: "answer" } } }
"""
STAGE = """name: "%s" backend: "python" instance_group { kind: KIND_CPU count: %d }
parameters { key: "calls" value { string_value: "net_model" } }
"""
BEFORE = """input { name: "file" data_type: TYPE_STRING dims: [1] }
output { name: "image" data_type: TYPE_FP32 dims: [-1, 3, 224, 224] }
output { name: "seen" data_type: TYPE_STRING dims: [1] }
"""
BEHIND = """input { name: "scores" data_type: TYPE_FP32 dims: [-1, 1000] }
input { name: "seen" data_type: TYPE_STRING dims: [1] }
output { name: "answer" data_type: TYPE_STRING dims: [1] }
"""
STAGE_CODE = """import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from stages import Seen, Stages


def text(value):
    return np.array([json.dumps(value).encode()], object)


class TritonPythonModel:
    def initialize(self, args):
        self.stages = Stages.load(Path(args["model_repository"], args["model_version"]))

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor(*item) for item in self.made(request)])
                for request in requests]

    def made(self, request):
        given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        if "file" in given:
            (item,) = self.stages.items(given["file"].item())
            feeds, seen = self.stages.prepare(item)
            return [*feeds.items(), ("seen", text([seen.size, seen.scale, seen.offset]))]
        seen = Seen(*json.loads(given["seen"].item()))
        return [("answer", text(self.stages.answer({"scores": given["scores"]}, seen)))]
"""


@dataclass(frozen=True)
class Way:
    """A way from a photo to its labels.

    Attributes:
        title: What the table calls it.
        model: Which model is asked.
        of: The way that it is compared with; None where the client prepares.
    """

    title: str
    model: str
    of: Way | None = None


CLIENT = Way("client prepares", f"{NAME}_model")
ALONE = Way("client prepares, without dynamic batching", "alone_model")
WAYS = (
    CLIENT,
    Way("server prepares: the package", NAME, CLIENT),
    Way("server prepares: an ensemble by hand", "ensemble", CLIENT),
    ALONE,
    Way("server prepares: the package without dynamic batching", "alone", ALONE),
    Way("server prepares: the package, two workers", "workers", CLIENT),
    Way("server prepares: the package, tuned", "tuned", CLIENT),
)

LADDER = (
    ("client prepares, one caller", CLIENT, 1, "17.9 ms"),
    ("server prepares, one caller", WAYS[1], 1, "13.4 ms"),
    ("two workers, four callers", WAYS[5], 4, "6.9 ms, with workers 3.5 ms"),
    ("one worker and dynamic batching, four callers", WAYS[1], 4, "+257%, batches of 8"),
    ("tuned, four callers", WAYS[6], 4, "-"),
)
"""A step, its way, its callers, and what published reports of other servers say of it."""

PACKAGES: Mapping[str, Sequence[str]] = {
    NAME: (),
    "alone": ("--no-dynamic-batching",),
    "workers": ("--instances", "2"),
    "tuned": (),
}
"""The packages, and what each is given besides. A worker is an instance of the model in front: a
process that prepares, in threads."""


@dataclass(frozen=True)
class Seen:
    """Requests a second, and CPU milliseconds of a request: the server's and the client's."""

    rate: float
    server: float
    client: float


def median(seen: Sequence[Seen]) -> Seen:
    """The median of each figure."""
    columns = zip(*((item.rate, item.server, item.client) for item in seen), strict=True)
    return Seen(*map(statistics.median, columns))


class Bench:
    """The models, and what is asked of them."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds
        self.repository = folder / "repository"
        self.stages = self.repository / NAME / VERSION
        self.photos_folder = folder / "photos"
        self.photos_folder.mkdir()
        rng, self.photos = np.random.default_rng(0), list[str]()
        for number in range(PHOTOS):
            pixels = rng.integers(0, 256, (24, 32, 3), np.uint8)
            photo = Image.fromarray(pixels).resize(SIZE, Image.Resampling.BICUBIC)
            photo.save(self.photos_folder / f"{number}.jpg", quality=90)
            self.photos.append(str(self.photos_folder / f"{number}.jpg"))

    def convert(self) -> None:
        """Makes the packages and the ensemble."""
        for name, more in PACKAGES.items():
            line = [str(Path(sys.executable).parent / "modelyard"), "convert"]
            line += ["zoo:efficientnet-lite0", "--name", name, "--serve", "triton", "--no-bench"]
            line += ["--prepare", "server", "--repository", str(self.repository), *more]
            line += ["--out", str(self.folder / name)]
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        for name, ports, count in (("before", BEFORE, 2), ("behind", BEHIND, 1)):
            shutil.copytree(self.stages, self.repository / name / VERSION)
            (self.repository / name / VERSION / CODE).write_text(STAGE_CODE)
            (self.repository / name / "config.pbtxt").write_text(STAGE % (name, count) + ports)
        (self.repository / "ensemble" / VERSION).mkdir(parents=True)
        (self.repository / "ensemble" / "config.pbtxt").write_text(ENSEMBLE)

    def tune(self, minutes: float) -> str:
        """Tunes the package for as many callers as the table has at most; says what came of it."""
        made = api.tune(
            str(self.repository / "tuned"), minutes=minutes, callers=[max(CALLERS)],
            files=str(self.photos_folder),
        )  # fmt: skip
        settings = ", ".join(f"{name} {value}" for name, value in made.values.items())
        return f"{settings} ({made.why})" if made.changed else f"it stayed as it is ({made.why})"

    def ask(self, way: Way, callers: int, place: str, pid: int) -> Seen:
        """Asks from several callers, side by side.

        Args:
            way: How files are answered.
            callers: How many.
            place: The server's address.
            pid: The server's process, whose CPU time is counted.
        """
        stages = "" if way.of else str(self.stages)
        line = [sys.executable, "-m", "bench.files_caller", place, way.model, stages]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        running = [
            subprocess.Popen([*line, str(self.seconds), str(number * 7), *self.photos], cwd=ROOT,
                             **pipes)  # type: ignore[call-overload]
            for number in range(callers)
        ]  # fmt: skip
        for process in running:
            process.stdout.readline()
        before = cpu_of(pid)
        for process in running:
            process.stdin.write("\n")
            process.stdin.flush()
        said = [json.loads(process.stdout.readline()) for process in running]
        spent, count = cpu_of(pid) - before, sum(item["count"] for item in said)
        for process in running:
            process.communicate()
        rate = sum(item["count"] / item["seconds"] for item in said)
        client = sum(item["cpu"] for item in said)
        return Seen(rate, spent / count * 1e3, client / count * 1e3)


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and of those that it started."""
    process = psutil.Process(pid)
    times = (item.cpu_times() for item in (process, *process.children(recursive=True)))
    return sum(item.user + item.system for item in times)


TEXT = """`python -m bench.files` makes this section, in {minutes:.0f} minutes. The model is the zoo's EfficientNet-Lite0 in float32. A
request is one JPEG photo of {width} x {height} pixels (about {kb} kB). Callers are processes of their own, and ask in closed
loops of {seconds:g} s. All ways take turns in {rounds} rounds; ratios are medians of those within a round. Client and server
share the machine, so compare only rows with the same number of callers.

| way | callers | requests/s | of the client's own preparation | server's CPU, ms a request | client's | of the cores' time |
|---|---|---|---|---|---|---|
{rows}

`modelyard tune --files` tuned the package for {most} callers: {tuned}.

The next table shows the same as a ladder, beside published reports of other models on servers with GPUs:

| step | theirs | ours, ms a photo | to the first step |
|---|---|---|---|
{ladder}

Their servers gain because the device waits for the preparation. Here, preparation and model share two cores, and the
first step keeps both busy. Workers take cores away from the model. Larger batches and fewer threads give the rest.

A ratio compares with the client's own preparation under the same setting of dynamic batching. On these two cores,
joining requests costs more than it gives, and `--no-dynamic-batching` is the better choice. Measure on your server.

*of the cores' time* is the requests per second times the CPU time of a request, client included, over the cores. The
server is tritonserver 2.51 of {server}, with Modelyard's ONNX backend in Python. Machine: {machine}.
"""  # noqa: E501 - a table's row is one line


@click.command(help=__doc__)
@click.option("--rounds", default=9, show_default=True)
@click.option("--seconds", default=1.0, show_default=True)
@click.option("--minutes", default=6.0, show_default=True, help="For tuning.")
@click.option("--dry", is_flag=True, help="Print the part, and don't write it.")
def main(rounds: int, seconds: float, minutes: float, dry: bool) -> None:
    """Measures, prints, writes."""
    start, rows = time.monotonic(), list[str]()
    medians: dict[tuple[Way, int], Seen] = {}
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bench-") as folder:
        bench = Bench(Path(folder), seconds)
        bench.convert()
        tuned = bench.tune(minutes)
        kb = sum(Path(file).stat().st_size for file in bench.photos) // len(bench.photos) // 1000
        with api.serve(str(bench.repository), port=0) as served:
            place = next(a for n, a in served.addresses.items() if n.endswith(" v2")).split("/")[2]
            for callers in CALLERS:
                seen: dict[Way, list[Seen]] = {way: [] for way in WAYS}
                for _ in range(rounds):
                    for way, found in seen.items():
                        found.append(bench.ask(way, callers, place, served.running.pid))
                medians |= {(way, callers): median(found) for way, found in seen.items()}
                rows += list(table(callers, seen))
                print("\n".join(rows[-len(WAYS) :]), flush=True)
    machine = describe_machine()
    said = ", ".join(f"{key} {value}" for key, value in asdict(machine).items() if value)
    text = TEXT.format(
        minutes=(time.monotonic() - start) / 60, width=SIZE[0], height=SIZE[1], kb=kb,
        seconds=seconds, most=max(CALLERS), tuned=tuned, rounds=rounds, rows="\n".join(rows),
        machine=said, ladder="\n".join(ladder({key: seen.rate for key, seen in medians.items()})),
        server=REQUIREMENTS[0].replace("==", " "),
    )  # fmt: skip
    if dry:
        print(text)
    else:
        write_section(PAGE, HEAD, text)


def table(callers: int, seen: Mapping[Way, Sequence[Seen]]) -> Iterator[str]:
    """A row for each way."""
    cores = describe_machine().usable or 1
    for way, found in seen.items():
        pairs = zip(found, seen[way.of or way], strict=True)
        ratio, item = statistics.median(a.rate / b.rate for a, b in pairs), median(found)
        used = statistics.median(i.rate * (i.server + i.client) / 1e3 for i in found) / cores
        yield (
            f"| {way.title} | {callers} | {item.rate:.1f} | x{ratio:.2f} | {item.server:.1f} | "
            f"{item.client:.1f} | {used:.0%} |"
        )


def ladder(rates: Mapping[tuple[Way, int], float]) -> Iterator[str]:
    """A row for each step of :data:`LADDER`, from requests a second by way and callers."""
    first = rates[LADDER[0][1], LADDER[0][2]]
    for step, way, callers, theirs in LADDER:
        rate = rates[way, callers]
        yield f"| {step} | {theirs} | {1e3 / rate:.1f} | x{rate / first:.2f} |"


if __name__ == "__main__":
    main()
