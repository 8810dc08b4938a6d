"""Which curves of a figure lie under a legend."""

import numpy as np

STEPS = 50
"""Points to look at on each straight piece of a curve."""


def covered(figure):
    """Return a line for each curve, band or bar that is drawn under a legend, in pixels as saved."""
    figure.canvas.draw()
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    boxes = [legend.get_window_extent() for legend in legends]
    found = []
    for axes in figure.axes:
        for artist, points in _drawn(axes):
            inside = points[_within(points, axes.bbox)]
            if any(np.any(_within(inside, box)) for box in boxes):
                found.append(f"{axes.get_title() or axes.get_ylabel()}: {artist.get_label()}")
    return found


def _drawn(axes):
    for line in axes.lines:
        yield line, _dense(line.get_path().transformed(line.get_transform()).vertices)
    for patch in axes.patches:
        yield patch, _dense(patch.get_path().transformed(patch.get_transform()).vertices)
    for collection in axes.collections:
        if not len(collection.get_offsets()) > 1:
            for path in collection.get_paths():
                yield collection, _dense(path.transformed(collection.get_transform()).vertices)


def _dense(vertices):
    """Return points along the straight pieces between vertices. NaN, where a curve has a gap, lies in no box."""
    if len(vertices) < 2:
        return vertices
    share = np.linspace(0, 1, STEPS)[:, None, None]
    return ((1 - share) * vertices[:-1] + share * vertices[1:]).reshape(-1, 2)


def _within(points, box):
    (left, low), (right, high) = box.min, box.max
    x, y = points.T
    return (x > left) & (x < right) & (y > low) & (y < high)
