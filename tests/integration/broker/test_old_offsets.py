"""Version 0 of ListOffsets, OffsetCommit and OffsetFetch at a broker: offsets in the nodes."""

from kafkawire.apis import ApiKey
