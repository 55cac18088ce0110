"""What installs the modules that users' code is known to import.

A module's name alone never chooses what is installed: it may be anybody's, and in a pickle it is
whatever the file's maker wrote.
"""

from __future__ import annotations

DISTRIBUTIONS = {
    **{
        name: name.replace("_", "-")
        for name in (
            *("diffusers", "efficientnet_pytorch", "einops", "huggingface_hub", "joblib", "keras"),
            *(
                "kornia",
                "librosa",
                "lightgbm",
                "lightning",
                "matplotlib",
                "mmcv",
                "mmengine",
                "monai",
                "numpy",
            ),
            *("omegaconf", "open_clip_torch", "pandas", "peft", "pytorch_lightning", "requests"),
            *("safetensors", "scipy", "segmentation_models_pytorch", "sentence_transformers"),
            *("sentencepiece", "tiktoken", "lightgbm"),
            *("soundfile", "tensorflow", "timm", "tokenizers", "torch", "torchaudio"),
            *("torchmetrics", "torchvision", "tqdm", "transformers", "ultralytics", "xformers"),
        )
    },
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "hydra": "hydra-core",
    "imblearn": "imbalanced-learn",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "xgboost": "xgboost-cpu",
    "yaml": "pyyaml",
}
"""Distributions by the modules that they bring."""
