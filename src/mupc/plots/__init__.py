"""From a saved table to a figure; knows no JAX."""
