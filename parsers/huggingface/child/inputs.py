"""The inputs of a transformers model: names, dtypes, shapes, and what values they take.

From forward's parameters, the config, and the preprocessor's or tokenizer's own file. A size
that none of them says is asked for, not guessed.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from ...worker.errors import WorkerError

Dim = Union[int, str]

# A tokenizer whose longest text is not said has one of 1e30.
UNSAID = 1_000_000

# Sizes that samples have where nobody says which, if the model takes so much.
TOKENS, CHOICES, TEXTS = 128, 4, 2
SECONDS = 1

# What a trace is made with: shorter than any table of positions, longer than any convolution.
_TRACED_TOKENS, _TRACED_SAMPLES = 64, 16_000

# The config's names for the sizes of tables of positions.
_POSITIONS = (
    "max_position_embeddings",
    "n_positions",
    "max_encoder_position_embeddings",
    "max_decoder_position_embeddings",
    "max_text_positions",
)

# Parameters of forward that are no tensors of the model's interface.
_OPTIONS = {
    "labels",
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "use_cache",
    "past_key_values",
    "return_loss",
    "start_positions",
    "end_positions",
    "next_sentence_label",
    "sentence_order_label",
    "logits_to_keep",
    "interpolate_pos_encoding",
    "kwargs",
    "args",
    "self",
}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of the folder; empty where the file is not there. Raises source."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise WorkerError(
            "source", f"{path.name} isn't JSON: {error}", code="model-damaged"
        ) from error
    return value if isinstance(value, dict) else {}


def parameters(model: Any) -> list[str]:
    """The parameters of a model's forward that could be inputs, in order."""
    found = inspect.signature(model.forward).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in found if p.kind not in kinds and p.name not in _OPTIONS]


def _input(
    name: str,
    dtype: str,
    shape: Sequence[Dim],
    meaning: str,
    top: int | None = None,
    layout: str | None = None,
) -> dict[str, Any]:
    described: dict[str, Any] = {"meaning": meaning}
    if top is not None:
        described["value_range"] = [0, top]
    if layout:
        described["layout"] = layout
    return {"name": name, "dtype": dtype, "shape": list(shape), "described": described}


class Inputs:
    """What a model takes.

    `preprocessor` holds the image processor's or feature extractor's settings.

    Args:
        model: The transformers model.
        task: The task's name.
        folder: Where the preprocessor's and tokenizer's files are.
    """

    def __init__(self, model: Any, task: str, folder: Path) -> None:
        self._config = model.config
        self._left_out = _before_the_first(model)
        self._main = model.main_input_name
        self._task = task
        self._takes = parameters(model)
        self._folder = folder
        self.preprocessor = read_json(folder / "preprocessor_config.json")
        if not self.preprocessor:
            processor = read_json(folder / "processor_config.json")
            inner = processor.get("image_processor") or processor.get("feature_extractor")
            self.preprocessor = inner if isinstance(inner, dict) else {}

    def declared(self) -> list[dict[str, Any]]:
        """{name, dtype, shape, described} of each, in the order of forward's parameters.

        Raises usage where a size is nowhere said.
        """
        found: list[dict[str, Any]] = []
        both = self._task == "zero-shot-image-classification"
        if both or self._main == "input_ids":
            found += self._text("texts" if both else "batch")
        if both or self._main == "pixel_values":
            found.append(self._image())
        if self._main in ("input_values", "input_features"):
            found += self._audio()
        if not found:
            raise WorkerError(
                "unsupported",
                f"{type(self._config).__name__}: Modelyard doesn't know the shape of its "
                f"main input, {self._main}",
            )
        order = {name: index for index, name in enumerate(self._takes)}
        return sorted(found, key=lambda item: order.get(item["name"], len(order)))

    def sizes(self) -> dict[str, int]:
        """A size for each free dimension but the batch, for samples where nobody gives one."""
        rate = _number(self.preprocessor.get("sampling_rate") or 16000)
        return {
            "sequence": min(TOKENS, self._longest()),
            "choices": CHOICES,
            "texts": TEXTS,
            "samples": SECONDS * rate,
        }

    def traced(self) -> dict[str, int]:
        """A size for tracing of each free dimension but the batch.

        Less than there are positions: at their number a trace would take the whole table, and that
        length for a constant.
        """
        return {
            "sequence": max(2, min(_TRACED_TOKENS, self._longest() // 2)),
            "choices": CHOICES,
            "texts": TEXTS + 1,  # not the batch's
            "samples": min(_TRACED_SAMPLES, self.sizes()["samples"]),
        }

    def texts(self) -> dict[str, Any]:
        """What a text is cut to, None where nothing says; and the padding's number, None where
        there is none or it stands before the text."""
        import transformers

        longest, said = self._longest(), read_json(self._folder / "tokenizer_config.json")
        pad = getattr(self._config.get_text_config(), "pad_token_id", None)
        kind = getattr(transformers, str(said.get("tokenizer_class")), None)
        side = said.get("padding_side") or getattr(kind, "padding_side", "right")
        known = isinstance(pad, int) and pad >= 0 and side == "right"
        return {"longest": longest if longest < UNSAID else None, "pad": pad if known else None}

    def _longest(self) -> int:
        """The longest text: the tokenizer's, else as many positions as the model has for it."""
        said = read_json(self._folder / "tokenizer_config.json").get("model_max_length") or UNSAID
        return min(self.positions(), _number(said))

    def positions(self) -> int:
        """How many tokens of a text have a place in the model's table; many where it has none."""
        configs = (self._config, self._config.get_text_config())
        sizes = [getattr(config, name, None) for config in configs for name in _POSITIONS]
        tables = [_number(size) for size in sizes if size]  # -1: as many as asked for (XLNet)
        positions = min(size for size in (*tables, UNSAID) if size > 0)
        return positions - self._left_out if positions > self._left_out + 1 else positions

    # -- text ------------------------------------------------------------------------

    def _text(self, batch: str) -> list[dict[str, Any]]:
        text = self._config.get_text_config()
        shape = [batch, "sequence"]
        if self._task == "multiple-choice":
            shape = [batch, "choices", "sequence"]
        found = [_input("input_ids", "int64", shape, "tokens", text.vocab_size - 1)]
        if "attention_mask" in self._takes:
            found.append(_input("attention_mask", "int64", shape, "mask", 1))
        types = self._token_types(text)
        if types:
            found.append(_input("token_type_ids", "int64", shape, "segments", types - 1))
        return found

    def _token_types(self, text: Any) -> int:
        """How many segments the model tells apart; 0 where its tokenizer gives no such input."""
        named = read_json(self._folder / "tokenizer_config.json").get("model_input_names")
        if "token_type_ids" not in self._takes or (
            isinstance(named, list) and "token_type_ids" not in named
        ):
            return 0
        types = _number(getattr(text, "type_vocab_size", 0) or 0)
        return types if types > 1 else 0

    # -- images ----------------------------------------------------------------------

    def _image(self) -> dict[str, Any]:
        vision = getattr(self._config, "vision_config", None) or self._config
        channels = _number(getattr(vision, "num_channels", 3) or 3)
        height, width = self._size(vision)
        shape: list[Dim] = ["batch", channels, height, width]
        return _input("pixel_values", "float32", shape, "image", layout="NCHW")

    def _size(self, vision: Any) -> tuple[int, int]:
        """Height and width: the preprocessor's, else the config's. Raises usage."""
        known = self.preprocessor
        for key, used in (("crop_size", "do_center_crop"), ("size", "do_resize")):
            if known.get(used, key == "size"):
                found = _two(known.get(key))
                if found:
                    return found
        found = _two(getattr(vision, "image_size", None))
        if found:
            return found
        short = known.get("size")
        if isinstance(short, Mapping) and set(short) == {"shortest_edge"}:
            edge = _number(short["shortest_edge"])
            return edge, edge
        raise WorkerError(
            "usage",
            "neither the config nor the preprocessor has the size of images. Give it: "
            "--input pixel_values:batchx3xHEIGHTxWIDTH",
            code="inputs-unknown",
        )

    # -- audio -----------------------------------------------------------------------

    def _audio(self) -> list[dict[str, Any]]:
        config, name = self._config, self._main
        bins = getattr(config, "num_mel_bins", None)
        frames = getattr(config, "max_source_positions", None)
        length = getattr(config, "max_length", None)
        if name == "input_values" and not bins:
            found = [_input(name, "float32", ["batch", "samples"], "audio")]
            masked = self.preprocessor.get("return_attention_mask")
            if masked and "attention_mask" in self._takes:
                found.append(_input("attention_mask", "int64", ["batch", "samples"], "mask", 1))
            return found
        if name == "input_values" and bins and length:
            return [
                _input(name, "float32", ["batch", _number(length), _number(bins)], "spectrogram")
            ]
        if bins and frames:
            # Whisper's two convolutions halve the frames once.
            return [
                _input(
                    name, "float32", ["batch", _number(bins), 2 * _number(frames)], "spectrogram"
                )
            ]
        raise WorkerError(
            "usage",
            f"the config does not say the shape of {name}: give it with --input",
            code="inputs-unknown",
        )


def _before_the_first(model: Any) -> int:
    """How many rows of the table of positions no token of a text has.

    RoBERTa and its like count positions from the padding's number on; their table has a row for it.
    """
    tables = [m for name, m in model.named_modules() if name.endswith("position_embeddings")]
    padding = [index for t in tables if (index := getattr(t, "padding_idx", None)) is not None]
    return max(padding, default=-1) + 1


def _number(said: Any) -> int:
    """A number as the folder's files say it. Raises source."""
    try:
        return int(said)
    except (TypeError, ValueError, OverflowError) as error:
        text = f"its settings have {str(said)[:80]} where a number is expected"
        raise WorkerError("source", text, code="model-damaged") from error


def _two(size: Any) -> tuple[int, int] | None:
    """Height and width, where `size` says both."""
    if isinstance(size, int):
        return size, size
    if isinstance(size, (list, tuple)) and len(size) == 2:
        return _number(size[0]), _number(size[1])
    if isinstance(size, Mapping) and {"height", "width"} <= set(size):
        return _number(size["height"]), _number(size["width"])
    return None
