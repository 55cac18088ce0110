"""What a folder's files say of sounds, and of what outputs mean.

What is meant is transformers' own: ``Wav2Vec2FeatureExtractor`` (mono, its rate, brought to mean 0
and variance 1), ``Wav2Vec2CTCTokenizer`` (the padding is CTC's blank, ``|`` a space), the
``post_process_object_detection`` of DETR's kin (boxes as shares, by their middles), and
sentence-transformers' ``modules.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from converter.preparation.suggested import Suggested
from parsers.huggingface.folder import Folder, read_json

if TYPE_CHECKING:
    from converter.ir.model import Model, TensorSpec

_POOLS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
_PREPROCESSOR, _CONFIG, _VOCABULARY = "preprocessor_config.json", "config.json", "vocab.json"


def suggested(
    model: Model,
    loaded: Mapping[str, Any],
    folder: Folder,
    notes: Sequence[str],
    images: bool,
) -> Suggested:
    """What is known of preparation and answers.

    Args:
        model: The exported one; its outputs are those of the task, in order.
        loaded: What the child said of the folder's model.
        folder: Its files.
        notes: What of an image preprocessor can't be said.
        images: Whether one is said.
    """
    said: list[str] = list(notes)
    origins: dict[str, str] = {"prepare (picture)": _PREPROCESSOR} if images else {}
    prepare = list(_sound(model, loaded["preprocessing"], origins, said))
    answer = list(_answer(model, loaded, folder, origins, said))
    if not answer and loaded["labels"]:
        origins["answer (classes)"] = f"{_CONFIG}: id2label"
    if loaded["texts"]:
        origins["prepare (text)"] = "tokenizer.json"
    return Suggested(prepare, answer, origins, said)


def _sound(
    model: Model, settings: Mapping[str, Any], origins: dict[str, str], notes: list[str]
) -> Iterator[dict[str, Any]]:
    heard = next((spec for spec in model.inputs if spec.meaning == "audio"), None)
    kind = str(settings.get("feature_extractor_type", ""))
    if heard is None:
        seen = next((spec for spec in model.inputs if spec.meaning == "spectrogram"), None)
        if seen is not None and kind == "WhisperFeatureExtractor":
            origins["prepare (sound)"] = _PREPROCESSOR
            yield _whisper(seen, settings)
        elif seen is not None:
            notes.append(
                f"the input is a spectrogram ({kind or 'its extractor is not named'}), and "
                "there is no description of how a sound becomes it: declare that, or give "
                "prepared samples"
            )
        return
    if not settings:
        return
    if kind not in ("", "Wav2Vec2FeatureExtractor"):
        notes.append(f"{_PREPROCESSOR}: it doesn't say what {kind} makes of a sound")
        return
    mask = next((spec.name for spec in model.inputs if spec.meaning == "mask"), None)
    origins["prepare (sound)"] = _PREPROCESSOR
    length = (heard.shape or ("",))[-1]
    yield {
        "kind": "sound",
        "input": heard.name,
        "mask": mask,
        "rate": int(settings.get("sampling_rate", 16000)),
        "normalize": bool(settings.get("do_normalize", True)),
        "length": length if isinstance(length, int) else None,
    }


def _whisper(seen: TensorSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Half a minute's bands, their logarithms at most 8 below the largest."""
    rate = int(settings.get("sampling_rate", 16000))
    spectrum = {
        "size": int(settings.get("n_fft", 400)), "hop": int(settings.get("hop_length", 160)),
        "mels": int(settings.get("feature_size", 80)), "high": 8000.0, "log": "log10",
        "span": 8.0, "shift": 4.0, "gain": 0.25, "drop_last": True,
    }  # fmt: skip
    length = int(settings.get("chunk_length", 30)) * rate
    return {"kind": "sound", "input": seen.name, "rate": rate, "length": length,
            "spectrum": spectrum}  # fmt: skip


def _answer(
    model: Model,
    loaded: Mapping[str, Any],
    folder: Folder,
    origins: dict[str, str],
    notes: list[str],
) -> Iterator[dict[str, Any]]:
    task, outputs = loaded["task"], model.outputs
    if task == "object-detection" and len(outputs) == 2:
        origins["answer (boxes)"] = _CONFIG
        yield _boxes(outputs, loaded["labels"])
    elif task == "semantic-segmentation":
        origins["answer (masks)"] = _CONFIG
        yield {"kind": "masks", "output": outputs[0].name, "labels": loaded["labels"]}
    elif task == "automatic-speech-recognition":
        yield from _spelled(outputs[0], folder, origins, notes)
    elif loaded["problem"] == "regression":
        origins["answer (numbers)"] = f"{_CONFIG}: problem_type"
        yield {"kind": "numbers", "output": outputs[0].name, "names": loaded["labels"]}
    elif task == "sentence-embedding":  # pooled and normalized in the graph
        origins["answer (embedding)"] = "modules.json"
        yield {"kind": "embedding", "output": outputs[0].name}
    elif task == "feature-extraction" and folder.modules:
        yield from _pooled(model, folder, origins, notes)


def _boxes(outputs: Sequence[TensorSpec], labels: Sequence[str]) -> dict[str, Any]:
    """DETR and YOLOS have a class for none behind the others, and softmax; their successors, which
    have as many scores as classes, sigmoid."""
    logits, boxes = outputs
    background = bool(labels) and (logits.shape or (0,))[-1] == len(labels) + 1
    return {
        "kind": "boxes",
        "output": boxes.name,
        "scores": logits.name,
        "format": "cxcywh",
        "relative": True,
        "background": background,
        "activation": "softmax" if background else "sigmoid",
        "labels": labels,
        "threshold": 0.5,
    }


def _spelled(
    output: TensorSpec, folder: Folder, origins: dict[str, str], notes: list[str]
) -> Iterator[dict[str, Any]]:
    table = read_json(folder.core / _VOCABULARY)
    count = (output.shape or (None,))[-1]
    indices = table.values() if isinstance(table, dict) else []
    if not isinstance(table, dict) or any(not isinstance(i, int) for i in indices):
        if table is not None:
            notes.append(f"{_VOCABULARY} has letters of several languages: write the answer's")
        return
    if not isinstance(count, int) or any(not 0 <= i < count for i in indices):
        notes.append(f"{_VOCABULARY} has other indices than the output, of {count} letters")
        return
    said = read_json(folder.core / "tokenizer_config.json") or {}
    space = said.get("word_delimiter_token", "|")
    letters = [""] * count
    for letter, index in table.items():
        letters[index] = " " if letter == space else str(letter)
    blank = table.get(said.get("pad_token", "<pad>"), folder.config.get("pad_token_id", 0))
    origins["answer (text)"] = _VOCABULARY
    yield {
        "kind": "text",
        "output": output.name,
        "letters": letters,
        "blank": blank,
        "activation": "softmax",
    }


def _pooled(
    model: Model, folder: Folder, origins: dict[str, str], notes: list[str]
) -> Iterator[dict[str, Any]]:
    listed = folder.modules
    kinds = [str(item.get("type", "")).rpartition(".")[2] for item in listed]
    places = [folder.path / str(item.get("path", "")) for item in listed]
    if kinds[1:] not in (["Pooling"], ["Pooling", "Normalize"]):
        notes.append(f"modules.json: no answer says {', '.join(kinds[1:])}")
        return
    config = read_json(places[1] / "config.json") or {}
    modes = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    if len(modes) != 1 or modes[0] not in _POOLS:
        notes.append(f"modules.json: no answer says {', '.join(modes) or 'its pooling'}")
        return
    mask = next((spec.name for spec in model.inputs if spec.meaning == "mask"), None)
    origins["answer (embedding)"] = "modules.json"
    yield {
        "kind": "embedding",
        "output": model.outputs[0].name,
        "pool": _POOLS[modes[0]],
        "mask": mask,
        "normalize": "Normalize" in kinds,
    }
