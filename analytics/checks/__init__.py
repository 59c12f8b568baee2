"""The checks as pure decisions over batches, records and index bytes, without files or Spark.

There is one module per check in docs/audits.md; `logcheck.log_scan` feeds them in one pass.
"""
