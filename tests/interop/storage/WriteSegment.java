import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Properties;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

/** Appends the batches of log files to segments of Kafka's code, and closes them as a roll does. */
public class WriteSegment {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("index.interval.bytes", arguments[0]);
        LogConfig config = new LogConfig(properties);
        File target = new File(arguments[1]);
        for (int number = 2; number < arguments.length; number++)
            write(new File(arguments[number]), target, config);
    }

    private static void write(File source, File target, LogConfig config) throws Exception {
        long baseOffset = Long.parseLong(source.getName().replace(".log", ""));
        LogSegment segment = LogSegment.open(target, baseOffset, config, Time.SYSTEM, 0, false);
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(source.toPath()));
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
            ByteBuffer one = ByteBuffer.allocate(batch.sizeInBytes());
            batch.writeTo(one);
            one.flip();
            segment.append(batch.lastOffset(), MemoryRecords.readableRecords(one));
        }
        segment.onBecomeInactiveSegment();
        segment.close();
    }
}
