"""Composition: the functions for frames and their headers, compiled if possible.

As in `records_scanner`, only the speed of the twins differs
(tests/property/kafkawire/test_frames_twins.py).
"""

from typing import TYPE_CHECKING

from kafkawire.frames_loops import INTERFACE_VERSION

if TYPE_CHECKING:
    from kafkawire.frames_loops import decode_request_header, frame_response, split_frames

    HAS_COMPILED_FRAMES: bool
else:
    try:
        from kafkawire import _frames

        # An editable install keeps its compiled module when the sources change.
        if _frames.INTERFACE_VERSION != INTERFACE_VERSION:
            raise ImportError("the compiled frames are of another version")
        from kafkawire._frames import decode_request_header, frame_response, split_frames

        HAS_COMPILED_FRAMES = True
    except ImportError:
        from kafkawire.frames_loops import decode_request_header, frame_response, split_frames

        HAS_COMPILED_FRAMES = False

__all__ = ["HAS_COMPILED_FRAMES", "decode_request_header", "frame_response", "split_frames"]
