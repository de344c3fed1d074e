"""Parsers of outside bytes, fed with damage: each is a plain function of bytes that ends well or with a sentence.

In the suite hypothesis drives them with a few inputs each; `python -m tests.fuzz` tries 100,000 and more.
"""
