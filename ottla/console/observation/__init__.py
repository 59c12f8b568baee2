"""Samples of a cluster, and the rows of the pages that show it."""
