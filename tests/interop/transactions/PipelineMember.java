import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A member of a read-process-write pipeline, as pipeline_member.py describes it, with Kafka's
 * client. Arguments: the addresses of brokers, the member, the source, the target.
 */
public class PipelineMember {
    private static volatile boolean isStopRequested;

    public static void main(String[] arguments) {
        String source = arguments[2];
        Properties shared = new Properties();
        shared.put("bootstrap.servers", arguments[0]);
        Properties reading = new Properties();
        reading.putAll(shared);
        reading.put("group.id", source);
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        reading.put("auto.offset.reset", "earliest");
        reading.put("max.poll.records", "50");
        reading.put("session.timeout.ms", "6000");
        reading.put("heartbeat.interval.ms", "1000");
        Properties writing = new Properties();
        writing.putAll(shared);
        writing.put("transactional.id", source + "-" + arguments[1]);
        writing.put("transaction.timeout.ms", "8000");
        // A request that waits behind a fenced one gets no response, and the call lasts this long.
        writing.put("max.block.ms", "15000");
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isStopRequested = true;
            try {
                ended.await();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        StringDeserializer in = new StringDeserializer();
        StringSerializer out = new StringSerializer();
        int code = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, in, in);
                KafkaProducer<String, String> producer = new KafkaProducer<>(writing, out, out)) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (!isStopRequested) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(300));
                if (!records.isEmpty()) {
                    process(consumer, producer, records, arguments[3]);
                }
            }
        } catch (KafkaException error) {
            System.out.println("ended " + error);
            code = 1;
        } finally {
            ended.countDown();
        }
        Runtime.getRuntime().halt(code);
    }

    /** Writes the outputs of records, and their offsets, in one transaction. */
    private static void process(
            KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer,
            ConsumerRecords<String, String> records,
            String target) {
        Map<TopicPartition, Long> starts = new HashMap<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        try {
            producer.beginTransaction();
            for (ConsumerRecord<String, String> each : records) {
                TopicPartition place = new TopicPartition(each.topic(), each.partition());
                starts.putIfAbsent(place, each.offset());
                offsets.put(place, new OffsetAndMetadata(each.offset() + 1));
                String output = new StringBuilder(each.value()).reverse().toString();
                producer.send(new ProducerRecord<>(target, each.partition(), null, output));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            if (ThreadLocalRandom.current().nextInt(10) == 0) {
                producer.flush();
                throw new KafkaException("chosen");
            }
            producer.commitTransaction();
            System.out.println("committed " + records.count());
        } catch (ProducerFencedException | OutOfOrderSequenceException | TimeoutException error) {
            // After a timeout the outcome is unknown: the next incarnation finds it out.
            throw error;
        } catch (KafkaException error) {
            producer.abortTransaction();
            System.out.println("aborted " + error);
            for (Map.Entry<TopicPartition, Long> start : starts.entrySet()) {
                if (consumer.assignment().contains(start.getKey())) {
                    consumer.seek(start.getKey(), start.getValue());
                }
            }
        }
    }
}
