"""What an engineer would write by hand: build the model, export it, save it, check nothing.

python bare_export.py MODULE:ATTRIBUTE SEARCH_PATH OUT [WEIGHTS [ARGUMENT]]
"""

import importlib
import sys

import torch

spec, search_path, out, *rest = sys.argv[1:]
sys.path.insert(0, search_path)
module, attribute = spec.split(":")
made = importlib.import_module(module)
for name in attribute.split("."):
    made = getattr(made, name)
model = made(*rest[1:])
if rest:
    model.load_state_dict(torch.load(rest[0], weights_only=True))
model.eval()
program = torch.onnx.export(
    model,
    (torch.zeros(2, 3, 224, 224),),
    dynamo=True,
    dynamic_shapes=({0: torch.export.Dim("batch")},),
    verbose=False,
)
program.save(out)
