"""Precision in the graph: ranges measured once, then fp16, bf16 or int8 by a target's scheme."""
