"""The human study, an island: a bundle goes in, a ratings file comes out.

It knows nothing of judges, analysis, editors or runs, and the bundle holds nothing that raters must not see:
neither models nor arms, neither stereotypes nor how anybody in a portrait was perceived. What belongs to which
output is in the key file, which stays with the auditor. Personal data never leave the study's database.
"""
