"""`python -m mupc.cli` is `mupc`."""

import sys

from . import main

sys.exit(main())
