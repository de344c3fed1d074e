"""A fake Prolific for rehearsals and tests: its API as far as a study uses it, signed launches, signed webhooks.

It behaves as Prolific does where that hurts: two shapes of a submission, calls turned away, a payment that is made
again when asked for again, webhooks that come twice. No money and no person is in it. It knows the study's server
only by the address that a draft names.
"""
