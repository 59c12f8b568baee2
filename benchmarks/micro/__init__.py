"""Benchmarks of inner loops and single layers; as tests each runs once, so that none rots."""
