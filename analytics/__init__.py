"""Audits of log directories with Spark; they need the files of a Kafka, and nothing of a server.

Top down: `run` (the driver) > `plan` (which tasks) > `spark_audit` (their way to the workers) >
`partition_audit` (one task, without Spark) > `checks` (what is looked for).
"""
