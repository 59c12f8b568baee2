"""The asyncio client: Producer, Consumer and Admin, with their return types and errors.

Depends only on `kafkawire` and the standard library, and works on any asyncio event loop. The
public names are re-exported by `ottla`; everything else in this package may change.
"""
