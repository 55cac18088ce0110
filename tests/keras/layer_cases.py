"""Small models, one for each common Keras layer: read without Keras, made in the child that has it.

A row is a name, the inputs and an expression of Keras' layers: a layer of all inputs, or a function
of each. An input is its sizes without the batch (``?`` is free) behind the type, where that isn't
float32.
"""

from dataclasses import dataclass
from typing import Any

ACTIVATIONS = """relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign tanh sigmoid
hard_sigmoid hard_silu hard_tanh exponential softmax log_softmax log_sigmoid linear glu squareplus
sparsemax tanh_shrink soft_shrink hard_shrink sparse_plus sparse_sigmoid"""
INPUTS = {
    "image": "9x8x3", "images": "?x?x3", "line": "7x4", "free": "?x4", "volume": "6x5x6x2",
    "vector": "6", "pair": "7x4+5x4", "same": "7x4+7x4", "film": "4x6x5x2", "ids": "int32:7",
    "LSTM": "7x4+5+5", "GRU": "7x4+5", "SimpleRNN": "7x4+5",
}  # fmt: skip
ROWS = """
dense vector Dense(5)
dense_3d line Dense(5, activation="relu")
conv1d line Conv1D(5, 3, strides=2, padding="same")
conv1d_causal free Conv1D(5, 3, padding="causal")
conv2d image Conv2D(5, 3, strides=2, padding="same")
conv2d_valid image Conv2D(5, (3, 2))
conv2d_free images Conv2D(5, 3, padding="same")
conv2d_dilated image Conv2D(5, 3, dilation_rate=2)
conv2d_groups image Conv2D(6, 3, groups=3)
conv3d volume Conv3D(3, 3, padding="same", strides=2)
depthwise1d line DepthwiseConv1D(3, depth_multiplier=2)
depthwise2d image DepthwiseConv2D(3, depth_multiplier=2, padding="same")
separable1d line SeparableConv1D(5, 3)
separable2d image SeparableConv2D(5, 3, padding="same")
transposed1d line Conv1DTranspose(5, 3, strides=2)
transposed2d image Conv2DTranspose(5, 3, strides=2, padding="same")
transposed2d_valid image Conv2DTranspose(5, 3, strides=2)
transposed3d volume Conv3DTranspose(2, 3, strides=2)
embedding ids Embedding(20, 4)
einsum_dense line EinsumDense("abc,cd->abd", (None, 5), bias_axes="d")
einsum_heads line EinsumDense("abc,cde->abde", (None, 2, 3))
spectral vector SpectralNormalization(Dense(5))
adaptive_average image AdaptiveAveragePooling2D((3, 2))
adaptive_max image AdaptiveMaxPooling2D((3, 2))
act_threshold line ReLU(threshold=0.3)
act_gelu_tanh line lambda x: ops.gelu(x, approximate=True)
prelu image PReLU(shared_axes=[1, 2])
leaky_relu line LeakyReLU(0.2)
elu line ELU(0.7)
relu_all line ReLU(2.0, 0.1, 0.2)
softmax_axis line Softmax(axis=1)
erf line ops.erf
batch_norm image BatchNormalization()
batch_norm_1d line BatchNormalization()
batch_norm_axis image BatchNormalization(axis=1)
layer_norm line LayerNormalization()
layer_norm_axes image LayerNormalization(axis=[1, 2])
group_norm image GroupNormalization(3)
group_norm_free ?x?x6 GroupNormalization(3)
unit_norm line UnitNormalization()
rms_norm line RMSNormalization()
lstm_sigmoid_hard line LSTM(5, recurrent_activation="hard_sigmoid")
gru_reset_before line GRU(5, reset_after=False)
conv_lstm1d 4x6x2 ConvLSTM1D(3, 3, padding="same")
conv_lstm2d film ConvLSTM2D(3, 3, padding="same", return_sequences=True)
stacked_cells line RNN([LSTMCell(4), GRUCell(3)])
time_distributed film TimeDistributed(Conv2D(3, 3))
time_distributed_free free TimeDistributed(Dense(3))
masking line lambda x: LSTM(3)(Masking(0.0)(x))
self_attention line lambda x: MultiHeadAttention(2, 3)(x, x)
self_attention_free free lambda x: MultiHeadAttention(2, 3)(x, x)
cross_attention pair lambda q, v: MultiHeadAttention(2, 3)(q, v)
causal_attention free lambda x: MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
masked_attention ids lambda x: MultiHeadAttention(2, 3)(*[Embedding(9, 4, mask_zero=True)(x)] * 2)
grouped_attention line lambda x: GroupQueryAttention(3, 4, 2)(x, x)
dot_attention pair Attention()
dot_attention_scaled pair Attention(use_scale=True)
additive_attention pair AdditiveAttention()
cropping1d line Cropping1D((1, 2))
cropping2d image Cropping2D(((1, 2), (0, 3)))
cropping3d volume Cropping3D(1)
padding1d line ZeroPadding1D((1, 2))
padding2d image ZeroPadding2D(((1, 2), (0, 3)))
padding3d volume ZeroPadding3D(1)
upsampling1d line UpSampling1D(3)
upsampling2d image UpSampling2D((2, 3))
upsampling2d_bilinear image UpSampling2D(2, interpolation="bilinear")
upsampling2d_bicubic image UpSampling2D(2, interpolation="bicubic")
upsampling2d_free images UpSampling2D(2, interpolation="bilinear")
upsampling3d volume UpSampling3D(2)
permute image Permute((3, 1, 2))
repeat vector RepeatVector(3)
flatten image Flatten()
reshape image Reshape((-1, 4))
identity image Identity()
merge_broadcast 7x4+1x4 Add()
concatenate_axis 7x4+3x4 Concatenate(axis=1)
dot pair Dot(axes=2)
dot_normalized 4+4 Dot(axes=1, normalize=True)
rescaling image Rescaling(1 / 127.5, -1.0)
rescaling_uint8 uint8:9x8x3 Rescaling(1 / 127.5, -1.0)
normalization image Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 3.0])
resizing image Resizing(6, 11)
resizing_nearest image Resizing(6, 11, interpolation="nearest")
resizing_bicubic image Resizing(14, 11, interpolation="bicubic")
resizing_antialias image Resizing(4, 4, antialias=True)
resizing_lanczos image Resizing(6, 11, interpolation="lanczos3")
resizing_area image Resizing(3, 4, interpolation="area")
resizing_crop image Resizing(6, 6, crop_to_aspect_ratio=True)
resizing_pad image Resizing(6, 6, pad_to_aspect_ratio=True)
resizing_free images Resizing(6, 11)
center_crop image CenterCrop(4, 5)
center_crop_grow image CenterCrop(12, 5)
discretization vector Discretization([-1.0, 0.0, 0.5, 2.0])
category_one_hot int32:1 CategoryEncoding(9, output_mode="one_hot")
category_multi_hot int32:4 CategoryEncoding(9, output_mode="multi_hot")
category_count int32:4 CategoryEncoding(9, output_mode="count")
mel_spectrogram 256 MelSpectrogram(num_mel_bins=8, sequence_stride=32, fft_length=64)
stft_spectrogram 256x1 STFTSpectrogram(frame_length=32, frame_step=16, fft_length=32, window=None)
"""
POOLING = """
{0}_pool{1}d {2} {3}Pooling{1}D(2)
{0}_pool{1}d_same {2} {3}Pooling{1}D(3, strides=2, padding="same")
global_{0}_pool{1}d {2} Global{3}Pooling{1}D()
global_{0}_pool{1}d_kept {2} Global{3}Pooling{1}D(keepdims=True)
"""
RECURRENT = """
{0} line {1}(5)
{0}_free free {1}(5, return_sequences=True)
{0}_backwards free {1}(5, go_backwards=True, return_sequences=True)
{0}_state line {1}(5, return_state=True)
{0}_both free {1}(5, return_state=True, return_sequences=True)
{0}_relu line {1}(5, activation="relu")
{0}_no_bias line {1}(5, use_bias=False)
{0}_unrolled line {1}(5, unroll=True)
{0}_bidirectional free Bidirectional({1}(5, return_sequences=True))
{0}_bidirectional_sum line Bidirectional({1}(5), merge_mode="sum")
{0}_masked ids lambda x: {1}(5, return_sequences=True)(Embedding(9, 4, mask_zero=True)(x))
{0}_masked_last int32:? lambda x: {1}(5)(Embedding(9, 4, mask_zero=True)(x))
{0}_initial {1} lambda x, *s: {1}(5, return_sequences=True)(x, initial_state=list(s))
{0}_stacked free lambda x: {1}(4)({1}(5, return_sequences=True)(x))
"""
RANDOM = """Dropout(0.5) SpatialDropout2D(0.5) AlphaDropout(0.5) GaussianNoise(0.5)
GaussianDropout(0.5) RandomFlip() RandomRotation(0.2) RandomZoom(0.2) RandomTranslation(0.2,0.2)
RandomBrightness(0.2) RandomContrast(0.2) RandomCrop(6,5) RandomShear(0.2,0.2) RandomGrayscale()
RandomHue(0.2) RandomSharpness(0.2) RandomColorJitter() RandomErasing()"""


@dataclass(frozen=True)
class Case:
    """Inputs (shape without the batch, dtype) and what makes the outputs of them."""

    inputs: list[tuple[tuple[int | None, ...], str]]
    expression: str

    def outputs(self, keras: Any, inputs: list[Any]) -> Any:
        """Keras' outputs of its inputs."""
        made = eval(self.expression, {**vars(keras.layers), "ops": keras.ops})
        if isinstance(made, keras.Layer):
            return made(inputs if len(inputs) > 1 else inputs[0])
        return made(*inputs)


def _cases() -> dict[str, Case]:
    rows = ROWS
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        rows += RECURRENT.format(kind.lower(), kind)
    for kind in ("Max", "Average"):
        for rank, shape in ((1, "line"), (2, "image"), (3, "volume")):
            rows += POOLING.format(kind.lower(), rank, shape, kind)
    rows += "".join(f"act_{name} line Activation('{name}')\n" for name in ACTIVATIONS.split())
    rows += "".join(
        f"{layer.partition('(')[0].lower()} image {layer}\n" for layer in RANDOM.split()
    )
    for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):
        rows += f"merge_{name.lower()} same {name}()\n"
    found = (row.split(maxsplit=2) for row in rows.splitlines() if row)
    return {name: Case(_inputs(INPUTS.get(told, told)), text) for name, told, text in found}


def _inputs(told: str) -> list[tuple[tuple[int | None, ...], str]]:
    return [
        (tuple(None if size == "?" else int(size) for size in sizes.split("x")), dtype or "float32")
        for dtype, _, sizes in [part.rpartition(":") for part in told.split("+")]
    ]


CASES = _cases()
