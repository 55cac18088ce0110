"""A Hugging Face model alive in its child process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import UsageError
from converter.options.inputs import InputSpec, parse_inputs
from converter.options.request import Request
from converter.preparation.suggested import IMAGES
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Progress
from converter.runtime.worker import Worker
from parsers.huggingface.declared import suggested
from parsers.huggingface.folder import Folder
from parsers.huggingface.pictures import Unsaid, image_options
from parsers.huggingface.request import huggingface
from parsers.huggingface.spec import HUGGINGFACE
from parsers.pytorch.pictures import of_size, told
from parsers.pytorch.source import TorchSource, typed_as

if TYPE_CHECKING:
    from converter.ir.model import Model


class HuggingFaceSource(TorchSource):
    """A transformers model, made for one task.

    Args:
        request: What was asked for: the folder, the task, the interpreter.
        workdir: Where the child writes.
        progress: Is called with what is being done.
        versions: Of what reads the model.
    """

    def __init__(
        self,
        request: Request,
        workdir: Path,
        progress: Progress,
        versions: Mapping[str, str],
    ) -> None:
        worker = Worker(
            HUGGINGFACE,
            what="the transformers process",
            source=Path(request.source).name,
            interpreter=interpreter(request.python),
            progress=progress,
            exporter="torch.export",
            env=offline(workdir),
        )
        super().__init__(request, workdir, worker, versions)

    def parse(self) -> Model:
        """Exports the model, and says what its inputs and outputs mean."""
        model = super().parse()
        declared = {item["name"]: item["described"] for item in self._loaded["inputs"]}
        renamed = dict(zip(declared, (spec.name for spec in model.inputs), strict=False))
        for name, described in declared.items():
            if any(spec.name == renamed[name] for spec in model.inputs):
                model.describe(renamed[name], **described)
        first = model.outputs[0]
        labels, activation = self._loaded["labels"], self._loaded["activation"]
        if labels and first.shape and first.shape[-1] == len(labels):
            model.describe(first.name, meaning="scores", labels=labels)
        if activation:
            model.describe(first.name, activation=activation)
        folder = Folder(Path(self._request.source))
        said = suggested(model, self._loaded, folder, self._unsaid, bool(self._images))
        model.source |= said.told()
        return model

    def tokenize(
        self, texts: Sequence[str], pairs: Sequence[str] | None, length: int | None, fixed: bool
    ) -> list[dict[str, list[int]]]:
        """What the folder's tokenizer makes of texts; see :class:`.Tokenizing`.

        Raises:
            UsageError: The folder has no tokenizer, or it can't pad where it has to.
            ModelError: Its files are damaged.
        """
        folder = Folder(Path(self._request.source))
        files = list(folder.tokenizer().values())
        if not files:
            raise UsageError(
                f"{folder.path.name} has no tokenizer that turns texts into tokens",
                code="tokenizer",
                hint="Fetch its files too (tokenizer.json, or vocab.txt...), or give the model's "
                "own inputs as .npz.",
            )
        answer = self._worker.call(
            "tokenize",
            file=str(files[0].parent.absolute()),
            trust=self._request.trust_source,
            texts=list(texts),
            pairs=pairs and list(pairs),
            length=length,
            fixed=fixed,
        )
        tokens: list[dict[str, list[int]]] = answer["tokens"]
        return tokens

    def _load_params(self) -> dict[str, Any]:
        request = self._request
        return {
            "file": str(Path(request.source).absolute()),
            "task": huggingface(request).task,
            "trust": request.trust_source,
            "inputs": [
                {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
                for spec in parse_inputs(request.inputs)
            ],
        }

    def _after_load(self) -> None:
        self._tell_sizes()
        self._images: dict[str, Any] = {}
        self._unsaid: list[str] = []
        shown = any(item["name"] == "pixel_values" for item in self._loaded["inputs"])
        if (settings := self._loaded["preprocessing"]) and shown:
            try:
                shapes = [spec.shape for spec in self._given_inputs()]
                self._images = of_size(image_options(settings, self._unsaid), shapes)
            except Unsaid as error:
                self._unsaid = [f"preprocessor_config.json: no option says {error}"]
                self._warnings.append(
                    "images aren't prepared as preprocessor_config.json says: no option says "
                    f"{error}"
                )
                return
            self._warnings.append(told(self._images, "preprocessor_config.json says"))

    def _tell_sizes(self) -> None:
        """Says which sizes samples have that nobody gave."""
        dims = {dim for item in self._loaded["inputs"] for dim in item["shape"]}
        for name, size in self._loaded["sizes"].items():
            if name in dims and name not in self._request.dims:
                cut = ", and longer texts are cut to that" if name == "sequence" else ""
                self._warnings.append(
                    f"{name} is free: samples that are made up have {size}{cut}; --dim {name}=N "
                    "for another"
                )

    def _given_inputs(self) -> list[InputSpec]:
        """The declared inputs; one that the user gives too is as the user has it.

        Other names for all of them, in their order, rename them.
        """
        given, declared = list(parse_inputs(self._request.inputs)), self._declared()
        own = {spec.name: spec for spec in declared}
        takes = [item["name"] for item in self._loaded["signature"]]
        if given and not {spec.name for spec in given} <= set(takes):
            if len(given) != len(declared):
                raise UsageError(
                    f"--input {', '.join(spec.name for spec in given)}: the model takes "
                    f"{', '.join(own) or ', '.join(takes)}",
                    code="interface-mismatch",
                    hint="Other names rename the inputs. Give all of them, in that order.",
                )
            return typed_as(given, declared)
        for spec in given:
            kept = own.get(spec.name)
            own[spec.name] = typed_as([spec], [kept])[0] if kept else spec
        return list(own.values())

    def _undeclared(self) -> list[InputSpec]:
        raise UsageError(f"{Path(self._request.source).name} needs --input", code="inputs-unknown")

    def _description(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "format": "huggingface",
            "framework": f"transformers {self._versions['transformers']}, "
            f"torch {self._versions['torch']}",
            "class": self._loaded["class"],
            "task": self._loaded["task"],
            "parameters": self._loaded["parameters"],
            "weights": self._loaded["weights"],
            "attention": "eager",
            "sizes": self._loaded["sizes"],
            **self._texts(),
            **({IMAGES: self._images} if self._images else {}),
            "exporter": answer["exporter"],
        }

    def _texts(self) -> dict[str, Any]:
        """How a text becomes the inputs, for :class:`converter.check.shipping.Shipped`."""
        file, texts = "tokenizer/tokenizer.json", self._loaded["texts"]
        held = texts and file in Folder(Path(self._request.source)).assets()
        return {"texts": {"file": file, **texts}} if held else {}


def offline(workdir: Path) -> dict[str, str]:
    """Environment in which transformers fetches nothing, and copies code nowhere else."""
    return {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_MODULES_CACHE": str(workdir / "transformers-modules"),
        "USE_TF": "0",
        "USE_FLAX": "0",
        "TOKENIZERS_PARALLELISM": "false",
    }
