"""What a folder's files say of sounds and answers, held against transformers' own processors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from PIL import Image

import modelyard
from tests.huggingface.models import save
from tests.huggingface.test_sentence import sentence_folder
from tests.huggingface.test_texts import with_tokenizer
from tests.serving.test_files_package import asked
from zoo import catalogue

NAMES = {"id2label": {0: "bark", 1: "purr"}, "label2id": {"bark": 0, "purr": 1}}


def notes_of(folder: Path) -> str:
    return "\n".join(json.loads((folder / "manifest.json").read_text())["declared"]["notes"])


def test_a_sound_becomes_a_text(tmp_path: Path) -> None:
    """Wav2Vec2's extractor and its tokenizer for CTC."""
    import transformers

    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ"]
    folder = save("wav2vec2", tmp_path / "net", vocab_size=len(letters), pad_token_id=0)
    (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(letters)}))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(folder / "vocab.json")
    tokenizer.save_pretrained(folder)
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000, do_normalize=True)
    extractor.save_pretrained(folder)
    wave = np.random.default_rng(0).standard_normal((8000, 2)).astype(np.float32) / 8
    (tmp_path / "sounds").mkdir()
    soundfile.write(tmp_path / "sounds/a.wav", wave, 8000, subtype="FLOAT")
    made = modelyard.convert(folder, out=tmp_path / "out", bench=False, samples=tmp_path / "sounds")
    assert made.report is not None and made.report.samples.count == 1  # type: ignore[union-attr]
    mono = soxr.resample(wave.mean(axis=1), 8000, 16000, quality="HQ")
    fed = extractor(mono, sampling_rate=16000, return_tensors="np")["input_values"]
    with modelyard.load(tmp_path / "out") as net:
        answer = net(tmp_path / "sounds/a.wav")
        logits = next(iter(net(fed.astype(np.float32)).values()))
        np.testing.assert_allclose(next(iter(answer.values())), logits, atol=1e-4)
    right = tokenizer.batch_decode(logits.argmax(axis=-1))[0]
    assert answer.text.strip() == right and len(right) > 3
    told = notes_of(tmp_path / "out")
    assert "prepare (sound): from preprocessor_config.json" in told
    assert "answer (text): from vocab.json" in told


def test_a_detector_s_boxes(tmp_path: Path) -> None:
    """YOLOS: boxes in the picture's pixels, as its own processor makes them."""
    import torch
    import transformers

    names = {0: "cat", 1: "dog", 2: "cow"}
    config = transformers.YolosConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=37,
        image_size=[48, 64], patch_size=16, num_detection_tokens=12, id2label=names,
        label2id={v: k for k, v in names.items()})  # fmt: skip
    torch.manual_seed(0)
    model = transformers.YolosForObjectDetection(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        model.class_labels_classifier.layers[-1].bias[-1] -= 9  # seldom nothing
    model.save_pretrained(tmp_path / "net")
    processor = transformers.YolosImageProcessor(size={"height": 48, "width": 64})
    processor.save_pretrained(tmp_path / "net")
    pixels = np.random.default_rng(0).integers(0, 256, (90, 130, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    modelyard.convert(tmp_path / "net", out=tmp_path / "out", bench=False,
                      answer={"kind": "boxes", "threshold": 0.3})  # fmt: skip
    with modelyard.load(tmp_path / "out") as net:
        answer = net(tmp_path / "a.png")
    outputs = transformers.models.yolos.modeling_yolos.YolosObjectDetectionOutput(
        logits=torch.from_numpy(np.array(answer["logits"])),
        pred_boxes=torch.from_numpy(np.array(answer["pred_boxes"])),
    )
    (right,) = processor.post_process_object_detection(outputs, 0.3, [(90, 130)])
    order = np.argsort(-right["scores"].numpy(), kind="stable")
    assert len(answer.boxes) == len(order) > 2
    for found, i in zip(answer.boxes, order, strict=True):
        assert found["label"] == names[int(right["labels"][i])]
        assert found["score"] == pytest.approx(float(right["scores"][i]), abs=1e-5)
        wanted = np.clip(right["boxes"][i].numpy(), 0, [130, 90, 130, 90])
        np.testing.assert_allclose(found["box"], wanted, atol=0.02)
    told = notes_of(tmp_path / "out")
    assert "threshold is 0.3 as written, and 0.5 without that" in told
    assert "prepare (picture): from preprocessor_config.json" in told


@pytest.mark.slow
def test_a_value_of_a_text(tmp_path: Path) -> None:
    folder = save("bert-classes", tmp_path / "net", id2label={0: "stars"}, label2id={"stars": 0},
                  problem_type="regression")  # fmt: skip
    modelyard.convert(with_tokenizer(folder), out=tmp_path / "out", bench=False)
    with modelyard.load(tmp_path / "out") as net:
        answer = net("the cat sees")
        value = float(next(iter(answer.values()))[0, 0])
    assert answer.told == {"numbers": {"stars": pytest.approx(value)}}
    told = notes_of(tmp_path / "out")
    assert "answer (numbers): from config.json" in told
    assert "prepare (text): from tokenizer.json" in told


@pytest.mark.slow
def test_whisper_s_bands(tmp_path: Path) -> None:
    """A sound's logarithms of mel bands, of 30 seconds."""
    import torch
    import transformers

    config = transformers.WhisperConfig(
        d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, vocab_size=99,
        pad_token_id=0, classifier_proj_size=8, **NAMES)  # fmt: skip
    torch.manual_seed(0)
    model = transformers.WhisperForAudioClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(tmp_path / "net")
    extractor = transformers.WhisperFeatureExtractor()
    extractor.save_pretrained(tmp_path / "net")
    wave = np.random.default_rng(0).standard_normal(16000).astype(np.float32) / 8
    soundfile.write(tmp_path / "a.wav", wave, 16000, subtype="FLOAT")
    modelyard.convert(tmp_path / "net", samples=tmp_path / "a.wav", bench=False, check=False,
                      out=tmp_path / "out")  # fmt: skip
    fed = extractor(wave, sampling_rate=16000, return_tensors="np")["input_features"]
    with modelyard.load(tmp_path / "out") as net:
        right, found = net(fed), net(tmp_path / "a.wav")
        still = net(np.zeros_like(fed))
    for name, array in right.items():
        np.testing.assert_allclose(found[name], array, atol=1e-4)
        assert np.abs(still[name] - array).max() > 1e-3  # which it would tell
    assert found.label in ("bark", "purr")
    assert "prepare (sound): from preprocessor_config.json" in notes_of(tmp_path / "out")


@pytest.mark.slow
def test_masks_have_the_config_s_names(tmp_path: Path) -> None:
    import transformers

    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16],
        patch_sizes=[3, 3], strides=[2, 2], num_attention_heads=[1, 1], mlp_ratios=[2, 2],
        decoder_hidden_size=16, image_size=32, id2label={0: "road", 1: "sky"},
        label2id={"road": 0, "sky": 1})  # fmt: skip
    transformers.SegformerForSemanticSegmentation(config).save_pretrained(tmp_path / "net")
    processor = transformers.SegformerImageProcessor(size={"height": 32, "width": 32})
    processor.save_pretrained(tmp_path / "net")
    Image.new("RGB", (50, 40), (200, 100, 50)).save(tmp_path / "a.png")
    modelyard.convert(tmp_path / "net", out=tmp_path / "out", bench=False)
    with modelyard.load(tmp_path / "out") as net:
        told = net(tmp_path / "a.png").told
    assert (told["masks"]["width"], told["masks"]["height"]) == (50, 40)
    assert {item["label"] for item in told["masks"]["classes"]} <= {"road", "sky"}
    assert "answer (masks): from config.json" in notes_of(tmp_path / "out")


@pytest.mark.slow
def test_what_no_sound_says_is_told(tmp_path: Path) -> None:
    """A sentence's model has no sound, a spectrogram's is named."""
    import transformers

    config = transformers.ASTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=37,
        max_length=64, num_mel_bins=16, **NAMES)  # fmt: skip
    transformers.ASTForAudioClassification(config).save_pretrained(tmp_path / "net")
    (tmp_path / "net/preprocessor_config.json").write_text(
        json.dumps({"feature_extractor_type": "ASTFeatureExtractor", "num_mel_bins": 16})
    )
    modelyard.convert(tmp_path / "net", out=tmp_path / "out", bench=False)
    assert "a spectrogram (ASTFeatureExtractor)" in notes_of(tmp_path / "out")


def mean_of_tokens(folder: Path, texts: list[str]) -> np.ndarray:
    """What transformers makes of texts: the mean of their tokens' vectors, of length 1."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in texts:
        with torch.no_grad():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state
        rows.append(torch.nn.functional.normalize(hidden.mean(1), dim=1)[0].numpy())
    return np.array(rows)


@pytest.mark.slow
def test_minilm_takes_sentences(tmp_path: Path) -> None:
    """Pooled and brought to length 1 in the graph, as the folder's modules.json says."""
    folder = catalogue.fetch_model("minilm", offline=True)["model"]
    modelyard.convert(
        folder, bench=False, name="minilm", prepare="server", serve="litserve", out=tmp_path / "out"
    )
    texts = ["The cat sleeps on the warm roof.", "A feline dozes.", "Trains leave every hour."]
    with modelyard.load(tmp_path / "out") as net:
        found = [answer.told["embedding"] for answer in net(texts)]
        assert net(texts[0]).told["embedding"] == pytest.approx(found[0], abs=1e-5)
    package = tmp_path / "out/serving/litserve/minilm"
    [(_, said)] = asked(package, (json.dumps([{"text": t} for t in texts]), "application/json"))
    served = [answer["embedding"] for answer in said["answers"]]
    np.testing.assert_allclose(served, found, atol=1e-4)
    np.testing.assert_allclose(found, mean_of_tokens(folder, texts), atol=1e-5)
    assert np.dot(found[0], found[1]) > np.dot(found[0], found[2])
    assert "answer (embedding): from modules.json" in notes_of(tmp_path / "out")


@pytest.mark.slow
def test_tokens_are_pooled_as_modules_json_says(tmp_path: Path) -> None:
    """For who asks for the tokens' own vectors."""
    folder = sentence_folder(tmp_path / "net", {"pooling_mode_mean_tokens": True}, "Normalize")
    with_tokenizer(folder)
    modelyard.convert(folder, task="feature-extraction", bench=False, out=tmp_path / "out")
    texts = ["the cat sees", "a cow, the dog"]
    with modelyard.load(tmp_path / "out") as net:
        found = [answer.told["embedding"] for answer in net(texts)]
    np.testing.assert_allclose(found, mean_of_tokens(folder, texts), atol=1e-5)
