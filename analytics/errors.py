"""What can go wrong with an audit itself; what it finds in files is no error.

Exception
`- AuditError    the audit cannot run or go on; the message is one sentence that says what to do
"""


class AuditError(Exception):
    """The audit cannot run; the message says in one sentence what to do."""
