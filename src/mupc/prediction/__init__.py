"""Predict from raw samples with a trained network, save it with all that this takes, and load it again."""

from ._model import Model, regression_scores, text_scores
from ._saved import RUN_MODEL, RUN_SCHEMA, find_model, how_to_go_on, load, run_of, run_schema, save
