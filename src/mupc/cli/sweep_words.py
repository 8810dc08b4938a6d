"""What tables and pages on a sweep call its numbers. Nothing here needs the extra `sweep`."""

from ..io.progress import percent

RATES = ("weight_lr", "activity_lr")
SCORES = {
    "validation_accuracy": ("validation accuracy", percent),
    "test_accuracy": ("test accuracy", percent),
    "validation_r2": ("validation R²", "{:.3f}".format),
    "test_r2": ("test R²", "{:.3f}".format),
}
"""The title of each score in the table, and how it is written."""
OBJECTIVES = {"validation_loss": "validation loss", "train_loss": "training loss"}
