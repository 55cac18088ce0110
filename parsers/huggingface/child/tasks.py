"""What a Hugging Face model can be asked to do, and what that makes of its inputs and outputs.

Which class serves a task for which model type is transformers' own knowledge: the tables
`MODEL_FOR_..._MAPPING_NAMES` of `transformers.models.auto.modeling_auto`, from a config's
model_type to the name of a class. Only the outputs are named here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...worker.errors import WorkerError

_AUTO = "transformers.models.auto.modeling_auto"


class Task(NamedTuple):
    """One task.

    `tables` are transformers' tables that name its classes, best first; `outputs` are those
    of a class's outputs that it gives, where they are there; `labelled` says that the last
    dimension of the first is the config's labels. `refused` is why it cannot be converted.
    """

    name: str
    tables: tuple[str, ...]
    auto: str
    outputs: tuple[str, ...] = ("logits",)
    labelled: bool = False
    refused: str = ""


_LOOP = (
    "it runs its encoder once and its decoder in a loop, which isn't a single graph. --task "
    "feature-extraction converts the encoder if the model type has one of its own"
)

# In the order in which an architecture is looked up: one that generates before its other uses
# (BART is a masked model as well), a class with a head before a bare one.
TASKS = (
    Task("text2text-generation", ("SEQ_TO_SEQ_CAUSAL_LM",), "Seq2SeqLM", refused=_LOOP),
    Task("speech-to-text", ("SPEECH_SEQ_2_SEQ",), "SpeechSeq2Seq", refused=_LOOP),
    Task(
        "text-classification", ("SEQUENCE_CLASSIFICATION",), "SequenceClassification", labelled=True
    ),
    Task("token-classification", ("TOKEN_CLASSIFICATION",), "TokenClassification", labelled=True),
    Task(
        "question-answering",
        ("QUESTION_ANSWERING",),
        "QuestionAnswering",
        ("start_logits", "end_logits"),
    ),
    Task("multiple-choice", ("MULTIPLE_CHOICE",), "MultipleChoice"),
    Task("fill-mask", ("MASKED_LM",), "MaskedLM"),
    Task("text-generation", ("CAUSAL_LM",), "CausalLM"),
    Task(
        "image-classification",
        ("IMAGE_CLASSIFICATION",),
        "ImageClassification",
        labelled=True,
    ),
    Task("object-detection", ("OBJECT_DETECTION",), "ObjectDetection", ("logits", "pred_boxes")),
    Task("semantic-segmentation", ("SEMANTIC_SEGMENTATION",), "SemanticSegmentation"),
    Task("depth-estimation", ("DEPTH_ESTIMATION",), "DepthEstimation", ("predicted_depth",)),
    Task(
        "zero-shot-image-classification",
        ("ZERO_SHOT_IMAGE_CLASSIFICATION",),
        "ZeroShotImageClassification",
        ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds"),
    ),
    Task(
        "audio-classification",
        ("AUDIO_CLASSIFICATION",),
        "AudioClassification",
        labelled=True,
    ),
    Task("automatic-speech-recognition", ("CTC",), "CTC"),
    Task(
        "image-feature-extraction",
        ("",),
        "",
        ("last_hidden_state", "pooler_output"),
    ),
    Task("sentence-embedding", ("", "TEXT_ENCODING"), "", ("sentence_embedding",)),
    Task("feature-extraction", ("", "TEXT_ENCODING"), "", ("last_hidden_state",)),
)
_BY_NAME = {task.name: task for task in TASKS}
EMBEDDING = "sentence-embedding"
FEATURES = "feature-extraction"
IMAGE_FEATURES = "image-feature-extraction"


def _table(name: str) -> dict[str, Any]:
    """One of transformers' tables; empty where this version has none of that name."""
    full = f"MODEL_FOR_{name}_MAPPING_NAMES" if name else "MODEL_MAPPING_NAMES"
    table: dict[str, Any] = dict(getattr(importlib.import_module(_AUTO), full, {}))
    return table


def _names(entry: Any) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else tuple(entry or ())


def _takes(config: Any) -> str:
    """The main input of a model type's bare class: input_ids, pixel_values, input_values..."""
    import transformers

    for name in _names(_table("").get(config.model_type)):
        found = getattr(transformers, name, None)
        if found is not None:
            return str(found.main_input_name)
    return "input_ids"


def _classes(task: Task, config: Any) -> tuple[str, ...]:
    """Names of the classes that do the task for a model type, best first."""
    if task.name == IMAGE_FEATURES and _takes(config) != "pixel_values":
        return ()
    if task.name in (EMBEDDING, FEATURES):
        if task.name == EMBEDDING and _takes(config) != "input_ids":
            return ()
        if _takes(config) == "pixel_values":
            return ()
        encoders = _names(_table("TEXT_ENCODING").get(config.model_type))
        if getattr(config, "is_encoder_decoder", False) or set(encoders).intersection(
            config.architectures or ()
        ):
            return encoders
    found: list[str] = []
    for table in task.tables:
        found += _names(_table(table).get(config.model_type))
    return tuple(found)


def auto_name(task: Task) -> str:
    """The Auto class that serves the task: AutoModelForMaskedLM."""
    return f"AutoModel{'For' if task.auto else ''}{task.auto}"


def fitting(config: Any) -> list[str]:
    """The tasks that a model type can be asked for."""
    return [t.name for t in TASKS if not t.refused and _classes(t, config)]


def _wrong(text: str, config: Any) -> WorkerError:
    names = fitting(config)
    does = ", ".join(names) if names else "none that is known here"
    return WorkerError(
        "usage", f"{text}. A {config.model_type} model's tasks: {does}", code="unknown-name"
    )


def choose(asked: str | None, config: Any, embedding: bool, own: Mapping[str, Any]) -> Task:
    """The task that was asked for, or the one that a model was made for.

    Args:
        asked: The task's name; None where none was asked for.
        config: transformers' configuration of the model.
        embedding: Whether the folder is sentence-transformers'.
        own: The auto_map of code that the folder brings and that may run: Auto classes and what
            they make.

    Raises:
        WorkerError: ``usage`` for a task that is unknown or that the model type does not do;
            ``unsupported`` for one that is no graph.
    """
    task = _asked(asked, config, own) if asked else _default(config, embedding, own)
    if task.refused:
        raise WorkerError("unsupported", f"{task.name} cannot be converted: {task.refused}")
    return task


def _asked(name: str, config: Any, own: Mapping[str, Any]) -> Task:
    if name not in _BY_NAME:
        raise _wrong(f"there is no task {name!r}", config)
    task = _BY_NAME[name]
    if auto_name(task) not in own and not _classes(task, config):
        raise _wrong(f"transformers has no {config.model_type} model for {name}", config)
    return task


def _default(config: Any, embedding: bool, own: Mapping[str, Any]) -> Task:
    if embedding:
        return _BY_NAME[EMBEDDING]
    names = list(config.architectures or ())
    if not names:
        raise _wrong("config.json names no architecture, so give --task", config)
    for task in TASKS:
        if task.name == EMBEDDING:
            continue
        made = str(own.get(auto_name(task), "")).rpartition(".")[2]
        if names[0] == made or names[0] in _classes(task, config):
            return task
    raise _wrong(
        f"{names[0]} is a class for a task that Modelyard doesn't know: give --task", config
    )


def class_name(task: Task, config: Any) -> str:
    """The name of transformers' class that does `task`: the config's own where it does."""
    names = _classes(task, config)
    own = [name for name in config.architectures or () if name in names]
    return str((own or list(names))[0])
