"""Errors of an audit itself. A finding in the files is not an error.

Exception
`- AuditError             the audit cannot run; the message is one sentence with the remedy
   |- AuditUsageError     the arguments contradict each other, so that nothing would be proved
   `- SparkMissingError   this machine lacks Spark or Java; the message names the packages
"""


class AuditError(Exception):
    """The audit cannot run; the message is one sentence with the remedy."""


class AuditUsageError(AuditError):
    """The arguments of the audit contradict each other."""


class SparkMissingError(AuditError):
    """Spark or Java is not installed on this machine."""
