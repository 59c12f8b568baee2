"""The audits as decisions over batches, records and index bytes: no file, no Spark.

One module per check of docs/audits.md; `analytics.log_scan` feeds them in one pass over a log.
"""
