"""What Hugging Face's folders need in the Python that reads them."""

from __future__ import annotations

from converter.runtime.frameworks import Framework

HUGGINGFACE = Framework(
    *("Hugging Face", "huggingface.child.backend:HuggingFaceBackend", "huggingface"),
    needs=("transformers", "torch", "onnxscript", "safetensors"),
    own=("transformers", "tokenizers"),
    uses=("tokenizers",),
)
