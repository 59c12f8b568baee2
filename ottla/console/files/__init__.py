"""Local files: segments of partitions, verdicts of audits."""
