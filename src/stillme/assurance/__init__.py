"""What others may hold a run to: a release gate, two versions side by side, evidence, a lint."""
