"""Numbers that templates and the compiled reader share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Octets = NDArray[np.uint8]

# steps
END = 0
LITERAL = 1
DIGITS = 2
PADDED = 3
MONTH_NAME = 4
LETTERS = 5
HALF = 6
FRACTION = 7
MAYBE_FRACTION = 8
ZONE = 9
SECONDS = 10
EPOCH = 11
SOME_DIGITS = 12
WORD = 13
BLANKS = 14
ONE_OF = 15
UNTIL = 16
NO_DIGIT = 17
TEXT = 18
SHORT_YEAR = 19
DATE = 20  # year, month and day with one character between them
CLOCK = 21  # hours, minutes and seconds with colons

# what was read of one line
YEAR, MONTH, DAY, HOUR, MINUTE, SECOND = 0, 1, 2, 3, 4, 5
FRACTION_NS, ZONE_S, AFTERNOON, EPOCH_NS, TEXT_AT = 6, 7, 8, 9, 10
FIELDS = 11

# bits of a zone: which ways of writing it are fine
ZONE_Z, ZONE_COLON, ZONE_PLAIN, ZONE_MAYBE, ZONE_APART = 1, 2, 4, 8, 16
ZONE_ANY = 31

# bits of a template
PREFIXED, RELATIVE = 1, 2

ANY_UNIT = 0
NO_TIME = -(2**63)
