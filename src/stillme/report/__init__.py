"""The report: findings and their context in, one self-contained HTML text out. Prints numbers, computes none."""
