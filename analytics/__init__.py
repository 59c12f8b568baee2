"""Audits of log directories with Spark. An audit needs the files of a Kafka broker, not the broker.

Top down: `run` (the driver) > `plan` (the tasks) > `spark_audit` (distribution to the workers) >
`partition_audit` (one task, without Spark) > `checks` (the rules).
"""
