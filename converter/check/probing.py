"""Runs source and artifact on other inputs, where the samples' outputs tell nothing.

An output that is zero, or the same, on every sample would be so in a broken artifact too
(:mod:`converter.check.informative`). Other inputs of the samples' sizes are tried, until the source
gives something else there: random values within the inputs' ranges, of other seeds and sizes, then
the edges that passes are verified on. What source or artifact refuses is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from converter.check.accuracy import AccuracyResult, Probed, comparer_for
from converter.check.answers import Answers
from converter.check.comparison import OutputResult
from converter.check.gates import Limits
from converter.check.informative import untold
from converter.check.matching import Matching
from converter.check.metrics import Outputs
from converter.check.sums import Array
from converter.errors import ModelyardError
from converter.ir.lists import Rows
from converter.ir.model import TensorSpec
from converter.runtime.session import Progress, Session
from converter.samples import Sample, Samples
from converter.samples.generated import random_values
from converter.verify.probes import Feeds, contents, edge_feeds

AMPLITUDES = (1.0, 10.0, 0.1, 100.0)
"""Standard deviations of random floats where the input has no known range."""

Pair = tuple[Outputs, Outputs]
"""What the source gives, and the artifact."""


@dataclass(frozen=True)
class Prober:
    """Tries other inputs on a source and an artifact.

    Attributes:
        source: Runs the source.
        artifact: The artifact.
        samples: That said nothing.
        limits: What is allowed. Where they are ``exact``, the first inputs that tell decide; an
            artifact of a lower precision is made for what its samples hold: what it misses says
            nothing, and others are tried.
        outputs: What is known of the outputs.
        lists: Those that are lists.
        parting: After :meth:`probe`: other inputs by which the artifact is missed, each with what
            the source and the artifact give for it.
    """

    source: Callable[[Feeds], Outputs]
    artifact: Session
    samples: Samples
    limits: Limits
    outputs: Sequence[TensorSpec] = ()
    lists: Sequence[Rows] = ()
    parting: list[tuple[Sample, Outputs, Outputs]] = field(default_factory=list)

    def probe(
        self, result: AccuracyResult, seed: int = 0, progress: Progress | None = None
    ) -> AccuracyResult:
        """Runs both sides on other inputs, for the outputs that are the same on all samples.

        Args:
            result: What the samples told; its blind outputs are looked into.
            seed: Of the random inputs.
            progress: Called with a name for the inputs before they run.

        Returns:
            The result, with what other inputs tell of its blind outputs.
        """
        left = {output.name: Probed(output.name) for output in result.blind}
        single = {output.name for output in result.blind if output.blind == "one sample"}
        done: dict[str, Probed] = {}
        seen = next(iter(self.samples)).feeds
        first = self._ran(seen)
        for name, feeds in other_inputs(self.samples.inputs, seen, seed):
            if not left or first is None:
                break
            if progress:
                progress(f"trying {name}")
            ran = self._ran(feeds)
            if ran is None:
                continue
            compared, turned = self._compare(first, ran), self._compare(first[::-1], ran[::-1])
            for item in list(left.values()):
                item = replace(item, tried=item.tried + 1)
                output = compared.get(item.output)
                if output is not None and not output.blind:
                    follows = not turned[item.output].blind
                    fits = follows if item.output in single else self.limits.kept_by(output)
                    item = replace(item, inputs=name, result=output, fits=fits)
                left[item.output] = item
                if item.fits or (item.result is not None and self.limits.exact):
                    done[item.output] = left.pop(item.output)
                    if not item.fits and self._parts(item.output, ran):
                        self.parting.append((Sample(name, dict(feeds)), *ran))
        return replace(result, probed=(*done.values(), *left.values()))

    def _ran(self, feeds: Feeds) -> Pair | None:
        """What both give; None where one of them takes no such input."""
        try:
            return self.source(feeds), self.artifact.run(feeds)
        except ModelyardError:
            return None

    def _parts(self, output: str, ran: Pair) -> bool:
        """Whether an output is missed on other inputs alone."""
        return not self.limits.kept_by(self._compare(ran)[output])

    def _compare(self, *pairs: Pair) -> dict[str, OutputResult]:
        """How outputs compare on the first sample and on other inputs together, by name."""
        comparer = comparer_for(self.outputs, Matching.of(self.lists, self.limits.cosine))
        names = ("the first sample", "the other inputs")
        for (reference, found), name in zip(pairs, names[-len(pairs) :], strict=True):
            comparer.add(reference, found, name)
        return {output.name: output for output in comparer.result().outputs}


def find_telling(answers: Answers, samples: Samples, blind: Collection[str], seed: int) -> None:
    """Asks the source what :meth:`Prober.probe` will ask, until each blind output tells.

    Args:
        answers: The source's answers, which are kept there.
        samples: Their inputs' specs, and the sizes of the first one.
        blind: Names of outputs that are the same on all samples.
        seed: Of the random inputs.
    """
    seen, left = next(iter(samples)).feeds, set(blind)
    first = answers(seen)
    for _, feeds in other_inputs(samples.inputs, seen, seed):
        if not left:
            return
        if (given := answers.given(feeds)) is not None:
            left &= untold([first, given])


def other_inputs(
    specs: Sequence[TensorSpec], seen: Mapping[str, Array], seed: int
) -> Iterator[tuple[str, Feeds]]:
    """Other inputs of the same sizes, the likeliest to be sensible first.

    Args:
        specs: The inputs, with what is known of their values.
        seen: One sample: arrays by input name. Inputs without a spec keep its values.
        seed: Of the random values.

    Yields:
        A name for messages, and arrays by input name, of the shapes and dtypes of ``seen``.
    """
    known = [spec for spec in specs if spec.name in seen]
    for number, amplitude in enumerate(AMPLITUDES):
        generator = np.random.default_rng([seed, 1_000_000 + number])
        feeds = dict(seen)
        for spec in known:
            values = random_values(generator, spec, seen[spec.name].shape)
            if spec.is_float and spec.value_range is None:
                values = values * np.asarray(amplitude, values.dtype)
            feeds[spec.name] = values
        yield f"random values of about {amplitude:g}", feeds
    tried = {contents(seen)}
    for name, edges in edge_feeds(known, seen).items():
        feeds = {**seen, **{spec.name: _within(spec, edges[spec.name]) for spec in known}}
        if contents(feeds) not in tried:
            tried.add(contents(feeds))
            yield name, feeds


def _within(spec: TensorSpec, values: Array) -> Array:
    """An edge, clipped to the input's range where it has one."""
    if spec.value_range is None or not spec.is_float:
        return values
    return np.clip(values, *spec.value_range).astype(values.dtype)
