# What the examples of docs/reference/errors.md begin with, in the folder where they run.
python "$DOCS/small.py"
cat > net.py <<'END'
import torch
class Net(torch.nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.head = torch.nn.Linear(8, classes)
    def forward(self, x):
        return self.head(x)
if __name__ == "__main__":
    torch.save(Net().state_dict(), "net.pth")
    torch.save(Net(), "whole.pt")
END
python net.py
python -c "import numpy; numpy.savez('wrong.npz', image=numpy.zeros((2, 3, 16, 16), 'f4'))"
printf 'source: net.onnx\nto: onnx\nbatches: dynamic\n' > wrong.yaml
printf 'source: ${model}\n' > variable.yaml
printf 'source: net.onnx\n' > net.yaml
