"""One segment: the log file, its three indexes, and lookups in them (composition).

segment                  append, find, truncate; the active segment and the closed ones
log_file, batch_scan     batches on disk, and walks over them
segment_index            the offset index and the time index as one, rebuilt when damaged
offset_index, time_index > index_file > index_column     sparse maps to a position, an offset
transaction_index        aborted transactions; transaction_index_file stores them
segment_files            the files of a segment as a unit
segment_lookup           regions and times
cleaned_segment          a segment that compaction or a split writes aside

A segment owns its files. An index only speeds up a search: a lost or damaged one is rebuilt from
the batches.
"""
