"""What this machine has and lacks for an audit: packages, keys, graphics cards, room. Looks; changes nothing.

No service is asked and no model is loaded. Of a key only that it is set is known here, never what is in it.
"""

from stillme.cli.doctor.found import UNMET, Found, look
from stillme.cli.doctor.saying import BAD, GOOD, plain, words

__all__ = ["BAD", "GOOD", "UNMET", "Found", "look", "plain", "words"]
