"""Side-by-side benchmarks: each a command that prints ratios against a peer measured in the same run."""
