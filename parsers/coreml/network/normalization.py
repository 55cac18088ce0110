"""Normalizations; and softmax, of channels or of any axis."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.network.registry import Layer, layer
from parsers.coreml.network.tensors import Network
from parsers.coreml.network.weights import values
from parsers.coreml.refusal import Refusal

_CHANNELS = -3


@layer("batchnorm")
def batchnorm(net: Network, at: Layer) -> onnx_ir.Value:
    """batch_norm, or instance_norm where mean and variance are computed from each input."""
    how, x = at.parameters, at.inputs[0]
    shape = [int(how.channels)]
    epsilon = np.float32(how.epsilon or 1e-5)
    gamma, beta = values(how.gamma, shape), values(how.beta, shape)
    if how.computeMeanVar:
        if not how.instanceNormalization:
            raise Refusal("mean and variance are computed from the whole batch")
        net.need_rank(x, 4)
        return net.op("instance_norm", x=x, gamma=gamma, beta=beta, epsilon=epsilon)
    mean, variance = values(how.mean, shape), values(how.variance, shape)
    if net.need_rank(x) == 4:
        numbers = {"mean": mean, "variance": variance, "gamma": gamma, "beta": beta}
        return net.op("batch_norm", x=x, epsilon=epsilon, **numbers)
    scale = gamma / np.sqrt(variance + epsilon)
    scaled = net.node("Mul", [x, net.channels(scale)])
    return net.node("Add", [scaled, net.channels(beta - mean * scale)])


@layer("layerNormalization")
def layer_normalization(net: Network, at: Layer) -> onnx_ir.Value:
    """layer_norm of the last axes."""
    how = at.parameters
    shape = [int(size) for size in how.normalizedShape]
    return net.op(
        "layer_norm",
        x=at.inputs[0],
        axes=list(range(-len(shape), 0)),
        gamma=values(how.gamma, shape),
        beta=values(how.beta, shape),
        epsilon=np.float32(how.eps),
    )


@layer("l2normalize")
def l2normalize(net: Network, at: Layer) -> onnx_ir.Value:
    """l2_norm."""
    epsilon = np.float32(at.parameters.epsilon or 1e-6)
    return net.op("l2_norm", x=at.inputs[0], epsilon=epsilon)


@layer("lrn")
def lrn(net: Network, at: Layer) -> onnx_ir.Value:
    how, x = at.parameters, at.inputs[0]
    net.need_rank(x, 4)
    numbers = {"alpha": how.alpha, "beta": how.beta, "k": how.k or 1.0}
    return net.op("local_response_norm", x=x, size=int(how.localSize), **numbers)


@layer("mvn")
def mvn(net: Network, at: Layer) -> onnx_ir.Value:
    """x less its mean, of each channel or of all; what is divided by isn't documented clearly."""
    how, x = at.parameters, at.inputs[0]
    if how.normalizeVariance:
        raise Refusal(
            "the documentation doesn't say whether its epsilon is added to the "
            "variance or to its root"
        )
    axes = [-3, -2, -1] if how.acrossChannels else [-2, -1]
    return net.node("Sub", [x, net.op("reduce_mean", x=x, axes=axes, keep_dims=True)])


@layer("softmax")
def softmax(net: Network, at: Layer) -> onnx_ir.Value:
    return net.op("softmax", x=at.inputs[0], axis=_CHANNELS)


@layer("softmaxND")
def softmax_nd(net: Network, at: Layer) -> onnx_ir.Value:
    return net.op("softmax", x=at.inputs[0], axis=int(at.parameters.axis))
