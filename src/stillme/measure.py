"""The measuring step: every measurement that is still missing, and nothing else."""
