"""Judging side by side: a loopback service that speaks both wire formats, and the clients measured on it."""
