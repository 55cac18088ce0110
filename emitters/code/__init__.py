"""What emitters share that write code: the graph's nodes as statements, grouped into modules by
their names, blocks that repeat as one class, formatted; and weights in safetensors.

A target brings its table: what each operator is in its framework, and what its modules look like.
"""
