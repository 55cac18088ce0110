"""Neural networks: Core ML's older kind of model, layers with parameters of their own.

Source of what each layer means: ``NeuralNetwork.proto`` in coremltools' repository. Most are
operations of ML programs too, and are read as these are.
"""
