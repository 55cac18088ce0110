"""Keras' code: the table of its operators, its dialect, the text of ``model.py`` and the archive
with its weights; for all targets that go through Keras."""
