"""Small models, one for each common Keras layer; runs in the child that has Keras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
from keras import layers

Tensor = Any
IMAGE, SEQUENCE, FREE, VOLUME, VECTOR = (9, 8, 3), (7, 4), (None, 4), (6, 5, 6, 2), (6,)
ACTIVATIONS = (
    *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus"),
    *("softsign", "tanh", "sigmoid", "hard_sigmoid", "hard_silu", "hard_tanh", "exponential"),
    *("softmax", "log_softmax", "log_sigmoid", "linear", "glu", "squareplus", "sparsemax"),
    *("tanh_shrink", "soft_shrink", "hard_shrink", "sparse_plus", "sparse_sigmoid", "threshold"),
)


@dataclass(frozen=True)
class Case:
    """Inputs (shape without the batch, dtype) and what makes the outputs of them."""

    make: Callable[..., Any]
    inputs: Sequence[tuple[tuple[int | None, ...], str]]


def _one(layer: Callable[[], Any], shape: tuple[int | None, ...], dtype: str = "float32") -> Case:
    return Case(lambda x: layer()(x), [(shape, dtype)])


def _two(layer: Callable[[], Any], first: Any, second: Any) -> Case:
    return Case(lambda *x: layer()(list(x)), [(first, "float32"), (second, "float32")])


def _activation(name: str) -> Callable[[], Any]:
    if name == "threshold":
        return lambda: layers.Activation("threshold") if False else layers.ReLU(threshold=0.3)
    return partial(layers.Activation, name)


def _cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for part in (_convolutions, _pooling, _activations, _norms, _recurrent, _attention):
        found.update(part())
    for part in (_shapes, _merges, _preprocessing, _random):
        found.update(part())
    return found


def _convolutions() -> dict[str, Case]:
    return {
        "dense": _one(lambda: layers.Dense(5), VECTOR),
        "dense_3d": _one(lambda: layers.Dense(5, activation="relu"), SEQUENCE),
        "conv1d": _one(lambda: layers.Conv1D(5, 3, strides=2, padding="same"), SEQUENCE),
        "conv1d_causal": _one(lambda: layers.Conv1D(5, 3, padding="causal"), FREE),
        "conv2d": _one(lambda: layers.Conv2D(5, 3, strides=2, padding="same"), IMAGE),
        "conv2d_valid": _one(lambda: layers.Conv2D(5, (3, 2)), IMAGE),
        "conv2d_free": _one(lambda: layers.Conv2D(5, 3, padding="same"), (None, None, 3)),
        "conv2d_dilated": _one(lambda: layers.Conv2D(5, 3, dilation_rate=2), IMAGE),
        "conv2d_groups": _one(lambda: layers.Conv2D(6, 3, groups=3), IMAGE),
        "conv3d": _one(lambda: layers.Conv3D(3, 3, padding="same", strides=2), VOLUME),
        "depthwise1d": _one(lambda: layers.DepthwiseConv1D(3, depth_multiplier=2), SEQUENCE),
        "depthwise2d": _one(
            lambda: layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"), IMAGE
        ),
        "separable1d": _one(lambda: layers.SeparableConv1D(5, 3), SEQUENCE),
        "separable2d": _one(lambda: layers.SeparableConv2D(5, 3, padding="same"), IMAGE),
        "transposed1d": _one(lambda: layers.Conv1DTranspose(5, 3, strides=2), SEQUENCE),
        "transposed2d": _one(
            lambda: layers.Conv2DTranspose(5, 3, strides=2, padding="same"), IMAGE
        ),
        "transposed2d_valid": _one(lambda: layers.Conv2DTranspose(5, 3, strides=2), IMAGE),
        "transposed3d": _one(lambda: layers.Conv3DTranspose(2, 3, strides=2), VOLUME),
        "embedding": _one(lambda: layers.Embedding(20, 4), (7,), "int32"),
        "einsum_dense": _one(
            lambda: layers.EinsumDense("abc,cd->abd", (None, 5), bias_axes="d"), SEQUENCE
        ),
        "einsum_heads": _one(lambda: layers.EinsumDense("abc,cde->abde", (None, 2, 3)), SEQUENCE),
        "spectral": _one(lambda: layers.SpectralNormalization(layers.Dense(5)), VECTOR),
    }


def _pooling() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for kind in ("Max", "Average"):
        for rank, shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME)):
            pool = getattr(layers, f"{kind}Pooling{rank}D")
            whole = getattr(layers, f"Global{kind}Pooling{rank}D")
            key = f"{kind.lower()}_pool{rank}d"
            found[key] = _one(partial(pool, 2), shape)
            found[f"{key}_same"] = _one(partial(pool, 3, strides=2, padding="same"), shape)
            found[f"global_{key}"] = _one(whole, shape)
            found[f"global_{key}_kept"] = _one(partial(whole, keepdims=True), shape)
    found["adaptive_average"] = _one(lambda: layers.AdaptiveAveragePooling2D((3, 2)), IMAGE)
    found["adaptive_max"] = _one(lambda: layers.AdaptiveMaxPooling2D((3, 2)), IMAGE)
    return found


def _activations() -> dict[str, Case]:
    found = {f"act_{name}": _one(_activation(name), SEQUENCE) for name in ACTIVATIONS}
    found["act_gelu_tanh"] = Case(
        lambda x: keras.ops.gelu(x, approximate=True), [(SEQUENCE, "float32")]
    )
    found["prelu"] = _one(lambda: layers.PReLU(shared_axes=[1, 2]), IMAGE)
    found["leaky_relu"] = _one(lambda: layers.LeakyReLU(0.2), SEQUENCE)
    found["elu"] = _one(lambda: layers.ELU(0.7), SEQUENCE)
    found["relu_all"] = _one(lambda: layers.ReLU(2.0, 0.1, 0.2), SEQUENCE)
    found["softmax_axis"] = _one(lambda: layers.Softmax(axis=1), SEQUENCE)
    found["erf"] = Case(keras.ops.erf, [(SEQUENCE, "float32")])
    return found


def _norms() -> dict[str, Case]:
    return {
        "batch_norm": _one(layers.BatchNormalization, IMAGE),
        "batch_norm_1d": _one(layers.BatchNormalization, SEQUENCE),
        "batch_norm_axis": _one(lambda: layers.BatchNormalization(axis=1), IMAGE),
        "layer_norm": _one(layers.LayerNormalization, SEQUENCE),
        "layer_norm_axes": _one(lambda: layers.LayerNormalization(axis=[1, 2]), IMAGE),
        "group_norm": _one(lambda: layers.GroupNormalization(3), IMAGE),
        "group_norm_free": _one(lambda: layers.GroupNormalization(3), (None, None, 6)),
        "unit_norm": _one(layers.UnitNormalization, SEQUENCE),
        "rms_norm": _one(layers.RMSNormalization, SEQUENCE),
    }


def _recurrent() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        cls, key = getattr(layers, kind), kind.lower()
        found[key] = _one(partial(cls, 5), SEQUENCE)
        found[f"{key}_free"] = _one(partial(cls, 5, return_sequences=True), FREE)
        found[f"{key}_backwards"] = _one(
            partial(cls, 5, go_backwards=True, return_sequences=True), FREE
        )
        found[f"{key}_state"] = _one(partial(cls, 5, return_state=True), SEQUENCE)
        found[f"{key}_both"] = _one(partial(cls, 5, return_state=True, return_sequences=True), FREE)
        found[f"{key}_relu"] = _one(partial(cls, 5, activation="relu"), SEQUENCE)
        found[f"{key}_no_bias"] = _one(partial(cls, 5, use_bias=False), SEQUENCE)
        found[f"{key}_unrolled"] = _one(partial(cls, 5, unroll=True), SEQUENCE)
        found[f"{key}_bidirectional"] = Case(
            lambda x, cls=cls: layers.Bidirectional(cls(5, return_sequences=True))(x),
            [(FREE, "float32")],
        )
        found[f"{key}_bidirectional_sum"] = Case(
            lambda x, cls=cls: layers.Bidirectional(cls(5), merge_mode="sum")(x),
            [(SEQUENCE, "float32")],
        )
        found[f"{key}_masked"] = Case(
            lambda x, cls=cls: cls(5, return_sequences=True)(
                layers.Embedding(9, 4, mask_zero=True)(x)
            ),
            [((7,), "int32")],
        )
        found[f"{key}_masked_last"] = Case(
            lambda x, cls=cls: cls(5)(layers.Embedding(9, 4, mask_zero=True)(x)),
            [((None,), "int32")],
        )
        found[f"{key}_initial"] = Case(_with_state(cls, 2 if kind == "LSTM" else 1), _STATES[kind])
        found[f"{key}_stacked"] = Case(
            lambda x, cls=cls: cls(4)(cls(5, return_sequences=True)(x)), [(FREE, "float32")]
        )
    found["lstm_sigmoid_hard"] = _one(
        lambda: layers.LSTM(5, recurrent_activation="hard_sigmoid"), SEQUENCE
    )
    found["gru_reset_before"] = _one(lambda: layers.GRU(5, reset_after=False), SEQUENCE)
    found["conv_lstm1d"] = _one(lambda: layers.ConvLSTM1D(3, 3, padding="same"), (4, 6, 2))
    found["conv_lstm2d"] = _one(
        lambda: layers.ConvLSTM2D(3, 3, padding="same", return_sequences=True), (4, 6, 5, 2)
    )
    found["stacked_cells"] = _one(
        lambda: layers.RNN([layers.LSTMCell(4), layers.GRUCell(3)]), SEQUENCE
    )
    found["time_distributed"] = _one(
        lambda: layers.TimeDistributed(layers.Conv2D(3, 3)), (4, 6, 5, 2)
    )
    found["time_distributed_free"] = _one(lambda: layers.TimeDistributed(layers.Dense(3)), FREE)
    found["masking"] = Case(
        lambda x: layers.LSTM(3)(layers.Masking(0.0)(x)), [(SEQUENCE, "float32")]
    )
    return found


_STATES: dict[str, Sequence[tuple[tuple[int | None, ...], str]]] = {
    "LSTM": [(SEQUENCE, "float32"), ((5,), "float32"), ((5,), "float32")],
    "GRU": [(SEQUENCE, "float32"), ((5,), "float32")],
    "SimpleRNN": [(SEQUENCE, "float32"), ((5,), "float32")],
}


def _with_state(cls: Any, states: int) -> Callable[..., Any]:
    def make(x: Tensor, *state: Tensor) -> Any:
        return cls(5, return_sequences=True)(x, initial_state=list(state)[:states])

    return make


def _attention() -> dict[str, Case]:
    pair = [(SEQUENCE, "float32"), ((5, 4), "float32")]
    return {
        "self_attention": Case(
            lambda x: layers.MultiHeadAttention(2, 3)(x, x), [(SEQUENCE, "float32")]
        ),
        "self_attention_free": Case(
            lambda x: layers.MultiHeadAttention(2, 3)(x, x), [(FREE, "float32")]
        ),
        "cross_attention": Case(lambda q, v: layers.MultiHeadAttention(2, 3)(q, v), pair),
        "causal_attention": Case(
            lambda x: layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True),
            [(FREE, "float32")],
        ),
        "masked_attention": Case(_masked_attention, [((7,), "int32")]),
        "grouped_attention": Case(
            lambda x: layers.GroupQueryAttention(3, 4, 2)(x, x), [(SEQUENCE, "float32")]
        ),
        "dot_attention": Case(lambda q, v: layers.Attention()([q, v]), pair),
        "dot_attention_scaled": Case(lambda q, v: layers.Attention(use_scale=True)([q, v]), pair),
        "additive_attention": Case(lambda q, v: layers.AdditiveAttention()([q, v]), pair),
    }


def _masked_attention(x: Tensor) -> Any:
    embedded = layers.Embedding(9, 4, mask_zero=True)(x)
    return layers.MultiHeadAttention(2, 3)(embedded, embedded)


def _shapes() -> dict[str, Case]:
    return {
        "cropping1d": _one(lambda: layers.Cropping1D((1, 2)), SEQUENCE),
        "cropping2d": _one(lambda: layers.Cropping2D(((1, 2), (0, 3))), IMAGE),
        "cropping3d": _one(lambda: layers.Cropping3D(1), VOLUME),
        "padding1d": _one(lambda: layers.ZeroPadding1D((1, 2)), SEQUENCE),
        "padding2d": _one(lambda: layers.ZeroPadding2D(((1, 2), (0, 3))), IMAGE),
        "padding3d": _one(lambda: layers.ZeroPadding3D(1), VOLUME),
        "upsampling1d": _one(lambda: layers.UpSampling1D(3), SEQUENCE),
        "upsampling2d": _one(lambda: layers.UpSampling2D((2, 3)), IMAGE),
        "upsampling2d_bilinear": _one(
            lambda: layers.UpSampling2D(2, interpolation="bilinear"), IMAGE
        ),
        "upsampling2d_bicubic": _one(
            lambda: layers.UpSampling2D(2, interpolation="bicubic"), IMAGE
        ),
        "upsampling2d_free": _one(
            lambda: layers.UpSampling2D(2, interpolation="bilinear"), (None, None, 3)
        ),
        "upsampling3d": _one(lambda: layers.UpSampling3D(2), VOLUME),
        "permute": _one(lambda: layers.Permute((3, 1, 2)), IMAGE),
        "repeat": _one(lambda: layers.RepeatVector(3), VECTOR),
        "flatten": _one(layers.Flatten, IMAGE),
        "reshape": _one(lambda: layers.Reshape((-1, 4)), IMAGE),
        "identity": _one(layers.Identity, IMAGE),
    }


def _merges() -> dict[str, Case]:
    names = ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")
    found = {f"merge_{n.lower()}": _two(getattr(layers, n), SEQUENCE, SEQUENCE) for n in names}
    found["merge_broadcast"] = _two(layers.Add, SEQUENCE, (1, 4))
    found["concatenate_axis"] = _two(partial(layers.Concatenate, axis=1), SEQUENCE, (3, 4))
    found["dot"] = _two(partial(layers.Dot, axes=2), SEQUENCE, (5, 4))
    found["dot_normalized"] = _two(partial(layers.Dot, axes=1, normalize=True), (4,), (4,))
    return found


def _preprocessing() -> dict[str, Case]:
    return {
        "rescaling": _one(lambda: layers.Rescaling(1 / 127.5, -1.0), IMAGE),
        "rescaling_uint8": _one(lambda: layers.Rescaling(1 / 127.5, -1.0), IMAGE, "uint8"),
        "normalization": _one(
            lambda: layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 3.0]), IMAGE
        ),
        "resizing": _one(lambda: layers.Resizing(6, 11), IMAGE),
        "resizing_nearest": _one(lambda: layers.Resizing(6, 11, interpolation="nearest"), IMAGE),
        "resizing_bicubic": _one(lambda: layers.Resizing(14, 11, interpolation="bicubic"), IMAGE),
        "resizing_antialias": _one(lambda: layers.Resizing(4, 4, antialias=True), IMAGE),
        "resizing_lanczos": _one(lambda: layers.Resizing(6, 11, interpolation="lanczos3"), IMAGE),
        "resizing_area": _one(lambda: layers.Resizing(3, 4, interpolation="area"), IMAGE),
        "resizing_crop": _one(lambda: layers.Resizing(6, 6, crop_to_aspect_ratio=True), IMAGE),
        "resizing_pad": _one(lambda: layers.Resizing(6, 6, pad_to_aspect_ratio=True), IMAGE),
        "resizing_free": _one(lambda: layers.Resizing(6, 11), (None, None, 3)),
        "center_crop": _one(lambda: layers.CenterCrop(4, 5), IMAGE),
        "center_crop_grow": _one(lambda: layers.CenterCrop(12, 5), IMAGE),
        "discretization": _one(lambda: layers.Discretization([-1.0, 0.0, 0.5, 2.0]), VECTOR),
        "category_one_hot": _one(
            lambda: layers.CategoryEncoding(9, output_mode="one_hot"), (1,), "int32"
        ),
        "category_multi_hot": _one(
            lambda: layers.CategoryEncoding(9, output_mode="multi_hot"), (4,), "int32"
        ),
        "category_count": _one(
            lambda: layers.CategoryEncoding(9, output_mode="count"), (4,), "int32"
        ),
        "mel_spectrogram": _one(
            lambda: layers.MelSpectrogram(num_mel_bins=8, sequence_stride=32, fft_length=64), (256,)
        ),
        "stft_spectrogram": _one(
            lambda: layers.STFTSpectrogram(
                frame_length=32, frame_step=16, fft_length=32, window=None
            ),
            (256, 1),
        ),
    }


def _random() -> dict[str, Case]:
    made = {
        "dropout": lambda: layers.Dropout(0.5),
        "spatial_dropout": lambda: layers.SpatialDropout2D(0.5),
        "alpha_dropout": lambda: layers.AlphaDropout(0.5),
        "gaussian_noise": lambda: layers.GaussianNoise(0.5),
        "gaussian_dropout": lambda: layers.GaussianDropout(0.5),
        "random_flip": layers.RandomFlip,
        "random_rotation": lambda: layers.RandomRotation(0.2),
        "random_zoom": lambda: layers.RandomZoom(0.2),
        "random_translation": lambda: layers.RandomTranslation(0.2, 0.2),
        "random_brightness": lambda: layers.RandomBrightness(0.2),
        "random_contrast": lambda: layers.RandomContrast(0.2),
        "random_crop": lambda: layers.RandomCrop(6, 5),
        "random_shear": lambda: layers.RandomShear(0.2, 0.2),
        "random_grayscale": layers.RandomGrayscale,
        "random_hue": lambda: layers.RandomHue(0.2),
        "random_sharpness": lambda: layers.RandomSharpness(0.2),
        "random_color_jitter": layers.RandomColorJitter,
        "random_erasing": layers.RandomErasing,
    }
    return {name: _one(layer, IMAGE) for name, layer in made.items()}


CASES = _cases()
