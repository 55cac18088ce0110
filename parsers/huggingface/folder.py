"""What lies in a Hugging Face folder, and what of it can't be taken; no framework is needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from converter.errors import ModelError, Unsupported, UnsupportedError, UsageError
from converter.files.links import refuse_links_out
from converter.options.request import Request

_INDEX = ".index.json"
_SAFE = "model.safetensors"
_PICKLE = "pytorch_model.bin"
_ADAPTER = "adapter_config.json"
_BESIDES = (
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer_config.json",
    "modules.json",
    "vocab.json",
)
_TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "bpe.codes",
    "*.model",
    "*.spm",
)
"""What a tokenizer is made of; transformers' names."""

_VALUES, _WORDS, _BYTES = 1_000_000, 3_000_000, 1 << 28
"""What a JSON file may hold: values in a config, where the largest that are published have 200,000,
and in a vocabulary, where they have two million; bytes."""
_VOCABULARIES = ("tokenizer.json", "vocab.json")
_FRAMEWORKS = re.compile("config|index|modules|token|vocab")

_OTHERS = {
    "*.gguf": "GGUF",
    "tf_model.h5": "TensorFlow",
    "flax_model.msgpack": "Flax",
    "*.ckpt.index": "TensorFlow 1",
}


class Folder:
    """A folder that may be a Hugging Face model.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_model(self) -> bool:
        """Whether it is one, by what its JSON files say."""
        if not self.path.is_dir():
            return False
        config = read_json(self.path / "config.json")
        if isinstance(config, dict) and ("model_type" in config or "architectures" in config):
            return True
        if any("sentence_transformers" in str(item.get("type")) for item in self.modules):
            return True
        return isinstance(read_json(self.path / _ADAPTER), dict)

    @cached_property
    def modules(self) -> list[dict[str, Any]]:
        """What sentence-transformers' ``modules.json`` lists, in order; empty without one."""
        items = read_json(self.path / "modules.json")
        known = [i for i in items if isinstance(i, dict)] if isinstance(items, list) else []
        return sorted(known, key=lambda item: _number(item.get("idx")))

    @cached_property
    def core(self) -> Path:
        """The folder of the transformer itself: a folder below in old sentence-transformers."""
        if not self.modules:
            return self.path
        return self.path / str(self.modules[0].get("path", ""))

    @cached_property
    def config(self) -> dict[str, Any]:
        config = read_json(self.core / "config.json")
        return config if isinstance(config, dict) else {}

    def model_name(self) -> str:
        """The folder's name; for a snapshot in transformers' cache, its repository's."""
        path = self.path.resolve()
        name = path.name
        if path.parent.name == "snapshots":
            name = path.parent.parent.name.rpartition("--")[2]
        return re.sub(r"\W+", "_", name).lower().strip("_") or "model"

    # -- refusals ------------------------------------------------------------------

    def refuse(self, request: Request) -> None:
        """Raises for all that is known to be wrong before the framework starts."""
        given = {
            "--weights": request.weights,
            "--weights-key": request.weights_key,
            "--arg": request.args or request.kwargs,
            "--signature": request.signature,
        }
        for option, value in given.items():
            if value:
                raise UsageError(
                    f"{option} has no meaning for a Hugging Face folder",
                    code="option-not-applicable",
                    hint="The folder's config.json and weights describe the model. --task "
                    "chooses the head.",
                )
        for item in self.modules:
            place = Path(str(item.get("path", "")))
            if place.is_absolute() or ".." in place.parts:
                raise ModelError(
                    f"modules.json names a place outside its folder: {place}", code="path-outside"
                )
        refuse_links_out(self.path)  # they would be read, and a tokenizer's files copied
        for path in self._read_by_the_framework():
            _bytes(path)
        self._refuse_labels(self.config.get("num_labels"))
        self._refuse_kind()
        self._refuse_code(request.trust_source)

    def _refuse_kind(self) -> None:
        if (self.path / _ADAPTER).is_file():
            raise _unsupported(
                f"{self.path.name} holds an adapter (PEFT), not a whole model",
                _ADAPTER,
                "Merge it into its base model (merge_and_unload) and save that.",
            )
        if not self.config:
            raise ModelError(
                f"{self.core.name} has no config.json that can be read", code="model-damaged"
            )
        quantized = self.config.get("quantization_config")
        if quantized:
            how = quantized.get("quant_method", "?") if isinstance(quantized, dict) else quantized
            raise _unsupported(
                f"{self.path.name}'s weights are quantized ({how}) in a special form",
                f"quantization_config {how}",
                "Use the model from before the quantization, with float weights in safetensors.",
            )

    def _read_by_the_framework(self) -> Iterator[Path]:
        places = [self.path, *(self.path / str(item.get("path", "")) for item in self.modules)]
        for place in places:
            yield from (path for path in place.glob("*.json") if _FRAMEWORKS.search(path.name))

    def _refuse_labels(self, count: Any) -> None:
        """The framework makes a name for each."""
        if isinstance(count, int) and count > _VALUES:
            raise ModelError(
                f"config.json asks for {count:,} labels; the limit is {_VALUES:,}",
                code="model-too-large",
            )

    def _refuse_code(self, trusted: bool) -> None:
        """Raises where the config asks for code of its own, and it may or can't run."""
        wanted = self.config.get("auto_map")
        if not isinstance(wanted, dict) or not wanted:
            return
        items = [v for v in wanted.values() for v in (v if isinstance(v, list) else [v]) if v]
        remote = sorted({str(item) for item in items if "--" in str(item)})
        if remote:
            raise ModelError(
                f"{self.path.name} needs code that isn't in the folder, and Modelyard fetches none",
                code="untrusted-code",
                details=remote,
                hint="Put the files with the code beside config.json, and remove the part "
                "before '--'.",
            )
        if not trusted:
            files = sorted({f"{str(item).rpartition('.')[0]}.py" for item in items})
            raise ModelError(
                f"{self.path.name} brings code of its own (auto_map in config.json), which "
                "would run. Modelyard ran nothing of it",
                code="untrusted-code",
                details=[f"{name} would run" for name in files],
                hint="If you trust whoever made it, pass --trust-source.",
            )

    # -- files ---------------------------------------------------------------------

    def files(self, trusted: bool) -> dict[str, Path]:
        """The files that a result depends on, by their names in the folder.

        Raises:
            ModelError: Weights are missing.
            UnsupportedError: There are none but another framework's.
        """
        found = [self.core / "config.json", *self._weights()]
        found += [self.core / name for name in _BESIDES] + [self.path / name for name in _BESIDES]
        for item in self.modules:
            folder = self.path / str(item.get("path", ""))
            if folder != self.core:
                found += [folder / n for n in ("config.json", _SAFE, _PICKLE)]
        if trusted:
            found += sorted(self.core.glob("*.py"))
        return {str(p.relative_to(self.path)): p for p in dict.fromkeys(found) if p.is_file()}

    def tokenizer(self) -> dict[str, Path]:
        """The tokenizer's files, by name; empty where the folder has none."""
        for folder in (self.core, self.path):
            found = [path for name in _TOKENIZER for path in sorted(folder.glob(name))]
            if any(not path.name.endswith(("_config.json", "_map.json")) for path in found):
                return {path.name: path for path in found}
        return {}

    def assets(self) -> dict[str, Path]:
        """What goes with the model wherever it goes, by its place there."""
        return {f"tokenizer/{name}": path for name, path in self.tokenizer().items()}

    def _weights(self) -> list[Path]:
        for name in (_SAFE, _PICKLE):
            path, index = self.core / name, self.core / (name + _INDEX)
            if path.is_file():
                return [path]
            if index.is_file():
                return [index, *self._shards(index)]
        raise self._no_weights()

    def _shards(self, index: Path) -> Iterator[Path]:
        content = read_json(index)
        table = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(table, dict) or not table:
            raise ModelError(f"{index.name} has no weight_map: it is damaged", code="model-damaged")
        names = sorted({str(name) for name in table.values()})
        outside = [name for name in names if Path(name).name != name]
        missing = [name for name in names if not (self.core / name).is_file()]
        if outside or missing:
            raise ModelError(
                f"{index.name} names files that "
                + ("lie outside its folder" if outside else "aren't there"),
                code="model-damaged",
                details=outside or missing,
                hint="Fetch the whole folder again.",
            )
        return iter([self.core / name for name in names])

    def _no_weights(self) -> ModelError:
        for pattern, what in _OTHERS.items():
            held = sorted(path.name for path in self.core.glob(pattern))
            if held:
                return _unsupported(
                    f"{self.path.name} has {what} weights only ({held[0]})",
                    held[0],
                    "Save it with transformers as safetensors first (save_pretrained).",
                )
        held = sorted(path.name for path in self.core.glob("*.safetensors"))
        also = f"; there is {', '.join(held)}, which the config doesn't name" if held else ""
        return ModelError(
            f"{self.path.name} has no weights: neither {_SAFE} nor {_SAFE}{_INDEX}{also}",
            code="model-damaged",
            hint="Fetch the whole folder.",
        )


def read_json(path: Path) -> Any:
    """What a JSON file holds; None where it isn't there or is none."""
    try:
        return json.loads(_bytes(path).decode())
    except (OSError, ValueError):
        return None


def _bytes(path: Path) -> bytes:
    """A JSON file's; raises ModelError for what no model needs, before it is made values of."""
    most = _WORDS if path.name in _VOCABULARIES else _VALUES
    if path.stat().st_size <= _BYTES:
        content = path.read_bytes()
        if content.count(b",") < most:
            return content
    raise ModelError(
        f"{path.name} has more than {most:,} values, or {_BYTES >> 20} MB: no model needs "
        "that many",
        code="model-too-large",
        hint="Fetch it again. If it is right, remove what the model doesn't use.",
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _unsupported(message: str, node: str, hint: str) -> UnsupportedError:
    return UnsupportedError(message, [Unsupported("", node, hint)], hint=hint)
