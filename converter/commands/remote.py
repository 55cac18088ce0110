"""Models on servers: check_server() and what bench_server() asks with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.commands.check import Checked, judged
from converter.commands.opened import told, working
from converter.commands.serve import find_package, packages_in, served_together
from converter.errors import UsageError
from converter.pipeline.run import Listener
from converter.pipeline.work import Work, sizes_of
from converter.serving.packaged import FACTS, Facts, read_facts
from converter.serving.remote import RemoteSession, wire_to

if TYPE_CHECKING:
    from converter.check.accuracy import AccuracyResult
    from converter.check.gates import Limits
    from converter.ir.model import TensorSpec
    from converter.options.request import Request
    from converter.runtime.session import Session
    from converter.samples import Samples
    from converter.serving.wire import Wire


@dataclass(frozen=True)
class Asked:
    """A model on a server, and what to ask it.

    Attributes:
        wire: How it is asked.
        session: The same, as a session that takes the source's types.
        samples: What to ask.
        facts: Of the package, where one was named; else
        work: the source.
    """

    wire: Wire
    session: Session
    samples: Samples
    facts: Facts | None
    work: Work | None


def facts_of(path: str) -> Facts | None:
    """The facts of the package that ``path`` is, or that lies in it; None where there is none.

    Raises:
        UsageError: There are several: one server answers for one of them.
    """
    folder = Path(path)
    if not folder.is_dir():
        return None
    if (folder / FACTS).is_file():
        return read_facts(folder)
    found = packages_in(path)
    if not found:
        return None
    if several := packages_of(path):
        names = ", ".join(map(str, several))
        raise UsageError(
            f"{path} holds {len(several)} packages", code="choose-one", hint=f"Name one: {names}."
        )
    server, package = find_package(path)
    known = map(read_facts, (package, *server.calls(package)))
    return next((facts for facts in known if facts is not None), None)


def packages_of(path: str) -> list[Path]:
    """The packages that one server serves at once, where ``path`` holds such; else none."""
    if not Path(path).is_dir() or (Path(path) / FACTS).is_file():
        return []
    found = packages_in(path)
    if len(found) < 2 or not served_together(path, found):
        return []
    return [folder for _, folder in found]


@contextmanager
def asked(what: str, url: str, protocol: str | None, options: Mapping[str, Any]) -> Iterator[Asked]:
    """A model on a server, with the samples of ``what``.

    Args:
        what: A package (or an output folder that holds one), or the model's source.
        url: As :func:`converter.serving.address.parse` takes it.
        protocol: What the user says that the server speaks; None where the address says it.
        options: Of the source: fields of Request.

    Raises:
        UsageError: Nothing answers there, the samples aren't the model's, or ``what`` holds
            several packages.
    """
    facts = facts_of(what)
    if facts is not None:
        wire = wire_to(url, protocol, facts.model, facts.outputs, facts.keys)
        session = _fed(RemoteSession(wire, (facts.inputs, facts.outputs)))
        try:
            yield Asked(wire, session, facts.samples, facts, None)
        finally:
            session.close()
        return
    with working(what, options) as work:
        from converter.samples import load_samples

        _require_io_dtype(work.request)
        model = work.opened.source().parse()
        inputs, outputs = (_bordered(s, work.request) for s in (model.inputs, model.outputs))
        wire = wire_to(url, protocol, outputs=outputs)
        specs = (inputs, outputs) if wire.address.protocol == "json" else None
        session = _fed(RemoteSession(wire, specs))
        try:
            sizes = sizes_of(work.request, tuple(model.symbols))
            samples = load_samples(work.request, model.inputs, sizes, tokenize=work.opened.tokenize)
            samples.validate()
            yield Asked(wire, session, samples, None, work)
        finally:
            session.close()


def _require_io_dtype(request: Request) -> None:
    """Refuses what the artifact's inputs and outputs can't be, or no server tells.

    Raises:
        UsageError: ``--io-dtype`` is for another precision, or for integers.
    """
    from converter.check.feeding import takes_integers
    from converter.pipeline.plan import require_io_dtype

    require_io_dtype(request)
    if takes_integers(request, request.precision[0]):
        raise UsageError(
            f"--io-dtype {request.io_dtype}: a server doesn't say which real numbers its "
            "integers stand for",
            code="option-not-applicable",
            hint="Name the package in place of the source. The package has these numbers.",
        )


def _bordered(specs: Sequence[TensorSpec], request: Request) -> tuple[TensorSpec, ...]:
    """A source's inputs or outputs as ``--io-dtype`` has them, which plain JSON doesn't say."""
    wanted = request.io_dtype
    return tuple(replace(s, dtype=wanted) if s.dtype == "float32" else s for s in specs)


def _fed(session: RemoteSession) -> Session:
    from converter.check.feeding import Fed

    return Fed(session, real=any(spec.scale is not None for spec in session.outputs))


def check_server(
    what: str,
    server: str,
    *,
    protocol: str | None = None,
    listener: Listener | None = None,
    **options: Any,
) -> Checked:
    """Compares a server's answers with what the source gives, under the check's own gates.

    Args:
        what: A package, whose samples and expected outputs are sent; or the model's source, which
            then runs here.
        server: The server's address.
        protocol: What it speaks, where the address doesn't say.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.options.request.Request`.

    Raises:
        GateError: A gate was missed.
        UsageError: Nothing answers there.
        ModelError: The server refuses the requests.
    """
    with asked(what, server, protocol, options) as found:
        place = f"{found.wire.address.model} at {found.wire.address.place}"
        if found.work is not None:
            known = "precision" in options
            return judged(found.work, found.session, found.samples, place, listener, known=known)
        assert found.facts is not None
        with told(listener, "check", f"checking {place}"):
            probes = bool(options.get("probes", True))
            return _against(found.facts, found.session, place, probes=probes)


def _tried(
    facts: Facts, session: Session, limits: Limits, accuracy: AccuracyResult
) -> AccuracyResult:
    """With what probes tell that are made of the package's samples: a batch of them in another
    order, and a second call."""
    from converter.check.answers import Answers
    from converter.check.probes import AGAIN, Builder
    from converter.check.trying import Trier, run_probes
    from converter.errors import ModelError

    def nothing_else(*_: object) -> dict[str, Any]:
        raise ModelError("the source isn't here", code="model")

    answers = Answers(nothing_else)
    for sample, given in zip(facts.samples, facts.expected, strict=True):
        answers.know(sample.feeds, given)
        answers.know(sample.feeds, given, AGAIN)
    probes = Builder(facts.inputs, facts.samples, exact=False).build()
    asked = probes.answered(answers, facts.outputs)
    ran = run_probes(asked, session, remote=True)
    trier = Trier(limits, nothing_else, facts.outputs, list(facts.lists))
    return trier.judge(accuracy, ran)


def _against(facts: Facts, session: Session, place: str, *, probes: bool = True) -> Checked:
    """Holds the server to what lies in the package's ``expected/``."""
    from converter.check.accuracy import check_accuracy
    from converter.check.feeding import NARROW
    from converter.check.gates import Limits, judge, require
    from converter.check.matching import Matching

    if not any(facts.expected):
        raise UsageError(
            f"{facts.folder.name} holds no expected outputs, because it was made without a check",
            code="package-incomplete",
            hint="Name the model's source in place of the package.",
        )
    cosine, largest = facts.gates["cosine"], facts.gates.get("max_abs")
    assert cosine is not None
    narrow = (spec.dtype for spec in facts.outputs if spec.dtype in NARROW)
    dtype = next(narrow, "float32")  # --io-dtype, where the source gave float32 for it
    limits = Limits(cosine, largest, exact=facts.precision == "fp32", io_dtype=dtype)
    matching = Matching.of(list(facts.lists), cosine) if facts.lists else None
    expected: Iterable[dict[str, Any]] = facts.expected
    accuracy = check_accuracy(
        expected, session, facts.samples, outputs=session.outputs, matching=matching
    )
    if probes:
        accuracy = _tried(facts, session, limits, accuracy)
    gates = judge(limits, accuracy)
    count = len(facts.samples)
    based_on = (
        f"{place}, on {count} sample{'s' * (count > 1)} of the package ({facts.samples.origin}); "
        f"expected outputs: {facts.reference}."
    )
    require(gates, place)
    return Checked(based_on, accuracy, gates)
