"""MMdnn's ``mmdownload`` in terms of ours: which models there are, and where others come from."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from converter.errors import UsageError
from converter.mmdnn import ALIASES, known_framework

if TYPE_CHECKING:
    from zoo.entry import Entry

KERAS = {
    "inception_v3": "InceptionV3",
    "vgg16": "VGG16",
    "vgg19": "VGG19",
    "resnet50": "ResNet50",
    "mobilenet": "MobileNet",
    "xception": "Xception",
    "nasnet": "NASNetLarge",
    "densenet": "DenseNet121",
    "yolo2": "",
}
"""Keras models that MMdnn fetched, and what ``keras.applications`` calls them."""

TORCH = (
    *("alexnet", "densenet121", "densenet169", "inception_v3", "resnet18", "resnet50"),
    *("resnet101", "resnet152", "squeezenet1_0", "vgg11", "vgg13", "vgg16", "vgg19"),
)
"""PyTorch models that MMdnn fetched, by the names that ``torchvision.models`` has for them."""

TENSORFLOW = {
    "vgg16": "VGG16",
    "vgg19": "VGG19",
    "inception_v3": "InceptionV3",
    "resnet_v1_50": "ResNet50",
    "resnet_v1_152": "ResNet152",
    "resnet_v2_50": "ResNet50V2",
    "resnet_v2_152": "ResNet152V2",
    "mobilenet_v1_1.0": "MobileNet",
    "mobilenet_v2_1.0_224": "MobileNetV2",
    "inception_resnet_v2": "InceptionResNetV2",
    "nasnet-a_large": "NASNetLarge",
    "inception_v1": "",
}
"""TensorFlow models that MMdnn fetched, and what in ``keras.applications`` comes nearest."""


def elsewhere(framework: str, name: str) -> str | None:
    """Where a model that MMdnn fetched comes from now; None for a name that it didn't know."""
    if framework == "pytorch" and name in TORCH:
        return (
            f"torchvision has it: modelyard convert torchvision.models:{name} "
            "--arg weights=DEFAULT --input image:batchx3x224x224"
        )
    table = {"keras": KERAS, "tensorflow": TENSORFLOW}.get(framework, {})
    if name not in table:
        return None
    if not table[name]:
        return "Nothing that is maintained fetches it."
    return (
        f'Keras fetches {table[name]}: python -c "import keras; '
        f"keras.applications.{table[name]}().save('{name}.keras')\""
    )


def models_of(framework: str) -> dict[str, Entry]:
    """The zoo's models of a framework, TorchScript's among PyTorch's.

    Raises:
        UsageError: The framework isn't read here, or has no model.
    """
    from zoo import catalogue

    plain = known_framework(framework)
    found = {
        name: entry
        for name, entry in catalogue.entries().items()
        if ALIASES.get(entry.framework, entry.framework) == plain
    }
    if not found:
        raise UsageError(f"the zoo has no model of {framework}", hint="modelyard zoo list")
    return found


def find_model(framework: str, name: str) -> tuple[str, Entry]:
    """A model of the zoo that is of this framework.

    Raises:
        UsageError: There is none of that name; the nearest, or all, are given, and where else
            a model that MMdnn fetched comes from.
    """
    from zoo import catalogue

    models = models_of(framework)
    if name in models:
        return name, models[name]
    plain = known_framework(framework)
    if name in catalogue.entries():
        other = catalogue.entries()[name].framework
        raise UsageError(f"{name} is a model of {other}", hint=f"mmdownload -f {other} -n {name}")
    nearest = get_close_matches(name.lower(), models, 3, 0.5)
    hint = f"The zoo has: {', '.join(nearest or models)}."
    if told := elsewhere(plain, name.lower()):
        raise UsageError(
            f"MMdnn fetched {name}, and this zoo hasn't got it", details=[told], hint=hint
        )
    raise UsageError(f"the zoo has no model {name!r} of {framework}", hint=hint)
