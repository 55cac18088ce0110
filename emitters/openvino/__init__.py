"""OpenVINO's intermediate representation: ``model.xml`` and ``model.bin``."""
