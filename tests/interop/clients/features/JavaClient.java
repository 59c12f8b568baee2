import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * One call of Kafka's client, for with_java.py. Arguments: the address of a broker, the name of the
 * call, its arguments. Values of records are hexadecimal, one per argument or line of output.
 */
public class JavaClient {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long TIMEOUT_NS = Duration.ofSeconds(60).toNanos();

    private final String address;

    JavaClient(String address) {
        this.address = address;
    }

    public static void main(String[] arguments) throws Exception {
        JavaClient client = new JavaClient(arguments[0]);
        String[] a = Arrays.copyOfRange(arguments, 2, arguments.length);
        switch (arguments[1]) {
            case "write" -> client.write(a[0], values(a, 3), Map.of(
                "acks", "all", "compression.type", a[1], "enable.idempotence", a[2]));
            case "read" -> client.read(a[0], Integer.parseInt(a[1]), a[2]);
            case "transact" -> client.transact(a[0], a[1].equals("commit"), values(a, 2));
            case "transact-offset" -> client.transactOffset(a[0], a[1], Long.parseLong(a[2]));
            case "member" -> client.member(a[0], a[1], a[2], a[3]);
            case "offset-at" -> client.offsetAt(a[0], Long.parseLong(a[1]));
            case "read-matching" -> client.readMatching(a[0], Integer.parseInt(a[1]), a[2]);
            case "create-and-delete" -> client.createAndDelete(a[0]);
            case "configure" -> client.configure(a[0]);
            case "delete-group" -> client.deleteGroup(a[0]);
            case "delete-records" -> client.deleteRecords(a[0], Long.parseLong(a[1]));
            default -> throw new IllegalArgumentException(arguments[1]);
        }
    }

    private static List<byte[]> values(String[] arguments, int first) {
        return Arrays.stream(arguments).skip(first).map(HexFormat.of()::parseHex).toList();
    }

    private void write(String topic, List<byte[]> values, Map<String, String> configs) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(configs)) {
            send(producer, topic, values);
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, List<byte[]> values)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (byte[] value : values) sent.add(producer.send(new ProducerRecord<>(topic, 0, null, value)));
        producer.flush();
        for (Future<RecordMetadata> each : sent) each.get();
    }

    private void read(String topic, int count, String isolation) {
        Map<String, String> configs = Map.of("auto.offset.reset", "earliest", "isolation.level", isolation);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(configs)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            take(consumer, count);
        }
    }

    private void readMatching(String pattern, int count, String group) {
        Map<String, String> configs = Map.of("auto.offset.reset", "earliest", "group.id", group);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(configs)) {
            consumer.subscribe(Pattern.compile(pattern));
            take(consumer, count);
        }
    }

    private static void take(KafkaConsumer<byte[], byte[]> consumer, int count) {
        long deadline = System.nanoTime() + TIMEOUT_NS;
        for (int found = 0; found < count;) {
            if (System.nanoTime() > deadline) throw new IllegalStateException(found + " of " + count + " arrived");
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(POLL)) {
                System.out.println(HexFormat.of().formatHex(each.value()));
                found++;
            }
        }
    }

    private void transact(String topic, boolean isCommit, List<byte[]> values) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("transactional.id", topic + "-id"))) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, topic, values);
            if (isCommit) producer.commitTransaction();
            else producer.abortTransaction();
        }
    }

    private void transactOffset(String topic, String group, long offset) {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("transactional.id", topic + "-id"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(offset)), new ConsumerGroupMetadata(group));
            producer.commitTransaction();
        }
    }

    /** Polls once for each line of input, and prints the assigned partitions. */
    private void member(String topic, String group, String instance, String assignor) throws Exception {
        Properties configs = new Properties();
        configs.put("group.id", group);
        configs.put("partition.assignment.strategy", assignor);
        if (!instance.isEmpty()) configs.put("group.instance.id", instance);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(configs);
                BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            consumer.subscribe(List.of(topic));
            while (input.readLine() != null) {
                consumer.poll(POLL);
                System.out.println(consumer.assignment().stream()
                    .map(each -> String.valueOf(each.partition())).collect(Collectors.joining(" ")));
            }
        }
    }

    private void offsetAt(String topic, long timestamp) {
        TopicPartition where = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            System.out.println(consumer.offsetsForTimes(Map.of(where, timestamp)).get(where).offset());
        }
    }

    private void createAndDelete(String topic) throws Exception {
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            require(admin.listTopics().names().get().contains(topic));
            admin.deleteTopics(List.of(topic)).all().get();
        }
    }

    private void configure(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ConfigEntry entry = new ConfigEntry("retention.ms", "1234");
        try (Admin admin = admin()) {
            admin.incrementalAlterConfigs(
                Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
        }
    }

    private void deleteGroup(String group) throws Exception {
        try (Admin admin = admin()) {
            require(admin.listConsumerGroups().all().get().stream().anyMatch(each -> each.groupId().equals(group)));
            admin.deleteConsumerGroups(List.of(group)).all().get();
        }
    }

    private void deleteRecords(String topic, long before) throws Exception {
        try (Admin admin = admin()) {
            admin.deleteRecords(
                Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(before))).all().get();
        }
    }

    private static void require(boolean isFound) {
        if (!isFound) throw new IllegalStateException("not in the list");
    }

    private Admin admin() {
        return Admin.create(properties(Map.of()));
    }

    private KafkaProducer<byte[], byte[]> producer(Map<?, ?> configs) {
        return new KafkaProducer<>(properties(configs), new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(Map<?, ?> configs) {
        return new KafkaConsumer<>(properties(configs), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private Properties properties(Map<?, ?> configs) {
        Properties all = new Properties();
        all.put("bootstrap.servers", address);
        all.putAll(configs);
        return all;
    }
}
