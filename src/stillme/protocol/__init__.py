"""The protocol as data: what is asked, of whom, on which scales. `load(folder)` reads it strictly."""

from stillme.protocol.reader import BUILTIN, Protocol, builtin, chosen, from_files, load

__all__ = ["BUILTIN", "Protocol", "builtin", "chosen", "from_files", "load"]
