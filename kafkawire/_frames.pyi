"""Types of the compiled twin, equal to those of the plain functions."""

from kafkawire.frames_loops import decode_request_header as decode_request_header
from kafkawire.frames_loops import frame_response as frame_response
from kafkawire.frames_loops import split_frames as split_frames

INTERFACE_VERSION: int
