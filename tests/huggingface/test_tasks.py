"""Small models of several architectures: default task, interface, and torch's own outputs."""

from pathlib import Path
from typing import Any

import pytest

from tests.huggingface.models import save
from tests.huggingface.running import opened

TEXT = ["input_ids", "attention_mask"]
BERT = [*TEXT, "token_type_ids"]
CLIP = {
    "logits_per_image": ("batch", "texts"), "logits_per_text": ("texts", "batch"),
    "text_embeds": ("texts", 16), "image_embeds": ("batch", 16),
}  # fmt: skip
CLIP_INPUTS = ["input_ids", "pixel_values", "attention_mask"]
SCORES, TWO = {"logits": ("batch", 3)}, {"logits": ("batch", 2)}
TOKENS = {"logits": ("batch", "sequence", 99)}


CLASSES, IMAGES = "text-classification", "zero-shot-image-classification"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task", "inputs", "outputs", "sizes"), [
    ("bert-classes", CLASSES, BERT, SCORES, {"sequence": 5}),
    ("gpt2", "text-generation", TEXT, TOKENS, {"sequence": 128}),
    ("roberta", CLASSES, TEXT, TWO, {"sequence": 126}),  # positions from the padding's, 1, on
    ("clip", IMAGES, CLIP_INPUTS, CLIP, {"sequence": 16, "texts": 2}),
    ("resnet", "image-classification", ["pixel_values"], SCORES, {}),
])  # fmt: skip
def test_a_default_task(name: str, task: str, inputs: list[str], outputs: Any,
                        sizes: dict[str, int], tmp_path: Path) -> None:  # fmt: skip
    with opened(save(name, tmp_path / name), tmp_path) as found:
        assert found.model.source["task"] == task
        assert [spec.name for spec in found.model.inputs] == inputs
        assert {spec.name: spec.shape for spec in found.model.outputs} == outputs
        found.compare({"batch": 3, **sizes})
        found.compare({"batch": 1, **sizes, **({"sequence": 1} if "sequence" in sizes else {})})
        named = ("cat", "dog", "cow") if outputs == SCORES else None
        assert found.model.outputs[0].labels == named
        said = "\n".join(found.warnings)
        if (size := sizes.get("sequence", 0)) > 100:
            assert found.model.source["sizes"]["sequence"] == size
            assert f"sequence is free: samples that are made up have {size}" in said
        cache = "WITHOUT ITS CACHE: the decoder has no past_key_values"
        assert (cache in said) == (name == "gpt2")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "longest"), [("roberta", 16), ("bart", 18)])
def test_a_short_table_of_positions(name: str, longest: int, tmp_path: Path) -> None:
    """Of 18, of which RoBERTa leaves the padding's and those before it out."""
    with opened(save(name, tmp_path / name, max_position_embeddings=18), tmp_path) as found:
        assert found.model.source["sizes"]["sequence"] == longest
        for size in (1, 5, longest):
            found.compare({"batch": 2, "sequence": size})


@pytest.mark.slow
def test_a_recording_of_any_length(tmp_path: Path) -> None:
    with opened(save("wav2vec2", tmp_path / "speech"), tmp_path) as found:
        assert found.model.source["task"] == "automatic-speech-recognition"
        assert [spec.shape for spec in found.model.inputs] == [("batch", "samples")]
        assert found.compare({"batch": 2, "samples": 1600})["logits"].shape == (2, 50, 99)
        found.compare({"batch": 1, "samples": 3200})


@pytest.mark.slow
def test_inputs_are_renamed_and_fixed(tmp_path: Path) -> None:
    folder = save("bert-classes", tmp_path / "bert")
    inputs = ["ids:batchx16", "mask:batchx16", "types:batchx16"]
    with opened(folder, tmp_path, inputs=inputs, outputs=["scores"]) as found:
        shapes = {spec.name: (spec.dtype, spec.shape) for spec in found.model.inputs}
        assert shapes == dict.fromkeys(("ids", "mask", "types"), ("int64", ("batch", 16)))
        assert [spec.name for spec in found.model.outputs] == ["scores"]
        assert found.model.inputs[0].value_range == (0, 98)
        found.compare({"batch": 3})
