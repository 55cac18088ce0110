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
    *("tanh_shrink", "soft_shrink", "hard_shrink", "sparse_plus", "sparse_sigmoid"),
)


@dataclass(frozen=True)
class Case:
    """Inputs (shape without the batch, dtype) and what makes the outputs of them."""

    make: Callable[..., Any]
    inputs: Sequence[tuple[tuple[int | None, ...], str]]


def _of(
    dtype: str, shape: tuple[int | None, ...], layer: Callable[..., Any], *args: Any, **more: Any
) -> Case:
    return Case(lambda x: layer(*args, **more)(x), [(shape, dtype)])


_one = partial(_of, "float32")


def _two(layer: Callable[[], Any], first: Any, second: Any) -> Case:
    return Case(lambda *x: layer()(list(x)), [(first, "float32"), (second, "float32")])


def _cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for part in (_convolutions, _pooling, _activations, _norms, _recurrent, _attention):
        found.update(part())
    for part in (_shapes, _merges, _preprocessing, _random):
        found.update(part())
    return found


def _convolutions() -> dict[str, Case]:
    return {
        "dense": _one(VECTOR, layers.Dense, 5),
        "dense_3d": _one(SEQUENCE, layers.Dense, 5, activation="relu"),
        "conv1d": _one(SEQUENCE, layers.Conv1D, 5, 3, strides=2, padding="same"),
        "conv1d_causal": _one(FREE, layers.Conv1D, 5, 3, padding="causal"),
        "conv2d": _one(IMAGE, layers.Conv2D, 5, 3, strides=2, padding="same"),
        "conv2d_valid": _one(IMAGE, layers.Conv2D, 5, (3, 2)),
        "conv2d_free": _one((None, None, 3), layers.Conv2D, 5, 3, padding="same"),
        "conv2d_dilated": _one(IMAGE, layers.Conv2D, 5, 3, dilation_rate=2),
        "conv2d_groups": _one(IMAGE, layers.Conv2D, 6, 3, groups=3),
        "conv3d": _one(VOLUME, layers.Conv3D, 3, 3, padding="same", strides=2),
        "depthwise1d": _one(SEQUENCE, layers.DepthwiseConv1D, 3, depth_multiplier=2),
        "depthwise2d": _one(IMAGE, layers.DepthwiseConv2D, 3, depth_multiplier=2, padding="same"),
        "separable1d": _one(SEQUENCE, layers.SeparableConv1D, 5, 3),
        "separable2d": _one(IMAGE, layers.SeparableConv2D, 5, 3, padding="same"),
        "transposed1d": _one(SEQUENCE, layers.Conv1DTranspose, 5, 3, strides=2),
        "transposed2d": _one(IMAGE, layers.Conv2DTranspose, 5, 3, strides=2, padding="same"),
        "transposed2d_valid": _one(IMAGE, layers.Conv2DTranspose, 5, 3, strides=2),
        "transposed3d": _one(VOLUME, layers.Conv3DTranspose, 2, 3, strides=2),
        "embedding": _of("int32", (7,), layers.Embedding, 20, 4),
        "einsum_dense": _one(SEQUENCE, layers.EinsumDense, "abc,cd->abd", (None, 5), bias_axes="d"),
        "einsum_heads": _one(SEQUENCE, layers.EinsumDense, "abc,cde->abde", (None, 2, 3)),
        "spectral": _one(VECTOR, lambda: layers.SpectralNormalization(layers.Dense(5))),
    }


def _pooling() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for kind in ("Max", "Average"):
        for rank, shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME)):
            pool = getattr(layers, f"{kind}Pooling{rank}D")
            whole = getattr(layers, f"Global{kind}Pooling{rank}D")
            key = f"{kind.lower()}_pool{rank}d"
            found[key] = _one(shape, pool, 2)
            found[f"{key}_same"] = _one(shape, pool, 3, strides=2, padding="same")
            found[f"global_{key}"] = _one(shape, whole)
            found[f"global_{key}_kept"] = _one(shape, whole, keepdims=True)
    found["adaptive_average"] = _one(IMAGE, layers.AdaptiveAveragePooling2D, (3, 2))
    found["adaptive_max"] = _one(IMAGE, layers.AdaptiveMaxPooling2D, (3, 2))
    return found


def _activations() -> dict[str, Case]:
    found = {f"act_{name}": _one(SEQUENCE, layers.Activation, name) for name in ACTIVATIONS}
    found["act_threshold"] = _one(SEQUENCE, layers.ReLU, threshold=0.3)
    found["act_gelu_tanh"] = Case(
        lambda x: keras.ops.gelu(x, approximate=True), [(SEQUENCE, "float32")]
    )
    found["prelu"] = _one(IMAGE, layers.PReLU, shared_axes=[1, 2])
    found["leaky_relu"] = _one(SEQUENCE, layers.LeakyReLU, 0.2)
    found["elu"] = _one(SEQUENCE, layers.ELU, 0.7)
    found["relu_all"] = _one(SEQUENCE, layers.ReLU, 2.0, 0.1, 0.2)
    found["softmax_axis"] = _one(SEQUENCE, layers.Softmax, axis=1)
    found["erf"] = Case(keras.ops.erf, [(SEQUENCE, "float32")])
    return found


def _norms() -> dict[str, Case]:
    return {
        "batch_norm": _one(IMAGE, layers.BatchNormalization),
        "batch_norm_1d": _one(SEQUENCE, layers.BatchNormalization),
        "batch_norm_axis": _one(IMAGE, layers.BatchNormalization, axis=1),
        "layer_norm": _one(SEQUENCE, layers.LayerNormalization),
        "layer_norm_axes": _one(IMAGE, layers.LayerNormalization, axis=[1, 2]),
        "group_norm": _one(IMAGE, layers.GroupNormalization, 3),
        "group_norm_free": _one((None, None, 6), layers.GroupNormalization, 3),
        "unit_norm": _one(SEQUENCE, layers.UnitNormalization),
        "rms_norm": _one(SEQUENCE, layers.RMSNormalization),
    }


def _recurrent() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        cls, key = getattr(layers, kind), kind.lower()
        found[key] = _one(SEQUENCE, cls, 5)
        found[f"{key}_free"] = _one(FREE, cls, 5, return_sequences=True)
        found[f"{key}_backwards"] = _one(FREE, cls, 5, go_backwards=True, return_sequences=True)
        found[f"{key}_state"] = _one(SEQUENCE, cls, 5, return_state=True)
        found[f"{key}_both"] = _one(FREE, cls, 5, return_state=True, return_sequences=True)
        found[f"{key}_relu"] = _one(SEQUENCE, cls, 5, activation="relu")
        found[f"{key}_no_bias"] = _one(SEQUENCE, cls, 5, use_bias=False)
        found[f"{key}_unrolled"] = _one(SEQUENCE, cls, 5, unroll=True)
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
    found["lstm_sigmoid_hard"] = _one(SEQUENCE, layers.LSTM, 5, recurrent_activation="hard_sigmoid")
    found["gru_reset_before"] = _one(SEQUENCE, layers.GRU, 5, reset_after=False)
    found["conv_lstm1d"] = _one((4, 6, 2), layers.ConvLSTM1D, 3, 3, padding="same")
    found["conv_lstm2d"] = _one(
        (4, 6, 5, 2), layers.ConvLSTM2D, 3, 3, padding="same", return_sequences=True
    )
    found["stacked_cells"] = _one(
        SEQUENCE, lambda: layers.RNN([layers.LSTMCell(4), layers.GRUCell(3)])
    )
    found["time_distributed"] = _one(
        (4, 6, 5, 2), lambda: layers.TimeDistributed(layers.Conv2D(3, 3))
    )
    found["time_distributed_free"] = _one(FREE, lambda: layers.TimeDistributed(layers.Dense(3)))
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
        "cropping1d": _one(SEQUENCE, layers.Cropping1D, (1, 2)),
        "cropping2d": _one(IMAGE, layers.Cropping2D, ((1, 2), (0, 3))),
        "cropping3d": _one(VOLUME, layers.Cropping3D, 1),
        "padding1d": _one(SEQUENCE, layers.ZeroPadding1D, (1, 2)),
        "padding2d": _one(IMAGE, layers.ZeroPadding2D, ((1, 2), (0, 3))),
        "padding3d": _one(VOLUME, layers.ZeroPadding3D, 1),
        "upsampling1d": _one(SEQUENCE, layers.UpSampling1D, 3),
        "upsampling2d": _one(IMAGE, layers.UpSampling2D, (2, 3)),
        "upsampling2d_bilinear": _one(IMAGE, layers.UpSampling2D, 2, interpolation="bilinear"),
        "upsampling2d_bicubic": _one(IMAGE, layers.UpSampling2D, 2, interpolation="bicubic"),
        "upsampling2d_free": _one(
            (None, None, 3), layers.UpSampling2D, 2, interpolation="bilinear"
        ),
        "upsampling3d": _one(VOLUME, layers.UpSampling3D, 2),
        "permute": _one(IMAGE, layers.Permute, (3, 1, 2)),
        "repeat": _one(VECTOR, layers.RepeatVector, 3),
        "flatten": _one(IMAGE, layers.Flatten),
        "reshape": _one(IMAGE, layers.Reshape, (-1, 4)),
        "identity": _one(IMAGE, layers.Identity),
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
        "rescaling": _one(IMAGE, layers.Rescaling, 1 / 127.5, -1.0),
        "rescaling_uint8": _of("uint8", IMAGE, layers.Rescaling, 1 / 127.5, -1.0),
        "normalization": _one(
            IMAGE, layers.Normalization, mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 3.0]
        ),
        "resizing": _one(IMAGE, layers.Resizing, 6, 11),
        "resizing_nearest": _one(IMAGE, layers.Resizing, 6, 11, interpolation="nearest"),
        "resizing_bicubic": _one(IMAGE, layers.Resizing, 14, 11, interpolation="bicubic"),
        "resizing_antialias": _one(IMAGE, layers.Resizing, 4, 4, antialias=True),
        "resizing_lanczos": _one(IMAGE, layers.Resizing, 6, 11, interpolation="lanczos3"),
        "resizing_area": _one(IMAGE, layers.Resizing, 3, 4, interpolation="area"),
        "resizing_crop": _one(IMAGE, layers.Resizing, 6, 6, crop_to_aspect_ratio=True),
        "resizing_pad": _one(IMAGE, layers.Resizing, 6, 6, pad_to_aspect_ratio=True),
        "resizing_free": _one((None, None, 3), layers.Resizing, 6, 11),
        "center_crop": _one(IMAGE, layers.CenterCrop, 4, 5),
        "center_crop_grow": _one(IMAGE, layers.CenterCrop, 12, 5),
        "discretization": _one(VECTOR, layers.Discretization, [-1.0, 0.0, 0.5, 2.0]),
        "category_one_hot": _of("int32", (1,), layers.CategoryEncoding, 9, output_mode="one_hot"),
        "category_multi_hot": _of(
            "int32", (4,), layers.CategoryEncoding, 9, output_mode="multi_hot"
        ),
        "category_count": _of("int32", (4,), layers.CategoryEncoding, 9, output_mode="count"),
        "mel_spectrogram": _one(
            (256,), layers.MelSpectrogram, num_mel_bins=8, sequence_stride=32, fft_length=64
        ),
        "stft_spectrogram": _one(
            (256, 1),
            layers.STFTSpectrogram,
            frame_length=32,
            frame_step=16,
            fft_length=32,
            window=None,
        ),
    }


def _random() -> dict[str, Case]:
    made = {
        "dropout": (layers.Dropout, 0.5),
        "spatial_dropout": (layers.SpatialDropout2D, 0.5),
        "alpha_dropout": (layers.AlphaDropout, 0.5),
        "gaussian_noise": (layers.GaussianNoise, 0.5),
        "gaussian_dropout": (layers.GaussianDropout, 0.5),
        "random_flip": (layers.RandomFlip,),
        "random_rotation": (layers.RandomRotation, 0.2),
        "random_zoom": (layers.RandomZoom, 0.2),
        "random_translation": (layers.RandomTranslation, 0.2, 0.2),
        "random_brightness": (layers.RandomBrightness, 0.2),
        "random_contrast": (layers.RandomContrast, 0.2),
        "random_crop": (layers.RandomCrop, 6, 5),
        "random_shear": (layers.RandomShear, 0.2, 0.2),
        "random_grayscale": (layers.RandomGrayscale,),
        "random_hue": (layers.RandomHue, 0.2),
        "random_sharpness": (layers.RandomSharpness, 0.2),
        "random_color_jitter": (layers.RandomColorJitter,),
        "random_erasing": (layers.RandomErasing,),
    }
    return {name: _one(IMAGE, *layer) for name, layer in made.items()}


CASES = _cases()
