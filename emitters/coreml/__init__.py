"""Core ML: an ML Program from the IR, through coremltools' MIL builder."""
