"""The report's sections, one file each: findings and context in, blocks out. Their order is build.py's."""
