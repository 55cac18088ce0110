"""What happens to a model between the file and the folder."""

import os

from converter.runtime.deferred import defer

# ONNX Runtime reports its use to its maker's server unless told not to, before it is imported;
# our children inherit this.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# What onnx-ir imports and next to never uses takes longer to import than onnx-ir itself.
defer("sympy")
defer("onnx_ir._symbolic_shapes")
