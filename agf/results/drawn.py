"""Results that have one picture."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING

from agf.asked import asked
from agf.records.table import Tabular

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@asked
class Drawn(Tabular):
    """A result that is shown as a table and drawn as one picture, which the class describes."""

    @abstractmethod
    def _draw(self, ax: Axes | None) -> Axes:
        """The picture, on `ax` or a new figure."""

    def plot(self, path: str | os.PathLike[str] | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw the picture that the class describes.

        Parameters
        ----------
        path : str or os.PathLike or None, optional
            Picture to write.
        ax : matplotlib.axes.Axes or None, optional
            Where to draw; a new figure when None.

        Returns
        -------
        matplotlib.axes.Axes
            What was drawn on, the first where there are two.

        Raises
        ------
        FileError
            For an unknown suffix or a path that cannot be written.
        """
        from agf.pictures import axes

        return axes.save(self._draw(ax), path)
