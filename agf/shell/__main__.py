"""`python -m agf.shell`: the command `agf` where scripts are not on the path."""

import sys

from agf.shell.entry import main

sys.exit(main())
