"""What can go wrong with an audit itself; what it finds in files is no error.

Exception
`- AuditError             the audit cannot run or go on; the message says in one sentence what to do
   `- SparkMissingError   this machine lacks Spark or Java; the message says what to install
"""


class AuditError(Exception):
    """The audit cannot run; the message says in one sentence what to do."""


class SparkMissingError(AuditError):
    """Spark, or the Java that it runs on, is not installed here."""
