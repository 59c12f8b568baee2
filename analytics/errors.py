"""Errors of an audit itself, and of a read of records. A finding in the files is not an error.

Exception
|- AuditError             the audit cannot run; the message is one sentence with the remedy
|  |- AuditUsageError     the arguments contradict each other, so that nothing would be proved
|  `- SparkMissingError   this machine lacks Spark or Java; the message names the packages
`- RecordsError           records cannot be read or exported; the message is one sentence
   |- RecordsUsageError   an option has a wrong value, or contradicts another one
   `- DataLossError       records are damaged or gone; an option may skip them
"""


class AuditError(Exception):
    """The audit cannot run; the message is one sentence with the remedy."""


class AuditUsageError(AuditError):
    """The arguments of the audit contradict each other."""


class SparkMissingError(AuditError):
    """Spark or Java is not installed on this machine."""


class RecordsError(Exception):
    """Records cannot be read or exported; the message is one sentence."""


class RecordsUsageError(RecordsError):
    """An option has a wrong value, or contradicts another one."""


class DataLossError(RecordsError):
    """Records that should exist are damaged or gone."""
