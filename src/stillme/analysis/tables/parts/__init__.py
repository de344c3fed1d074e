"""The tables of an analysis, part by part; each part is a function that yields tables, or none."""
