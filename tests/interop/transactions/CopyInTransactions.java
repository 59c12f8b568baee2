import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a number of records from partition 0 of a topic to that of another, with their offsets, in
 * transactions of a few records; every third transaction is aborted, and its records are read again.
 * Arguments: the addresses of brokers, the source, the target, the number of records.
 */
public class CopyInTransactions {
    public static void main(String[] arguments) {
        Properties shared = new Properties();
        shared.put("bootstrap.servers", arguments[0]);
        Properties reading = new Properties();
        reading.putAll(shared);
        reading.put("group.id", "java");
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        reading.put("auto.offset.reset", "earliest");
        reading.put("max.poll.records", "7");
        Properties writing = new Properties();
        writing.putAll(shared);
        writing.put("transactional.id", "java");
        TopicPartition source = new TopicPartition(arguments[1], 0);
        long end = Long.parseLong(arguments[3]);
        StringDeserializer in = new StringDeserializer();
        StringSerializer out = new StringSerializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, in, in);
                KafkaProducer<String, String> producer = new KafkaProducer<>(writing, out, out)) {
            consumer.assign(List.of(source));
            producer.initTransactions();
            long copied = 0;
            for (int number = 0; copied < end; number++) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                for (ConsumerRecord<String, String> each : records) {
                    producer.send(new ProducerRecord<>(arguments[2], 0, each.key(), each.value()));
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                offsets.put(source, new OffsetAndMetadata(consumer.position(source)));
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (number % 3 == 2) {
                    producer.flush();
                    producer.abortTransaction();
                    OffsetAndMetadata last = consumer.committed(java.util.Set.of(source)).get(source);
                    consumer.seek(source, last == null ? 0 : last.offset());
                } else {
                    producer.commitTransaction();
                    copied += records.count();
                }
            }
            System.out.println("copied " + copied);
        }
    }
}
