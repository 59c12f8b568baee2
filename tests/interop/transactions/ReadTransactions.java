import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads topics to the end at both isolation levels. Arguments are the address of a broker, the
 * number of partitions and the topics. Prints level, topic, partition, offset, key and value.
 */
public class ReadTransactions {
    public static void main(String[] arguments) {
        for (String level : List.of("read_committed", "read_uncommitted")) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", arguments[0]);
            properties.put("isolation.level", level);
            properties.put("max.partition.fetch.bytes", "3000");
            List<TopicPartition> places = new ArrayList<>();
            for (int number = 2; number < arguments.length; number++) {
                for (int partition = 0; partition < Integer.parseInt(arguments[1]); partition++) {
                    places.add(new TopicPartition(arguments[number], partition));
                }
            }
            StringDeserializer text = new StringDeserializer();
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, text, text)) {
                consumer.assign(places);
                consumer.seekToBeginning(places);
                Map<TopicPartition, Long> ends = consumer.endOffsets(places);
                while (places.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                    for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                        System.out.println(
                            String.join("\t", "row", level, each.topic(), "" + each.partition(),
                                "" + each.offset(), each.key(), each.value()));
                    }
                }
            }
        }
    }
}
