r"""Text of the operator in responses (decision).

The name of a directory, and a command's argument, may have bytes that are not UTF-8. Python holds
each as half of a surrogate pair, which no string of the protocol can contain.
"""


def wire_text(text: str) -> str:
    r"""Return `text` with halves of surrogate pairs escaped, as in `/data/\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
