"""`make demo`: sends a real file through a broker and back, and compares the bytes."""
