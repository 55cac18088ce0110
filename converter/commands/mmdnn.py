"""MMdnn's ``mmconvert`` in terms of ours: what its flags mean.

Its command line is the one of https://github.com/microsoft/MMdnn; the flags of its steps
(``--inputShape``, ``--dstNodeName``...) are those that ``mmconvert`` passed on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter import plugins
from converter.errors import UsageError, from_os_error
from converter.files.digest import file_digest
from converter.protocols.mmdnn import Known
from converter.protocols.parser import Migrated

if TYPE_CHECKING:
    from converter.commands.convert import Converted

ELSEWHERE = ("caffe", "caffe2", "cntk", "mxnet", "darknet")
"""What else MMdnn read and wrote."""


def sources() -> dict[str, Known]:
    """The sources that parsers say something of, by name."""
    found = {name: plugins.load("parsers", name) for name in plugins.working("parsers")}
    return {n: item.mmdnn for n, item in found.items() if isinstance(item, Migrated)}


def plain_name(name: str) -> str:
    """A framework's own name, of whatever MMdnn's users call it."""
    plain = name.lower()
    return next((own for own, known in sources().items() if plain in known.aliases), plain)


@dataclass(frozen=True)
class Asked:
    """``mmconvert``'s flags.

    Attributes:
        source, target: ``-sf`` and ``-df``; without the first, the file says what it is.
        network, weights: ``-in`` and ``-iw``.
        out: ``-om``.
        shapes: ``--inputShape``: sizes without the batch, an item an input.
        inputs, outputs: ``--inNodeName`` and ``--dstNodeName``.
        dump_tag: ``--dump_tag``.
        options: Fields of a request that are spelled as ours.
    """

    source: str | None
    target: str
    network: str | None
    weights: str | None
    out: str
    shapes: Sequence[str] = ()
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    dump_tag: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def fields_of(asked: Asked) -> dict[str, Any]:
    """The fields of a :class:`converter.options.request.Request` that mean the same.

    Raises:
        UsageError: A framework that isn't here, files that don't go together, a flag that
            means nothing for them.
    """
    source = known_framework(asked.source) if asked.source else None
    written = _written(asked.target)
    if asked.dump_tag:
        raise UsageError(
            "--dump_tag names a graph in MMdnn's output, and the output of -df "
            f"{asked.target} has none",
            code="mmdnn",
        )
    found: dict[str, Any] = {**_files(asked, source), **asked.options, **written}
    found["out"] = str(report_folder(asked.out))
    found |= {"overwrite": True, "bench": False, "precision": ["fp32"]}
    shapes = _shapes(asked.shapes)
    if shapes and not asked.inputs and not _shaped(source):
        raise UsageError(
            "--inputShape needs --inNodeName for "
            f"{source or 'a file that names its inputs'}, to say which input the shape is for",
            code="mmdnn",
            hint="Without both options, the shapes are the ones in the file.",
        )
    if shapes:
        found["inputs"] = _inputs(shapes, asked.inputs)
    elif asked.inputs:
        raise UsageError(
            "--inNodeName needs --inputShape: the sizes of each input, without the batch",
            code="mmdnn",
        )
    if asked.outputs:
        found["outputs"] = [text for item in asked.outputs for text in item.split(",") if text]
    _require_other(asked.out, found)
    return found


def _shaped(source: str | None) -> bool:
    return source is not None and sources().get(source, Known()).shaped


def _require_other(out: str, fields: Mapping[str, Any]) -> None:
    """Refuses to write over a file that is read."""
    for name in ("source", "weights", "samples"):
        read = Path(str(fields.get(name) or ""))
        if read.is_file() and Path(out).exists() and read.samefile(out):
            raise UsageError(
                f"-om {out} is the file that is read",
                code="output-in-the-way",
                hint="Name another file.",
            )


def known_framework(name: str) -> str:
    """The plug-in's name of a framework that can be read.

    Raises:
        UsageError: It can't be; what can be is listed.
    """
    plain = plain_name(name)
    readable = plugins.available("parsers")
    if plain in readable:
        return plain
    reason = "isn't read here" if plain in ELSEWHERE else "isn't a framework that Modelyard knows"
    raise UsageError(
        f"{name} {reason}",
        code="mmdnn",
        hint=f"There are: {', '.join(readable)}. For any other framework, export the model to "
        "ONNX first: -sf onnx -iw model.onnx.",
    )


def require_format(source: str, wanted: str | None, options: Mapping[str, Any]) -> None:
    """Makes sure that a source is of the framework that was named.

    Args:
        source: The model.
        wanted: ``-sf``, or None.
        options: The other fields of its request.

    Raises:
        UsageError: It is of another; or it isn't there, or nothing here reads it.
    """
    if wanted is None:
        return
    from converter.options.recipe import make_request
    from converter.pipeline.work import find_parser

    found, _ = find_parser(make_request({"source": source, **options}))
    if found.name != known_framework(wanted):
        raise UsageError(
            f"{Path(source).name} isn't a model of {wanted}, but of {found.name}",
            code="mmdnn",
            hint=f"Pass -sf {found.name}, or leave -sf out.",
        )


def _written(name: str) -> Mapping[str, Any]:
    """The fields of a request that ``-df`` is.

    Raises:
        UsageError: Nothing here writes it; what can be written is listed.
    """
    writable, plain = plugins.available("emitters"), plain_name(name)
    if name.lower() in writable and plain != name.lower():
        return {"to": [name.lower()]}
    found = {"to": [plain], **sources().get(plain, Known()).written}
    if set(found["to"]) <= set(writable):
        return found
    known = (*ELSEWHERE, *plugins.available("parsers"))
    reason = "isn't written here" if plain in known else "isn't a target that Modelyard knows"
    raise UsageError(f"{name} {reason}", code="mmdnn", hint=f"There are: {', '.join(writable)}.")


def _files(asked: Asked, source: str | None) -> dict[str, Any]:
    """The model's file, and its weights where they are apart."""
    network, weights = asked.network, asked.weights
    if not network and not weights:
        raise UsageError(
            "the command names no model",
            code="option-missing",
            hint="Give -iw FILE, or -in FILE for the network alone.",
        )
    for name, known in sources().items():
        if source in (None, name):
            found = known.files(network, weights, source is not None)
            if found is not None:
                return dict(found)
    if not network or not weights:
        return {"source": network or weights}
    raise UsageError(
        f"{source or 'this model'} is one file, so -in and -iw can't be used together",
        code="option-conflict",
        hint="Give the one file that holds network and weights.",
    )


def _shapes(texts: Sequence[str]) -> list[tuple[int, ...]]:
    """The sizes of each input: ``3,224,224``, several by spaces; ``3 224 224`` is one."""
    if len(texts) > 1 and not any("," in text for text in texts):
        texts = [",".join(texts)]
    shapes = []
    for text in texts:
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise UsageError(
                f"--inputShape {text}: give the sizes with commas, without the batch",
                code="mmdnn",
                hint="As in --inputShape 3,224,224",
            )
        shapes.append(tuple(map(int, parts)))
    return shapes


def _inputs(shapes: Sequence[tuple[int, ...]], names: Sequence[str]) -> list[str]:
    """``--input`` of each: the batch first, which is free."""
    split = [text for item in names for text in item.split(",") if text]
    if not split:
        split = ["input"] if len(shapes) == 1 else [f"input_{i}" for i in range(len(shapes))]
    if len(split) != len(shapes):
        raise UsageError(
            f"{len(split)} inputs are named, and {len(shapes)} shapes are given", code="mmdnn"
        )
    dims = (",".join(map(str, ("batch", *shape))) for shape in shapes)
    return [f"{name}:{dim}" for name, dim in zip(split, dims, strict=True)]


# -- what is left where ------------------------------------------------------------------


def report_folder(out: str) -> Path:
    """The folder of the whole result beside ``-om OUT``: ``net.onnx`` has ``net.modelyard``."""
    path = Path(out)
    if not path.name:
        raise UsageError(f"-om {out!r} isn't the name of a file", code="option-value")
    if path.is_dir():
        raise UsageError(
            f"-om {out} is an existing folder",
            code="output-in-the-way",
            hint="Name a file in the folder.",
        )
    return path.with_name(f"{path.stem}.modelyard")


def place(result: Converted, out: str, ours: Collection[str] = ()) -> list[Path]:
    """Copies the artifact to ``out``, and what it needs beside it; each appears whole.

    Args:
        result: What was made.
        out: The file that the user named: it is replaced.
        ours: The sha256 of files that an earlier run put there: other files aren't replaced.

    Returns:
        The files (or the folder) that are there now, ``out`` first.

    Raises:
        UsageError: It can't be written, or a file of the user's is in the way.
        MachineError: The disk is full.
    """
    assert result.report is not None
    made = result.out / result.report.artifacts[0].path
    target = Path(out)
    if made.suffix == ".py":  # code is imported by that
        target = target.with_suffix(made.suffix)
    pairs = [(made, target)]
    if made.is_file():  # weights that lie in files of their own keep the names the model knows
        packaged = (made.parent / "modelyard.json").is_file()  # what a package has besides, stays
        others = made.parent.glob(f"{made.stem}.*" if packaged else "*")
        pairs += [(item, target.with_name(item.name)) for item in sorted(others) if item != made]
    _require_free([pair for pair in pairs if pair[1] != target], ours, result.out)
    try:
        for source, copy in reversed(pairs):
            _copy(source, copy)
    except OSError as error:
        raise from_os_error(error, f"writing {out}") from error
    return [copy for _, copy in pairs]


def _require_free(pairs: Sequence[tuple[Path, Path]], ours: Collection[str], out: Path) -> None:
    taken = [
        str(copy)
        for source, copy in pairs
        if os.path.lexists(copy) and file_digest(copy) not in {*ours, file_digest(source)}
    ]
    if taken:
        raise UsageError(
            f"{', '.join(taken)}: the model needs a file of that name beside it, and another "
            "file is there",
            code="output-in-the-way",
            hint=f"Name a file in another folder with -om. The converted model is in {out}.",
        )


def _copy(source: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".mmconvert-") as made:
        part = Path(made) / target.name
        if source.is_dir():
            shutil.copytree(source, part)
        else:
            shutil.copyfile(source, part)
        part.replace(target)
