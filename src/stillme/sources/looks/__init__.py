"""What an edit prompt visibly changes on a layered synthetic head: garment, place, props, marks.

`dress` is the whole interface. The looks are drawings that stand for an edit having been made; they say
nothing about any group, and every head gets the same look in the same way. They are shipped as layers, which
tools/looks draws; this package fits them to a head.
"""

from stillme.sources.looks.compose import covered, dress, names, posed

__all__ = ["covered", "dress", "names", "posed"]
