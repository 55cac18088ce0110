"""What is known of the source format keras without its code."""

from __future__ import annotations

from converter.files.signatures import Marks
from converter.protocols.spec import ParserSpec
from parsers.tensorflow.spec import TENSORFLOW

_HDF5 = b"\x89HDF\r\n\x1a\n"

SPECS = {
    "keras": ParserSpec(
        framework=TENSORFLOW,
        extra=TENSORFLOW.extra,
        marks=Marks(
            suffixes=(".keras", ".h5", ".hdf5"),
            live="a keras.Model",
            magic=((0, _HDF5, "an HDF5 file, as Keras writes (.h5)"),),
            archives=((r"\.weights\.h5$", "a Keras model (.keras)"),),
        ),
    )
}
