import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.message.MessageAndMetadata;

/**
 * A member of a group of Kafka's old consumer. It prints partition, offset, time in milliseconds and
 * value of each record, and ends at the end of its input.
 */
public class OldMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("auto.offset.reset", "smallest");
        settings.put("auto.commit.interval.ms", "500");
        settings.put("zookeeper.session.timeout.ms", "4000");
        settings.put("rebalance.backoff.ms", "1000");
        settings.put("rebalance.max.retries", "20");
        String topic = arguments[2];
        int streams = Integer.parseInt(arguments[3]);
        ConsumerConnector connector =
                Consumer.createJavaConsumerConnector(new ConsumerConfig(settings));
        Map<String, Integer> wanted = new HashMap<>();
        wanted.put(topic, streams);
        List<KafkaStream<byte[], byte[]>> found = connector.createMessageStreams(wanted).get(topic);
        for (KafkaStream<byte[], byte[]> stream : found) {
            Thread reader = new Thread(() -> print(stream));
            reader.setDaemon(true);
            reader.start();
        }
        System.out.println("started");
        while (System.in.read() >= 0) {
            // The parent closes the input.
        }
        connector.shutdown();
        System.out.println("ended");
        System.exit(0);
    }

    private static void print(KafkaStream<byte[], byte[]> stream) {
        for (MessageAndMetadata<byte[], byte[]> record : stream) {
            String text = record.partition() + " " + record.offset() + " "
                    + System.currentTimeMillis() + " " + new String(record.message());
            synchronized (System.out) {
                System.out.println(text);
            }
        }
    }
}
