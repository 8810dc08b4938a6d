"""Faster programs for gradient descent: blocks that stay in a CPU's cache, Triton kernels on a GPU."""
