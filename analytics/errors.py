"""Errors of an audit itself. A finding in the files is not an error.

Exception
`- AuditError             the audit cannot run; the message says in one sentence what to do
   `- SparkMissingError   this machine lacks Spark or Java; the message says what to install
"""


class AuditError(Exception):
    """The audit cannot run; the message says in one sentence what to do."""


class SparkMissingError(AuditError):
    """Spark or Java is not installed on this machine."""
