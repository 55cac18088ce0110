"""The Keras target: the Model as code that people read and train on, and an archive."""
