"""Arrays in .npz files, without numpy: torch doesn't need it, and may be alone.

The format: numpy's NEP 1 (versions 1.0 to 3.0), an .npy file for each array in a zip archive.
"""

from __future__ import annotations

import ast
import ctypes
import hashlib
import struct
import sys
import zipfile
from typing import BinaryIO, Dict, Mapping, Tuple

import torch

_MAGIC = b"\x93NUMPY"
_ALIGN = 64
_ORDER = "<" if sys.byteorder == "little" else ">"
_KINDS = {
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "b1": "bool",
}
_DESCR = {name: ("|" if kind[1] == "1" else _ORDER) + kind for kind, name in _KINDS.items()}
_NAMES = {descr: name for name, descr in _DESCR.items()}


def read(path: str) -> Dict[str, torch.Tensor]:
    """Tensors by name; dtypes are kept. Raises OSError, BadZipFile or ValueError."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as stream:
                name = member[:-4] if member.endswith(".npy") else member
                found[name] = _read_array(stream, name)  # type: ignore[arg-type]  # a binary stream
    return found


def _read_array(stream: BinaryIO, name: str) -> torch.Tensor:
    descr, by_column, shape = _read_header(stream, name)
    if descr not in _NAMES:
        raise ValueError(f"{name} is of type {descr}, which torch has not")
    dtype = getattr(torch, _NAMES[descr])
    data = bytearray(stream.read())
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    if not by_column:
        return flat.reshape(shape)
    return flat.reshape(shape[::-1]).permute(*range(len(shape))[::-1]).contiguous()


def _read_header(stream: BinaryIO, name: str) -> Tuple[str, bool, Tuple[int, ...]]:
    start = stream.read(8)
    if start[:6] != _MAGIC or len(start) < 8:
        raise ValueError(f"{name} is no .npy file")
    form = "<H" if start[6] == 1 else "<I"
    try:
        (length,) = struct.unpack(form, stream.read(struct.calcsize(form)))
        header = ast.literal_eval(stream.read(length).decode("utf-8" if start[6] > 2 else "latin1"))
        return str(header["descr"]), bool(header["fortran_order"]), tuple(header["shape"])
    except (struct.error, SyntaxError, KeyError, TypeError) as error:
        raise ValueError(f"{name} has a damaged header") from error


def write(path: str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors of the CPU, uncompressed; of any name, `file` included."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, tensor in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                stored = tensor.resolve_neg().contiguous()  # alive until its memory is written
                member.write(_header(stored))
                member.write(_bytes(stored))


def digest(tensor: torch.Tensor) -> str:
    """The sha256 of the values of a tensor of the CPU."""
    stored = tensor.resolve_neg().contiguous()
    return hashlib.sha256(_bytes(stored)).hexdigest()


def _header(tensor: torch.Tensor) -> bytes:
    descr = _DESCR[str(tensor.dtype).partition(".")[2]]
    told = {"descr": descr, "fortran_order": False, "shape": tuple(tensor.shape)}
    text = repr(told).encode("latin1")
    text += b" " * (-(len(_MAGIC) + 4 + len(text) + 1) % _ALIGN) + b"\n"
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(text)) + text


def _bytes(tensor: torch.Tensor) -> "ctypes.Array[ctypes.c_char]":
    """The memory of a contiguous tensor, which the caller keeps."""
    size = tensor.numel() * tensor.element_size()
    if not size:  # it has no address
        return (ctypes.c_char * 0)()
    memory: "ctypes.Array[ctypes.c_char]" = (ctypes.c_char * size).from_address(tensor.data_ptr())
    return memory
