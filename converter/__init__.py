"""What happens to a model between the file and the folder."""

import os

# ONNX Runtime reports its use to its maker's server unless told not to, before it is imported;
# our children inherit this.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
