"""TensorRT and TensorRT-RTX: engines built from the typed graph.

Nothing here imports either library: each is loaded in a child process (:mod:`.build_child`), and
on a GPU by the session that runs an engine.
"""
