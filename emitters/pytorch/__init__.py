"""The PyTorch target: the Model as code that people read and train on, and its weights."""
