"""The measures on the bench: their rate beside a peer's, what they read of known changes, memory, bits."""
