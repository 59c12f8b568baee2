import java.io.File;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import kafka.log.Cleaner;
import kafka.log.LogToClean;
import kafka.log.UnifiedLog;
import kafka.server.BrokerTopicStats;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetsListener;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.utils.Throttler;

import scala.Option;
import scala.Tuple2;
import scala.runtime.BoxedUnit;

/**
 * One round of Kafka's own cleaner over a log: directory, time of the cleaning, first dirty offset,
 * high watermark, bytes of the map, then topic configs as name=value. Prints the end of the round.
 * Without a map the log is opened and closed, as after a crash; that prints the log end offset.
 */
public class CleanLog {
    /** A fixed time, so that producers of an old log have not expired. */
    private record StandingTime(long milliseconds) implements Time {
        public long nanoseconds() {
            return System.nanoTime();
        }

        public void sleep(long ms) {
            SYSTEM.sleep(ms);
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs)
            throws InterruptedException {
            SYSTEM.waitObject(object, condition, deadlineMs);
        }
    }

    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[0]);
        long nowMs = Long.parseLong(arguments[1]);
        long firstDirtyOffset = Long.parseLong(arguments[2]);
        long highWatermark = Long.parseLong(arguments[3]);
        int mapBytes = Integer.parseInt(arguments[4]);
        Properties properties = new Properties();
        for (int number = 5; number < arguments.length; number++) {
            String[] pair = arguments[number].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        Time time = new StandingTime(nowMs);
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.apply(
            directory, new LogConfig(properties), 0L, 0L, scheduler, new BrokerTopicStats(false), time,
            900_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000,
            new LogDirFailureChannel(1), false, Option.empty(), true, new ConcurrentHashMap<>(), false,
            LogOffsetsListener.NO_OP_OFFSETS_LISTENER);
        if (mapBytes == 0) {
            System.out.println("end=" + log.logEndOffset());
            log.close();
            System.exit(0);
        }
        log.updateHighWatermark(highWatermark);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(mapBytes), 65_536, 65_536, 1.0,
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), time,
            partition -> BoxedUnit.UNIT);
        LogToClean cleanable =
            new LogToClean(log.topicPartition(), log, firstDirtyOffset, highWatermark, false);
        Tuple2<Object, ?> end = cleaner.doClean(cleanable, nowMs);
        System.out.println("end=" + end._1());
        log.close();
        System.exit(0);
    }
}
