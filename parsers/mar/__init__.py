"""TorchServe's model archives (``.mar``)."""
