"""`ottla export`: the records of log directories as Parquet files, each record exactly once.

    TARGET/_manifest.jsonl                                  the files and the exported offsets
    TARGET/topic=orders/partition=0/FIRST-NEXT.parquet      records of the offsets FIRST..NEXT
    TARGET/topic=orders/partition=0/.FIRST.tmp              a file that is being written

A file belongs to the export once the manifest has its line (ADR 0102).
"""
