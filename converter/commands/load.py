"""Measures a model on a server under load: bench_server()."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

from converter.commands.opened import told
from converter.commands.remote import Asked, asked
from converter.commands.shown import table
from converter.errors import MachineError, ModelError, UsageError, from_os_error
from converter.pipeline.run import Listener
from converter.runtime.child import own_module

if TYPE_CHECKING:
    from converter.serving.wire import Statistics, Wire

CONNECTIONS = 64
"""Of an open loop: more requests than that are never on their way at once."""

REQUESTS = 8
"""Different requests that are sent in turn, at most."""

DEAR = 0.1
"""Share of the server's CPU time from which on the generator's own is worth a warning."""

COLUMNS = (
    *("batch", "callers", "p50 ms", "p95 ms", "p99 ms", "samples/s", "errors", "queue ms"),
    *("compute ms", "CPU ms", "memory MB", "client CPU"),
)


@dataclass(frozen=True)
class LoadPoint:
    """A server under one load. Times in milliseconds a request; None for what isn't known.

    Attributes:
        batch: Samples in a request.
        concurrency: Requests on their way at once, in a closed loop; None in an open one.
        rate: Requests a second that were due, in an open loop.
        n: Requests answered; ``errors``: not answered, or by an error; ``wrong``: answered unlike
            the same request alone.
        seconds: From the first request to the last answer.
        throughput: Samples a second.
        late_p99_ms: Of an open loop: how long after it was due a request was sent.
        queue_ms, compute_ms: By the server's own statistics; ``runs``: of the model.
        cpu_ms, memory: CPU time for a request, and the most resident bytes, of the server's
            processes where they are on this machine.
        client_cpu_s: CPU time of the load generator; ``client_share``: of the server's.
        notes: What to keep in mind when reading this.
    """

    batch: int
    concurrency: int | None
    rate: float | None
    n: int
    errors: int
    wrong: int
    seconds: float
    throughput: float
    mean_ms: float | None
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    late_p99_ms: float | None
    queue_ms: float | None
    compute_ms: float | None
    runs: int | None
    cpu_ms: float | None
    memory: int | None
    client_cpu_s: float
    client_share: float | None
    notes: tuple[str, ...] = ()

    @property
    def load(self) -> str:
        """``8 callers``, ``50 a second``."""
        many = self.concurrency != 1
        return (
            f"{self.concurrency} caller{'s' * many}" if not self.rate else f"{self.rate:g} a second"
        )

    def row(self) -> tuple[str, ...]:
        """A line of :data:`COLUMNS`."""
        from converter.text import words

        times = (self.p50_ms, self.p95_ms, self.p99_ms, self.throughput)
        inside = (self.queue_ms, self.compute_ms, self.cpu_ms)
        megabytes = words.NONE if self.memory is None else f"{self.memory / 1e6:.0f}"
        load = str(self.concurrency) if not self.rate else f"{self.rate:g}/s"
        return (str(self.batch), load, *map(words.number, times),
                str(self.errors + self.wrong), *map(words.number, inside), megabytes,
                words.percent(self.client_share))  # fmt: skip


@dataclass(frozen=True, repr=False)
class ServerBenchmark:
    """A server under several loads.

    Attributes:
        server: Where it is, and the protocol.
        points: In the order in which they were measured.
        limit_ms: What p95 was to stay below (``--p95``).
        machine: Where the load came from.
        written: Files that were written: the plot, or what was exported.
    """

    server: str
    points: Sequence[LoadPoint]
    limit_ms: float | None
    machine: Mapping[str, Any]
    written: Sequence[str] = ()

    @property
    def best(self) -> LoadPoint | None:
        """The point of most throughput whose p95 kept to the limit, without an error; None where
        there is none, or no limit."""
        if self.limit_ms is None:
            return None
        kept = [
            point
            for point in self.points
            if point.p95_ms is not None and point.p95_ms <= self.limit_ms
            and not point.errors + point.wrong
        ]  # fmt: skip
        return max(kept, key=lambda point: point.throughput, default=None)

    def __repr__(self) -> str:
        return f"<ServerBenchmark: {self.server}, {len(self.points)} points>"

    def _repr_html_(self) -> str:
        return table(COLUMNS, [point.row() for point in self.points])

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        best = self.best
        return {
            "server": self.server,
            "points": [asdict(point) for point in self.points],
            "p95_limit_ms": self.limit_ms,
            "best": None if best is None else asdict(best),
            "written": list(self.written),
            "machine": dict(self.machine),
        }


def bench_server(
    what: str,
    server: str,
    *,
    protocol: str | None = None,
    rates: Sequence[float] = (),
    requests: int | None = None,
    p95: float | None = None,
    plot: str | None = None,
    export: tuple[str, str] | None = None,
    listener: Listener | None = None,
    **options: Any,
) -> ServerBenchmark:
    """Measures a model on a server, with requests from a process of its own.

    Args:
        what: A package, or the model's source: what is sent are its samples.
        server: The server's address.
        protocol: What it speaks, where the address doesn't say.
        rates: Requests a second of open loops; without any, closed loops of
            ``bench_concurrency``.
        requests: How many are sent at each point, whatever time that takes.
        p95: Milliseconds that the best point's p95 has to stay below.
        plot: A file to draw latency over throughput into.
        export: A tool of :data:`converter.serving.export.TOOLS` and a folder: the load is written
            for it, and nothing is measured.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.options.request.Request`: ``bench_batches``,
            ``bench_concurrency``, ``bench_seconds``, and the source's and samples'.

    Raises:
        UsageError: Nothing answers there, or a load is none.
        ModelError: The server refuses the requests.
        MachineError: The load generator ended.
    """
    from converter.machine import describe_machine
    from converter.options.request import Request

    plain = Request("")
    batches = options.get("bench_batches") or plain.bench_batches
    callers = options.get("bench_concurrency") or plain.bench_concurrency
    seconds = options.get("bench_seconds", plain.bench_seconds)
    if min([*batches, *callers, *rates, seconds, requests or 1]) <= 0:
        raise UsageError("a load has to be more than 0", code="option-value")
    loads: list[tuple[int | None, float | None]] = [(None, rate) for rate in rates]
    loads = loads or [(count, None) for count in callers]
    written, points = [], list[LoadPoint]()
    with asked(what, server, protocol, options) as found:
        place = f"{found.wire.address.protocol} at {found.wire.address.place}"
        if export:
            asked_for = {"batches": batches, "concurrency": callers, "rates": rates,
                         "seconds": seconds, "p95": p95}  # fmt: skip
            written = _export(found, what, *export, asked_for)
            loads = []
        for batch in batches if loads else ():
            messages = _messages(found, batch)
            for count, rate in loads:
                job = {"connections": count or CONNECTIONS, "rate": rate, "seconds": seconds,
                       "count": requests, "seed": options.get("seed", plain.seed)}  # fmt: skip
                load = f"{count} at once" if count else f"{rate:g} a second"
                with told(listener, f"load:{batch}:{load}", f"batch {batch}, {load}"):
                    points.append(measure(found.wire, _keys(found), batch, messages, job))
    if plot:
        written = [_draw(points, p95, plot)]
    return ServerBenchmark(place, points, p95, asdict(describe_machine()), written)


def _export(found: Asked, what: str, tool: str, folder: str, loads: Mapping[str, Any]) -> list[str]:
    from converter.serving.export import TOOLS, export

    if tool not in TOOLS:
        raise UsageError(
            f"--export {tool}: there is no such tool",
            code="unknown-name",
            hint=f"There are: {TOOLS}.",
        )
    place = found.facts.folder.parent if found.facts else Path(what).parent
    samples = [sample.feeds for sample in islice(found.samples, REQUESTS)]
    inputs, where = found.session.inputs, found.wire.address
    files = export(tool, Path(folder), where, inputs, samples, {**loads, "repository": str(place)})
    return [str(file) for file in files]


def _draw(points: Sequence[LoadPoint], limit: float | None, plot: str) -> str:
    from converter.report.svg import load_plot

    curves: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        if point.p95_ms is not None:
            curve = curves.setdefault(f"batch {point.batch}", [])
            curve.append((point.throughput, point.p95_ms))
    try:
        Path(plot).write_text(load_plot(curves, limit))
    except OSError as error:
        raise from_os_error(error, "writing the plot") from error
    return plot


def _messages(found: Asked, batch: int) -> list[bytes]:
    count = min(REQUESTS, -(-len(found.samples) // batch))
    return [found.wire.encode(feeds) for feeds in found.samples.batches(batch, count)]


def _keys(found: Asked) -> tuple[str, str]:
    return found.facts.keys if found.facts else ("", "")


def measure(
    wire: Wire, keys: tuple[str, str], batch: int, messages: Sequence[bytes], job: dict[str, Any]
) -> LoadPoint:
    """One point: the generator's process warms up; then the server is watched, and its statistics
    are read before and after.

    Args:
        wire: What asks.
        keys: As :func:`converter.serving.remote.wire_to` takes them.
        batch: Samples in a request.
        messages: Requests, sent in turn.
        job: As :class:`converter.serving.generator.Generator` takes it.
    """
    from converter.serving.observed import Observed, process_at

    address = wire.address
    pid = process_at(address.host, address.port)
    with _generating(wire, keys, messages, job) as generate:
        before = _counted(wire)
        with Observed(pid) if pid else nullcontext() as watched:
            said = generate()
        after = _counted(wire)
    told = after.since(before) if before and after else None
    return _point(batch, job, said, told, watched)


def _counted(wire: Wire) -> Statistics | None:
    """The server's statistics, once two in turn are the same: it may count a request after its
    answer."""
    known = wire.statistics()
    for _ in range(50):
        time.sleep(0.02)
        known, before = wire.statistics(), known
        if known == before:
            break
    return known


@contextmanager
def _generating(
    wire: Wire, keys: tuple[str, str], messages: Sequence[bytes], job: dict[str, Any]
) -> Iterator[Callable[[], dict[str, Any]]]:
    """The load generator's process, warm; what sends the requests that count."""
    from converter.serving.generator import READY

    with tempfile.TemporaryDirectory(prefix="modelyard-load-") as name:
        folder = Path(name)
        for number, message in enumerate(messages):
            (folder / f"{number}.bin").write_bytes(message)
        names = [f"{number}.bin" for number in range(len(messages))]
        job = {**job, "requests": names, "address": asdict(wire.address), "keys": keys}
        (folder / "job.json").write_text(json.dumps(job))
        line = [*own_module("converter.serving.generator"), str(folder / "job.json")]
        with (
            (folder / "log").open("w") as log,
            subprocess.Popen(line, stdin=PIPE, stdout=PIPE, stderr=log, text=True) as process,
        ):
            assert process.stdout is not None

            def end(said: str = "") -> dict[str, Any]:
                text = said + process.communicate("\n" * (not said))[0]
                return _result(wire, text, process.returncode, folder / "log")

            try:
                first = process.stdout.readline()
                if first != f"{READY}\n":
                    end(first)
                yield end
            finally:
                process.kill()


def _result(wire: Wire, text: str, code: int, log: Path) -> dict[str, Any]:
    """What the generator said, or why it said nothing."""
    try:
        said: dict[str, Any] = json.loads(text)
    except ValueError:
        raise MachineError(
            f"the load generator ended with code {code}",
            code="process-ended",
            details=log.read_text().splitlines()[-8:],
        ) from None
    if "failed" in said:
        raise ModelError(
            f"{wire.address.place} refuses the requests: {said['failed']}", code="server-refused"
        )
    return said


def _point(
    batch: int, job: Mapping[str, Any], said: Mapping[str, Any], told: Statistics | None,
    watched: Any,
) -> LoadPoint:  # fmt: skip
    count, requests = said["n"], max(told.requests, 1) if told else 1
    share = said["cpu_s"] / watched.cpu_s if watched and watched.cpu_s else None
    rate = job["rate"]
    return LoadPoint(
        batch=batch,
        concurrency=None if rate else job["connections"],
        rate=rate,
        n=count,
        errors=said["errors"],
        wrong=said["wrong"],
        seconds=said["seconds"],
        throughput=count * batch / said["seconds"] if said["seconds"] else 0.0,
        **{name: said[name] for name in (
            "mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms", "late_p99_ms")},
        queue_ms=told.queue / requests / 1e6 if told else None,
        compute_ms=told.compute / requests / 1e6 if told else None,
        runs=told.runs if told else None,
        cpu_ms=watched.cpu_s * 1e3 / max(count, 1) if watched else None,
        memory=watched.memory if watched else None,
        client_cpu_s=said["cpu_s"],
        client_share=share,
        notes=tuple(_notes(said, share)),
    )  # fmt: skip


def _notes(said: Mapping[str, Any], share: float | None) -> list[str]:
    from converter.text import words

    notes = [f"{count} errors: {text}" for text, count in said["error_texts"].items()]
    if said["wrong"]:
        notes.append(
            f"{said['wrong']} answers differ from those of the same requests sent one by one"
        )
    if share is not None and share > DEAR:
        notes.append(
            f"the load generator took {words.percent(share)} of the server's CPU time: on one "
            "machine, the server would be faster without it"
        )
    return notes
