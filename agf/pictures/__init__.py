"""How results are drawn: axes, ticks, and what a picture is made of. Read `axes` first."""
