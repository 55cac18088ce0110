"""What runs in the Python 3.7 that has mindspore-lite: that, numpy, and nothing of ours."""
