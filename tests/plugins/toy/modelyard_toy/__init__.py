"""A plug-in of each kind for Modelyard: models of a few linear layers, in formats of their own."""
