"""Records: how much of what others publish lists of is converted here, and why the rest isn't.

``python -m bench.records NAME`` runs one and writes its page in docs/records. What was run is kept
in build/records, a JSON line for each case: the same command goes on where the last one ended.
"""
