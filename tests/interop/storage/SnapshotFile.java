import java.io.File;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;

/**
 * `write FILE ENTRY...` writes a producer snapshot, `read FILE` prints the entries of one. An entry is
 * producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch and
 * first offset of the open transaction, separated by commas; -1 means absent.
 */
public class SnapshotFile {
    public static void main(String[] arguments) throws Exception {
        File file = new File(arguments[1]);
        if (arguments[0].equals("read"))
            for (ProducerStateEntry entry : ProducerStateManager.readSnapshot(file))
                print(entry);
        else
            write(file, Arrays.copyOfRange(arguments, 2, arguments.length));
    }

    private static void write(File file, String[] rows) throws Exception {
        Map<Long, ProducerStateEntry> entries = new LinkedHashMap<>();
        for (String row : rows) {
            long[] field = Arrays.stream(row.split(",")).mapToLong(Long::parseLong).toArray();
            Optional<BatchMetadata> batch = field[3] < 0 ? Optional.empty()
                : Optional.of(new BatchMetadata((int) field[2], field[3], (int) field[4], field[5]));
            OptionalLong first = field[7] < 0 ? OptionalLong.empty() : OptionalLong.of(field[7]);
            entries.put(field[0], new ProducerStateEntry(
                field[0], (short) field[1], (int) field[6], field[5], first, batch));
        }
        ProducerStateManager.writeSnapshot(file, entries, true);
    }

    private static void print(ProducerStateEntry entry) {
        System.out.println(entry.producerId() + "," + entry.producerEpoch() + "," + entry.lastSeq() + ","
            + entry.lastDataOffset() + "," + entry.lastOffsetDelta() + "," + entry.lastTimestamp() + ","
            + entry.coordinatorEpoch() + "," + entry.currentTxnFirstOffset().orElse(-1L));
    }
}
