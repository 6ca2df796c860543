"""`python -m gloveport.cli`."""

import sys

from . import main

sys.exit(main())
