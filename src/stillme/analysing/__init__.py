"""The whole analysis of a table of scores, whoever made it: read, compute, print. `stillme analyse`."""
