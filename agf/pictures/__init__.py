"""How results are drawn: axes, ticks and the interactive page. Read `axes` first."""
