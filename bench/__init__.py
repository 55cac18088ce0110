"""Speed and size of modelyard itself, as ratios in one run; ``python -m bench``."""
