"""The steps of an audit, one file each. Each looks at what the run lacks, and adds it."""
