"""Containers of formats that a parser reads and an emitter writes, and neither owns."""
