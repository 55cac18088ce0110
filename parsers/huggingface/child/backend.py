"""The worker's methods for Hugging Face folders: torch's, with transformers to make the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...pytorch.child import modules
from ...pytorch.child.backend import TorchBackend
from ...worker.errors import WorkerError
from ...worker.packages import require
from .inputs import UNSAID

_REQUIRED = ("input_ids", "pixel_values", "input_values", "input_features")
_FILES = {"pixel_values", "input_values", "input_features"}
_NAMED = ("object-detection", "semantic-segmentation")
_GENERIC = "LABEL_"


class HuggingFaceBackend(TorchBackend):
    """One model at a time, made from a folder for a task."""

    METHODS = (*TorchBackend.METHODS, "tokenize")

    def _import_framework(self) -> None:
        if self._framework is not None:
            return
        super()._import_framework()
        self._channel.progress("importing transformers")
        require("transformers", "transformers", "to load the model")
        require("transformers.models.auto.modeling_auto", "transformers", "to load the model")
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self._framework = modules.top_packages()

    def load(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make the model of the folder `file` for `task`.

        Returns what torch's does, and task, labels, activation (what makes probabilities of the
        first output), preprocessing (the settings of what prepares images or sounds), problem (the
        config's problem_type), sizes and texts (of Inputs) and warnings. `described` of each input
        is what ONNX cannot say of it: meaning, value_range, layout.
        """
        self._facts: dict[str, Any] = {}
        result = super().load(params)
        return {**result, **self._facts}

    def _open(self, params: Mapping[str, Any]) -> tuple[Any, str]:
        from ...pytorch.child.files import Opened
        from . import load as hf_load
        from . import model as hf_model
        from . import sentence as hf_sentence
        from . import tasks as hf_tasks
        from .inputs import Inputs, parameters

        folder, trust = Path(params["file"]), bool(params.get("trust"))
        listed = hf_sentence.listed(folder)
        core = listed[0][1] if listed else folder
        config = hf_load.read_config(core, trust)
        stored = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
        own = getattr(config, "auto_map", None)
        own = own if trust and isinstance(own, dict) else {}
        task = hf_tasks.choose(params.get("task"), config, bool(listed), own)
        sentence = hf_sentence.build(folder) if task.name == hf_tasks.EMBEDDING else None
        model, info = hf_load.load(core, task, config, trust)
        name = type(model).__name__
        hf_load.check_mismatched(info, name)
        given = params.get("inputs") or []
        takes = Inputs(model, task.name, core)
        inputs = _declared(takes, given)
        names = hf_model.ordered(inputs, _REQUIRED, parameters(model))
        required = [n for n in names[: len(inputs)] if n in _REQUIRED]
        made = hf_model.TaskModel(model, task, names, required, sentence)
        self._opened = Opened(made, name, inputs=inputs, sizes=takes.traced())
        self._check_missing(made, info, config, inputs or given)
        self._positions = takes.positions()
        self._facts = {
            "task": task.name,
            "labels": _labels(config) if task.labelled or task.name in _NAMED else [],
            "activation": _activation(config) if task.labelled else None,
            "preprocessing": takes.preprocessor if _FILES.intersection(names) else {},
            "problem": getattr(config, "problem_type", None) if task.labelled else None,
            "warnings": [
                *hf_load.unexpected(info, name),
                *_told_dtype(stored),
                *_told_cache(task.auto),
            ],
            "sizes": takes.sizes(),
            "texts": takes.texts() if "input_ids" in names else {},
        }
        return made, "file"

    def export(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """As torch's; raises usage where it failed of texts longer than the model takes."""
        try:
            return super().export(params)
        except WorkerError as error:
            given, sizes = params["inputs"], params.get("sizes") or {}
            lasts = [item["shape"][-1] for item in given if item["dtype"].startswith("int")]
            longest = max(
                (n for n in (sizes.get(n, n) for n in lasts) if isinstance(n, int)), default=0
            )
            if longest <= self._positions:
                raise
            raise WorkerError(
                "usage",
                f"the texts would have {longest} tokens, but the model has positions for "
                f"{self._positions}: give that number or less with --dim or --input",
                code="shape-range",
            ) from error

    def tokenize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Make tokens of `texts`, and of `pairs` beside them, with the tokenizer of `file`.

        They are cut to `length`, or to the tokenizer's own where that is None, and padded to it
        if `fixed`. Returns `tokens`: for each text, its lists of numbers by name.
        """
        self._import_framework()
        from transformers import AutoTokenizer

        try:
            made = AutoTokenizer.from_pretrained(
                params["file"], local_files_only=True, trust_remote_code=bool(params.get("trust"))
            )
        # Tokenizers raise what they like for files that are damaged or missing.
        except Exception as error:
            raise WorkerError(
                "source", f"the folder's tokenizer can't be loaded: {error}", code="tokenizer"
            ) from error
        if params["fixed"] and made.pad_token is None:
            raise WorkerError(
                "usage",
                "the folder's tokenizer can't pad: leave the sequence dimension free",
                code="tokenizer",
            )
        length = params["length"]
        known = length is not None or made.model_max_length < UNSAID
        options = {
            "truncation": known,
            "max_length": length,
            "padding": "max_length" if params["fixed"] else False,
            "return_attention_mask": True,
        }
        texts = params["texts"]
        pairs = params.get("pairs") or [None] * len(texts)
        return {"tokens": [dict(made(text, pairs[i], **options)) for i, text in enumerate(texts)]}

    def _check_missing(
        self,
        made: Any,
        info: Mapping[str, Any],
        config: Any,
        inputs: Sequence[Mapping[str, Any]],
    ) -> None:
        """Raise source for missing weights that count; an optional output that needs some goes."""
        from ...pytorch.child import tensors
        from . import load as hf_load
        from . import tasks as hf_tasks

        missing = sorted(info.get("missing_keys") or ())
        if not missing:
            return
        specs = tensors.read_specs(inputs)
        sizes = tensors.trace_sizes(specs, self._opened.sizes if self._opened else {})
        values = {spec.name: tensors.example(spec, sizes) for spec in specs}
        example = [values.get(name) for name in made.names]
        keys = hf_load.needed(made.model, made, missing, example)
        if keys and made.task.name == hf_tasks.IMAGE_FEATURES:
            made.left_out = ("pooler_output",)
            keys = hf_load.needed(made.model, made, missing, example)
        fitting = hf_tasks.fitting(config)
        hf_load.refuse_missing(keys, type(made.model).__name__, made.task.name, fitting)


def _declared(inputs: Any, given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The inputs; none where a size is nowhere said and the user has said them."""
    try:
        found: list[dict[str, Any]] = inputs.declared()
    except WorkerError as error:
        if error.kind != "usage" or not given:
            raise
        return []
    return found


def _labels(config: Any) -> list[str]:
    """The names of the classes; none where they are the generic ones."""
    names = dict(getattr(config, "id2label", None) or {})
    found = [str(names[key]) for key in sorted(names, key=int)]
    return [] if all(name.startswith(_GENERIC) for name in found) else found


def _activation(config: Any) -> str | None:
    """What makes probabilities of the scores, as transformers' own pipelines choose it."""
    problem = getattr(config, "problem_type", None)
    if problem == "regression":
        return None
    one = problem == "multi_label_classification" or config.num_labels == 1
    return "sigmoid" if one else "softmax"


def _told_cache(auto: str) -> list[str]:
    if auto != "CausalLM":
        return []
    return [
        "WITHOUT ITS CACHE: the decoder has no past_key_values among its inputs and outputs, so "
        "that each new token runs the whole sequence through the model again"
    ]


def _told_dtype(stored: Any) -> list[str]:
    text = str(stored or "").replace("torch.", "")
    if text in ("", "None", "float32"):
        return []
    return [f"the folder's weights are {text}: they were read as float32"]
