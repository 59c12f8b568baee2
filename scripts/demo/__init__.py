"""`make demo`: a real file through a broker and back, with everything compared."""
