"""Engines: where work runs. The same steps and the same ledger, on one machine or many."""
