"""Pipelines: models whose features are joined by their names.

Source of what each model means: ``Pipeline.proto`` in coremltools' repository, and the file of its
kind there.
"""
