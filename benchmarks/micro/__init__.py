"""Inner loops and single layers, measured alone; as tests each runs once, so that none rots."""
