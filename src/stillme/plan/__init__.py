"""From audit.yaml to trials: what is asked of whom, before anything is asked."""
