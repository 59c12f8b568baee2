"""The asyncio client: Producer, Consumer, Admin, and what they return and raise.

Needs nothing but `kafkawire` and the standard library, and works on any event loop. `ottla` hands
on what users import; everything else may change.
"""
